"""Items whose right rating is known: for training, with feedback, and hidden among the others.

The file is JSON: a list of objects

    {"trace": "clip.macd", "question": "…", "training": false,
     "sides": [{"hide": [3], "low": 4, "high": 5, "why": "…"},
               {"hide": [2], "low": 1, "high": 2, "why": "…"}]}

`hide` names tracks of the trace by their id; the mask hides them and nothing else. `question`
takes the place of the trace's own. Paths are relative to the file.

Others are proposed from the clips of a study: the asked object hidden, against a far corner. A
proposal counts only after the organiser has looked at it and confirmed it (`roster.confirm`):
whether the question can still be answered is not seen by a program. NumPy only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.text.question import clean_question
from macd_studio.core.types import SEEN, Track
from macd_studio.core.validation import Flag, Number, Text, shown
from macd_studio.ratings.arms import LEAST, ArmMask, draw, hide_tracks
from macd_studio.ratings.errors import read_text
from macd_studio.ratings.source import Source, read_source, without_pixels

MOST = 200
_RATING, _ID, _WHY = Number(1, 5, whole=True), Number(0, 10**9, whole=True), Text(500)


@dataclass(frozen=True)
class KnownSide:
    """Tracks that are hidden, and which ratings are right for that, low to high."""

    hide: tuple[int, ...]
    low: int
    high: int
    why: str = ""


@dataclass(frozen=True, eq=False)
class KnownItem:
    """A clip and a question with one or two masks whose rating is known.

    path: of its trace, where `source` is without the frames until they are needed.
    """

    source: Source
    training: bool
    sides: tuple[KnownSide, ...]
    path: Path | None = None

    def read(self) -> Source:
        """The clip with its frames."""
        if self.path is None:
            return self.source
        return replace(read_source(self.path), question=self.source.question)


def read_gold(path: Path) -> list[KnownItem]:
    """Reads the file; raises OptionError that names the bad place."""
    called, remedy = (
        f"the gold file {path.name[:100]!r}",
        "Give a JSON file as docs/rating.md shows",
    )
    try:
        content = json.loads(read_text(path, called, remedy))
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{called} cannot be read ({type(error).__name__})", remedy) from error
    if not isinstance(content, list) or len(content) > MOST:
        raise OptionError("the gold file holds no list of items", f"Give at most {MOST} items")
    return [_item(raw, f"gold[{i}]", path.parent) for i, raw in enumerate(content)]


def _item(raw: Any, path: str, folder: Path) -> KnownItem:
    _check_object(raw, path, {"trace", "question", "training", "sides"})
    file = folder / Text(4096).read(raw.get("trace"), f"{path}.trace")
    source = without_pixels(read_source(file))
    if raw.get("question") is not None:
        question = Text(2000).read(raw["question"], f"{path}.question")
        source = replace(source, question=clean_question(question))
    sides = raw.get("sides")
    if not isinstance(sides, list) or not 1 <= len(sides) <= 2:
        raise OptionError(f"{path}.sides is {shown(sides)}", "Give a list of one or two sides")
    ids = {t.id for t in source.tracks}
    return KnownItem(
        source=source,
        training=Flag().read(raw.get("training", False), f"{path}.training"),
        sides=tuple(_side(s, f"{path}.sides[{i}]", ids) for i, s in enumerate(sides)),
        path=file,
    )


def _check_object(raw: Any, path: str, keys: set[str]) -> None:
    if not isinstance(raw, dict):
        raise OptionError(f"{path} is {shown(raw)}, not an object", "Give an object")
    if unknown := set(raw) - keys:
        raise OptionError(f"{path} has an unknown key {shown(min(unknown))}", "Take it out")


def _side(raw: Any, path: str, ids: set[int]) -> KnownSide:
    _check_object(raw, path, {"hide", "low", "high", "why"})
    hide = raw.get("hide")
    if not isinstance(hide, list) or not hide:
        raise OptionError(f"{path}.hide is {shown(hide)}", "Give a list of track ids")
    hidden = tuple(int(_ID.read(z, f"{path}.hide") or 0) for z in hide)
    if not set(hidden) <= ids:
        listed = ", ".join(map(str, sorted(ids))) or "none"
        raise OptionError(f"{path}.hide names a track that is not there", f"Choose one of {listed}")
    low = int(_RATING.read(raw.get("low", 1), f"{path}.low") or 1)
    high = int(_RATING.read(raw.get("high", 5), f"{path}.high") or 5)
    if low > high:
        raise OptionError(f"{path}.low is above {path}.high", "Exchange them")
    return KnownSide(hidden, low, high, _WHY.read(raw.get("why", ""), f"{path}.why"))


MAX_HIDDEN = 0.5
"""Of all pixels: a mask that hides more covers the video without regard to the object."""
SEEN_LEAST = 0.9
"""Share of the frames on which an asked object must be known, for its mask to hide it."""
CORNER_MOST = 0.45
"""Longest side of the box in a corner, as a share of the picture's."""
PERSONS = "people|persons|man|men|woman|women|child|children|boy|boys|girl|girls"
RIGHT = KnownSide((), 4, 5, "It hides what the question asks about.")
WRONG = KnownSide((), 1, 2, "What the question asks about can still be seen.")


