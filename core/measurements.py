"""What was measured on a trace after its run, as plain data: evidence, occlusion and controls.

Axes: T sampled frames, R×C cells of the map's grid, K tracks, G frame groups, L decoder layers.
The grid spans a model frame, padding included. Imports no torch.
"""

# ruff: noqa: RUF009  (`stored` makes fields, as `dataclasses.field` does)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import (
    COUNT,
    LARGE,
    NAME,
    REAL,
    SHARE,
    TEXT,
    Array,
    Row,
    Rows,
    Stored,
    stored,
)
from macd_studio.core.validation import Choice, Flag, Many, Maybe, Number, Text

VIEWS = ("video", "counterfactual")
"""What the model is shown: V and V_d."""
CONTROL_NAMES = ("random", "mask-all", "reversed", "blank")
"""Of the views that a `ControlReport` compares with: random masks, and methods' views."""
RANDOM_MASKS = 20
"""Random masks that a `ControlReport` draws."""
MAX_EVIDENCE, MAX_MAPS, MAX_CELLS, MAX_LAYERS = 16, 32, 512, 1024
"""Of a trace, of a token, of a side of a map, of a decoder."""
MAX_KNOCK_OUTS = 64
"""Of a token."""
_ID = Number(0, 2**31 - 1, whole=True)
_LAYER = Number(0, MAX_LAYERS - 1, whole=True)
_CORRELATION = Maybe(Number(-1.001, 1.001))
_SHARE = Number(0.0, 1.001)
_SHARES, _PAIR = Many(_SHARE), Many(REAL, 2, 2)


@dataclass(frozen=True, eq=False)
class OcclusionReport(Stored):
    """The measured effect of masking each object alone, with its gradient."""

    gradient: NDArray[np.float64] = stored(Array("K"), "∂L/∂r at the first ascent step")
    loss_change: NDArray[np.float64] = stored(
        Array("K"), "query loss with only that object hidden less that of the video, nats"
    )
    odds_change: NDArray[np.float64] = stored(
        Array("K"), "change of the log-odds of the whole baseline answer"
    )
    token_change: NDArray[np.float64] = stored(
        Array("K *"), "change of the log probability of each of its tokens"
    )
    correlation: float | None = stored(
        Maybe(REAL),
        "Spearman's, of gradient with loss change; null below three objects or where one of them"
        " is constant",
    )
    verdict: str = stored(TEXT, "whether the changes support the gradient's choice, in words")


@dataclass(frozen=True)
class ControlOutcome(Stored):
    """What one control view chooses where MACD's answer leaves the baseline's."""

    name: str = stored(
        Choice(CONTROL_NAMES), "the control: `random`, `mask-all`, `reversed` or `blank`"
    )
    text: str = stored(TEXT, "the token it chooses")
    same: bool = stored(
        Flag(), "whether that is MACD's; where both answers agree, whether the whole answer is"
    )
    index: int = stored(
        COUNT, "which token that is, from 0; an earlier one where the control leaves MACD earlier"
    )


@dataclass(frozen=True)
class ControlReport(Stored):
    """Controls to compare MACD's own masks with."""

    index: int | None = stored(
        Maybe(COUNT), "the first token where MACD's answer differs, from 0; null where both agree"
    )
    macd: str = stored(TEXT, "MACD's token there; the last one where both agree")
    baseline: str = stored(TEXT, "the baseline's")
    outcomes: tuple[ControlOutcome, ...] = stored(
        Rows(ControlOutcome, 1000), "every control, random masks first"
    )
    constant: float = stored(
        Number(0.0, LARGE),
        "the smallest amount which, added to the logit of MACD's token given the video, makes it"
        " the baseline's choice",
    )
    milliseconds: float = stored(REAL, "what the comparison took")

    def random(self) -> tuple[int, int]:
        """Random masks that do the same, and all of them."""
        drawn = [o.same for o in self.outcomes if o.name == "random"]
        return sum(drawn), len(drawn)


