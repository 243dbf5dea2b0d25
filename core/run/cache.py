"""What one run keeps for the next: results of its slow stages, the last prefill, tracks by file."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from macd_studio.core.system.recent import Recent
from macd_studio.core.types import Clip

if TYPE_CHECKING:
    from macd_studio.core.backbones.base import Encoded, Handle, Reader

Made = TypeVar("Made")


class StageCache:
    """Remembers the results of the slow, question-free stages for the last few clips.

    keep_prefill: whether that of the last clip stays too, for another question about it.
    Its features and keys take memory of the device, so it is off unless several are asked.
    """

    def __init__(self, size: int = 4, keep_prefill: bool = False) -> None:
        self.keep_prefill = keep_prefill
        self._kept: Recent[Hashable, Any] = Recent(size)
        self._prefill: tuple[Reader, Encoded, Handle] | None = None

    def prefill_for(self, lm: Reader, encoded: Encoded) -> Handle | None:
        """The last read, where another question was asked of the same frames by the same model.

        Prompts and positions must be equal up to the question: the same frames of a clip of another
        speed have other times.
        """
        if self._prefill is None or self._prefill[0] is not lm:
            return None
        _, kept, state = self._prefill
        before = int(encoded.query[0])
        if not np.array_equal(kept.frames.pixels, encoded.frames.pixels):
            return None
        ours, theirs = (z.input_ids[0, :before] for z in (encoded, kept))
        if not ours.equal(theirs):
            return None
        at, was = (z.inputs.get("position_ids") for z in (encoded, kept))
        if at is not None and was is not None:
            return state if at[..., :before].equal(was[..., :before]) else None
        return state if at is was else None

    def put_prefill(self, lm: Reader, encoded: Encoded, state: Handle) -> None:
        """Keeps a read in place of the one before."""
        self._prefill = lm, encoded, state

    def forget_prefill(self) -> None:
        """Gives the memory of the last read back, and keeps none from now on."""
        self.keep_prefill, self._prefill = False, None

    def frames(self) -> list[Any]:
        """What is kept that holds frames: decoded clips, and the last read."""
        clips = [kept for kept in self._kept.values() if isinstance(kept, Clip)]
        return [*clips, *(self._prefill or ())[1:]]

    def forget_frames(self, but: Clip | None = None) -> None:
        """Forgets decoded clips, but this one, and the last read; objects that were found stay."""
        self._kept.forget(lambda kept: isinstance(kept, Clip) and kept is not but)
        self._prefill = None

    def get(self, key: Hashable) -> Any:
        """The result kept under a key, or None."""
        return self._kept.get(key)

    def put(self, key: Hashable, value: Any) -> None:
        """Keeps a result and forgets the one not used for longest."""
        self._kept.put(key, value)


MOST, MAX_CLIPS = 8, 32
"""Pairs of a detector and a clip object, or of a detector and all files, that are remembered; and
files a detector."""

_KEPT: Recent[Hashable, StageCache] = Recent(MOST)


def tracks_cache(video: str | Path | Clip, detector: Any, device: str) -> StageCache:
    """Where the tracks of a clip are kept between calls of `macd.trace`.

    Files are told apart by their content, inside the cache. A Clip and a loaded detector are
    known by identity only: what they hold is the caller's own and is not read to compare it.
    """
    clip = weakref.ref(video) if isinstance(video, Clip) else None
    try:
        key = (_detector_key(detector), device, clip)
        return _KEPT.get_or_make(key, lambda: StageCache(MAX_CLIPS))
    except TypeError:  # a detector that has no weak references or no hash: nothing is shared
        return StageCache()


def _detector_key(detector: Any) -> Hashable:
    """By name with the state of the files behind it, or the very object."""
    if not isinstance(detector, str | Path):
        return weakref.ref(detector)
    path = Path(detector)
    files = sorted(path.rglob("*")) if path.is_dir() else [path, Path(f"{detector}.pt")]
    stats = [(str(f.resolve()), f.stat()) for f in files if f.is_file()]
    return str(detector), tuple((name, s.st_mtime_ns, s.st_size) for name, s in stats)


def run_in_thread(call: Callable[[], Made]) -> Future[Made]:
    """The call's result, from a thread that does not hold up the end of the process."""
    future: Future[Made] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="load", daemon=True).start()
    return future
