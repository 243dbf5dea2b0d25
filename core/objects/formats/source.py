"""One video of a file of tracks, the choice among several, and what is known of the clip."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import SeveralVideos, TracksError
from macd_studio.core.objects.annotations import TrackFile, clean_label
from macd_studio.core.options import TrackOptions
from macd_studio.core.types import Clip
from macd_studio.core.validation import shown

FRAME_COLUMNS = ("frame", "frame_number", "frame_id", "frame_index", "frameid", "framenumber")
"""What tables and rows of other programs call the number of a frame."""
MAX_LISTED = 40
"""Videos that a message names; others are counted."""


@dataclass(frozen=True, eq=False)
class ClipFacts:
    """What a file of tracks is held against: a clip without its pixels."""

    name: str
    """Name of its file."""
    times: NDArray[np.float64]
    numbers: NDArray[np.int64] | None
    """`times` and `numbers`: (T,) of the sampled frames, seconds and places in the file, from 0."""
    size: tuple[int, int]
    """(w, h) of the frames that are analysed."""
    full_size: tuple[int, int]
    """(w, h) of the file's frames, upright."""
    count: int | None
    """How many pictures the file holds; None where they were not all listed."""
    fps: float | None
    """Frames per second of the file."""
    is_picture: bool = False
    stored_size: tuple[int, int] | None = None
    """(w, h) of the file's frames as they are stored, where their pixels are not square."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, of which `from_dict` makes it again."""
        numbers = None if self.numbers is None else self.numbers.tolist()
        return {**vars(self), "times": self.times.tolist(), "numbers": numbers}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> ClipFacts:
        """What `as_dict` wrote."""
        numbers = plain["numbers"]
        return cls(**{
            **plain,
            "times": np.array(plain["times"], np.float64),
            "numbers": None if numbers is None else np.array(numbers, np.int64),
            "size": tuple(plain["size"]),
            "full_size": tuple(plain["full_size"]),
            "stored_size": plain["stored_size"] and tuple(plain["stored_size"]),
        })  # fmt: skip

    @classmethod
    def of(cls, clip: Clip) -> ClipFacts:
        """Those of a clip."""
        return cls(
            clip.name, clip.times, clip.numbers, clip.size, clip.full_size or clip.size, clip.count,
            clip.fps, clip.is_picture, clip.stored_size,
        )  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What a reader may go by. clip: None where a file is read without one.

    options: how its frames and columns are counted, and which of its videos is meant.
    """

    clip: ClipFacts | None = None
    options: TrackOptions = field(default_factory=TrackOptions)


@dataclass(frozen=True, eq=False)
class Source:
    """One video of a file, or one of several descriptions of it.

    name: by which it is chosen. read: its objects. video: the name of the video itself, where
    `name` says more. frames: how many it has; size: (w, h) of them; where they are stated.
    """

    name: str
    read: Callable[[], TrackFile]
    video: str = ""
    frames: int | None = None
    size: tuple[int, int] | None = None

    @property
    def stem(self) -> str:
        """The video's name without folder, ending, and what a tool puts before it."""
        return _stem(self.video or self.name)


def clip_size(name: str, asked: Asked, remedy: str) -> tuple[int, int]:
    """(w, h) of the clip's pictures, in which a file's boxes are that states no size.

    Raises TracksError without a clip, and for one of pixels that are not square: the boxes may be
    in pixels as they are stored or as they are shown.
    """
    if asked.clip is None:
        raise TracksError(f"{name} does not state the size of its frames", remedy)
    if (stored := asked.clip.stored_size) is not None:
        shape = asked.clip.full_size
        raise TracksError(
            f"{name} does not say whether its boxes are in pixels as the clip stores them,"
            f" {stored[0]}×{stored[1]}, or as they are shown, {shape[0]}×{shape[1]}",
            f"{remedy}: a size that is stated decides",
        )
    return asked.clip.full_size


def choose(file: str, sources: Sequence[Source], asked: Asked) -> tuple[Source, str]:
    """The video that is meant, and how it was chosen, "" where there is but one.

    It is the one that was asked for by name; else the only one whose name, number of frames or size
    is the clip's, in this order. Raises SeveralVideos where none is, with the names of all.
    """
    wanted = asked.options.file_source.strip()
    if wanted:
        same = [s for s in sources if wanted.casefold() == s.name.casefold()]
        same = same or [s for s in sources if _stem(wanted) == s.stem]
        if len(same) == 1:
            return same[0], f"of its videos, {same[0].name} was chosen"
        raise SeveralVideos(
            f"{file} holds no video {shown(wanted, 100)}, but {_listed(sources)}",
            "Choose one of them with --track-source",
            tuple(s.name for s in sources),
        )
    if len(sources) == 1:
        return sources[0], ""
    clip = asked.clip
    if clip is not None:
        stem, left = _stem(clip.name), list(sources)
        told: tuple[tuple[str, Callable[[Source], bool]], ...] = (
            ("its name is the clip's", lambda s: s.stem == stem),
            ("it has as many frames as the clip", lambda s: None is not s.frames == clip.count),
            ("its frames have the clip's size", lambda s: s.size == clip.full_size),
        )
        for what, fits in told:
            same = [s for s in left if fits(s)]
            if len(same) == 1:
                return same[0], f"of its {len(sources)} videos, {same[0].name} was taken: {what}"
            left = same or left
    raise SeveralVideos(
        f"{file} holds {len(sources)} videos, and which is the clip's is not clear:"
        f" {_listed(sources)}",
        "Choose one with --track-source",
        tuple(s.name for s in sources),
    )


def _listed(sources: Sequence[Source]) -> str:
    names = ", ".join(s.name for s in sources[:MAX_LISTED])
    more = len(sources) - MAX_LISTED
    return names + (f" and {more} more" if more > 0 else "")


def _stem(name: str) -> str:
    """A video's name as it is compared.

    >>> _stem("/data/upload/1/1f2e3d4c-Kitchen.mp4"), _stem("train/kitchen")
    ('kitchen', 'kitchen')
    """
    plain = PurePosixPath(name.replace("\\", "/")).name
    stem = re.sub(r"\.(mp4|m4v|mov|mkv|webm|avi|gif|ts|mpg|mpeg|3gp)$", "", plain, flags=re.I)
    return re.sub(r"^[0-9a-f]{8}-", "", stem, flags=re.I).casefold()


def unique_names(names: Sequence[str]) -> list[str]:
    """Names by which each is told from the others.

    >>> unique_names(["a.mp4", "a.mp4", ""])
    ['a.mp4 (1)', 'a.mp4 (2)', 'video 3']
    """
    plain = [clean_label(n) if n.strip() else f"video {i}" for i, n in enumerate(names, 1)]
    counts, seen = Counter(plain), Counter[str]()
    out = []
    for name in plain:
        seen[name] += 1
        out.append(f"{name} ({seen[name]})" if counts[name] > 1 else name)
    return out