@dataclass(frozen=True)
class Target(Stored):
    """The number whose evidence is looked for: a token's logit, or how far it leads another's."""

    answer: str = stored(Text(100, 1, clean=False), "the method whose tokens come before it")
    index: int = stored(Number(0, 8191, whole=True), "of the token, from 0")
    token: int = stored(_ID, "its id")
    text: str = stored(TEXT, "its exact text")
    against: int | None = stored(
        Maybe(_ID), "the other candidate; null for the logit alone", None, needed=True
    )
    against_text: str | None = stored(Maybe(TEXT), "its text", None, needed=True)


@dataclass(frozen=True, eq=False)
class EvidenceMap(Stored):
    """One kind of evidence under one view. Cells add up: the sum over an area is its evidence."""

    kind: str = stored(Text(40, 1, clean=False), "how it was measured")
    view: str = stored(Choice(VIEWS), "what the model was shown")
    values: NDArray[np.float32] = stored(
        Array("T * *", longest=MAX_CELLS, kept="f4"),
        "in logits, or in shares of attention; what is positive speaks for the token",
    )
    objects: tuple[float, ...] = stored(
        _SHARES, "(K,) share of the magnitude on each object; objects overlap"
    )
    outside: float = stored(_SHARE, "share on none")
    groups: tuple[float, ...] = stored(_SHARES, "(G,) share by frame group")
    sanity: float | None = stored(
        _CORRELATION,
        "Spearman's of the magnitudes with those for a head of random weights; near 1, the map"
        " does not depend on the token; null where it was not measured, or below three of them",
        None,
        needed=True,
    )


@dataclass(frozen=True)
class Agreement(Stored):
    """How far two kinds' magnitudes agree, over the cells where neither is 0."""

    view: str = stored(Choice(VIEWS), "what the model was shown")
    first: str = stored(NAME, "a kind")
    second: str = stored(NAME, "another")
    correlation: float | None = stored(_CORRELATION, "Spearman's; null where one is flat")


@dataclass(frozen=True)
class KnockOut(Stored):
    """What the answer becomes when its tokens cannot attend to a region's vision tokens."""

    track: int | None = stored(Maybe(_ID), "the object's id; null for a box")
    box: tuple[float, float, float, float] | None = stored(
        Maybe(Many(SHARE, 4, 4)),
        "x0 y0 x1 y1 in shares of every source frame; null for an object",
    )
    layers: tuple[int, int] = stored(Many(_LAYER, 2, 2), "first and last decoder layer, from 0")
    tokens: int = stored(Number(1, 10**7, whole=True), "how many vision tokens it holds")
    before: str = stored(TEXT, "greedy answer to the video")
    after: str = stored(TEXT, "the same without the region")
    score: tuple[float, float] = stored(_PAIR, "the target's number before and after")
    probability: tuple[float, float] = stored(
        Many(_SHARE, 2, 2), "the token's probability before and after"
    )


@dataclass(frozen=True)
class Lens(Stored):
    """(L,) probability of the token as read out after each layer."""

    video: tuple[float, ...] = stored(Many(_SHARE, 1, MAX_LAYERS), "under V")
    counterfactual: tuple[float, ...] = stored(Many(_SHARE, 1, MAX_LAYERS), "under V_d")


RANDOM_ORDER = "random"
"""Kind of a curve whose order knows nothing."""
MAX_CURVES, MAX_STEPS = 64, 64
_PROBABILITIES = Many(_SHARE, 2, MAX_STEPS)


@dataclass(frozen=True)
class Curve(Stored):
    """The token's probability while the cells of one order are hidden, and shown, one by one."""

    kind: str = stored(Text(40, 1, clean=False), "the map that orders the cells, or `random`")
    deletion: tuple[float, ...] = stored(
        _PROBABILITIES, "with the first cells of the order hidden, from none to all"
    )
    insertion: tuple[float, ...] = stored(
        _PROBABILITIES, "with these alone shown, from none to all"
    )