@dataclass(frozen=True, eq=False)
class Proposal:
    """A clip and a question with two masks, and which ratings are right for each."""

    source: Source
    masks: tuple[ArmMask, ArmMask]
    known: tuple[KnownSide, KnownSide] = (RIGHT, WRONG)


@dataclass(frozen=True)
class Candidate:
    """A clip of which an item could be proposed. used: whether it is rated too; number: its place
    among the sources.
    """

    sha256: str
    used: bool
    number: int


def best(candidates: Iterable[Candidate], most: int) -> list[Candidate]:
    """At most so many: clips that are not rated first, one for each clip file before another.

    Candidates that are added later never make one better placed that had no place before, so that
    it can be asked again with each.
    """
    ordered = sorted(candidates, key=lambda c: (c.used, c.number))
    first: dict[str, Candidate] = {}
    for candidate in ordered:
        first.setdefault(candidate.sha256, candidate)
    again = [c for c in ordered if c not in first.values()]
    return [*first.values(), *again][:most]


def propose_one(source: Source) -> Proposal | None:
    """A proposal of one clip; None where the question names no object that could be hidden."""
    asked = asked_tracks(source.question, source.tracks)
    if not asked or source.problem:
        return None
    boxes = np.concatenate([t.boxes[list(source.kept)] for t in asked])
    known = np.isfinite(boxes[:, 0])
    seen_on = np.isfinite(np.stack([t.boxes[list(source.kept), 0] for t in asked])).any(0)
    if seen_on.mean() < SEEN_LEAST:
        return None
    right = hide_tracks(source, [t.id for t in asked])
    place = far_corner(boxes[known])
    pixels = float(right.mask.size)
    if place is None or not LEAST <= right.hidden / pixels <= MAX_HIDDEN:
        return None
    everywhere = np.tile(place.astype(np.float32), (source.trace_frames, 1))
    box = Track(
        max(t.id for t in source.tracks) + 1, "corner", 1.0, everywhere,
        np.full(source.trace_frames, SEEN, np.int8), source.trace_frames,
    )  # fmt: skip
    options = replace(source.mask, frame_mask="off", overlap="raw", fusion="max")
    wrong = ArmMask(draw(source, [box], np.ones(1), np.zeros(0), options))
    if wrong.hidden / pixels < LEAST:
        return None
    return Proposal(source, (right, wrong))


def asked_tracks(question: str, tracks: Sequence[Track]) -> list[Track]:
    """The tracks whose label the question names, in the singular or the plural."""
    text = question.casefold()
    found = []
    for track in tracks:
        label = re.escape(track.label.casefold().strip())
        words = f"{label}|{label}s|{label}es"
        if track.label.casefold() == "person":
            words += f"|{PERSONS}"
        if label and re.search(rf"\b(?:{words})\b", text):
            found.append(track)
    return found


def far_corner(boxes: NDArray[np.floating]) -> NDArray[np.float64] | None:
    """A box (4,) as large as the median of boxes (N, 4), in the corner farthest from all of them.

    Shares of the picture. None where in every corner it would touch one of them.
    """
    width, height = np.minimum(np.median(boxes[:, 2:] - boxes[:, :2], 0), CORNER_MOST)
    best, farthest = None, 0.0
    for x in (0.0, 1 - width):
        for y in (0.0, 1 - height):
            box = np.array([x, y, x + width, y + height])
            gaps = np.maximum(boxes[:, :2] - box[2:], box[:2] - boxes[:, 2:]).clip(0)
            if (nearest := float(np.hypot(*gaps.T).min())) > farthest:
                best, farthest = box, nearest
    return best
