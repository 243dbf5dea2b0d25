"""A detector of everyday objects that a visitor has downloaded: progress, Stop, failures."""

import threading

import pytest

from macd_studio.core.errors import Cancelled, DetectorError
from macd_studio.macd_ui.handlers import make_handlers
from macd_studio.macd_ui.store import Store
from tests.patience import PATIENCE_S


@pytest.fixture
def handlers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("macd_studio.macd_ui.models._detector", lambda *_: "yolo11n")
    monkeypatch.setattr("macd_studio.macd_ui.fetching.OFTEN_S", 0.01)
    store = Store()
    monkeypatch.setattr("macd_studio.macd_ui.session_view.offered", lambda settings: None)
    yield make_handlers(store, [])
    store.close()


def states_until(updates, share):
    """The states of a download until it tells that much, in per cent."""
    for out in updates:
        yield out["viewer"]["status"]
        if f": {share} %" in out["viewer"]["status"]["message"]:
            return


def test_a_detector_is_fetched_with_progress_and_asked_for_again_after_a_failure(
    handlers, make_video, tmp_path, monkeypatch
):
    told, asked = threading.Event(), []

    def load(name, progress):
        progress.begin("Downloading D, 6 MB")
        progress.fraction = 0.424
        asked.append(name)
        assert told.wait(PATIENCE_S)
        if len(asked) == 1:
            raise DetectorError("the download of 'D' broke off", "Run it again")
        (tmp_path / "yolo11n.pt").touch()

    monkeypatch.setattr(handlers.store.models, "detector", load)
    *_, before = handlers.form.upload(str(make_video()), None, "me")
    assert asked == []  # nothing is downloaded before somebody says so
    assert before["fetch"]["visible"]
    fetching = handlers.fetches.fetch("me")
    first = next(fetching)
    assert first["stop"]["interactive"]
    assert not first["fetch"]["interactive"]
    *_, state = states_until(fetching, 42)
    assert state["message"] == "Downloading D, 6 MB: 42 %"
    assert (state["fraction"], state["running"], state["where"]) == (0.424, True, "form")
    told.set()
    *_, failed = fetching
    state = failed["viewer"]["status"]
    assert (state["running"], state["where"]) == (False, "form")
    assert "broke off" in state["error"]
    assert failed["fetch"]["interactive"]
    form = handlers.store.sessions.open("me").form
    assert form.video  # the clip is still there
    assert form.values["detector"] == before["detector"] == "grid"
    *_, done = handlers.fetches.fetch("me")
    assert asked == ["yolo11n", "yolo11n"]
    assert done["detector"] == form.values["detector"] == "yolo11n"
    assert not done["fetch"]["visible"]
    assert not done["stop"]["interactive"]
    assert not done["viewer"]["status"]["running"]
    assert list(handlers.fetches.fetch("me")) == []  # nothing is missing


@pytest.mark.parametrize("how", ["stop", "leave", "close"])
def test_a_download_is_stopped_by_hand_and_with_its_tab(handlers, make_video, monkeypatch, how):
    ended = threading.Event()

    def load(name, progress):
        progress.begin("Downloading D")
        progress.fraction = 0.1
        while not progress.stopped:
            ended.wait(0.01)
        ended.set()
        raise Cancelled("the download was stopped", "Start it again")

    monkeypatch.setattr(handlers.store.models, "detector", load)
    list(handlers.form.upload(str(make_video()), None, "me"))
    fetching = handlers.fetches.fetch("me")
    list(states_until(fetching, 10))
    if how == "close":
        fetching.close()
    else:
        handlers.form.stop("me") if how == "stop" else handlers.store.sessions.leave("me")
        *_, last = fetching
        state = last["viewer"]["status"]
        assert (state["running"], state["error"]) == (False, "")
        assert state["message"] == "The download was stopped. Fetch it again at any time."
        assert last["fetch"]["visible"]
        assert last["fetch"]["interactive"]
    assert ended.wait(PATIENCE_S)
    assert not handlers.store.sessions.open("me").busy.locked()