@dataclass(frozen=True)
class Curves(Stored):
    """Insertion and deletion, which score maps against the model itself."""

    shares: tuple[float, ...] = stored(
        Many(SHARE, 2, MAX_STEPS), "of the cells, at each step of a curve, from 0 to 1"
    )
    curves: tuple[Curve, ...] = stored(Rows(Curve, MAX_CURVES), "of each map, then random orders")

    def areas(self) -> dict[str, list[tuple[float, float]]]:
        """Areas under the deletion and the insertion curve of each kind, one a curve, [0, 1]."""
        out: dict[str, list[tuple[float, float]]] = {}
        for one in self.curves:
            both = self._area(one.deletion), self._area(one.insertion)
            out.setdefault(one.kind, []).append(both)
        return out

    def scores(self) -> list[tuple[str, float, float]]:
        """Kind, area of insertion less that of deletion, and the share of random orders below it.

        The most faithful kind first; random orders are left out. The share is 0 without any.
        """
        areas = self.areas()
        random = [i - d for d, i in areas.pop(RANDOM_ORDER, [])]
        rows = [(kind, i - d) for kind, ((d, i), *_) in areas.items()]
        below = {kind: sum(r < score for r in random) / max(1, len(random)) for kind, score in rows}
        return sorted(((k, s, below[k]) for k, s in rows), key=lambda row: -row[1])

    def band(self) -> tuple[float, float]:
        """The lowest and the highest score of the random orders. Raises ValueError without any."""
        scores = [i - d for d, i in self.areas()[RANDOM_ORDER]]
        return min(scores), max(scores)

    def _area(self, values: Sequence[float]) -> float:
        return float(np.trapezoid(values, self.shares))

    def fits(self) -> bool:
        """Whether every curve has a value at each share, and the shares rise from 0 to 1."""
        rise = all(a < b for a, b in pairwise(self.shares))
        lengths = {len(v) for c in self.curves for v in (c.deletion, c.insertion)}
        return (
            rise and (self.shares[0], self.shares[-1]) == (0, 1) and lengths <= {len(self.shares)}
        )


@dataclass(frozen=True, eq=False)
class Evidence(Stored):
    """Where the evidence for one token lies."""

    target: Target = stored(Row(Target), "which token's")
    score: tuple[float, float] = stored(_PAIR, "the target's number under V and V_d")
    layers: tuple[int, ...] = stored(
        Many(_LAYER, 0, MAX_LAYERS), "decoder layers, from 0, over which attention is the mean"
    )
    maps: tuple[EvidenceMap, ...] = stored(
        Rows(EvidenceMap, MAX_MAPS, "map{}_", 1), "by kind and view"
    )
    agreement: tuple[Agreement, ...] = stored(
        Rows(Agreement, MAX_MAPS**2), "of pairs of kinds", (), needed=True
    )
    knock_outs: tuple[KnockOut, ...] = stored(
        Rows(KnockOut, MAX_KNOCK_OUTS), "regions that were knocked out", (), needed=True
    )
    lens: Lens | None = stored(
        Maybe(Row(Lens)), "the token's probability by layer", None, needed=True
    )
    curves: Curves | None = stored(
        Maybe(Row(Curves)), "insertion and deletion by the maps under V; null: not measured", None
    )

    def map(self, kind: str, view: str = "video") -> EvidenceMap:
        """The map of a kind under a view. Raises KeyError where it was not measured."""
        for one in self.maps:
            if (one.kind, one.view) == (kind, view):
                return one
        raise KeyError((kind, view))

    def difference(self, kind: str) -> NDArray[np.float32]:
        """(T, R, C), the map under V less that under V_d."""
        return self.map(kind).values - self.map(kind, "counterfactual").values


BACKGROUND = "background"
"""What is in a frame besides the objects and the regions: a piece of its own."""
MAX_ENOUGH, MAX_PIECES, MAX_ASKED = 16, 64, 64
"""Tokens of a trace; pieces of a token; sets that were asked for."""
_PIECES = Many(Number(0, MAX_PIECES - 1, whole=True), 0, MAX_PIECES)
_GROUP = Number(0, 4095, whole=True)


@dataclass(frozen=True)
class Piece(Stored):
    """One object, one region or the background, in a run of frame groups."""

    track: int | None = stored(Maybe(_ID), "the object's id; null for what is not an object")
    box: tuple[float, float, float, float] | None = stored(
        Maybe(Many(SHARE, 4, 4)),
        "of a region, x0 y0 x1 y1 in shares of the source frame, without the objects in it; null"
        " for an object and for the background",
    )
    groups: tuple[int, int] = stored(Many(_GROUP, 2, 2), "first and last frame group, from 0")


