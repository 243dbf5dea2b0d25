"""Reading clips beside the thread that waits for them, and telling files apart by content."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path

from macd_studio.core.errors import Cancelled
from macd_studio.core.media.video import OWN_MACHINE, ReadLimits, read_clip
from macd_studio.core.options import VideoOptions
from macd_studio.core.types import Clip
from macd_studio.macd_ui.quota import Quota, QuotaError

ASK_S = 0.1
"""How often it is checked whether a reader's result is still needed, seconds."""
READERS = 2
"""Videos decoded at once; each decoder may use the memory of core.media.video.ReadLimits."""
MOST_WAITING = 50
"""Videos of one visitor that may wait to be read."""


class Readers:
    """Lets READERS videos be read at once, in turn of their visitors.

    Whoever has fewer videos under way comes first. quota: counts the time of each visitor; where it
    has limits, nobody has all readers.
    """

    def __init__(self, quota: Quota, count: int = READERS) -> None:
        self.quota, self.count = quota, count
        self._own = count if quota.limits is None else max(1, count - 1)
        self._busy: Counter[str] = Counter()
        self._waiting: list[tuple[str, object]] = []
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, visitor: str, stopped: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Waits for a reader. Raises QuotaError, and Cancelled once `stopped`."""
        self.quota.check_reading(visitor)
        mine = (visitor, object())
        with self._changed:
            if sum(who == visitor for who, _ in self._waiting) >= MOST_WAITING:
                raise QuotaError("other videos of yours wait to be read", "Wait until they are")
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
        if self._busy.total() >= self.count:
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

    readers: a turn to read, see `Readers.turn`. limits: memory and time for each, such as
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
