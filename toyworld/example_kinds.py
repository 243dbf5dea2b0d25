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

FIVE_STEPS = RunOptions(ascent=AscentOptions(steps=5))
TEN_STEPS = RunOptions(ascent=AscentOptions(steps=10, tau=0.005))
Rng = np.random.Generator
HARDLY = 0.2
"""Log-odds, nats, that an answer still has where it does not rest on what was hidden."""


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
    confirms: what the trace with occlusion report and controls must show in addition.
    baseline: whether `shows` asks for a right or a wrong baseline, so that the first token alone,
        which costs one forward pass, tells most of the other clips; None where it asks for neither.
    """

    name: str
    title: str
    draw: Callable[[Rng], Case]
    shows: Callable[[Right, Trace, Case], bool]
    beside: tuple[str, ...] = ()
    selective: bool = False
    confirms: Callable[[Right, Trace, Case], bool] | None = None
    options: RunOptions = field(default_factory=RunOptions)
    outcome_in_title: bool = False
    baseline: bool | None = None


def _scene(rng: Rng) -> str:
    scenes = priors().scenes
    return scenes[rng.integers(len(scenes))]


def _faint(rng: Rng, scene: str, labels: list[str], **how: object) -> ClipSpec:
    usual: dict[str, object] = {"weak": 0.8, "contrast": (0.15, 0.45), "fog": 0.0}
    return sample(rng, scene, labels, **usual | how)  # type: ignore[arg-type]


def _among_large(rng: Rng, scene: str, labels: list[str], opacity: tuple[float, float]) -> ClipSpec:
    """The first label faint, the others large and clear; all of them move anyhow."""
    motions = {c: priors().motions[rng.integers(len(priors().motions))] for c in labels}
    spec = sample(rng, scene, labels, weak=0.0, fog=0.0, motions=motions)
    faint = float(rng.uniform(*opacity))
    objects = (replace(o, contrast=faint) if o.label == labels[0] else o for o in spec.objects)
    return replace(spec, objects=tuple(objects))


def draw_among_large(rng: Rng) -> Case:
    """A faint animal, seldom one that the scene suggests, beside three large clear things."""
    p, scene = priors(), _scene(rng)
    animal = p.of_kind("animal")[rng.integers(len(p.of_kind("animal")))]
    things = [str(c) for c in rng.permutation(p.of_kind("thing"))[:3]]
    spec = _among_large(rng, scene, [animal, *things], (0.1, 0.3))
    return Case(spec, ask.which("animal"), animal)


def draw_against_habit(rng: Rng) -> Case:
    """A question whose habit is wrong about one faint thing, beside three large clear ones.

    How it moves, or whether it is there where the other one of its pair is and it is not.
    """
    p, scene = priors(), _scene(rng)
    things = [str(c) for c in rng.permutation(p.of_kind("thing"))]
    if rng.random() < 0.5:
        asked, shown = things[0], things[1:4]
        spec = _among_large(rng, scene, [asked, *shown], (0.06, 0.2))
        motion = spec.find(asked).motion
        if motion != p.usual_motion[asked]:
            return Case(spec, ask.which_way(asked), motion)
    head = list(p.partner)[rng.integers(len(p.partner))]
    asked = p.partner[head]
    shown = [c for c in things if c not in (head, asked)][:3]
    spec = _among_large(rng, scene, [shown[0], head, *shown[1:]], (0.06, 0.2))
    return Case(spec, ask.exists(asked), "no")


def draw_present_by_habit(rng: Rng) -> Case:
    """One of a pair, faint, beside the other and two more large clear things: is it there?"""
    p = priors()
    head = list(p.partner)[rng.integers(len(p.partner))]
    asked = p.partner[head]
    scene = next(s for s in p.scenes if head in p.typical[s])
    rest = [c for c in p.of_kind("thing") if c not in (head, asked)]
    things = [str(c) for c in rng.permutation(rest)[:2]]
    spec = _among_large(rng, scene, [asked, head, *things], (0.3, 0.9))
    return Case(spec, ask.exists(asked), "yes")


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


def _named(trace: Trace, case: Case) -> bool:
    """Every track bears the name of an object that is there, and no two the same."""
    labels = [t.label for t in trace.tracks]
    return len(set(labels)) == len(labels) and set(labels) <= set(case.spec.labels)


def _hides(trace: Trace) -> bool:
    return trace.counterfactual is not None and bool(trace.counterfactual.level.any())


def _raised(trace: Trace) -> bool:
    """The query loss of V_d is above that of V, as the ascent intends."""
    made = trace.counterfactual
    if made is None or made.loss is None or made.base_loss is None:
        return False
    return made.loss > made.base_loss


def _several_large(trace: Trace) -> bool:
    """Three or more tracks, with at least two of them of a fifth of the frame's side or more."""
    large = 0
    for track in trace.tracks:
        sides = track.boxes[:, 2:] - track.boxes[:, :2]
        large += bool(np.nanmax(sides) >= 0.2)
    return len(trace.tracks) > 2 and large > 1


