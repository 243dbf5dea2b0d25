"""The headline benchmark: habits that are crossed with the truth, so that none helps.

Scene, companion and motion suggest every answer as often as it is right: truths go through all
cells of a design in random order, and whole cycles are balanced exactly. So no habit is right more
often than chance, and no constant helps a model without evidence. What is asked about is faint, so
that habit answers where a model leans on it. Three clear companions are in every clip, none of them
the asked object: there are always objects to choose from.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from types import MappingProxyType

import numpy as np

from macd_studio.evals.benchmarks.base import Item, Split
from macd_studio.evals.benchmarks.toyworld import YES_NO, Asked, DrawnBenchmark, Maker, Opacity, Rng
from macd_studio.evals.benchmarks.toyworld_balanced import (
    Drawn,
    cell_of,
    draw_faint_and_clear,
    homes,
    one_of,
    things_of,
)
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.priors import priors

P = priors()
ANIMALS = P.of_kind("animal")
COMPANIONS = 3
OPACITY = {
    "options": (0.1, 0.17),
    "presence": (0.1, 0.2),
    "order": (0.1, 0.2),
    "captions": (0.2, 0.4),
    "faint": (0.07, 0.13),
}
"""Of the asked object in each regime, chosen on clips of the split "choose"; of "faint" on pilot
clips of other seeds."""
LEVEL = "faint"
PAIRED_ANIMALS = tuple(a for a in ANIMALS if a in P.partner)
PARTNERS = tuple(P.partner[a] for a in PAIRED_ANIMALS)

Habits = dict[str, str]
"""What suggests an answer (scene, companion, motion) → that answer; see `habits_of`."""


def _clear_things(rng: Rng, scene: str, n: int, but: Sequence[str]) -> list[str]:
    """n things, those first that are typical of the scene."""
    typical = things_of(rng, scene, n, but)
    others = [c for c in P.of_kind("thing") if c not in (*typical, *but)]
    more = [others[i] for i in rng.permutation(len(others))]
    return [*typical, *more][:n]


# Which animal is it, of four?

OPTION_CELLS: list[tuple[str, str, str, str | None]] = list(
    product(ANIMALS, ANIMALS, ANIMALS, (*PAIRED_ANIMALS, None))
)
"""(truth, suggested by the scene, by the motion, by a companion or by none)"""


def _options(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    truth, by_scene, by_motion, by_companion = cell_of(OPTION_CELLS, index, levels=1)
    scene = one_of(rng, homes(by_scene))
    partner = [P.partner[by_companion]] if by_companion else []
    clear = partner + _clear_things(rng, scene, COMPANIONS - len(partner), PARTNERS)
    motions = {c: P.usual_motion[one_of(rng, ANIMALS)] for c in clear}
    motions[truth] = P.usual_motion[by_motion]
    spec = draw_faint_and_clear(rng, scene, [truth], clear, opacity, motions)
    return spec, [Asked("forced", ask.which("animal"), truth, by_scene, truth, ANIMALS)]


# Is it there?

HEADS = tuple(P.partner)
EITHER = True, False
PRESENCE_CELLS = list(product(HEADS, EITHER, EITHER, EITHER, EITHER))
"""(one of a pair whose other is asked for, is that there, does the scene suggest it, is the one of
the pair there, does the faint object move as the asked one usually does)"""


def _presence(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    head, there, by_scene, by_companion, by_motion = cell_of(PRESENCE_CELLS, index, levels=1)
    asked = P.partner[head]
    scene = one_of(rng, [s for s in P.scenes if (asked in P.typical[s]) == by_scene])
    pairs = {head, asked, *(h for h, partner in P.partner.items() if partner == asked)}
    others = [c for c in P.of_kind("thing") if c not in pairs]
    faint = asked if there else one_of(rng, others)
    usual = P.usual_motion[asked]
    motion = usual if by_motion else one_of(rng, [m for m in P.motions if m != usual])
    first = [head] if by_companion else []
    clear = first + _clear_things(rng, scene, COMPANIONS - len(first), (*pairs, faint))
    spec = draw_faint_and_clear(rng, scene, [faint], clear, opacity, {faint: motion})
    truth, prior_answer = ("yes" if z else "no" for z in (there, by_companion))
    about = asked if there else ""
    return spec, [Asked("yes-no", ask.exists(asked), truth, prior_answer, about, YES_NO)]


# Which of two came first?

ORDER_CELLS = list(product(P.scenes, EITHER, EITHER, EITHER, EITHER))
"""(scene, is the first one named first, is the first typical of the scene, is the second, does the
first move as it usually does)"""


def _order(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    scene, named_first, first_fits, second_fits, as_usual = cell_of(ORDER_CELLS, index, levels=1)
    pair: list[str] = []
    for fits in (first_fits, second_fits):
        fitting = [c for c in P.of_kind("thing") if (c in P.typical[scene]) == fits]
        pair.append(one_of(rng, [c for c in fitting if c not in pair]))
    clear = _clear_things(rng, scene, 2, pair)
    usual = P.usual_motion[pair[0]]
    motion = usual if as_usual else one_of(rng, [m for m in P.motions if m != usual])
    appears = {pair[0]: 0.25, pair[1]: 0.5}
    spec = draw_faint_and_clear(rng, scene, pair, clear, opacity, {pair[0]: motion}, appears)
    named = tuple(pair) if named_first else tuple(pair[::-1])
    return spec, [Asked("forced", ask.order(*named), pair[0], named[0], pair[0], named)]


# What is in the video, word for word?

CAPTION_CELLS = list(product(P.scenes, P.classes))


def _captions(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    scene, faint = cell_of(CAPTION_CELLS, index, levels=1)
    clear = [c for c in rng.permutation(P.of_kind("thing")).tolist() if c != faint][:COMPANIONS]
    spec = draw_faint_and_clear(rng, scene, [faint], clear, opacity)
    return spec, [Asked("word", ask.DESCRIBE, ask.caption(spec), about=faint)]


# Which way does it move?

MOTION_CELLS = list(product(P.motions, P.motions))
"""(motion, usual motion of what moves so)"""


def _motion(rng: Rng, index: int, opacity: Opacity) -> Drawn:
    motion, usual = cell_of(MOTION_CELLS, index, levels=1)
    asked = one_of(rng, [c for c in P.classes if P.usual_motion[c] == usual])
    scene = one_of(rng, P.scenes)
    others = [c for c in rng.permutation(P.of_kind("thing")).tolist() if c != asked]
    clear = {c: one_of(rng, P.motions) for c in others[:COMPANIONS]}
    motions = clear | {asked: motion}
    spec = draw_faint_and_clear(rng, scene, [asked], [*clear], opacity, motions)
    return spec, [Asked("word", ask.which_way(asked), motion, usual, asked, P.motions)]


MAKERS: dict[str, Maker] = {
    "options": _options,
    "presence": _presence,
    "order": _order,
    "captions": _captions,
    "faint": _options,
}
"""Regime → its clips. "faint" asks what "options" asks of objects that show less: there a choice of
objects can be judged, see `evals.studies.selection`."""
CYCLE = {
    "options": len(OPTION_CELLS),
    "presence": len(PRESENCE_CELLS),
    "order": len(ORDER_CELLS),
    "captions": len(CAPTION_CELLS),
    "faint": len(OPTION_CELLS),
}
"""Clips in which every cell of a regime comes once."""


class CrossedToyWorld(DrawnBenchmark):
    """Four kinds of questions in which scene, companion and motion say nothing about the truth.

    One of them, which animal it is, at two opacities.
    """

    levels = (LEVEL,)
    seeds = MappingProxyType({"choose": 11, "test": 13})

    def __init__(self) -> None:
        super().__init__("toyworld-crossed", MAKERS, dict.fromkeys(MAKERS, "balanced"))

    def items(self, split: Split, n: int) -> list[Item]:
        """See `Benchmark.items`; n is rounded up to whole cycles of a regime once it holds one."""
        whole = {r: n if n < cycle else -(-n // cycle) * cycle for r, cycle in CYCLE.items()}
        return [item for regime in self.regimes for item in self._of(regime, split, whole[regime])]

    def opacity(self, regime: str, level: str) -> Opacity:
        """See `DrawnBenchmark.opacity`."""
        return OPACITY[regime]

    def habits(self, key: str) -> Habits:
        """What scene, companion and motion suggest for a clip of "options" or "faint".

        Without "companion" where none suggests an animal; empty for other regimes.
        """
        if MAKERS[key.split("/")[1]] is not _options:
            return {}
        spec = self.spec(key)
        (asked,) = (o for o in spec.objects if o.label in ANIMALS)
        habits = {
            "scene": next(a for a in ANIMALS if spec.scene in homes(a)),
            "motion": next(a for a in ANIMALS if P.usual_motion[a] == asked.motion),
        }
        by_companion = [a for a in PAIRED_ANIMALS if P.partner[a] in spec.labels]
        return habits | ({"companion": by_companion[0]} if by_companion else {})


RANDOM: dict[str, tuple[Maker, int]] = {
    "presence": (_presence, len(PRESENCE_CELLS)),
    "order": (_order, len(ORDER_CELLS)),
    "motion": (_motion, len(MOTION_CELLS)),
}
"""What a random draw asks about: kind of question → how a clip is drawn, and how many cells."""
RANDOM_OPACITY = (0.05, 0.12)


class RandomDraws(DrawnBenchmark):
    """Clips that nobody chose, by a seed: one of `RANDOM`, its asked object hardly to be seen."""

    levels = (LEVEL,)

    def __init__(self, seed: int) -> None:
        makers = {name: maker for name, (maker, _) in RANDOM.items()}
        super().__init__("toyworld-random", makers, dict.fromkeys(makers, "unbalanced"))
        self.seeds = MappingProxyType({"test": seed})

    def opacity(self, regime: str, level: str) -> Opacity:
        """See `DrawnBenchmark.opacity`."""
        return RANDOM_OPACITY


def random_item(seed: int) -> tuple[RandomDraws, Item]:
    """A question about a clip that nobody chose, and the world that holds the clip.

    A kind of question, and a cell of it in which a habit suggests a wrong answer, each as likely as
    any other: what is usual beside it, what is named first, how such a thing usually moves.
    """
    world = RandomDraws(seed)
    rng = np.random.default_rng(seed)
    regime = one_of(rng, world.regimes)
    while True:
        item = world.item(f"test/{regime}/{rng.integers(RANDOM[regime][1])}")
        if item.prior_answer != item.truth:
            return world, item
