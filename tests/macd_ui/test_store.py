"""What all visitors share: models and files that stay, sessions that many threads ask for."""

import threading

import pytest

from macd_studio.core.system.recent import Recent
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


def test_a_model_that_two_runs_wait_for_is_loaded_once(store):
    started, free, loads = threading.Event(), threading.Event(), []

    def slow():
        loads.append(1)
        started.set()
        free.wait()
        return "a"

    runs = [
        threading.Thread(target=lambda: store.models.get(("backbone", "a"), slow)) for _ in range(2)
    ]
    for run in runs:
        run.start()
    started.wait()
    runs[1].join(SOON_S)
    free.set()
    for run in runs:
        run.join()
    assert loads == [1]


def test_the_values_used_last_stay():
    recent = Recent(2)
    recent.put("a", 1)
    recent.put("b", 2)
    assert recent.get("a") == 1  # so that "b" is the one that was not used for longest
    recent.put("c", 3)
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (1, None, 3)
    recent.put("a", 4)  # once more, in its own place
    recent.put("d", 5)
    assert (recent.get("a"), recent.get("c"), recent.get("d")) == (4, None, 5)


def test_many_threads_share_recent_values():
    recent, faults = Recent(1), []

    def use(name):
        try:
            for i in range(2000):
                recent.put((name, i), i)
                assert recent.get((name, i)) in (None, i)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=use, args=[name]) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (faults, len(recent._values)) == ([], 1)


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
