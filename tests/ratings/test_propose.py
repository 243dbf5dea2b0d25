"""Known items that a program proposes: what they hide, and that the organiser confirms each."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.ratings.check import check_study
from macd_studio.ratings.cli import main
from macd_studio.ratings.create import StudyPlan, create_study
from macd_studio.ratings.errors import Refused
from macd_studio.ratings.gold import Candidate, asked_tracks, best, far_corner, propose_one
from macd_studio.ratings.render import markdown
from macd_studio.ratings.report import figures
from macd_studio.ratings.store import Study
from macd_studio.ratings.web import CODE_HEADER
from tests.ratings.packed import decode_clip
from tests.ratings.studies import rate, rater_in, source, track


@pytest.mark.parametrize(
    ("question", "labels"),
    [("Is there a dog?", ["dog"]), ("How many dogs are there?", ["dog"]), ("A hotdog?", []),
     ("Do people walk by the cup?", ["cup", "person"]), ("Is it there?", [])],
)  # fmt: skip
def test_what_a_question_names(question, labels):
    box = (0.1, 0.2, 0.35, 0.6)
    tracks = (track(1, box), track(2, box, "cup"), track(3, box, "person"))
    assert sorted(t.label for t in asked_tracks(question, tracks)) == labels


def test_a_corner_that_no_box_touches():
    boxes = np.array([[0.1, 0.1, 0.3, 0.3], [0.2, 0.1, 0.4, 0.3]])
    assert far_corner(boxes) == pytest.approx([0.8, 0.8, 1, 1])
    full = np.array([[0.0, 0.0, 1.0, 1.0]])
    assert far_corner(full) is None
    # an object that was in each corner at some time leaves none
    each = np.array([[x, y, x + 0.3, y + 0.3] for x in (0, 0.7) for y in (0, 0.7)])
    assert far_corner(each) is None
    # the nearest box counts: one corner is far from most of them, and close to one
    most = np.array([[0.0, 0.0, 0.2, 0.2]] * 8 + [[0.7, 0.7, 0.9, 0.9], [0.7, 0.0, 0.9, 0.2]])
    assert far_corner(most) == pytest.approx([0.0, 0.8, 0.2, 1.0])


def test_one_mask_hides_what_is_asked_and_the_other_leaves_it():
    clip = source(1)
    proposal = propose_one(clip)
    right, wrong = (m.mask for m in proposal.masks)
    dog = np.s_[:, 12:27, 8:20]
    assert right[dog].mean() > 0.95
    assert wrong[dog].max() < 1e-6
    assert 0.5 < wrong.sum() / right.sum() < 2
    assert [(k.low, k.high) for k in proposal.known] == [(4, 5), (1, 2)]
    assert propose_one(source(1, question="Is there a cat?")) is None
    assert propose_one(source(1, problem="the run was not finished")) is None


def test_each_clip_comes_once_before_any_comes_again_and_unrated_ones_first():
    given = [Candidate("a", True, 0), Candidate("a", False, 1), Candidate("b", True, 2),
             Candidate("b", True, 3), Candidate("c", False, 4)]  # fmt: skip
    assert [c.number for c in best(given, 9)] == [1, 4, 2, 0, 3]
    assert [c.number for c in best(given, 2)] == [1, 4]
    assert best(given, 0) == []


def test_who_is_not_among_the_best_never_comes_back():
    """So that the pictures of no more than the best are kept while clips are read."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        given = [Candidate("abc"[rng.integers(3)], bool(rng.integers(2)), n) for n in range(8)]
        kept: list[Candidate] = []
        for one in given:
            kept = best([*kept, one], 3)
        assert kept == best(given, 3)


@pytest.fixture
def study(tmp_path):
    """Two main items, and two proposals: the first of the clip that is left out."""
    nothing = source(9, level=(0.0, 0.0))
    made = create_study(tmp_path / "s.db", [source(1), source(2), nothing],
                        StudyPlan(seed=1, repeat=0.0, proposed=2))  # fmt: skip
    assert (made.items, made.proposed) == (2, 2)
    with Study(tmp_path / "s.db") as opened:
        opened.made = made
        yield opened