def _never_looked(right: Right, trace: Trace, case: Case) -> bool:
    """The answer about an object is right, and stays the likelier one with that object hidden.

    The object is tracked on every frame, so that nothing of it stays in sight.
    """
    if trace.occlusion is None or not right["baseline"]:
        return False
    first = trace.answers["baseline"].tokens[0]
    p = float(np.exp(first.base.max() - first.base_log_z))
    odds = np.log(p / (1 - p))
    changes = zip(trace.tracks, trace.occlusion.odds_change, strict=True)
    asked = [z for t, z in changes if t.label in case.question and np.isfinite(t.boxes).all()]
    return bool(asked) and odds + min(asked) > HARDLY


def _controls_do_the_same(trace: Trace) -> bool:
    """Every control chooses what MACD chooses, and at least three of four random masks."""
    if trace.controls is None:
        return False
    random = [o.same for o in trace.controls.outcomes if o.name == "random"]
    others = [o.same for o in trace.controls.outcomes if o.name != "random"]
    return all(others) and 4 * sum(random) >= 3 * len(random)


def _three_levels(right: Right, trace: Trace, case: Case) -> bool:
    """The objects' levels hold 0, r0 and 1."""
    return trace.counterfactual is not None and len(set(trace.counterfactual.level.tolist())) == 3


KINDS = (
    Kind(
        "repaired",
        "Masks that MACD chose make a wrong answer right",
        draw_against_habit,
        lambda r, t, c: (
            _repaired(r, t, c) and _several_large(t) and _raised(t) and _hides(t) and _named(t, c)
        ),
        selective=True,
        options=FIVE_STEPS,
        outcome_in_title=True,
        baseline=False,
    ),
    Kind(
        "harmed",
        "Masks that MACD chose make a right answer wrong",
        draw_against_habit,
        lambda r, t, c: r["baseline"] and not r["macd"] and _several_large(t) and _hides(t),
        options=FIVE_STEPS,
        outcome_in_title=True,
        baseline=True,
    ),
    Kind(
        "controls",
        "MACD makes a wrong answer right, and so does every control",
        draw_among_large,
        lambda r, t, c: _repaired(r, t, c) and _several_large(t) and _hides(t),
        confirms=lambda r, t, c: _controls_do_the_same(t),
        options=FIVE_STEPS,
        outcome_in_title=True,
        baseline=False,
    ),
    Kind(
        "not-looked",
        "Right without looking: with the object hidden the answer stays",
        draw_present_by_habit,
        lambda r, t, c: r["baseline"] and _several_large(t) and _hides(t),
        confirms=_never_looked,
        options=FIVE_STEPS,
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
        _wrong,
        baseline=False,
    ),
    Kind("co-occurrence", "One of a pair suggests the other", draw_partner, _wrong, baseline=False),
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
