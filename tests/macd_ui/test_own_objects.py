"""Files of objects on the page: what is asked, what is refused, and what they hold up meanwhile."""

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace

from macd_studio.core.objects.reading import PUBLIC_SERVER
from tests.fuzz.drawn_tracks import cocovid, draw
from tests.macd_ui.test_form import FORM, handlers, store
from tests.patience import PATIENCE_S

__all__ = ["handlers", "store"]


def boxes_file(folder, numbers=(3, 9, 15, 21)):
    """COCO's boxes of a cup, on frames of a clip of 64×48."""
    images = [{"id": n, "width": 64, "height": 48, "file_name": f"{n}.png"} for n in numbers]
    box = {"category_id": 1, "bbox": [8, 8, 16, 16], "track_id": 1}
    notes = [{"id": n, "image_id": n, **box} for n in numbers]
    path = folder / "cups.json"
    kinds = [{"id": 1, "name": "cup"}]
    path.write_text(json.dumps({"images": images, "annotations": notes, "categories": kinds}))
    return str(path)


def test_objects_of_a_file_take_the_detectors_place(handlers, store, make_video, tmp_path):
    store.models.detector = None  # nobody asks for one
    asked = FORM | {"video": str(make_video()), "frames": 4, "tracks": boxes_file(tmp_path)}
    list(handlers.runs.run(asked, "me"))
    session = store.sessions.open("me")
    assert [t.label for t in session.trace.tracks] == ["cup"]
    assert session.trace.detector.name == "cups.json"
    assert handlers.form.edit_form(asked, "me")["note"]["text"] == ""
    other = handlers.form.edit_form(asked | {"tracks": None}, "me")["note"]["text"]
    assert "yolo11n instead of cups.json" in other
    late = handlers.form.edit_form(asked | {"tracks_start": 0.5}, "me")["note"]["text"]
    assert "time of its frame 0 0.5 instead of 0" in late


def test_a_file_of_objects_that_does_not_fit_is_told_before_a_model_is_asked(
    handlers, store, make_video, tmp_path, monkeypatch
):
    store.models.backbone = None
    asked = FORM | {"video": str(make_video()), "frames": 4}
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    for file, says in (
        (str(bad), "is not whole JSON"),
        (boxes_file(tmp_path, (900,)), "describes frame 900, and the clip has frames 0 to"),
        (str(tmp_path / "gone.json"), "no longer has the file"),
    ):
        *_, last = handlers.runs.run(asked | {"tracks": file}, "me")
        assert says in last["viewer"]["status"]["error"]
        assert last["viewer"]["status"]["where"] == "form"
    small = replace(PUBLIC_SERVER, file_bytes=10)
    monkeypatch.setattr("macd_studio.macd_ui.runs.PUBLIC_SERVER", small)
    store.settings = replace(store.settings, public=True)
    *_, last = handlers.runs.run(asked | {"tracks": boxes_file(tmp_path)}, "me")
    assert "more than 0" in last["viewer"]["status"]["error"]


def two_videos(folder):
    """CocoVID's file of two videos, as MMTracking writes it."""
    path = folder / "project.json"
    truths = {"kitchen": draw(1, 20, (64, 48)), "street": draw(2, 20, (64, 48))}
    path.write_text(json.dumps(cocovid(truths)))
    return str(path)


def test_a_file_of_several_videos_asks_which_is_the_clips(handlers, store, make_video, tmp_path):
    asked = FORM | {"video": str(make_video()), "frames": 4, "tracks": two_videos(tmp_path)}
    updates = list(handlers.runs.run(asked, "me"))
    assert "kitchen, street" in updates[-1]["viewer"]["status"]["error"]
    (offered,) = [u["tracks_source"] for u in updates if "tracks_source" in u]
    assert offered["choices"] == ["kitchen", "street"]
    assert offered["value"] is None
    list(handlers.runs.run(asked | {"tracks_source": "street"}, "me"))
    session = store.sessions.open("me")
    assert session.trace.options.track.file_source == "street"
    assert session.trace.tracks


def until(true):
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_stop_ends_the_reading_of_objects_which_holds_no_place_meanwhile(
    handlers, store, make_video, tmp_path, monkeypatch
):
    """A process that never answers stands for a file that takes all its time."""
    slow = tmp_path / "never.py"
    slow.write_text("import time\nprint('ready', flush=True)\ntime.sleep(3600)\n")
    begun = []

    def start(module):
        pipe = subprocess.PIPE
        begun.append(subprocess.Popen([sys.executable, slow], stdin=pipe, stdout=pipe))
        return begun[-1]

    monkeypatch.setattr("macd_studio.core.system.bounded_job.start_process", start)
    video = str(make_video())
    asked = FORM | {"video": video, "frames": 4, "tracks": boxes_file(tmp_path)}
    ended = []
    run = threading.Thread(target=lambda: ended.extend(handlers.runs.run(asked, "me")))
    run.start()
    until(lambda: begun)
    assert len(store.admission_queue) == len(store.device_queue) == 0
    list(handlers.runs.run(FORM | {"video": video, "frames": 4}, "another"))
    assert store.sessions.open("another").trace.status == "complete"
    store.stop(store.sessions.open("me"))
    run.join(PATIENCE_S)
    assert not run.is_alive()
    assert begun[0].poll() is not None
    assert not ended[-1]["viewer"]["status"]["error"]
    assert not store.readers._busy
