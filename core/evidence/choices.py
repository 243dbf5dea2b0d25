"""What every subset of a trace's objects does to the answer, as plain data. Imports no torch."""

# ruff: noqa: RUF009  (`stored` makes fields, as `dataclasses.field` does)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from macd_studio.core.description import COUNT, LARGE, REAL, TEXT, Row, Rows, Stored, stored
from macd_studio.core.validation import Flag, Many, Maybe, Number

if TYPE_CHECKING:
    from macd_studio.core.types import Trace

MOST_OBJECTS = 6
"""Objects whose subsets are all read: 64 of them, with MACD's frame mask and without it."""
_IDS = Many(Number(0, 2**31 - 1, whole=True), 0, 4096)


@dataclass(frozen=True)
class Subset(Stored):
    """Some objects fully masked, and what MACD's contrast then answers."""

    objects: tuple[int, ...] = stored(_IDS, "ids of the objects that are masked")
    frames: bool = stored(Flag(), "whether the frame groups are masked as MACD masks them")
    flips: bool = stored(Flag(), "whether the answer leaves the baseline's up to the read token")
    margin: float | None = stored(
        Maybe(Number(-LARGE, LARGE)),
        "how far the best other token's score leads the baseline's token, where it leads most;"
        " above 0 where the answer flips, null where the cut leaves no other token",
    )
    token: str = stored(TEXT, "the token where it leaves the baseline, else the read one")
    answer: str | None = stored(
        Maybe(TEXT), "the whole answer where it flips; null elsewhere", None, needed=True
    )


@dataclass(frozen=True)
class ChoiceMap(Stored):
    """Every subset of up to six objects at level 1, and MACD's own levels among them."""

    index: int = stored(COUNT, "the token that is read, from 0: where MACD's answer parts, else 0")
    objects: tuple[int, ...] = stored(_IDS, "ids of the objects whose subsets were read")
    left_out: tuple[int, ...] = stored(
        _IDS, "ids of the others, whose measured effects are smaller; they are never masked"
    )
    subsets: tuple[Subset, ...] = stored(
        Rows(Subset, 2 << MOST_OBJECTS, least=1), "without frame mask first, by number of objects"
    )
    own: Subset = stored(
        Row(Subset), "MACD's own levels, 0.75 among them; its objects are those > 0"
    )
    milliseconds: float = stored(REAL, "what the map took")
    measured: tuple[int, ...] = stored(
        _IDS,
        "ids of the objects with at least half of the largest measured effect, which macd-measured"
        " masks fully; none where no object has one, and in files of earlier versions",
        (),
    )

    def fits(self, tracks: Sequence[int]) -> bool:
        """Whether every id is one of these tracks'."""
        named = {*self.objects, *self.left_out, *self.own.objects, *self.measured}
        return named.union(*(s.objects for s in self.subsets)) <= set(tracks)

    def of(self, objects: Sequence[int], frames: bool) -> Subset | None:
        """The subset of these objects; None where it was not read."""
        wanted = frozenset(objects)
        return next(
            (s for s in self.subsets if s.frames == frames and frozenset(s.objects) == wanted), None
        )

    def layer(self, frames: bool) -> tuple[Subset, ...]:
        """All subsets with or without the frame mask."""
        return tuple(s for s in self.subsets if s.frames == frames)


def rank(chosen: Subset, among: Sequence[Subset]) -> int:
    """Place of a subset by its margin, from 1; ties share the better place.

    A margin that the cut forbids is below all others.
    """
    own = _height(chosen)
    return 1 + sum(_height(one) > own for one in among)


def _height(subset: Subset) -> float:
    return -float("inf") if subset.margin is None else subset.margin


def masks_frames(trace: Trace) -> bool:
    """Whether MACD masks a frame group, so that its map has a second half."""
    levels = trace.counterfactual
    return levels is not None and bool((levels.frame_level > 0).any())


def views_of_map(trace: Trace) -> int:
    """How many views the map of a trace reads.

    Every subset, MACD's own levels, and for the measured effects the video and each object alone.
    """
    objects = len(trace.tracks)
    return ((1 + masks_frames(trace)) << min(objects, MOST_OBJECTS)) + 1 + 1 + objects
