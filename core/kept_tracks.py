"""Which tracks may be taken over from an earlier call in the same process, and which may not."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macd_studio.core.types import Clip

if TYPE_CHECKING:
    from macd_studio.core.pipeline import StageCache

MOST, MOST_CLIPS = 8, 32
"""Pairs of a detector and a clip object, or of a detector and all files, that are remembered; and
files a detector."""

_KEPT: OrderedDict[Hashable, StageCache] = OrderedDict()
_LOCK = threading.Lock()


def kept_tracks(video: str | Path | Clip, detector: Any, device: str) -> StageCache:
    """Where the tracks of a clip are kept between calls of `macd.trace`.

    Files are told apart by their content, inside the cache. A Clip and a loaded detector are
    known by identity only: what they hold is the caller's own and is not read to compare it.
    """
    from macd_studio.core.pipeline import StageCache

    clip = weakref.ref(video) if isinstance(video, Clip) else None
    try:
        key = (_detector_key(detector), device, clip)
        with _LOCK:
            cache = _KEPT.pop(key, None) or StageCache(MOST_CLIPS)
            _KEPT[key] = cache
            while len(_KEPT) > MOST:
                _KEPT.popitem(last=False)
    except TypeError:  # a detector that has no weak references or no hash: nothing is shared
        return StageCache()
    return cache


def _detector_key(detector: Any) -> Hashable:
    """By name with the state of the files behind it, or the very object."""
    if not isinstance(detector, str | Path):
        return weakref.ref(detector)
    path = Path(detector)
    files = sorted(path.rglob("*")) if path.is_dir() else [path, Path(f"{detector}.pt")]
    stats = [(str(f.resolve()), f.stat()) for f in files if f.is_file()]
    return str(detector), tuple((name, s.st_mtime_ns, s.st_size) for name, s in stats)
