"""Files of tracks that would take much memory or time: each is read or refused within bounds."""

import json
import threading
import time
from pathlib import Path

import pytest

from bench.hostile_tracks import markdown, measure
from macd_studio.core.objects.reading import PUBLIC_SERVER
from macd_studio.core.system import bounded_job
from tests.hostile_track_files import FILES, SAMPLE

PLAIN = "0 .5 .5 .1 .1\n"
MEGABYTES = PUBLIC_SERVER.memory_bytes / 1e6


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """What the process holds for a file of one box."""
    path = tmp_path_factory.mktemp("plain") / "1.txt"
    path.write_text(PLAIN)
    row = measure(path)
    assert row["peak_mb"] > 20
    return row["peak_mb"]


@pytest.mark.parametrize(
    "what", [w if w in SAMPLE else pytest.param(w, marks=pytest.mark.long) for w in FILES]
)
def test_a_hostile_file_takes_no_more_than_its_bounds(what, base, tmp_path):
    name, make = FILES[what]
    path = tmp_path / name
    path.write_bytes(make())
    row = measure(path)
    assert row["peak_mb"] - base < MEGABYTES
    assert row["answer"]
    assert "\n" not in row["answer"]


def test_the_table_is_of_the_committed_run_and_keeps_the_bounds():
    root = Path(__file__).parents[2]
    report = json.loads((root / "bench/results/hostile-tracks.json").read_text())
    assert list(report["files"]) == list(FILES)
    assert len(FILES) >= 40
    assert max(row["above_mb"] for row in report["files"].values()) < MEGABYTES
    assert markdown(report) in (root / "docs" / "security.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_stop_ends_the_reading_of_a_file_at_once(tmp_path, monkeypatch):
    name, make = FILES["100 pictures of 9 million pixels"]
    path = tmp_path / name
    path.write_bytes(make())
    ended, stopped, processes = [], threading.Event(), []
    start = bounded_job.start_process
    monkeypatch.setattr(
        bounded_job, "start_process", lambda m: processes.append(start(m)) or processes[-1]
    )
    thread = threading.Thread(target=lambda: ended.append(measure(path, stopped.is_set)))
    thread.start()
    while not processes:
        time.sleep(0.01)
    stopped.set()
    thread.join()
    assert processes[0].poll() is not None
    assert "stopped" in ended[0]["answer"]
