"""Reading clips beside the thread that waits for them, and telling files apart by content."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import lru_cache
from pathlib import Path

from core.errors import Cancelled
from core.media.video import OWN_MACHINE, ReadLimits, read_clip
from core.options import VideoOptions
from core.types import Clip

ASK_S = 0.1
"""How often it is checked whether a reader's result is still needed, seconds."""


def read_beside(
    video: str,
    options: VideoOptions,
    stopped: Callable[[], bool],
    readers: threading.BoundedSemaphore,
    limits: ReadLimits = OWN_MACHINE,
) -> Clip:
    """The clip; raises Cancelled as soon as `stopped`, and the VideoErrors of `read_clip`.

    readers: bounds how many videos are decoded at once. limits: memory and time for each, such as
    `core.media.video.PUBLIC_SERVER` where files come from strangers.
    """
    future: Future[Clip] = Future()

    def read() -> None:
        try:
            with readers:
                if stopped():
                    raise Cancelled("stopped", "Nothing was computed")
                future.set_result(read_clip(video, options, stopped, limits))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=read, name="read", daemon=True).start()
    while not wait([future], ASK_S).done:
        if stopped():
            raise Cancelled("stopped while the video was read", "Nothing was computed")
    return future.result()


def stamp(path: str) -> tuple[int, int] | None:
    """Time and size of a file, which change when it does; None if there is none."""
    try:
        stats = Path(path).stat()
    except OSError:
        return None
    return stats.st_mtime_ns, stats.st_size


def digest(path: str) -> str:
    """SHA-256 of a file as in a trace, remembered as long as the file is the same."""
    return _digest(path, stamp(path))


@lru_cache(maxsize=256)
def _digest(path: str, known_by: tuple[int, int] | None) -> str:
    try:
        with open(path, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""
