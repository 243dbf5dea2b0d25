"""One question before the first screen: what is none, and that who fails it rates nothing."""

import json
from pathlib import Path

import pytest

from macd_studio.core.errors import MacdError
from macd_studio.ratings.check import check_study, revealed, verify
from macd_studio.ratings.cli import main
from macd_studio.ratings.errors import Refused, StudyError
from macd_studio.ratings.export import rows
from macd_studio.ratings.render import markdown
from macd_studio.ratings.report import figures, progress
from macd_studio.ratings.screening import Screening, read_screening
from macd_studio.ratings.simulate import simulate
from macd_studio.ratings.store import Study
from macd_studio.ratings.web import CODE_HEADER
from tests.ratings.studies import event, make_study, raw

QUESTION = {
    "question": "What do you see the clips on?",
    "options": ["a phone", "a screen", "paper"],
    "answer": "a screen",
    "code": "SORRY-1",
    "address": "https://panel.example/out",
}
PLAN = {"clips": 2, "screening": Screening("On what?", ("a phone", "a screen"), 2, "SORRY-1")}


def test_a_whole_question_is_read(tmp_path):
    path = tmp_path / "q.json"
    path.write_text(json.dumps(QUESTION))
    asked = read_screening(path)
    assert (asked.answer, asked.code, asked.address) == (2, "SORRY-1", "https://panel.example/out")
    assert asked.options == ("a phone", "a screen", "paper")
    path.write_text(json.dumps({k: QUESTION[k] for k in ("question", "options", "answer")}))
    assert (read_screening(path).code, read_screening(path).address) == ("", "")


BAD = [
    ({"question": " "}, "question is blank"),
    ({"question": "x" * 501}, "question has 501 characters"),
    ({"question": 3}, "question is 3, not a text"),
    ({"question": "a\0b"}, "not text"),
    ({"options": ["a screen"]}, "has no options"),
    ({"options": "ab"}, "has no options"),
    ({"options": [f"{i}" for i in range(9)]}, "has no options"),
    ({"options": ["a screen", "A screen "]}, "an option twice"),
    ({"options": ["a screen", ""]}, r"options\[1\] is blank"),
    ({"options": ["a screen", "x" * 201]}, "201 characters"),
    ({"options": ["a screen", None]}, "not a text"),
    ({"answer": "a wall"}, "'a wall' is none of the options"),
    ({"answer": 1}, "not a text"),
    ({"code": "a b"}, "completion code is not one"),
    ({"code": 7}, "completion code is not one"),
    ({"address": "http://panel.example"}, "return address is not one"),
    ({"more": 1}, "other keys"),
]


@pytest.mark.parametrize(("change", "says"), BAD, ids=str)
def test_a_bad_question_makes_no_study(tmp_path, change, says, capsys):
    path = tmp_path / "q.json"
    path.write_text(json.dumps(QUESTION | change))
    with pytest.raises(MacdError, match=says):
        read_screening(path)
    words = ["create", str(tmp_path / "s.db"), "--traces", "/nowhere", "--screening", str(path)]
    assert main(words) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert [p.name for p in tmp_path.iterdir()] == ["q.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 99_999, b" " * 2**17])
def test_what_is_no_json_object_is_refused(tmp_path, content):
    path = tmp_path / "q.json"
    path.write_bytes(content)
    with pytest.raises(MacdError):
        read_screening(path)


def session(client, code):
    return client.get("/rate/api/session", headers={CODE_HEADER: code}).json()


def send(client, code, *events):
    body = {"events": list(events)}
    return client.post("/rate/api/events", headers={CODE_HEADER: code}, json=body).json()


def test_who_fails_gets_a_code_of_their_own_and_rates_nothing(client, study):
    study.complete_with("DONE-1", "")
    (code,) = study.invite(1)
    asked = session(client, code)["screening"]
    assert asked == {"question": "On what?", "options": ["a phone", "a screen"], "state": "asked",
                     "completion": None}  # fmt: skip
    task = session(client, code)["tasks"][0]["id"]
    places = [f"/rate/api/item/{task}", f"/rate/api/media/{task}/0"]

    def statuses():
        return {client.get(p, headers={CODE_HEADER: code}).status_code for p in places}

    def committed(*events):
        return [o["committed"] for o in send(client, code, *events)["outcomes"]]

    mark, end = raw("rate", task, side=0, new=3), raw("finish")
    assert statuses() == {403}
    assert committed(raw("consent"), mark, end, raw("screening", new=3)) == [
        True, False, False, False]  # fmt: skip
    reply = send(client, code, wrong := raw("screening", new=1))
    assert reply["screening"]["completion"] == {"code": "SORRY-1", "address": ""}
    # the first answer holds, also where it is sent once more
    assert committed(raw("screening", new=2), wrong) == [False, True]
    assert committed(raw("rate", task, side=0, new=3), raw("finish")) == [False, False]
    assert statuses() == {403}
    again = session(client, code)
    assert (again["screening"]["state"], again["completion"]) == ("failed", None)
    assert "DONE-1" not in json.dumps(again)


def test_who_passes_rates_and_never_learns_the_other_code(client, study):
    (code,) = study.invite(1)
    assert send(client, code, raw("screening", new=2))["screening"]["state"] == "passed"
    task = session(client, code)["tasks"][0]["id"]
    outcome = send(client, code, raw("rate", task, side=0, new=3))["outcomes"][0]
    assert outcome["committed"]
    headers = {CODE_HEADER: code}
    assert client.get(f"/rate/api/item/{task}", headers=headers).status_code == 200
    assert "SORRY" not in json.dumps(session(client, code))
    assert '"answer"' not in json.dumps(session(client, code))


def test_failures_are_counted_and_export_and_chain_hold_the_answers(study):
    names = simulate(study)
    (code,) = study.invite(1)
    study.append(study.rater_of(code), [event("screening", new=1)])
    report = figures(study, 50)
    assert report["study"]["screened_out"] == 1
    assert report["study"]["raters_begun"] == len(names)
    assert "1 failed the screening question and rated nothing" in markdown(report)
    assert [r["screened_out"] for r in progress(study)["raters"]] == [False] * len(names) + [True]
    answers = [r["new"] for r in rows(study) if r["kind"] == "screening"]
    assert answers == [2] * len(names) + [1]
    check_study(study.path)


def test_the_question_is_sealed_and_its_code_is_not_in_what_is_published(study, tmp_path):
    assert "On what?" not in study.preregistration_text
    opened = revealed(study)
    assert opened["sealed"]["screening"]["answer"] == 2
    assert "SORRY-1" not in study.preregistration_text + json.dumps(opened)
    verify(study.preregistration_text, opened)
    opened["sealed"]["screening"]["answer"] = 1
    with pytest.raises(StudyError, match="are not those that were preregistered"):
        verify(study.preregistration_text, opened)
    with pytest.raises(Refused, match="those who fail"):
        study.complete_with("SORRY-1", "")


def test_a_study_without_a_question_asks_none(tmp_path, client):
    with Study(make_study(tmp_path, 2, name="other.db")) as study:
        (code,) = study.invite(1)
        rater = study.rater_of(code)
        assert study.screened(rater) == ""
        assert not study.append(rater, [event("screening", new=1)])[0].committed


def test_the_guide_shows_a_question_that_is_read(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "rating.md").read_text(encoding="utf-8")
    shown = text[text.index('{"question": ') :]
    path = tmp_path / "q.json"
    path.write_text(shown[: shown.index("```")])
    assert read_screening(path).code
