"""Looks for clips that show the mechanism, and writes them with their traces to assets/examples.

`python -m toyworld.make_examples`: for every kind of example draws clips by a fixed seed, runs the
real pipeline with the shipped models, and keeps the first clip that shows it. Nothing is picked by
hand beyond that, and each example's line of truth is computed from its spec.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from core.backbones import VideoLM, load_backbone
from core.objects.detect import Detector, load_detector
from core.pipeline import run
from core.shipped import assets
from core.traces.bundle import save
from core.types import Trace
from toyworld import questions as ask
from toyworld.clips import drawn_clip, write_mp4
from toyworld.priors import priors
from toyworld.world import ClipSpec, sample, sample_labels

OUT = assets() / "examples"
METHODS = ("macd-object", "macd-swept")
Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """A drawn clip with a question whose true answer is known."""

    spec: ClipSpec
    question: str
    truth: str


@dataclass(frozen=True)
class Kind:
    """One kind of example: how its clips are drawn, and what a trace of it must show.

    beside: the methods that show it, kept in the trace beside baseline and MACD.
    """

    name: str
    title: str
    draw: Callable[[Rng], Case]
    shows: Callable[[dict[str, bool], Trace, Case], bool]
    beside: tuple[str, ...] = ()


def _scene(rng: Rng) -> str:
    scenes = priors().scenes
    return scenes[rng.integers(len(scenes))]


def _faint(rng: Rng, scene: str, labels: list[str], **how: object) -> ClipSpec:
    usual: dict[str, object] = {"weak": 0.8, "contrast": (0.15, 0.45), "fog": 0.0}
    return sample(rng, scene, labels, **usual | how)  # type: ignore[arg-type]


def _background(rng: Rng) -> Case:
    """An object that the scene suggests and that is not there."""
    scene = _scene(rng)
    labels = sample_labels(scene, rng, "breaking", 2)
    absent = [c for c in priors().typical[scene] if c not in labels]
    return Case(_faint(rng, scene, labels), ask.exists(absent[rng.integers(len(absent))]), "no")


def _animal(rng: Rng) -> Case:
    """An animal that one does not meet here, beside another thing."""
    p, scene = priors(), _scene(rng)
    animals = [a for a in p.of_kind("animal") if a not in p.typical[scene]]
    animal = animals[rng.integers(len(animals))]
    labels = sample_labels(scene, rng, "breaking", 2)
    things = [c for c in labels if p.kind[c] == "thing"]
    return Case(_faint(rng, scene, [animal, *things]), ask.which("animal"), animal)


def _present(rng: Rng) -> Case:
    """An object that one does not expect here."""
    scene = _scene(rng)
    labels = sample_labels(scene, rng, "breaking", 2)
    return Case(_faint(rng, scene, labels), ask.exists(labels[0]), "yes")


def _partner(rng: Rng) -> Case:
    """One of a pair, without the other."""
    p = priors()
    head = list(p.partner)[rng.integers(len(p.partner))]
    scene = next(s for s in p.scenes if head in p.typical[s])
    return Case(_faint(rng, scene, [head]), ask.exists(p.partner[head]), "no")


def _motion(rng: Rng) -> Case:
    """An expected object that moves as it never does."""
    p, scene = priors(), _scene(rng)
    labels = sample_labels(scene, rng, "consistent", 2)
    moves = [m for m in p.motions if m != p.usual_motion[labels[0]]]
    motion = moves[rng.integers(len(moves))]
    spec = _faint(rng, scene, labels, motions={labels[0]: motion})
    return Case(spec, ask.which_way(labels[0]), motion)


def _presupposed(rng: Rng) -> Case:
    """A question that presupposes what is not there."""
    p, scene = priors(), _scene(rng)
    kind = ("animal", "vehicle")[rng.integers(2)]
    labels = [c for c in sample_labels(scene, rng, "consistent", 4) if p.kind[c] != kind][:2]
    return Case(_faint(rng, scene, labels), ask.which(kind), ask.NONE)


def _small(rng: Rng) -> Case:
    """An unexpected object, clear but tiny."""
    case = _present(rng)
    objects = tuple(
        replace(o, size=13 / 96, contrast=0.6, blurred=False) if i == 0 else o
        for i, o in enumerate(sorted(case.spec.objects, key=lambda o: o.label not in case.question))
    )
    return replace(case, spec=replace(case.spec, objects=objects))


def _occluded(rng: Rng) -> Case:
    """An unexpected object whose lower half the scenery hides."""
    case = _present(rng)
    objects = tuple(
        replace(o, hidden=0.55, contrast=0.6) if o.label in case.question else o
        for o in case.spec.objects
    )
    return replace(case, spec=replace(case.spec, objects=objects))


def _any(rng: Rng) -> Case:
    """Any of these."""
    draws = (_present, _motion, _animal, _background, _presupposed, _partner)
    return draws[rng.integers(len(draws))](rng)


def _repaired(right: dict[str, bool], trace: Trace, case: Case) -> bool:
    return not right["baseline"] and right["macd"]


def _wrong(right: dict[str, bool], trace: Trace, case: Case) -> bool:
    return not right["baseline"]


def _all_found(trace: Trace, case: Case) -> bool:
    """Every object, more than one, is tracked under its own name, and nothing else is."""
    return len(trace.tracks) > 1 and sorted(t.label for t in trace.tracks) == sorted(
        case.spec.labels
    )


def _hides(trace: Trace) -> bool:
    return trace.counterfactual is not None and bool(trace.counterfactual.level.any())


KINDS = (
    Kind(
        "repaired",
        "MACD repairs the answer",
        _animal,
        lambda r, t, c: _repaired(r, t, c) and _all_found(t, c),
    ),
    Kind("harmed", "MACD makes it worse", _any, lambda r, t, c: r["baseline"] and not r["macd"]),
    Kind(
        "unchanged",
        "MACD changes nothing",
        _background,
        lambda r, t, c: r["baseline"] and r["macd"] and _hides(t),
    ),
    Kind(
        "frames",
        "The frame mask matters",
        _any,
        lambda r, t, c: not r["baseline"] and r["macd"] and not r["macd-object"],
        ("macd-object",),
    ),
    Kind("background", "Background prior", _background, _repaired),
    Kind("co-occurrence", "Co-occurrence", _partner, _wrong),
    Kind(
        "motion-leak",
        "Masks that move leak the motion",
        _motion,
        lambda r, t, c: r["macd-swept"] and not r["macd"],
        ("macd-swept",),
    ),
    Kind("question-prior", "Question prior", _presupposed, _wrong),
    Kind("small", "Small object", _small, _wrong),
    Kind("occluded", "Occluded object", _occluded, _wrong),
)

OUTCOMES = {
    (False, True): "MACD repairs it",
    (False, False): "MACD does not help",
    (True, False): "MACD spoils it",
    (True, True): "both are right",
}


def describe(case: Case) -> str:
    """The truth in one line."""
    seen = ", ".join(
        f"{ask.with_article(o.label)} ({'still' if o.motion == 'still' else 'moving ' + o.motion})"
        for o in case.spec.objects
    )
    return f"True answer: {case.truth}. Drawn {priors().phrase[case.spec.scene]}: {seen}."


def answers(trace: Trace) -> dict[str, str]:
    """Each method's answer."""
    return {m: a.text for m, a in trace.answers.items()}


