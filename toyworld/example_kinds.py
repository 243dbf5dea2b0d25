"""The kinds of example: how the clips of each are drawn, and what a trace of it must show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from macd_studio.core.options import AscentOptions, RunOptions
from macd_studio.core.types import Trace
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, sample, sample_labels

TEN_STEPS = RunOptions(ascent=AscentOptions(steps=10, tau=0.005))
Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A drawn clip with a question whose true answer is known."""

    spec: ClipSpec
    question: str
    truth: str


Right = dict[str, bool]
"""Method → whether its answer is right."""


@dataclass(frozen=True)
class Kind:
    """One kind of example: how its clips are drawn, and what a trace of it must show.

    beside: the methods that show it, kept in the trace beside baseline and MACD.
    outcome_in_title: the title already says what came of it.
    selective: no more than half of the random masks, neither reversed gradient nor blank video may
        do what MACD does. Where no clip is like that, the one with the fewest of these is taken.
    baseline: whether `shows` asks for a right or a wrong baseline, so that the first token alone,
        which costs one forward pass, tells most of the other clips; None where it asks for neither.
    """

    name: str
    title: str
    draw: Callable[[Rng], Case]
    shows: Callable[[Right, Trace, Case], bool]
    beside: tuple[str, ...] = ()
    selective: bool = False
    options: RunOptions = field(default_factory=RunOptions)
    outcome_in_title: bool = False
    baseline: bool | None = None


def _scene(rng: Rng) -> str:
    scenes = priors().scenes
    return scenes[rng.integers(len(scenes))]


def _faint(rng: Rng, scene: str, labels: list[str], **how: object) -> ClipSpec:
    usual: dict[str, object] = {"weak": 0.8, "contrast": (0.15, 0.45), "fog": 0.0}
    return sample(rng, scene, labels, **usual | how)  # type: ignore[arg-type]


def draw_background(rng: Rng) -> Case:
    """An object that the scene suggests and that is not there."""
    scene = _scene(rng)
    labels = sample_labels(scene, rng, "breaking", 2)
    absent = [c for c in priors().typical[scene] if c not in labels]
    return Case(_faint(rng, scene, labels), ask.exists(absent[rng.integers(len(absent))]), "no")


def draw_animal(rng: Rng) -> Case:
    """An animal that is unusual in this scene, next to another object."""
    p, scene = priors(), _scene(rng)
    animals = [a for a in p.of_kind("animal") if a not in p.typical[scene]]
    animal = animals[rng.integers(len(animals))]
    labels = sample_labels(scene, rng, "breaking", 2)
    things = [c for c in labels if p.kind[c] == "thing"]
    return Case(_faint(rng, scene, [animal, *things]), ask.which("animal"), animal)


def draw_present(rng: Rng) -> Case:
    """An object that one does not expect here."""
    scene = _scene(rng)
    labels = sample_labels(scene, rng, "breaking", 2)
    return Case(_faint(rng, scene, labels), ask.exists(labels[0]), "yes")


def draw_partner(rng: Rng) -> Case:
    """One of a pair, without the other."""
    p = priors()
    head = list(p.partner)[rng.integers(len(p.partner))]
    scene = next(s for s in p.scenes if head in p.typical[s])
    return Case(_faint(rng, scene, [head]), ask.exists(p.partner[head]), "no")


def draw_motion(rng: Rng) -> Case:
    """An expected object that moves as it never does."""
    p, scene = priors(), _scene(rng)
    labels = sample_labels(scene, rng, "consistent", 2)
    moves = [m for m in p.motions if m != p.usual_motion[labels[0]]]
    motion = moves[rng.integers(len(moves))]
    spec = _faint(rng, scene, labels, motions={labels[0]: motion})
    return Case(spec, ask.which_way(labels[0]), motion)


def draw_animal_among_three(rng: Rng) -> Case:
    """A usual animal, faint, next to two other objects."""
    p, scene = priors(), _scene(rng)
    labels = sample_labels(scene, rng, "consistent", 3)
    animals = [c for c in labels if p.kind[c] == "animal"]
    return Case(_faint(rng, scene, labels), ask.which("animal"), (animals or [ask.NONE])[0])


def draw_presupposed(rng: Rng) -> Case:
    """A question that presupposes what is not there."""
    p, scene = priors(), _scene(rng)
    kind = ("animal", "vehicle")[rng.integers(2)]
    labels = [c for c in sample_labels(scene, rng, "consistent", 4) if p.kind[c] != kind][:2]
    return Case(_faint(rng, scene, labels), ask.which(kind), ask.NONE)