@dataclass(frozen=True)
class Given(Stored):
    """What the model says given some pieces alone, all others hidden."""

    shown: tuple[int, ...] = stored(_PIECES, "the pieces that it is shown, by index")
    answer: str = stored(TEXT, "the greedy answer")
    same: bool = stored(Flag(), "whether the tokens in question are those of the trace's answer")
    probability: float = stored(_SHARE, "of the token, after the answer's tokens before it")
    margin: float = stored(REAL, "the token's logit less that of the best other one")


@dataclass(frozen=True)
class Smallest(Stored):
    """The smallest set of pieces that keeps the answer, or whose removal changes it."""

    pieces: tuple[int, ...] | None = stored(
        Maybe(_PIECES),
        "the set, by index, of pieces to keep or to remove; null where none is known",
    )
    lower: int = stored(
        Number(0, MAX_PIECES + 1, whole=True),
        "every set of fewer pieces was read, and none of them does it; one more than there are"
        " pieces where no set does",
    )
    alike: int = stored(COUNT, "sets of as many pieces that were read and do it")
    given: Given | None = stored(
        Maybe(Row(Given)), "what the model says then; null without a set", None, needed=True
    )

    def certified(self, pieces: int) -> bool:
        """Whether no smaller set of `pieces` does it; without a set, whether none at all does."""
        return self.lower > pieces if self.pieces is None else self.lower == len(self.pieces)


@dataclass(frozen=True)
class Enough(Stored):
    """How little of the video is enough for a token of the model's answer to the video alone."""

    target: Target = stored(Row(Target), "which token's")
    same: str = stored(
        Choice(("answer", "token")), "what must stay: every token of the answer, or the one alone"
    )
    margin: float = stored(Number(0.0, 1000.0), "the margin that a kept set must reach, in logits")
    fill: str = stored(NAME, "what hidden pixels become")
    pieces: tuple[Piece, ...] = stored(Rows(Piece, MAX_PIECES, least=1), "all pieces")
    whole: Given = stored(Row(Given), "given all of them, which is the video")
    nothing: Given = stored(Row(Given), "given none of them")
    keep: Smallest | None = stored(
        Maybe(Row(Smallest)), "the smallest set that is enough; null where it was not looked for",
        None, needed=True,
    )  # fmt: skip
    remove: Smallest | None = stored(
        Maybe(Row(Smallest)), "the smallest set whose removal changes the answer; null likewise",
        None, needed=True,
    )  # fmt: skip
    asked: tuple[Given, ...] = stored(
        Rows(Given, MAX_ASKED), "sets that were asked for", (), needed=True
    )
    views: int = stored(COUNT, "sets that were read", 0, needed=True)
    budget: int = stored(COUNT, "sets that might be read at most", 0, needed=True)

    @property
    def given(self) -> tuple[Given, ...]:
        """Everything that the model was shown and answered to."""
        found = (s.given for s in (self.keep, self.remove) if s is not None)
        return (self.whole, self.nothing, *(g for g in found if g is not None), *self.asked)

    def fits(self, tracks: Sequence[int], groups: int) -> bool:
        """Whether it can be of a trace with tracks of these ids and so many frame groups."""
        n = len(self.pieces)
        everything = tuple(range(n))
        sets = [g.shown for g in self.given]
        for found in (self.keep, self.remove):
            if found is not None:
                if (found.pieces is None) != (found.given is None) or found.lower > n + 1:
                    return False
                if found.pieces is not None:
                    sets.append(found.pieces)
                    if found.lower > len(found.pieces):
                        return False
        if self.keep is not None and self.keep.given is not None:
            if self.keep.pieces != self.keep.given.shown:
                return False
        if self.remove is not None and self.remove.given is not None:
            removed = set(self.remove.pieces or ())
            if tuple(i for i in everything if i not in removed) != self.remove.given.shown:
                return False
        return (
            self.whole.shown == everything
            and not self.nothing.shown
            and all(tuple(sorted(set(s))) == s and set(s) <= set(everything) for s in sets)
            and all(
                (p.track is None or (p.track in tracks and p.box is None))
                and p.groups[0] <= p.groups[1] < groups
                for p in self.pieces
            )
        )


MAX_MAPPED = 6
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
        Rows(Subset, 2 << MAX_MAPPED, least=1), "without frame mask first, by number of objects"
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
