"""Whose session is whose: nobody stops, reads or keeps what is another visitor's."""

import threading

import pytest

from macd_studio.macd_ui.examples import examples
from tests.raw import API, Visitor, words
from tests.security.conftest import serving


def clip(visitor):
    return visitor.file("clip.mp4", examples()[0].video.read_bytes())


def held_run(store, visitor, question="is it?"):
    """A run that has reached its model and stays there until store.lm.free is set."""
    store.lm.free.clear()
    store.lm.reached.clear()
    got = []
    thread = threading.Thread(
        target=lambda: got.extend(visitor.send("run", video=clip(visitor), question=question))
    )
    thread.start()
    while not store.lm.reached.wait(1):
        assert thread.is_alive(), f"the run ended before its model: {words(got)}"
    return thread, got


def last_state(messages):
    found = [m for m in messages if m["msg"] == "process_completed"]
    return found[-1]


@pytest.mark.long
def test_a_known_hash_gives_nobody_else_anything(store):
    owner, thief, spy = (Visitor(store.url) for _ in range(3))
    program = Visitor(store.url, cookies=False)
    thief.hash = program.hash = spy.hash = owner.hash
    thread, got = held_run(store, owner)
    mine = next(s for s in store.sessions._by_key.values() if s.busy.locked())

    assert thief.send("stop")[-1]["success"]
    program.call("stop")
    body = {"session_hash": owner.hash, "fn_index": owner.event("run")["id"], "event_id": "x"}
    thief.http.post(f"{API}/cancel", json=body)
    assert not mine.stop.is_set()

    # listening to the stream of the run: there is none under this hash with another cookie
    assert [m["msg"] for m in spy.messages()] == ["unexpected_error"]
    assert [m["msg"] for m in program.messages()] == ["unexpected_error"]
    # closing "its" tab stops nothing of the owner
    thief.open_tab()
    thief.close_tab()
    assert not mine.stop.is_set()

    store.lm.free.set()
    thread.join()
    assert last_state(got)["success"]
    assert mine.trace is not None
    address = f"/files/{mine.token}/clip.macd"
    assert owner.http.get(address).content[:2] == b"PK"
    assert thief.http.get(address).status_code == 404
    assert program.http.get(address).status_code == 404


def test_secrets_leave_in_no_message(store):
    visitor = Visitor(store.url)
    told = words(visitor.send("run", video=clip(visitor), question="is it?"))
    cookie = visitor.http.cookies["macd_visitor"]
    for secret in (cookie, next(iter(k for k in store.sessions._by_key)), visitor.hash):
        assert secret not in told
    assert cookie not in visitor.http.get("/").text


def test_a_program_cannot_use_the_pages_events(store):
    program = Visitor(store.url, cookies=False)
    before = set(store.sessions._by_key)
    for name in ("run", "choose", "visit", "upload", "change", "reopen"):
        kind, told = program.call(name, *program.data(name))
        assert kind == "error", name
        assert "needs its cookie" in told["error"], name
    assert set(store.sessions._by_key) == before


@pytest.mark.parametrize("count", [4, pytest.param(300, marks=pytest.mark.long)])
def test_invented_hashes_make_no_sessions_or_folders(count):
    with serving(grace_s=3600) as store:
        folders = sorted(store.folder.path.rglob("*"))
        program, tab = Visitor(store.url, cookies=False), Visitor(store.url)
        number = tab.event("stop")["id"]
        for i in range(count):
            visitor = (program, tab)[i % 2]
            body = {"data": [], "fn_index": number, "session_hash": f"invented{i}"}
            assert visitor.http.post(f"{API}/run/predict", json=body).status_code == 200
        assert not store.sessions._by_key
        assert sorted(store.folder.path.rglob("*")) == folders


def test_a_session_without_a_tab_ends_and_one_with_a_tab_stays():
    with serving(grace_s=3600) as store:
        open_, closed = Visitor(store.url), Visitor(store.url)
        open_.open_tab()
        for visitor in (open_, closed):
            visitor.send("change", question="why?")
        assert len(store.sessions._by_key) == 2
        store.sessions.grace_s = 0.0
        wait_for(lambda: store.sweep() or len(store.sessions._connections) == 1)
        wait_for(lambda: store.sweep() or len(store.sessions._by_key) == 1)
        assert set(store.sessions._by_key) == set(store.sessions._connections)
        open_.close_tab()
        wait_for(lambda: not store.sessions._connections)
        store.sweep()
        assert not store.sessions._by_key


@pytest.mark.long
def test_what_the_framework_keeps_of_a_tab_goes_with_it():
    with serving(grace_s=3600) as store:
        holder, queue = store.page.state_holder, store.page._queue
        open_, closed = Visitor(store.url), Visitor(store.url)
        for visitor in (open_, closed):
            visitor.open_tab()
            visitor.send("change", question="why?")
        body = {"data": [], "fn_index": open_.event("stop")["id"], "session_hash": "invented"}
        open_.http.post(f"{API}/run/predict", json=body)
        assert len(holder.session_data) == 3
        closed.close_tab()
        wait_for(lambda: len(store.sessions._connections) == 1)
        store.sweep()
        assert len(holder.session_data) == 3  # for tabs that come back
        store.sessions.grace_s = 0.0
        wait_for(lambda: store.sweep() or len(holder.session_data) == 1)
        assert set(holder.session_data) == set(store.sessions._connections)
        assert set(queue.pending_event_ids_session) <= set(store.sessions._connections)
        assert set(queue.pending_messages_per_session) <= set(store.sessions._connections)
        assert holder.session_data.keys() == holder.time_last_used.keys()
        assert "error" not in open_.send("change", question="still there?")


def wait_for(condition):
    for _ in range(45_000):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it never came")


def test_a_programs_call_has_a_session_of_its_own_that_ends_with_it(store):
    program = Visitor(store.url, cookies=False)
    before = set(store.sessions._by_key)
    kind, told = program.call("trace", clip(program), "is it?", {})
    assert kind == "complete"
    assert told[0]["question"] == "is it?"
    assert set(store.sessions._by_key) == before
    assert not [held for held in store.uploads._held.values() if any("call-" in s for s in held)]


def test_restarting_the_server_keeps_no_key(store):
    import subprocess
    import sys

    code = (
        "from macd_studio.macd_ui.serving.identity import session_key; print(session_key('a', 'b'))"
    )
    keys = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
            for _ in range(2)}  # fmt: skip
    assert len(keys) == 2


@pytest.mark.long
def test_a_call_that_takes_longer_than_the_grace_goes_on():
    with serving(grace_s=0.0) as store, store.sessions.call("program-x") as session:
        store.sweep()
        assert not session.stop.is_set()
        assert session.key in store.sessions._by_key
    assert session.stop.is_set()