def trace_of(
    video: object,
    question: str,
    lm: VideoLM,
    detector: Detector,
    methods: tuple[str, ...] = METHODS,
) -> Trace:
    """The real pipeline's trace of a file, or of a call that gives a clip."""
    *_, last = run(video, question, lambda: lm, lambda: detector, methods=methods)  # type: ignore[arg-type]
    assert last.trace is not None
    return last.trace


def find(kind: Kind, seed: int, tries: int, lm: VideoLM, detector: Detector) -> dict | None:
    """The first clip of a kind, written with its trace; None where no try shows it."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    video = OUT / f"{kind.name}.mp4"

    def shown(trace: Trace, case: Case) -> bool:
        right = {m: text == case.truth for m, text in answers(trace).items()}
        return bool(trace.tracks) and kind.shows(right, trace, case)

    for i in range(tries):
        case = kind.draw(rng)
        clip = drawn_clip(case.spec, kind.name, "0" * 64)
        if not shown(trace_of(lambda clip=clip: clip, case.question, lm, detector), case):
            continue
        write_mp4(case.spec, video)  # and once more on the file: a codec may change the answer
        trace = trace_of(video, case.question, lm, detector)
        if not shown(trace, case):
            video.unlink()
            continue
        trace = trace_of(video, case.question, lm, detector, kind.beside)
        save(trace, video.with_suffix(".macd"))
        said = answers(trace)
        outcome = OUTCOMES[said["baseline"] == case.truth, said["macd"] == case.truth]
        plain = kind.name in ("repaired", "harmed", "unchanged")
        print(f"{kind.name}: try {i + 1}, {said}", flush=True)
        return {
            "title": kind.title if plain else f"{kind.title}: {outcome}",
            "question": case.question,
            "truth": describe(case),
            "answer": case.truth,
            "video": video.name,
            "kind": kind.name,
            "tries": i + 1,
            "answers": said,
        }
    print(f"{kind.name}: not in {tries} tries", flush=True)
    return None


def retrace(lm: VideoLM, detector: Detector) -> None:
    """Keeps the clips and computes their traces again; they must say what they said."""
    rows = json.loads((OUT / "index.json").read_text())
    beside = {kind.name: kind.beside for kind in KINDS}
    for row in rows:
        video = OUT / row["video"]
        trace = trace_of(video, row["question"], lm, detector, beside[row["kind"]])
        said = answers(trace)
        assert said == {m: row["answers"][m] for m in said}, row
        row["answers"] = said
        save(trace, video.with_suffix(".macd"))
    (OUT / "index.json").write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--tries", type=int, default=300, help="clips drawn for each kind")
    parser.add_argument("--only", nargs="+", default=[], help="kinds to look for again")
    parser.add_argument("--retrace", action="store_true", help="keep the clips, redo the traces")
    args = parser.parse_args()
    lm, detector = load_backbone("toyworld", "cpu"), load_detector("toyworld")
    if args.retrace:
        retrace(lm, detector)
        return
    index = OUT / "index.json"
    kept = {r["kind"]: r for r in json.loads(index.read_text())} if args.only else {}
    if not args.only:
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
    for kind in KINDS:
        if not args.only or kind.name in args.only:
            row = find(kind, args.seed, args.tries, lm, detector)
            kept |= {kind.name: row} if row else {}
            rows = [kept[k.name] for k in KINDS if k.name in kept]
            index.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
