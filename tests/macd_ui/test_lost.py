"""Tabs whose session the server has forgotten: their run stays on the page."""

from dataclasses import replace

from macd_studio.core.records import Edit
from macd_studio.core.traces.bundle import save
from macd_studio.macd_ui import session as sessions
from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.serving.identity import COOKIE, browser_key
from macd_studio.viewer import identity
from tests.macd_ui.test_going_on import level_edit
from tests.macd_ui.test_jobs import values
from tests.macd_ui.test_page_parts import BROWSER, get


def act(handlers, action, key="me"):
    return list(handlers.changes.act(action, "bytes", None, key))


def assert_kept(told):
    """The page is told that its run is gone, and keeps showing it."""
    assert "no longer keeps the run" in told["viewer"]["status"]["error"]
    assert told["viewer"]["status"]["where"] == "whatif"
    assert told["viewer"]["lost"]
    assert "trace" not in told["viewer"]
    assert "plot" not in told
    assert told["note"]["text"] == ""


def test_a_tab_that_comes_back_too_late_keeps_what_it_shows(handlers, store, make_video, tmp_path):
    asked = values(make_video())
    *_, shown = handlers.runs.run(asked, "me")
    *_, changed = act(handlers, level_edit(shown))
    copy = save(store.sessions.open("me").trace, tmp_path / "copy.macd")
    store.sessions.forget("me")
    edit = level_edit(shown)
    (told,) = act(handlers, edit)
    assert_kept(told)
    session = store.sessions.open("me", browser=browser_key(BROWSER[COOKIE]))
    assert session.current is None
    session.browser = browser_key(BROWSER[COOKIE])
    for kind in ("trace", "page"):  # no other run is saved in its place
        address = told["viewer"]["files"][kind]
        assert get(store, address, handlers.view.examples).status_code == 404
    # nor does the page claim that the first example is on show
    assert handlers.form.edit_form(asked, "me")["note"]["text"] == ""
    assert handlers.form.unfold_plot(True, "me") == {}
    (told,) = act(handlers, {"do": "undo", "run": changed["viewer"]["trace"]["run"]})
    assert_kept(told)

    opened, *_ = handlers.form.open_trace(str(copy), "me")  # the browser's own copy
    assert len(opened["viewer"]["trace"]["edits"]) == 1
    *_, last = act(handlers, level_edit(opened))
    assert len(last["viewer"]["trace"]["edits"]) == 2
    assert "lost" not in last["viewer"]


def test_the_first_example_changed_by_hand_is_not_taken_for_the_shipped_one(handlers, store):
    first = identity(handlers.view.first[1])
    edit = {"do": "edit", "run": first, "edit": {"kind": "level", "track": 1, "level": 0.75}}
    by_hand = (Edit("level", track=1, level=0.5),)
    store.sessions.open("me").show(replace(handlers.view.first[1], edits=by_hand))
    for _ in range(2):  # a session that is forgotten again
        store.sessions.forget("me")
        (told,) = act(handlers, edit)
        assert_kept(told)


def test_after_a_restart_the_first_click_brings_no_example(handlers):
    (told,) = act(handlers, {"do": "undo", "run": "of another server"})
    assert_kept(told)
    (told,) = act(handlers, {"do": "occlusion", "run": identity(handlers.view.first[1])})
    assert "lost" in told["viewer"]  # the page shows the run of the other server still


def test_a_failed_run_of_such_a_tab_brings_no_example_either(handlers, store, monkeypatch):
    handlers.form.choose(1, "me")
    store.sessions.forget("me")
    monkeypatch.setattr(store.models, "backbone", lambda *_: 1 / 0)
    asked = values("", video=None, example=1, methods=[])
    updates = list(handlers.runs.run(asked, "me"))
    assert any("trace" in u.get("viewer", {}) for u in updates)
    assert "went wrong" in updates[-1]["viewer"]["status"]["error"]
    assert "trace" not in updates[-1]["viewer"]
    assert updates[-1]["run"]["interactive"]


def test_tabs_without_a_run_are_not_lost_and_lost_ones_are_bounded(store, monkeypatch):
    monkeypatch.setattr(sessions, "MAX_SESSIONS", 2)
    trace = next(e for e in examples() if e.trace).load_trace()
    for key in ("bare", "a", "b", "c"):
        session = store.sessions.open(key)
        if key != "bare":
            session.show(trace)
        store.sessions.forget(key)
    with store.sessions.call("owner") as session:
        session.show(trace)
    assert [store.sessions.open(k).lost for k in ("bare", "a", "b", "c")] == [
        False, False, True, True,
    ]  # fmt: skip
