"""One file downloaded: whole, or nothing of it stays."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from macd_studio.core.errors import Cancelled, DetectorError
from macd_studio.core.objects import detect
from macd_studio.core.system import fetching
from macd_studio.core.types import Progress

BODY = bytes(range(256)) * 4096


@contextmanager
def serving(body=BODY, breaks=0, silent=False, code=200, ranges=True):
    """Address of a file, and the first bytes that were asked for.

    breaks: so many connections end after a third of what is left; silent: they go on no more.
    """
    asked, over = [], threading.Event()

    class Answers(BaseHTTPRequestHandler):
        def log_message(self, *_):
            return None

        def do_GET(self):
            first = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if ranges else 0
            asked.append(first)
            if code != 200:
                self.send_error(code)
                return
            rest = body[first:]
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            whole = len(asked) > breaks and not silent
            if silent and len(asked) > 1:
                rest = b""
            self.wfile.write(rest if whole else rest[: len(rest) // 3])
            if silent:
                over.wait()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/x.pt", asked
    finally:
        over.set()
        server.shutdown()
        server.server_close()


class Told(Progress):
    """Notes every fraction; stopped: at which one."""

    def __init__(self, stop_at=2.0):
        super().__init__()
        self.told, self.stop_at = [], stop_at

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "fraction" and hasattr(self, "stop_at"):
            self.told.append(value)
            self.stopped = value >= self.stop_at


def get(url, path, progress=None):
    fetching.fetch_file(url, path, progress or Told(), "X", DetectorError)


def test_a_file_comes_whole_and_tells_how_far_it_is(tmp_path):
    progress = Told()
    with serving() as (url, asked):
        get(url, tmp_path / "x.pt", progress)
    assert (tmp_path / "x.pt").read_bytes() == BODY
    assert [f.name for f in tmp_path.iterdir()] == ["x.pt"]
    assert progress.told == sorted(progress.told)
    assert progress.told[-1] == 1
    assert progress.message == "Downloading X, 1.0 MB"
    assert asked == [0]


@pytest.mark.parametrize(("ranges", "breaks"), [(True, fetching.SILENCES + 2), (False, 2)])
def test_what_broke_off_goes_on(tmp_path, ranges, breaks):
    """As often as it must: only connections that bring nothing are counted."""
    with serving(breaks=breaks, ranges=ranges) as (url, asked):
        get(url, tmp_path / "x.pt")
    assert (tmp_path / "x.pt").read_bytes() == BODY
    assert (asked[0], len(asked)) == (0, breaks + 1)
    assert (0 < asked[1] < asked[2]) == ranges


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"code": 404}, r"X could not be downloaded from 127\.0\.0\.1 \(answer 404\)"),
        ({"breaks": 99, "ranges": False}, r"\(RemoteProtocolError\)"),
        ({"silent": True}, r"\(ReadTimeout\)\. Check the network"),
    ],
)
def test_nothing_stays_of_what_cannot_be_had(tmp_path, monkeypatch, how, message):
    monkeypatch.setattr(fetching, "SILENT_S", 0.3)
    with serving(**how) as (url, _), pytest.raises(DetectorError, match=message):
        get(url, tmp_path / "x.pt")
    assert not list(tmp_path.iterdir())


def test_nothing_stays_of_what_was_stopped(tmp_path):
    progress = Told(0.1)
    with serving() as (url, _), pytest.raises(Cancelled):
        get(url, tmp_path / "x.pt", progress=progress)
    assert progress.told[-1] < 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    with serving() as (url, _), pytest.raises(DetectorError, match=r"x\.pt cannot be written here"):
        get(url, tmp_path / "none" / "x.pt")


def test_yolo_by_name_is_downloaded_and_refused_where_it_is_no_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("macd_studio.core.system.hub._closed", threading.Event())
    with serving() as (url, _):
        monkeypatch.setattr(detect, "YOLO_RELEASE", url.rpartition("/")[0])
        with pytest.raises(DetectorError, match=r"yolo11s\.pt cannot be loaded as YOLO weights"):
            detect.load_detector("yolo11s")


def test_yolo11n_needs_no_download(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yolo11n.pt").write_bytes(b"another file of that name, which is not looked at")
    monkeypatch.setattr(detect, "_download", None)
    assert detect.load_detector("yolo11n").labels[:2] == ("person", "bicycle")
    assert detect.is_on_disk("yolo11n")
    assert not detect.is_on_disk("yolo11s")
