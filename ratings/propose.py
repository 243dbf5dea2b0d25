"""Known items proposed from the clips of a study: the asked object hidden, against a far corner.

A proposal counts only after the organiser has looked at it and confirmed it (`roster.confirm`):
whether the question can still be answered is not seen by a program. NumPy only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.types import SEEN, Track
from macd_studio.ratings.arms import LEAST, ArmMask, draw, hide_tracks
from macd_studio.ratings.gold import KnownSide
from macd_studio.ratings.source import Source

MOST_HIDDEN = 0.5
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
    if place is None or not LEAST <= right.hidden / pixels <= MOST_HIDDEN:
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
