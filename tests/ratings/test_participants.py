"""Recruited raters: an id in the link, a completion code at the end, and what is kept of both."""

import csv
import io
import re
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from macd_studio.ratings.check import check_study
from macd_studio.ratings.cli import main
from macd_studio.ratings.errors import Refused
from macd_studio.ratings.export import content_of
from macd_studio.ratings.inference import paired_difference
from macd_studio.ratings.planning import (
    CLIPS,
    EFFECT,
    POWER,
    SHARE,
    SHARE_SD,
    TIES,
    Setting,
    chance,
    drawn,
    first_enough,
    latent,
    parts_of,
    table,
    table_of_pairs,
    tried,
)
from macd_studio.ratings.web import CODE_HEADER
from tests.ratings.studies import event, raw

PLAN = {"clips": 3}


def join(client, code, participant):
    body = {"participant": participant}
    return client.post("/rate/api/participant", headers={CODE_HEADER: code}, json=body)


def test_whoever_comes_with_an_id_is_one_rater_on_every_device(client, study):
    code = study.recruit()
    first = join(client, code, "5f1a-B").json()["code"]
    assert join(client, code, "5f1a-B").json()["code"] == first
    other = join(client, code, "other_1").json()["code"]
    assert other != first
    assert len(study.raters()) == 2
    assert set(study.participants().values()) == {"5f1a-B", "other_1"}
    session = client.get("/rate/api/session", headers={CODE_HEADER: first}).json()
    assert len(session["tasks"]) == 3
    former = study.recruit()
    assert join(client, code, "third").status_code == 401  # the link before no longer holds
    assert join(client, former, "5f1a-B").json()["code"] == first
    check_study(study.path)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "<script>", "ü", None, 3, ["a"], "a\n"])
def test_an_id_that_is_none_joins_nobody(client, study, name):
    assert join(client, study.recruit(), name).status_code == 400
    assert study.raters() == []


def test_an_invited_rater_may_have_an_id_too(client, study):
    (code,) = study.invite(1)
    assert join(client, code, "P7").json()["code"] == code
    assert join(client, code, "P8").json()["code"] == code
    assert list(study.participants().values()) == ["P7"]  # the first one stays
    assert join(client, "A" * 24, "P7").status_code == 401


def test_the_completion_code_comes_after_the_end_and_nothing_changes_then(client, study):
    study.complete_with("C1X2", "https://panel.example/done?cc=C1X2")
    (code,) = study.invite(1)
    headers = {CODE_HEADER: code}

    def session():
        return client.get("/rate/api/session", headers=headers)

    task = session().json()["tasks"][0]["id"]
    assert session().json()["completion"] is None
    assert "C1X2" not in session().text
    rater = study.rater_of(code)
    assert study.append(rater, [event("rate", task, side=0, new=4), event("finish")])[1].committed
    assert session().json()["completion"] == {
        "code": "C1X2", "address": "https://panel.example/done?cc=C1X2"}  # fmt: skip
    (late,) = study.append(rater, [event("rate", task, side=0, old=4, new=1)])
    assert not late.committed
    assert "finished" in late.reason
    again = raw("finish")
    answer = client.post("/rate/api/events", headers=headers, json={"events": [again]})
    assert not answer.json()["outcomes"][0]["committed"]
    assert study.tasks(rater)[0]["ratings"] == [4, None]


@pytest.mark.parametrize(
    ("code", "address"),
    [("a b", ""), ("x" * 65, ""), ("C", "http://panel.example"), ("C", "javascript:alert(1)"),
     ("C", "https://a b"), ("C", "https://" + "x" * 501)],
)  # fmt: skip
def test_what_is_no_code_or_address(study, code, address):
    with pytest.raises(Refused):
        study.complete_with(code, address)


def test_ids_stand_in_no_export_unless_asked_for(client, study):
    code = join(client, study.recruit(), "PARTICIPANT-9").json()["code"]
    rater = study.rater_of(code)
    study.append(rater, [event("rate", study.tasks(rater)[0]["id"], side=0, new=4)])
    for kind in ("csv", "jsonl"):
        assert b"PARTICIPANT-9" not in content_of(study, kind)
        assert b"PARTICIPANT-9" in content_of(study, kind, participants=True)
    table = csv.DictReader(io.StringIO(content_of(study, "csv", True).decode(), newline=""))
    assert [row["participant"] for row in table] == ["PARTICIPANT-9"]


def test_the_command_prints_one_link(study, capsys):
    words = ["recruit", str(study.path), "--url", "https://rate.example.org", "--completion", "C9",
             "--return", "https://panel.example/x"]  # fmt: skip
    assert main(words) == 0
    link = capsys.readouterr().out.strip()
    assert link.startswith("https://rate.example.org/rate?participant={{%PROLIFIC_PID%}}#")
    assert study.completion == {"code": "C9", "address": "https://panel.example/x"}
    assert study.admit_participant(link.partition("#")[2], "Q1") is not None
    assert main([*words[:-1], "ftp://x"]) == 2
    assert main([*words[:4], "--return", "https://panel.example/back"]) == 0
    assert study.completion == {"code": "", "address": "https://panel.example/back"}


def test_a_plan_says_what_drawn_studies_find():
    """The chance to find an effect, against intervals of drawn studies."""
    rng, effect = np.random.default_rng(0), 0.4
    parts = parts_of(1.0, 0.3)
    found = []
    for _ in range(200):
        values = (effect + rng.normal(0, parts.rater**0.5, (8, 1))
                  + rng.normal(0, parts.clip**0.5, 40)
                  + rng.normal(0, parts.rest**0.5, (8, 40)))  # fmt: skip
        found.append(paired_difference(values).others.low > 0)
    assert np.mean(found) == pytest.approx(chance(effect, parts, 8, 40), abs=0.09)
    enough = first_enough(effect, parts, 40)
    assert chance(effect, parts, enough, 40) >= 0.8 > chance(effect, parts, enough - 1, 40)


