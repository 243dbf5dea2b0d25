"""The table of bad inputs through the page's own events: words for the visitor, nothing lost."""

import pytest

from macd_studio.core.traces.bundle import pack
from macd_studio.macd_ui.examples import examples
from tests.bad_inputs import CASES
from tests.raw import Visitor, words
from tests.samples import sampled
from tests.security.test_sessions import clip

STRANGE = [
    ("blank", "   "),
    ("long", "why " * 30_000),
    ("end token", "Is it <|end|> ?"),
    ("null", "is\0it?"),
    ("bidi", "is \u202e it?"),
]
SAMPLE = (
    "empty", "web page", "HLS playlist", "zip archive", "sound only", "corrupt pictures",
    "one frame",
)  # fmt: skip
"""A row of each kind of answer; the reader has them all in every run of the tests."""


@pytest.fixture(scope="module")
def visitor(public):
    visitor = Visitor(public.url)
    visitor.open_tab()
    yield visitor
    visitor.close_tab()


def state(messages):
    """The last status that the viewer was given."""
    done = next(m for m in reversed(messages) if m["msg"] == "process_completed")
    return next(
        d["status"] for d in done["output"]["data"] if isinstance(d, dict) and "status" in d
    )


def run(visitor, **values):
    return visitor.send("run", **values)


@pytest.mark.parametrize("case", sampled(CASES, [c for c in CASES if c.name in SAMPLE]), ids=str)
def test_each_row_of_the_table(public, visitor, tmp_path, case):
    path = case.build(tmp_path)
    if not path.is_file() or path.stat().st_size == 0:
        content = b""
    else:
        content = path.read_bytes()
    before = public.as_dict()["runs"]
    answer = visitor.upload(path.name, content)
    assert answer.status_code == 200, answer.text
    file = {"path": answer.json()[0], "orig_name": path.name, "meta": {"_type": "gradio.FileData"}}
    told = run(visitor, video=file, question="is it?")
    after = public.as_dict()["runs"]
    assert after["failed"] == before["failed"], state(told)
    if case.error:
        error = state(told)["error"]
        assert error
        assert state(told)["where"] == "form"
        assert str(public.folder.path) not in words(told)  # nobody learns of the server's folders
    else:
        assert after["complete"] == before["complete"] + 1, state(told)
        for word in case.words:
            assert word in words(told)


@pytest.mark.parametrize(("name", "question"), STRANGE, ids=[s[0] for s in STRANGE])
def test_strange_questions(public, visitor, name, question):
    told = run(visitor, video=clip(visitor), question=question)
    assert state(told)["error"]
    assert "nforeseen" not in state(told)["error"]


def put(value, changes):
    """What Gradio's page does with the changes since the last message: it changes the value."""
    for action, path, new in changes:
        place = value
        for key in path[:-1]:
            place = place[key]
        if not path:
            value = new
        elif action == "delete":
            del place[path[-1]]
        else:
            place[path[-1]] = new
    return value


@pytest.mark.parametrize("content", [b"", b"no video at all"])
def test_a_bad_clip_leaves_nothing_in_the_choice_of_frames(visitor, content):
    parts = {c["id"]: c["props"].get("elem_id") for c in visitor.config["components"]}
    at = [parts[i] for i in visitor.event("upload")["outputs"]].index("sampling")
    held = shown = None
    for message in visitor.send("upload", video=visitor.file("clip.mp4", content)):
        if message["msg"] not in ("process_generating", "process_completed"):
            continue
        sent = message["output"]["data"][at]
        shown = put(shown, sent) if isinstance(sent, list) else sent
        if isinstance(shown, dict) and "value" in shown:
            held = shown["value"]  # what the page has for the widget from now on
        elif isinstance(shown, dict) and "__type__" not in shown:
            held = shown
    assert held == {}


def test_half_a_character(public, visitor):
    answer = visitor.join("run", video=clip(visitor), question="is \ud800 it?")
    assert answer.status_code == 400
    assert "half a character" in answer.json()["error"]


@pytest.mark.parametrize(
    "content", [b"", b"no trace", b"PK\x03\x04", examples()[0].trace.read_bytes()[:-99]]
)
def test_files_that_are_no_trace(public, visitor, content):
    told = visitor.send("reopen", open=visitor.file("x.macd", content))
    assert state(told)["error"]


def test_the_session_is_usable_after_all_of_it(public, visitor):
    told = run(visitor, video=clip(visitor), question="is it?")
    assert state(told)["stage"] == "done"
    shown = next(s for s in public.sessions._by_key.values() if s.trace is not None)
    assert pack(shown.trace)[:2] == b"PK"
    assert public.as_dict()["runs"]["failed"] == 0
    assert len(public.device_queue) == 0
