"""The soak run: a visitor by plain HTTP, and what counts as growth."""

import os
import random
import subprocess
import sys
from collections import Counter

import httpx
import pytest

from bench.server import memory_mb
from bench.soak import FIGURES, Material, grown, reading, track_files, visit
from bench.visitor import EventFailed, Outputs, Visitor, read_config, read_messages
from macd_studio.core.errors import MacdError
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.objects.reading import read_tracks
from macd_studio.core.traces.bundle import load
from macd_studio.macd_ui.examples import examples


def test_growth_is_told_by_name():
    first = dict.fromkeys(FIGURES, 100.0)
    assert grown([first, first | {"rss_mb": 300.0}, first | {"rss_mb": 105.0}]) == []
    assert grown([first, first | {"threads": 106.0, "rss_mb": 50.0}]) == ["threads"]
    nothing = dict.fromkeys(FIGURES, 0.0)
    assert grown([nothing, nothing | {"temporary_bytes": 1.0}]) == ["temporary_bytes"]


def test_a_process_and_its_folder_are_read(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"12345")
    before = reading(os.getpid(), tmp_path)
    assert before["temporary_bytes"] == 5
    assert before["rss_mb"] > 10
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with (tmp_path / "open").open("w"):
        after = reading(os.getpid(), tmp_path)
    child.communicate(b"\n")
    assert after["children"] == before["children"] + 1
    assert after["descriptors"] == before["descriptors"] + 2  # the file, and the pipe to the child


def test_the_configuration_is_read_from_the_page():
    assert read_config('<script>window.gradio_config = {"a": "};"};</script>{') == {"a": "};"}
    with pytest.raises(ValueError, match="no configuration"):
        read_config("<html>Forbidden</html>")


def test_changes_are_laid_over_the_first_outputs():
    lines = ['data: {"n": 1}', "", ": a comment", 'data: {"n": 2}']
    assert [m["n"] for m in read_messages(lines)] == [1, 2]
    outputs = Outputs()
    assert outputs.shown() == {}
    whole = [{"interactive": False}, {"status": {"stage": "video"}}]
    outputs.take({"msg": "process_generating", "output": {"data": whole}})
    change = [[], [["replace", ["status", "stage"], "done"]]]
    outputs.take({"msg": "process_generating", "output": {"data": change}})
    assert outputs.shown() == {"status": {"stage": "done"}}
    outputs.take({"msg": "process_completed", "output": {"data": []}})
    assert outputs.shown()["status"]["stage"] == "done"


def test_a_visitor_who_fails_is_counted(tmp_path):
    assert visit("http://127.0.0.1:9", 1, Material((), ())) == Counter(failed=1)


def answering(request):
    """A page that takes an event and then ends its stream with a failure."""
    if request.url.path == "/":
        event = {"api_name": "visit", "id": 0, "inputs": [], "targets": [[0, "load"]]}
        text = f'window.gradio_config = {{"components": [], "dependencies": [{event}]}};'
        return httpx.Response(200, text=text.replace("'", '"'))
    if request.url.path.endswith("/queue/join"):
        return httpx.Response(200, json={"event_id": "e"})
    text = 'data: {"msg": "process_completed", "event_id": "e", "success": false, "output": {}}\n\n'
    return httpx.Response(200, text=text)


def test_the_files_of_tracks_are_taken_or_refused(tmp_path):
    """What the soak run calls refused is, and the others fit the clips of their traces."""
    traces = [one.trace for one in examples() if one.trace is not None][:1]
    made = track_files(traces, tmp_path)
    trace = load(traces[0])
    clip = ClipFacts.of(read_clip(str(traces[0].with_suffix(".mp4")), trace.options.video))
    found = read_tracks(str(made.tracks[0]), clip, trace.options.track)
    assert len(found.tracks) == len(trace.tracks)
    for path in made.refused:
        with pytest.raises(MacdError):
            read_tracks(str(path), clip, trace.options.track)


def test_an_event_that_fails_ends_the_visit(monkeypatch):
    client = httpx.Client
    transport = httpx.MockTransport(answering)
    monkeypatch.setattr(httpx, "Client", lambda **how: client(**how | {"transport": transport}))
    with pytest.raises(EventFailed, match="visit"):
        Visitor("http://page", random.Random(0)).__enter__()


def test_memory_is_that_of_a_process_and_all_below_it():
    code = "import sys; x = bytearray(b'x' * 50_000_000); print(1, flush=True); sys.stdin.read()"
    alone = memory_mb(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        assert memory_mb(child.pid) > 50
        assert memory_mb(os.getpid()) > alone + 45
        child.stdin.close()
    assert memory_mb(child.pid) == 0
