"""Regimes in which no bias helps by design, each beside one of the same questions in which one may.

A constant added to the score of an answer is worth nothing where every answer is right equally
often, given what is seen without the asked object. Truths therefore go through all cells of a
design (such as scene × answer) in random order, so that a run over whole cycles is balanced
exactly. The asked object moves in a direction drawn without regard to its class: a mask that
follows it would otherwise tell the class by the class's usual motion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TypeVar

import numpy as np

from macd_studio.evals.benchmarks.base import Balance
from macd_studio.evals.benchmarks.toyworld import (
    OPACITY,
    YES_NO,
    Asked,
    DrawnBenchmark,
    Maker,
    Opacity,
    Rng,
)
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, sample, sample_labels

P = priors()
KINDS = ("animal", "vehicle")
COMPANIONS = 2
CONTROL_OPACITY = 0.1, 0.17
"""Of the asked object in the positive control: mostly below the levels of other regimes."""

Cell = TypeVar("Cell")
Drawn = tuple[ClipSpec, list[Asked]]


def cell_of(cells: Sequence[Cell], index: int, levels: int = len(OPACITY)) -> Cell:
    """The cell of clip `index`: each once a level in every levels · len(cells) clips."""
    cycle, place = divmod(index, levels * len(cells))
    order = np.random.default_rng([cycle, index % levels]).permutation(len(cells))
    return cells[int(order[place // levels])]


def usual(scene: str, kind: str) -> list[str]:
    """Classes of a kind that are typical of a scene."""
    return [c for c in P.typical[scene] if P.kind[c] == kind]


def unusual(scene: str, kind: str) -> list[str]:
    """Classes of a kind that are not typical of a scene."""
    return [c for c in P.of_kind(kind) if c not in usual(scene, kind)]


def one_of(rng: Rng, labels: Sequence[str]) -> str:
    """One of them, each as likely."""
    return labels[int(rng.integers(len(labels)))]


def things_of(rng: Rng, scene: str, n: int, but: Sequence[str] = ()) -> list[str]:
    """n things that are typical of the scene: the clear companions."""
    fitting = [c for c in usual(scene, "thing") if c not in but]
    return [fitting[i] for i in rng.permutation(len(fitting))[:n]]


def draw_faint_and_clear(
    rng: Rng,
    scene: str,
    faint: Sequence[str],
    clear: Sequence[str],
    opacity: Opacity,
    motions: dict[str, str] | None = None,
    appears: dict[str, float] | None = None,
    late: float = 0.0,
) -> ClipSpec:
    """Faint objects that move anyhow, or as `motions` says, and clear ones that move as usual.

    appears: when an object comes into view, [0, 1]; late: as in `sample`.
    """
    moves = {c: one_of(rng, P.motions) for c in faint} | (motions or {})
    spec = sample(
        rng, scene, [*faint, *clear], weak=0.0, fog=0.0, p_motion=1.0, motions=moves, late=late
    )
    contrast = {c: float(rng.uniform(*opacity)) for c in faint}
    arrives = appears or {}
    objects = [
        replace(
            o,
            contrast=contrast.get(o.label, o.contrast),
            appears=arrives.get(o.label, o.appears),
        )
        for o in spec.objects
    ]
    return replace(spec, objects=tuple(objects))


# Which animal, which vehicle, or none.

THIRDS = [
    (scene, kind, case)
    for scene, kind, case in product(P.scenes, KINDS, ("none", "usual", "unusual"))
    if len(usual(scene, kind)) == 1
]
"""In equal shares no such object, one that is usual for the scene, and one that is not."""


def _which(rng: Rng, scene: str, kind: str, case: str, opacity: Opacity) -> Drawn:
    options = (*P.of_kind(kind), ask.NONE)
    clear = things_of(rng, scene, COMPANIONS)
    if case == "none":  # something faint is there too, of another kind
        other = [c for c in P.of_kind("thing") if c not in clear]
        spec = draw_faint_and_clear(rng, scene, [one_of(rng, other)], clear, opacity)
        return spec, [Asked("word", ask.which(kind), ask.NONE, options=options)]
    truth = one_of(rng, usual(scene, kind) if case == "usual" else unusual(scene, kind))
    spec = draw_faint_and_clear(rng, scene, [truth], clear, opacity)
    return spec, [Asked("word", ask.which(kind), truth, "", truth, options)]


def _thirds(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    return _which(rng, *cell_of(THIRDS, index), opacity)


def _thirds_unusual(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    scene, kind, _ = cell_of([c for c in THIRDS if c[2] == "unusual"], index)
    return _which(rng, scene, kind, "unusual", opacity)


# A forced choice among the four animals, or the four vehicles.


def homes(label: str) -> list[str]:
    """Scenes in which the class is usual, those first where no other of its kind is."""
    kind = P.kind[label]
    found = [s for s in P.scenes if label in usual(s, kind)]
    return [s for s in found if len(usual(s, kind)) == 1] or found


FOUR = [
    (tuple(homes(suggested)), kind, truth)
    for kind in KINDS
    for suggested, truth in product(P.of_kind(kind), repeat=2)
]
"""(scenes that suggest one of the four, kind, truth): each is suggested as often as it is right."""
FOUR_UNUSUAL = [(s, k, c) for s, k, c in FOUR if all(c in unusual(z, k) for z in s)]
FOUR_ANIMALS = [cell for cell in FOUR if cell[1] == "animal"]


def _four(rng: Rng, scenes: Sequence[str], kind: str, truth: str, opacity: Opacity) -> Drawn:
    scene = one_of(rng, scenes)
    spec = draw_faint_and_clear(rng, scene, [truth], things_of(rng, scene, COMPANIONS), opacity)
    return spec, [Asked("forced", ask.which(kind), truth, "", truth, P.of_kind(kind))]


def _choice(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    return _four(rng, *cell_of(FOUR, index), opacity)


def _choice_unusual(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    return _four(rng, *cell_of(FOUR_UNUSUAL, index), opacity)


def _against_motion(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    """The positive control: here it must matter which object a method hides.

    The asked animal is almost invisible and moves as another one usually does. Hiding it alone
    leaves the habits of scene and motion in the second view, so that contrast takes them away.
    The companions move as animals do too: behind patches over every object it can no longer be
    said which one is the animal.
    """
    scenes, kind, truth = cell_of(FOUR_ANIMALS, index)
    scene, animals = one_of(rng, scenes), P.of_kind(kind)
    like = one_of(rng, [c for c in animals if c != truth])
    clear = things_of(rng, scene, COMPANIONS)
    motions = {c: P.usual_motion[one_of(rng, animals)] for c in clear}
    motions[truth] = P.usual_motion[like]
    spec = draw_faint_and_clear(rng, scene, [truth], clear, CONTROL_OPACITY, motions)
    return spec, [Asked("forced", ask.which(kind), truth, like, truth, animals)]


# Which comes first: a habit names the right one first.

ORDERS = list(product(P.scenes, (True, False)))


def _first(rng: Rng, scene: str, named_first: bool, opacity: Opacity) -> Drawn:
    labels = sample_labels(scene, rng, "flat", 2)
    spec = draw_faint_and_clear(rng, scene, labels, (), opacity, late=1.0)
    early, later = (o.label for o in sorted(spec.objects, key=lambda o: o.appears))
    pair = (early, later) if named_first else (later, early)
    return spec, [Asked("forced", ask.order(*pair), early, pair[0], early, pair)]


def _order(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    return _first(rng, *cell_of(ORDERS, index), opacity)


def _order_against_habit(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    return _first(rng, cell_of(P.scenes, index), False, opacity)


# How many objects.

NUMBERS = ask.NUMBERS[1:]
COUNTS = list(product(P.scenes, range(1, 1 + len(NUMBERS))))


def _counted(rng: Rng, scene: str, labels: list[str], opacity: Opacity) -> Drawn:
    spec = draw_faint_and_clear(rng, scene, labels, (), opacity)
    truth = ask.NUMBERS[len(labels)]
    return spec, [Asked("forced", ask.HOW_MANY, truth, options=NUMBERS)]


def _count(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    scene, n = cell_of(COUNTS, index)
    return _counted(rng, scene, sample_labels(scene, rng, "flat", n), opacity)


def _count_by_habit(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    scene = cell_of(P.scenes, index)
    return _counted(rng, scene, sample_labels(scene, rng, "habit"), opacity)


# Is it there: asked where its companion suggests it, and where nothing does.

PRESENCE = list(product(P.partner, (True, False), (True, False)))
"""(a class with a partner, whether it is in the clip, whether its partner is)"""


def _present(rng: Rng, head: str, suggested: bool, there: bool, opacity: Opacity) -> Drawn:
    asked = P.partner[head]
    if suggested:
        scene = one_of(rng, [s for s in P.scenes if head in P.typical[s]])
        clear = [head, *things_of(rng, scene, COMPANIONS - 1, but=(head, asked))]
    else:
        scene = one_of(rng, [s for s in P.scenes if not {head, asked} & set(P.typical[s])])
        clear = things_of(rng, scene, COMPANIONS)
    spec = draw_faint_and_clear(rng, scene, [asked] if there else [], clear, opacity)
    truth, prior_answer = ("yes" if z else "no" for z in (there, suggested))
    about = asked if there else ""
    return spec, [Asked("yes-no", ask.exists(asked), truth, prior_answer, about, YES_NO)]


def _presence(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    return _present(rng, *cell_of(PRESENCE, index), opacity)


def _presence_suggested(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    head, there = cell_of(list(product(P.partner, (True, False))), index)
    return _present(rng, head, True, there, opacity)


# What is in the video, word for word: every class is in an eighth of the clips of every scene.


def _captions(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    scene, thing = cell_of(list(product(P.scenes, P.of_kind("thing"))), index)
    labels = [thing, *(one_of(rng, P.of_kind(kind)) for kind in KINDS if rng.random() < 0.5)]
    return _described(rng, scene, labels, opacity)


def _captions_against_habit(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    scene = cell_of(P.scenes, index)
    labels = sample_labels(scene, rng, "breaking", int(rng.integers(1, 4)))
    return _described(rng, scene, labels, opacity)


def _described(rng: Rng, scene: str, labels: list[str], opacity: Opacity) -> Drawn:
    spec = draw_faint_and_clear(rng, scene, labels, (), opacity)
    return spec, [Asked("word", ask.DESCRIBE, ask.caption(spec))]


MAKERS: dict[str, tuple[Maker, Balance]] = {
    "which, in thirds": (_thirds, "balanced"),
    "which, unusual": (_thirds_unusual, "unbalanced"),
    "choice of four": (_choice, "balanced"),
    "choice of four, unusual": (_choice_unusual, "unbalanced"),
    "order, both ways": (_order, "balanced"),
    "order, against habit": (_order_against_habit, "unbalanced"),
    "count, evenly": (_count, "balanced"),
    "count, by habit": (_count_by_habit, "unbalanced"),
    "presence, both habits": (_presence, "balanced"),
    "presence, suggested": (_presence_suggested, "unbalanced"),
    "captions, evenly": (_captions, "balanced"),
    "captions, against habit": (_captions_against_habit, "unbalanced"),
    "against motion": (_against_motion, "balanced"),
}


class BalancedToyWorld(DrawnBenchmark):
    """Pairs of regimes, balanced and not, and a positive control."""

    def __init__(self) -> None:
        makers = {regime: maker for regime, (maker, _) in MAKERS.items()}
        balance = {regime: balance for regime, (_, balance) in MAKERS.items()}
        super().__init__("toyworld-balanced", makers, balance)
