"""Several questions about one clip, and a new run with regions of no class."""

from dataclasses import replace

import pytest

from macd_studio.core.errors import MacdError
from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.questions import (
    MOST,
    answers_of,
    ask_several,
    read_questions,
    run_with_detector,
)
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.viewer import identity
from tests.fakes import BoxDetector, ByteLM
from tests.macd_ui.test_jobs import values
from tests.small_trace import small_trace


class Counted(BoxDetector):
    """Counts how often it looks at a clip."""

    looked = 0

    def detect(self, frames, options):
        type(self).looked += 1
        return super().detect(frames, options)


@pytest.fixture
def handlers(monkeypatch, new_store):
    lm = ByteLM()
    monkeypatch.setattr(Counted, "looked", 0)
    return make_handlers(new_store(lambda: lm, Counted), examples())


def finished(updates):
    """Each whole run that was shown, as its question."""
    shown = [u["viewer"] for u in updates if "trace" in u.get("viewer", {})]
    done = [v["trace"]["question"] for v in shown if v["status"]["stage"] == "done"]
    return list(dict.fromkeys(done))


def test_each_question_is_run_on_the_same_clip_with_one_look(handlers, make_video):
    text = "is it?\n\n what is it? \nis it?\nwhere?"
    updates = list(ask_several(handlers.runs, values(make_video()), text, "me"))
    assert finished(updates) == ["is it?", "what is it?", "where?"]
    assert [u["question"] for u in updates if "question" in u] == finished(updates)
    assert Counted.looked == 1
    table = [u["answers"] for u in updates if "answers" in u]
    assert [len(t["rows"]) for t in table] == [0, 1, 1, 2, 2, 3]
    assert {t["of"] for t in table} == {3}
    last = table[-1]["rows"]
    assert [row["question"] for row in last] == finished(updates)
    trace = handlers.store.sessions.open("me").trace
    assert last[-1]["run"] == identity(trace)
    assert last[-1]["answers"]["macd"]["text"] == trace.answers["macd"].text
    assert {"baseline", "macd"} <= set(last[0]["answers"])
    assert handlers.store.sessions.open("me").trace.question == "where?"
    cache = handlers.store.sessions.open("me").cache
    assert (cache.keep_prefill, cache._prefill) == (False, None)  # its memory is given back


@pytest.mark.parametrize(("finished", "right"), [(True, True), (False, None)])
def test_an_answer_that_was_cut_off_is_neither_right_nor_wrong(finished, right):
    trace = small_trace()
    cut = replace(trace.answers["macd"], text="yes", finished=finished)
    row = answers_of(replace(trace, truth="yes", answers={**trace.answers, "macd": cut}))
    assert row["answers"]["macd"]["right"] is right


def test_each_run_stays_until_an_open_page_has_fetched_it(handlers, make_video, monkeypatch):
    """Else the browser would keep the next one under its name."""
    store = handlers.store
    session = store.sessions.open("me")
    store.sessions.connect("me")
    seen = []

    def look(_seconds):
        seen.append(session.current.request.spec.question)
        if len(seen) % 3 == 0:
            session.fetched = session.current.number
        return False

    monkeypatch.setattr(session.stop, "wait", look)
    list(ask_several(handlers.runs, values(make_video()), "is it?\nwhat is it?\nwhere?", "me"))
    assert seen == ["is it?"] * 3 + ["what is it?"] * 3


@pytest.mark.parametrize("text", [None, "", "\n ", "x\n" * 2 + "\n".join(map(str, range(MOST))), 3])
def test_a_list_that_is_none_is_refused(handlers, make_video, text):
    (update,) = ask_several(handlers.runs, values(make_video()), text, "me")
    assert update["viewer"]["status"]["where"] == "form"
    with pytest.raises(MacdError):
        read_questions(text)
    with pytest.raises(MacdError):
        read_questions("good?\n<" + "x" * 100_000)


def test_stop_ends_the_whole_list(handlers, make_video):
    updates = ask_several(handlers.runs, values(make_video()), "is it?\nwhat?\nwhere?", "me")
    seen = []
    for update in updates:
        seen.append(update)
        if finished(seen) and len(finished(seen)) == 1:
            handlers.form.stop("me")
    assert finished(seen) == ["is it?"]


def test_after_a_run_that_fails_the_others_are_not_tried(handlers, tmp_path):
    broken = tmp_path / "x.mp4"
    broken.write_bytes(b"no video")
    updates = list(ask_several(handlers.runs, values(broken), "is it?\nwhat?", "me"))
    assert [u["question"] for u in updates if "question" in u] == ["is it?"]
    assert "not a readable video" in updates[-1]["viewer"]["status"]["error"]


def test_one_click_runs_again_with_regions(handlers, make_video, monkeypatch):
    asked = values(make_video())
    list(handlers.runs.run(asked, "me"))
    trace = handlers.store.sessions.open("me").trace
    names = []
    monkeypatch.setattr(
        handlers.store.models, "detector", lambda n, *_: names.append(n) or BoxDetector()
    )
    action = {"do": "detect", "run": identity(trace), "detector": "motion"}
    first, *_, last = run_with_detector(handlers.runs, action, asked | {"question": "other?"}, "me")
    assert first == {"detector": "motion", "question": trace.question, "tracks": None}
    assert names == ["motion"]
    assert finished([last]) == [trace.question]
    action["run"] = identity(handlers.store.sessions.open("me").trace)
    names_that_are_none = (["grid"], "/etc/passwd", "yolo11x", None)
    others = [action | {"detector": name} for name in names_that_are_none]
    for hostile in (None, [], action | {"run": "x"}, *others):
        (refused,) = run_with_detector(handlers.runs, hostile, asked, "me")
        assert refused["viewer"]["status"]["error"]
    assert names == ["motion"]


def test_a_public_page_offers_what_needs_no_weights():
    ServerSettings(public=True).check_models("toyworld", "grid")
    ServerSettings(public=True).check_models("toyworld", "motion")
    ServerSettings(public=True).check_models("everyday", "yolo11n")
    with pytest.raises(MacdError):
        ServerSettings(public=True).check_models("toyworld", "d-fine")