SHOWN = (20, 200), (3, 5, 10)
"""Clips and raters whose rows the guide shows."""


def test_the_guide_s_plan_is_the_one_of_the_command():
    text = (Path(__file__).parents[2] / "docs" / "rating.md").read_text(encoding="utf-8")
    for line in table(EFFECT, *SHOWN):
        assert not line.startswith("|") or line in text
    enough = [line for line in table(EFFECT, CLIPS, ()) if "for a chance" in line]
    assert len(enough) == len(CLIPS)
    assert all(line.partition(" raters")[0] in text for line in enough)


def test_the_plan_is_printed_and_bad_words_are_told(capsys):
    assert main(["plan", "--effect", "0.5", "--clips", "30", "--raters", "4,8"]) == 0
    told = capsys.readouterr().out
    assert "| 30 | 8 | 240 | ± " not in told
    assert "| 30 | 8 | 240 | " in told
    for bad in (["--effect", "9"], ["--clips", "a"], ["--clips", "1"], ["--raters", "2.5"],
                ["--paired-sd", "1,2,3"], ["--clips", "nan"], ["--ties", "0.1"]):  # fmt: skip
        assert main(["plan", *bad]) == 2


PAIRS_PLAN = Setting(0.65, 0.2, 0.15)


def test_drawn_pairs_have_the_shares_that_were_asked_for():
    """Each rater's share over 4,000 clips, of 400 raters: errors are those of the draw."""
    parts = latent(PAIRS_PLAN, 0.0)
    values = drawn(np.random.default_rng(0), parts, 400, 4000)
    assert set(np.unique(values)) == {0, 0.5, 1}
    assert values.mean() == pytest.approx(0.65, abs=3 * 0.15 / 20)
    assert (values == 0.5).mean() == pytest.approx(0.2, abs=0.02)
    assert values.mean(1).std() == pytest.approx(0.15, abs=0.02)
    by_clip = drawn(np.random.default_rng(1), latent(Setting(0.65, 0.2, 0.0), 0.28), 400, 400)
    within = 0.65 * 0.35 - 0.2 / 4
    assert by_clip.var() == pytest.approx(within, abs=0.01)
    assert by_clip.mean(0).var() == pytest.approx(0.28 * within, rel=0.2)


def test_a_plan_of_pairs_finds_a_preference_on_either_side_alike():
    chances = [tried(Setting(share, 0.2, 0.05), 5, 40, 150)[1] for share in (0.7, 0.3)]
    assert chances[0] == pytest.approx(chances[1], abs=0.16)
    assert min(chances) > 0.6
    assert tried(Setting(0.51, 0.2, 0.05), 5, 40, 150)[1] < 0.15


def test_the_guide_s_plan_of_pairs_is_the_one_of_the_command():
    text = (Path(__file__).parents[2] / "docs" / "rating.md").read_text(encoding="utf-8")
    at = Setting(SHARE, TIES, SHARE_SD[0]), Setting(SHARE, TIES, SHARE_SD[1])
    lines = table_of_pairs(at, (20,), (3, 5))
    rows = [line for line in islice(lines, 7) if line.startswith("|")]  # without the search
    assert len(rows) == 4
    assert all(row in text for row in rows)
    told = text[text.index("chance to find the preference") :]
    for raters in SHOWN[1]:
        assert f"| 20 | {raters} | {20 * raters} |" in told
    assert all(f"{clips} clips: " in told for clips in CLIPS)


def test_studies_of_fewer_raters_are_part_of_those_of_more():
    """So that chances differ by what another rater adds, and not by the draw."""
    parts = latent(PAIRS_PLAN, 0.28)
    few, more = (drawn(np.random.default_rng(5), parts, raters, 30) for raters in (4, 9))
    assert np.array_equal(few, more[:4])


def test_a_plan_of_pairs_that_would_draw_too_much_is_refused_before_its_first_row(capsys):
    words = ["plan", "--scale", "pairs", "--clips", "9000,8000,7000", "--raters", "200"]
    assert main(words) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "would draw up to 9,600 million pairs" in told.err
    assert "at most 2,000 million" in told.err


def test_a_plan_of_pairs_is_printed_with_raters_enough(capsys):
    words = ["plan", "--scale", "pairs", "--share", "0.9", "--clips", "12", "--raters", "4"]
    assert main([*words, "--ties", "0", "--rater-sd", "0.02"]) == 0
    told = capsys.readouterr().out
    assert "| 12 | 4 | 48 | " in told
    (enough,) = re.findall(r"12 clips: about (\d+) raters for a chance of 80%", told)
    at = Setting(0.9, 0.0, 0.02)
    assert tried(at, int(enough), 12)[1] >= POWER
    assert tried(at, int(enough) - 1, 12)[1] < POWER


@pytest.mark.parametrize("bad", [
    ["--effect", "1"], ["--paired-sd", "1"], ["--share", "0.5"], ["--share", "0.95"],
    ["--ties", "0.8"], ["--rater-sd", "0.05,0.4"], ["--clips", "9000", "--raters", "9000"],
    ["--clips", "7000", "--raters", "200"],
])  # fmt: skip
def test_what_no_study_of_pairs_can_be(bad, capsys):
    assert main(["plan", "--scale", "pairs", *bad]) == 2
    assert capsys.readouterr().out == ""