def draw_small(rng: Rng) -> Case:
    """An unexpected object, clear but tiny."""
    case = draw_present(rng)
    objects = tuple(
        replace(o, size=13 / 96, contrast=0.6, blurred=False) if i == 0 else o
        for i, o in enumerate(sorted(case.spec.objects, key=lambda o: o.label not in case.question))
    )
    return replace(case, spec=replace(case.spec, objects=objects))


def draw_occluded(rng: Rng) -> Case:
    """An unexpected object whose lower half the scenery hides."""
    case = draw_present(rng)
    objects = tuple(
        replace(o, hidden=0.55, contrast=0.6) if o.label in case.question else o
        for o in case.spec.objects
    )
    return replace(case, spec=replace(case.spec, objects=objects))


def draw_any(rng: Rng) -> Case:
    """Any of these."""
    draws = (
        draw_present,
        draw_motion,
        draw_animal,
        draw_background,
        draw_presupposed,
        draw_partner,
    )
    return draws[rng.integers(len(draws))](rng)


def _repaired(right: Right, trace: Trace, case: Case) -> bool:
    return not right["baseline"] and right["macd"]


def _wrong(right: Right, trace: Trace, case: Case) -> bool:
    return not right["baseline"]


def _asked_is_masked(trace: Trace, case: Case) -> bool:
    """The object that the question names is tracked under its name, and masked."""
    levels = () if trace.counterfactual is None else trace.counterfactual.level
    pairs = zip(trace.tracks, levels, strict=True)
    return any(level > 0 and track.label in case.question for track, level in pairs)


def _all_found(trace: Trace, case: Case) -> bool:
    """Every object, more than one, is tracked under its own name, and nothing else is."""
    return len(trace.tracks) > 1 and sorted(t.label for t in trace.tracks) == sorted(
        case.spec.labels
    )


def _hides(trace: Trace) -> bool:
    return trace.counterfactual is not None and bool(trace.counterfactual.level.any())


def _raised(trace: Trace) -> bool:
    """The query loss of V_d is above that of V, as the ascent intends."""
    made = trace.counterfactual
    if made is None or made.loss is None or made.base_loss is None:
        return False
    return made.loss > made.base_loss


def _three_levels(right: Right, trace: Trace, case: Case) -> bool:
    """The objects' levels hold 0, r0 and 1."""
    return trace.counterfactual is not None and len(set(trace.counterfactual.level.tolist())) == 3


KINDS = (
    Kind(
        "repaired",
        "Masks that MACD chose make a wrong answer right",
        draw_animal,
        lambda r, t, c: (
            _repaired(r, t, c) and _all_found(t, c) and len(t.tracks) > 2 and _raised(t)
        ),
        selective=True,
        outcome_in_title=True,
        baseline=False,
    ),
    Kind(
        "harmed",
        "Masks that MACD chose make a right answer wrong",
        draw_any,
        lambda r, t, c: r["baseline"] and not r["macd"] and _hides(t),
        outcome_in_title=True,
        baseline=True,
    ),
    Kind(
        "unchanged",
        "Objects are masked and the answer stays",
        draw_background,
        lambda r, t, c: r["baseline"] and r["macd"] and _hides(t),
        outcome_in_title=True,
    ),
    Kind(
        "levels",
        "Ten steps of ascent: all three levels",
        draw_animal_among_three,
        lambda r, t, c: _all_found(t, c) and _three_levels(r, t, c),
        options=TEN_STEPS,
    ),
    Kind(
        "frames",
        "The frame mask decides, the objects' masks do not",
        draw_any,
        lambda r, t, c: not r["baseline"] and r["macd"] and not r["macd-object"],
        ("macd-object",),
        baseline=False,
    ),
    Kind(
        "background",
        "The scene suggests an object that is not there",
        draw_background,
        _repaired,
        baseline=False,
    ),
    Kind("co-occurrence", "One of a pair suggests the other", draw_partner, _wrong, baseline=False),
    Kind(
        "motion-leak",
        "Masks that move with their object give its motion away",
        draw_motion,
        lambda r, t, c: r["macd-swept"] and not r["macd"],
        ("macd-swept",),
    ),
    Kind(
        "question-prior",
        "The question presupposes what is not there",
        draw_presupposed,
        _wrong,
        baseline=False,
    ),
    Kind(
        "small",
        "A small object",
        draw_small,
        lambda r, t, c: _wrong(r, t, c) and _asked_is_masked(t, c),
        baseline=False,
    ),
    Kind(
        "occluded",
        "A half hidden object",
        draw_occluded,
        lambda r, t, c: _wrong(r, t, c) and _asked_is_masked(t, c),
        baseline=False,
    ),
)
