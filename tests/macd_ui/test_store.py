"""What all visitors share: which models stay loaded, and sessions that many threads ask for."""

import threading

import pytest

from macd_studio.macd_ui.models import MAX_LOADED
from macd_studio.macd_ui.store import Store

SOON_S = 0.2
"""Long enough for what nothing holds up; what is held up takes until it is let go."""


@pytest.fixture
def store():
    store = Store()
    yield store
    store.close()


def test_the_models_used_last_stay_loaded(store):
    loaded = []

    def use(name, kind="backbone"):
        return store.models.get((kind, name), lambda: loaded.append(name) or f"model {name}")

    assert MAX_LOADED == 2
    for name in ("a", "b", "a", "c"):  # "b" is the one that was not used for longest
        assert use(name) == f"model {name}"
    use("x", "detector")
    use("a")
    assert loaded == ["a", "b", "c", "x"]
    use("b")  # in the place of "c"
    use("a")
    use("c")
    assert loaded == ["a", "b", "c", "x", "b", "c"]
    use("x", "detector")  # another kind takes nobody's place
    assert loaded.count("x") == 1


def test_a_model_that_is_there_is_had_while_another_is_loaded(store):
    store.models.get(("backbone", "a"), lambda: "a")
    started, free = threading.Event(), threading.Event()

    def slow():
        started.set()
        free.wait()
        return "b"

    loading = threading.Thread(target=lambda: store.models.get(("backbone", "b"), slow))
    loading.start()
    started.wait()
    assert store.models.get(("backbone", "a"), pytest.fail) == "a"
    assert loading.is_alive()
    free.set()
    loading.join()
    assert store.models.get(("backbone", "b"), pytest.fail) == "b"


def test_two_requests_of_a_new_tab_get_one_session(store, monkeypatch):
    make, entered, free, made = store.sessions._new, threading.Event(), threading.Event(), []

    def slow(key, visitor):
        made.append(key)
        entered.set()
        free.wait()
        return make(key, visitor)

    monkeypatch.setattr(store.sessions, "_new", slow)
    got = []
    threads = [
        threading.Thread(target=lambda: got.append(store.sessions.open("tab"))) for _ in range(2)
    ]
    threads[0].start()
    entered.wait()
    threads[1].start()
    threads[1].join(SOON_S)
    free.set()
    for thread in threads:
        thread.join()
    assert made == ["tab"]
    assert got[0] is got[1]


@pytest.mark.parametrize("ask", [
    lambda s: s.open("tab"), lambda s: s.find("tab"), lambda s: s.call("me").__enter__(),
    lambda s: s.connect("tab"), lambda s: s.disconnect("tab"), lambda s: s.is_live("tab"),
    lambda s: s.find_by_token("x"), lambda s: s.leave("tab"), len, lambda s: s.forget("tab"),
    lambda s: s.forget_expired(),
])  # fmt: skip
def test_nothing_reads_or_changes_sessions_while_another_does(store, ask):
    store.sessions.open("tab")
    thread = threading.Thread(target=ask, args=[store.sessions])
    with store.sessions._lock:
        thread.start()
        thread.join(SOON_S / 4)
        waits = thread.is_alive()
    thread.join()
    assert waits
