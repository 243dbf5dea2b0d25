"""Reading clips beside the thread that waits for them; the filmstrip of an uploaded clip.

All clips are read by the same bounded process, with the same limits. Files are known by content.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.core.errors import Cancelled
from macd_studio.core.media.video import OWN_MACHINE, ReadLimits, read_clip
from macd_studio.core.media.webp import picture_uri
from macd_studio.core.options import VideoOptions
from macd_studio.core.types import Clip, Pixels
from macd_studio.macd_ui.forms import video_options
from macd_studio.macd_ui.quota import Quota, QuotaError

ASK_S = 0.1
"""How often it is checked whether a reader's result is still needed, seconds."""
READERS = 2
"""Videos decoded at once; each decoder may use the memory of core.media.video.ReadLimits."""
MAX_WAITING = 50
"""Videos of one person that may wait to be read."""


class ReaderPool:
    """Lets READERS videos be read at once, in turn of their visitors.

    Whoever has fewer videos under way comes first. quota: counts the time of each visitor; where it
    has limits, nobody has all readers. people: how many a visitor stands for; a group has them all.
    """

    def __init__(self, quota: Quota, people: int = 1) -> None:
        self.quota, self._most = quota, people * MAX_WAITING
        alone = quota.limits is None or people > 1
        self._own = READERS if alone else max(1, READERS - 1)
        self._busy: Counter[str] = Counter()
        self._waiting: list[tuple[str, object]] = []
        self._changed = threading.Condition()

    @contextmanager
    def slot(self, visitor: str, stopped: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Waits for a reader. Raises QuotaError, and Cancelled once `stopped`."""
        self.quota.check_reading(visitor)
        mine = (visitor, object())
        with self._changed:
            if sum(who == visitor for who, _ in self._waiting) >= self._most:
                whose = self.quota.whose
                raise QuotaError(
                    f"{self._most} videos {whose.words} wait to be read already",
                    whose.remedy("Wait until they are"),
                )
            self._waiting.append(mine)
            try:
                while self._next() is not mine:
                    if stopped():
                        raise Cancelled("stopped", "Nothing was computed")
                    self._changed.wait(ASK_S)
                self._busy[visitor] += 1
            finally:
                self._waiting.remove(mine)
                self._changed.notify_all()
        began = time.monotonic()
        try:
            yield
        finally:
            self.quota.add_read_s(visitor, time.monotonic() - began)
            with self._changed:
                self._busy[visitor] -= 1
                self._busy += Counter()  # without those that are 0
                self._changed.notify_all()

    def _next(self) -> tuple[str, object] | None:
        """Who may read now; None: nobody."""
        if self._busy.total() >= READERS:
            return None
        able = [one for one in self._waiting if self._busy[one[0]] < self._own]
        return min(able, key=lambda one: self._busy[one[0]], default=None)


def read_beside(
    video: str,
    options: VideoOptions,
    stopped: Callable[[], bool],
    readers: AbstractContextManager[None],
    limits: ReadLimits = OWN_MACHINE,
) -> Clip:
    """The clip; raises Cancelled as soon as `stopped`, and the VideoErrors of `read_clip`.

    readers: a turn to read, see `ReaderPool.slot`. limits: memory and time for each, such as
    `core.media.video.PUBLIC_SERVER` where files are untrusted.
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


def file_stamp(path: str) -> tuple[int, int] | None:
    """Time and size of a file, which change when it does; None if there is none."""
    try:
        stats = Path(path).stat()
    except OSError:
        return None
    return stats.st_mtime_ns, stats.st_size


def digest(path: str) -> str:
    """SHA-256 of a file as in a trace, remembered as long as the file is the same."""
    return _digest(path, file_stamp(path))


@lru_cache(maxsize=256)
def _digest(path: str, known_by: tuple[int, int] | None) -> str:
    try:
        with open(path, "rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""


PICTURES, SIDE = 24, 240
"""How many pictures a strip shows, and their long side at most, in pixels."""
FILMSTRIP = VideoOptions(frames=PICTURES, dense_fps=0, max_seconds=36_000)
"""A clip that is too long for a run still shows its strip, on which a range is chosen."""
HURRY_S = 3.0
"""A strip whose exact pictures would take longer shows key frames, with their own times."""


def read_filmstrip(
    video: str,
    chosen: Mapping[str, Any],
    stopped: Callable[[], bool],
    readers: AbstractContextManager[None],
    limits: ReadLimits = OWN_MACHINE,
    frame_rate: float = FILMSTRIP.frame_rate,
) -> Clip:
    """PICTURES frames of the range `start` to `end` in `chosen`, of the whole clip without it.

    readers: a turn to read. frame_rate: see `VideoOptions`. Raises Cancelled as soon as `stopped`,
    OptionError, and the VideoErrors of `read_clip`.
    """
    bounds = {name: chosen[name] for name in ("start", "end") if chosen.get(name) is not None}
    options = replace(video_options(FILMSTRIP, bounds), frame_rate=frame_rate)
    soon = replace(limits, hurry_seconds=HURRY_S)
    return read_beside(video, options, stopped, readers, soon)


def filmstrip_value(clip: Clip, longest_s: float) -> dict[str, Any]:
    """What the page draws a strip from, as plain values; times in seconds.

    longest_s: the longest range that a run reads, seconds.
    """
    return {
        "name": clip.name,
        "duration": round(clip.duration, 3),
        "longest": longest_s,
        "count": clip.count,
        "times": [round(float(t), 3) for t in clip.times],
        "pictures": [picture_uri(smaller(frame, SIDE)) for frame in clip.frames],
        "size": [clip.size[0], clip.size[1]],
    }


def smaller(frame: Pixels, side: int) -> Pixels:
    """A frame (H, W, 3) with a long side of at most `side` pixels, by means over whole blocks."""
    height, width = frame.shape[:2]
    by = math.ceil(max(height, width) / side)
    if by == 1:
        return frame
    h, w = max(1, height // by), max(1, width // by)
    tall, wide = min(by, height), min(by, width)
    blocks = frame[: h * tall, : w * wide].reshape(h, tall, w, wide, 3)
    small: Pixels = blocks.mean((1, 3), dtype=np.float32).round().astype(np.uint8)
    return small