def parts(study, rater):
    return sorted(r["part"] for r in study.rows("SELECT part FROM tasks WHERE rater = ?", rater.id))


def test_a_proposal_counts_for_nobody_until_it_is_confirmed(study):
    first, second = study.proposals()
    assert (first["clip"], first["also_main"]) == ("clip-9.mp4", False)
    assert (second["clip"], second["also_main"]) == ("clip-1.mp4", True)
    _, before = rater_in(study)
    study.confirm(first["item"], "gold")
    study.confirm(second["item"], "gold")
    study.confirm(second["item"], "training")
    _, after = rater_in(study)
    study.confirm(first["item"], "no")
    _, last = rater_in(study)
    assert parts(study, before) == ["main", "main"]
    assert parts(study, after) == ["gold", "main", "main", "training"]
    assert parts(study, last) == ["main", "main", "training"]
    for number, role in ((99, "gold"), (study.items[0]["number"], "gold"), (first["item"], "x")):
        with pytest.raises(Refused):
            study.confirm(number, role)
    check_study(study.path)


def test_who_invites_too_early_is_told_and_the_report_counts_what_was_confirmed(study, capsys):
    assert main(["invite", str(study.path)]) == 0
    assert "2 proposed known items not confirmed" in capsys.readouterr().err
    first, second = study.proposals()
    study.confirm(first["item"], "gold")
    study.confirm(second["item"], "no")
    assert main(["invite", str(study.path)]) == 0
    assert "not confirmed" not in capsys.readouterr().err
    text = markdown(figures(study, 50))
    assert "0 for training, 1 hidden among the others" in text
    assert "left out 1, and has not decided on 0" in text


def test_an_object_that_is_lost_for_a_while_is_not_proposed():
    clip = source(1)
    boxes = clip.tracks[0].boxes.copy()
    boxes[1] = np.nan  # one of four frames
    lost = replace(clip.tracks[0], boxes=boxes)
    assert propose_one(replace(clip, tracks=(lost, clip.tracks[1]))) is None


def test_a_confirmed_item_gives_feedback_as_any_training_item_does(study):
    study.confirm(study.proposals()[0]["item"], "training")
    _, rater = rater_in(study)
    task = study.tasks(rater)[0]
    assert task["kind"] == "training"
    rate(study, rater, task["id"], [5, 5])
    told = study.feedback(rater, task["id"])
    assert sorted(f["fits"] for f in told) == [False, True]


def test_only_the_organiser_sees_and_confirms_them(study, client):
    (code,) = study.invite(1)
    own = {CODE_HEADER: study.made.organiser}
    for headers in ({}, {CODE_HEADER: code}):
        assert client.get("/organise/api/proposed", headers=headers).status_code == 401
        assert client.get("/organise/api/proposed/3/clip", headers=headers).status_code == 401
        body = {"item": 3, "role": "gold"}
        assert client.post("/organise/api/confirm", headers=headers, json=body).status_code == 401
    (item, _) = client.get("/organise/api/proposed", headers=own).json()["items"]
    for which in ("clip", "0", "1"):
        answer = client.get(f"/organise/api/proposed/{item['item']}/{which}", headers=own)
        assert len(decode_clip(answer.content)) == len(item["times"])
    for bad in (f"{item['item']}/2", "1/clip", "x/clip", f"{'9' * 30}/clip"):
        assert client.get(f"/organise/api/proposed/{bad}", headers=own).status_code == 404
    body = {"item": item["item"], "role": "gold"}
    answer = client.post("/organise/api/confirm", headers=own, json=body).json()["items"]
    assert [i["role"] for i in answer] == ["gold", ""]
    for body in ({"item": True, "role": "gold"}, {"item": item["item"], "role": ["gold"]}, {}):
        assert client.post("/organise/api/confirm", headers=own, json=body).status_code == 400
