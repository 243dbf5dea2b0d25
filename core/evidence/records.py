"""What was measured of a token's evidence, as plain data: for the trace and its readers.

Axes: T sampled frames, R×C cells of the map's grid, K tracks, G frame groups, L decoder layers.
The grid spans a model frame, padding included. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

VIEWS = ("video", "counterfactual")
"""What the model is shown: V and V_d."""


@dataclass(frozen=True)
class Target:
    """The number whose evidence is looked for: a token's logit, or how far it leads another's.

    answer: the method whose tokens come before it. index: of the token, from 0. against: the other
    candidate, None for the logit alone.
    """

    answer: str
    index: int
    token: int
    text: str
    against: int | None = None
    against_text: str | None = None


@dataclass(frozen=True, eq=False)
class EvidenceMap:
    """One kind of evidence under one view.

    values: (T, R, C) float32, in logits, or in shares of attention; what is positive speaks for
    the token. Cells add up: the sum over an area is the evidence there. objects: (K,) share of the
    magnitude that lies on each object, which overlap, [0, 1]; outside: on none; groups: (G,) by
    frame group. sanity: Spearman's of the magnitudes with those for a head of random weights, over
    cells, objects or patches; near 1, the map does not depend on the token. None below three of
    them, or where it was not measured.
    """

    kind: str
    view: str
    values: NDArray[np.float32]
    objects: tuple[float, ...]
    outside: float
    groups: tuple[float, ...]
    sanity: float | None = None


@dataclass(frozen=True)
class Agreement:
    """Spearman's correlation of two kinds' magnitudes; None where one is flat.

    Over the cells where neither is 0.
    """

    view: str
    first: str
    second: str
    correlation: float | None


@dataclass(frozen=True)
class KnockOut:
    """What the answer becomes when its tokens cannot attend to a region's vision tokens.

    track: the object's id, None for a box. box: x0 y0 x1 y1 in shares of the source frame, on every
    frame. layers: first and last decoder layer, from 0. tokens: how many vision tokens it holds.
    before, after: greedy answers to the video. score: the target's number, and probability: the
    token's, before and after.
    """

    track: int | None
    box: tuple[float, float, float, float] | None
    layers: tuple[int, int]
    tokens: int
    before: str
    after: str
    score: tuple[float, float]
    probability: tuple[float, float]


@dataclass(frozen=True)
class Lens:
    """(L,) probability of the token as read out after each layer, under V and under V_d."""

    video: tuple[float, ...]
    counterfactual: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Where the evidence for one token lies.

    score: the target's number under V and V_d. layers: decoder layers, from 0, over which attention
    is the mean.
    """

    target: Target
    score: tuple[float, float]
    layers: tuple[int, ...]
    maps: tuple[EvidenceMap, ...]
    agreement: tuple[Agreement, ...] = ()
    knock_outs: tuple[KnockOut, ...] = ()
    lens: Lens | None = None

    def map(self, kind: str, view: str = "video") -> EvidenceMap:
        """The map of a kind under a view. Raises KeyError where it was not measured."""
        for one in self.maps:
            if (one.kind, one.view) == (kind, view):
                return one
        raise KeyError((kind, view))

    def difference(self, kind: str) -> NDArray[np.float32]:
        """(T, R, C), the map under V less that under V_d."""
        return self.map(kind).values - self.map(kind, "counterfactual").values
