"""How the clips of the course's quizzes are drawn: what is asked is often faint.

A quiz shows the same clip with every object opaque beside it. Clips of examples: `example_draws`.
"""

from __future__ import annotations

from dataclasses import replace

from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.example_draws import Case, Rng
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, sample, sample_labels


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


def draw_presupposed(rng: Rng) -> Case:
    """A question that presupposes what is not there."""
    p, scene = priors(), _scene(rng)
    kind = ("animal", "vehicle")[rng.integers(2)]
    labels = [c for c in sample_labels(scene, rng, "consistent", 4) if p.kind[c] != kind][:2]
    return Case(_faint(rng, scene, labels), ask.which(kind), ask.NONE)
