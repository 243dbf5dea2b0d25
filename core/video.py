"""file → Clip. Checks the file, has it decoded in a bounded process, and reads the result.

Knows nothing of detectors or models. Decoding itself is `core.video_worker`.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from core import errors
from core.options import VideoOptions
from core.rules import shown
from core.types import Clip, Pixels
from core.words import writable

MEMORY_BYTES = 3 * 2**30
SECONDS = 120
ASK_S = 0.1
"""How often a reader looks whether it has to end."""

_ADDRESS = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]+:")
_NOT_VIDEO = {
    b"#extm3u": "a playlist",
    b"ffconcat": "a playlist",
    b"<!doctype": "a web page",
    b"<html": "a web page",
    b"<svg": "a drawing",
    b"<?xml": "an XML document",
    b"\x89png": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"pk\x03\x04": "a zip archive",
}


def read_clip(
    path: str | Path,
    options: VideoOptions | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    opened: Callable[[], None] = lambda: None,
) -> Clip:
    """Samples `options.frames` frames uniformly by timestamp, and denser small ones to track on.

    Memory is bounded by the options, not by the clip's length: at most `frames` pictures of 1280 px
    and `dense_limit + frames` of 640 px are kept. cancelled: asked several times a second; once it
    is true, decoding ends and Cancelled is raised. opened: called once a first picture is decoded:
    the file is a video then, whatever else is found in it. Raises a VideoError for everything that
    is no usable video; what was repaired or converted on the way is told in `Clip.notes`.
    """
    options = options or VideoOptions()
    file = _check(path, options)
    job = {
        "path": str(file),
        "frames": options.frames,
        "start": options.start,
        "end": options.end,
        "dense_fps": options.dense_fps,
        "dense_limit": options.dense_limit,
        "max_seconds": options.max_seconds,
        "memory_bytes": MEMORY_BYTES,
        "seconds": SECONDS,
    }
    worker = _take_worker()
    watch = _Watch(worker, cancelled)
    try:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.close()
        with file.open("rb") as content:
            sha256 = hashlib.file_digest(content, "sha256").hexdigest()
        header, arrays = _receive(worker.stdout, opened)
    finally:
        watch.stop()
        _end(worker)
    if watch.cancelled:
        raise errors.Cancelled("stopped while the video was read", "Nothing was computed")
    if watch.timed_out or header is None:
        raise _died(watch.timed_out)
    if "error" in header:
        raise getattr(errors, header["error"])(header["cause"], header["remedy"])
    return Clip(
        frames=arrays[0],
        times=np.array(header["times"], np.float64),
        dense_frames=arrays[1],
        dense_times=np.array(header["dense_times"], np.float64),
        name=writable(file.name),
        sha256=sha256,
        duration=float(header["duration"]),
        size=(int(header["size"][0]), int(header["size"][1])),
        title=str(header["title"]),
        notes=tuple(header["notes"]),
    )


class _Watch:
    """Ends a worker that takes too long or that nobody waits for any more."""

    def __init__(self, worker: subprocess.Popen[bytes], cancelled: Callable[[], bool]) -> None:
        self.timed_out = self.cancelled = False
        self._worker, self._asked, self._done = worker, cancelled, threading.Event()
        threading.Thread(target=self._watch, name="watch reader", daemon=True).start()

    def stop(self) -> None:
        """The worker's result is there, or its end."""
        self._done.set()

    def _watch(self) -> None:
        end = time.monotonic() + SECONDS
        while not self._done.wait(ASK_S):
            self.timed_out = time.monotonic() > end
            self.cancelled = not self.timed_out and self._asked()
            if self.timed_out or self.cancelled:
                self._worker.kill()
                return


def keep_worker_ready() -> None:
    """From now on a started decoder waits for the next file, which saves its start; for servers."""
    global _ready
    _ready = _Ready()


class _Ready:
    """One decoder process that has no job yet; it ends with this process, at the latest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = _start_worker()
        atexit.register(self.close)

    def take(self) -> subprocess.Popen[bytes]:
        """The waiting decoder; another one starts in its place."""
        with self._lock:
            taken, self._waiting = self._waiting, _start_worker()
        if taken.poll() is None:
            return taken
        _end(taken)
        return _start_worker()

    def close(self) -> None:
        """Ends the waiting decoder."""
        with self._lock:
            _end(self._waiting)


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait()
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            pipe.close()


_ready: _Ready | None = None


def _take_worker() -> subprocess.Popen[bytes]:
    return _start_worker() if _ready is None else _ready.take()


def _start_worker() -> subprocess.Popen[bytes]:
    """A decoder that waits for its one job on stdin, and ends when stdin closes without one."""
    return subprocess.Popen(
        [sys.executable, "-m", "core.video_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[1],
    )


def _check(path: str | Path, options: VideoOptions) -> Path:
    text = str(path)
    if not text or "\0" in text:
        raise errors.VideoNotFound("no video was given", "Choose a video file")
    if _ADDRESS.match(text) and not os.path.exists(text):
        raise errors.VideoNotFound(
            f"{shown(text, 80)} is an address, not a file",
            "Download the video and give its file name",
        )
    file = Path(text).absolute()
    try:
        if file.is_dir():
            raise errors.VideoNotFound(
                f"{shown(file.name, 100)} is a folder", "Choose a video in it"
            )
        if not file.is_file():
            raise errors.VideoNotFound(
                f"there is no file {shown(text, 200)}", "Check the file name"
            )
        size = file.stat().st_size
        with file.open("rb") as content:
            start = content.read(256).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    except OSError as error:
        raise errors.VideoNotFound(
            f"{shown(text, 200)} cannot be read ({error.strerror})", "Check the file and its rights"
        ) from None
    if size == 0:
        raise errors.NotAVideo(f"{file.name!r} is empty", "Record or download it again")
    if size > options.max_megabytes * 1e6:
        raise errors.VideoTooLarge(
            f"{file.name!r} has {size / 1e6:.0f} MB, more than {options.max_megabytes:g} MB",
            "Cut or re-encode it",
        )
    for magic, kind in _NOT_VIDEO.items():
        if start.startswith(magic):
            raise errors.NotAVideo(f"{file.name!r} is {kind}, not a video", "Choose a video file")
    return file


def _receive(
    stream: IO[bytes], opened: Callable[[], None]
) -> tuple[dict[str, Any] | None, list[Pixels]]:
    header: dict[str, Any] = {"opened": True}
    while "opened" in header:
        line = stream.readline()
        if not line.endswith(b"\n"):
            return None, []
        header = json.loads(line)
        if "opened" in header:
            opened()
    arrays = []
    for shape in header.get("shapes", []):
        array = np.empty(shape, np.uint8)
        view = memoryview(array.reshape(-1))  # type: ignore[arg-type]
        got = 0
        while got < len(view):
            n = stream.readinto(view[got:])  # type: ignore[attr-defined]
            if not n:
                return None, []
            got += n
        array.flags.writeable = False
        arrays.append(array)
    return header, arrays


def _died(timed_out: bool) -> errors.VideoError:
    if timed_out:
        return errors.DecodeLimit(
            f"decoding took longer than {SECONDS} s", "Choose a shorter range or a smaller video"
        )
    return errors.CorruptVideo(
        "the decoder gave up on this file: damaged, or beyond its memory limit",
        "Re-encode it, at most 1280 pixels on the long side",
    )
