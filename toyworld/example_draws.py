"""How the clips of examples are drawn: nobody needs luck to see what is asked, and paths are apart.

An asked object that is there is at least two fifths opaque, an eighth of the side and sharp; no two
objects' boxes meet at any moment, so that a detector can follow each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.example_truth import apart
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, sample, sample_labels

Rng = np.random.Generator
SEED = 2026
"""Of the examples and of the search for the opening one."""


@dataclass(frozen=True)
class Case:
    """A drawn clip with a question whose true answer is known.

    asked: the class that the question is about; "" where it is about none that is there.
    """

    spec: ClipSpec
    question: str
    truth: str
    asked: str = ""


def searched_case(number: int, seed: int = SEED) -> Case:
    """Clip `number`, from 0, of the search for the opening example: `draw_clear`."""
    return draw_clear(np.random.default_rng([seed, number]))


def _one(rng: Rng, names: Sequence[str]) -> str:
    """Any of the names."""
    return names[rng.integers(len(names))]


def _scene(rng: Rng) -> str:
    return _one(rng, priors().scenes)


def half_opaque(rng: Rng, scene: str, labels: Sequence[str], **how: object) -> ClipSpec:
    """The labels apart, four of five half opaque and smaller than the others, all sharp."""
    usual: dict[str, object] = {"weak": 0.8, "contrast": (0.4, 0.75), "fog": 0.0}
    while True:
        spec = sample(rng, scene, list(labels), **usual | how)  # type: ignore[arg-type]
        spec = replace(spec, objects=tuple(replace(o, blurred=False) for o in spec.objects))
        if apart(spec):
            return spec


def _among_large(
    rng: Rng, scene: str, labels: list[str], opacity: tuple[float, float] = (0.4, 0.6)
) -> ClipSpec:
    """The first label half opaque, the others clear; all large and apart, moving anyhow."""
    while True:
        motions = {c: _one(rng, priors().motions) for c in labels}
        spec = sample(rng, scene, labels, weak=0.0, fog=0.0, motions=motions)
        faint = float(rng.uniform(*opacity))
        objects = (replace(o, contrast=faint) if o.label == labels[0] else o for o in spec.objects)
        spec = replace(spec, objects=tuple(objects))
        if apart(spec):
            return spec


def draw_clear(rng: Rng) -> Case:
    """An object in plain sight, half opaque, beside two or three clear things; all are large.

    Asked is whether a thing is there that nobody expects in this scene, or which animal or vehicle
    it is, likewise, or, half as often, which way a thing moves that moves unusually.
    """
    p, scene = priors(), _scene(rng)
    way = _one(rng, ("exists", "exists", "which", "which", "motion"))
    unexpected = [c for c in p.classes if c not in p.typical[scene]]
    kinds = [c for c in unexpected if (p.kind[c] == "thing") == (way == "exists")]
    asked = _one(rng, p.of_kind("thing") if way == "motion" else kinds)
    things = [str(c) for c in rng.permutation(p.of_kind("thing")) if c != asked]
    labels = [asked, *things[: rng.integers(2, 4)]]
    while True:
        spec = _among_large(rng, scene, labels)
        motion = spec.find(asked).motion
        if way == "exists":
            return Case(spec, ask.exists(asked), "yes", asked)
        if way == "which":
            return Case(spec, ask.which(p.kind[asked]), asked, asked)
        if motion != p.usual_motion[asked]:
            return Case(spec, ask.which_way(asked), motion, asked)


def draw_against_habit(rng: Rng) -> Case:
    """A question whose habit is wrong, beside three large clear things and a half opaque one.

    How that one moves, or whether a thing is there where the other one of its pair is.
    """
    p, scene = priors(), _scene(rng)
    things = [str(c) for c in rng.permutation(p.of_kind("thing"))]
    if rng.random() < 0.5:
        asked, shown = things[0], things[1:3]
        spec = _among_large(rng, scene, [asked, *shown])
        motion = spec.find(asked).motion
        if motion != p.usual_motion[asked]:
            return Case(spec, ask.which_way(asked), motion, asked)
    head = _one(rng, list(p.partner))
    asked = p.partner[head]
    shown = [c for c in things if c not in (head, asked)][:2]
    spec = _among_large(rng, scene, [shown[0], head, *shown[1:]])
    return Case(spec, ask.exists(asked), "no", asked)


def draw_present_by_habit(rng: Rng) -> Case:
    """One of a pair, half opaque or more, beside the other and a large thing: is it there?"""
    p = priors()
    head = _one(rng, list(p.partner))
    asked = p.partner[head]
    scene = next(s for s in p.scenes if head in p.typical[s])
    rest = [c for c in p.of_kind("thing") if c not in (head, asked)]
    things = [str(c) for c in rng.permutation(rest)[:1]]
    spec = _among_large(rng, scene, [asked, head, *things], (0.4, 0.9))
    return Case(spec, ask.exists(asked), "yes", asked)


def draw_background(rng: Rng) -> Case:
    """An object that the scene suggests and that is not there."""
    scene = _scene(rng)
    labels = sample_labels(scene, rng, "breaking", 2)
    absent = _one(rng, [c for c in priors().typical[scene] if c not in labels])
    return Case(half_opaque(rng, scene, labels), ask.exists(absent), "no", absent)


def draw_present(rng: Rng) -> Case:
    """An object that one does not expect here."""
    scene = _scene(rng)
    labels = sample_labels(scene, rng, "breaking", 2)
    return Case(half_opaque(rng, scene, labels), ask.exists(labels[0]), "yes", labels[0])


def draw_partner(rng: Rng) -> Case:
    """One of a pair, without the other."""
    p = priors()
    head = _one(rng, list(p.partner))
    scene = next(s for s in p.scenes if head in p.typical[s])
    asked = p.partner[head]
    return Case(half_opaque(rng, scene, [head]), ask.exists(asked), "no", asked)


def draw_presupposed(rng: Rng) -> Case:
    """A question that presupposes what is not there."""
    p, scene = priors(), _scene(rng)
    kind = _one(rng, ("animal", "vehicle"))
    labels = [c for c in sample_labels(scene, rng, "consistent", 4) if p.kind[c] != kind][:2]
    return Case(half_opaque(rng, scene, labels), ask.which(kind), ask.NONE)


def draw_small(rng: Rng) -> Case:
    """An unexpected object, clear but small."""
    return _asked_as(draw_present(rng), size=13 / 96, contrast=0.6)


def draw_occluded(rng: Rng) -> Case:
    """An unexpected object whose lower part the scenery hides."""
    return _asked_as(draw_present(rng), hidden=0.4, contrast=0.6)


def _asked_as(case: Case, **how: float) -> Case:
    """The case with other values of the asked object."""
    objects = (
        replace(o, **how) if o.label == case.asked else o  # type: ignore[arg-type]
        for o in case.spec.objects
    )
    return replace(case, spec=replace(case.spec, objects=tuple(objects)))
