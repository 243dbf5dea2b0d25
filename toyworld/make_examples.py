"""Looks for clips that show the mechanism, and writes them with their traces to assets/examples.

`python -m toyworld.make_examples`: for every kind of example draws clips by a fixed seed, runs the
real pipeline with the shipped models, and keeps the first clip that shows it. Nothing is picked by
hand beyond that. Each example's line of truth is computed from its spec, and its title says what
came of it; the index says how many clips were drawn until one was kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from core.backbones import VideoLM, load_backbone
from core.objects.detect import Detector, load_detector
from core.options import AscentOptions, RunOptions
from core.pipeline import run
from core.shipped import assets
from core.traces.bundle import load, save
from core.truth import is_right
from core.types import Clip, Trace
from core.whatif.workbench import Workbench
from toyworld import questions as ask
from toyworld.clips import drawn_clip, write_mp4
from toyworld.priors import priors
from toyworld.world import ClipSpec, sample, sample_labels

OUT = assets() / "examples"
GOLD = Path(__file__).parents[1] / "ratings" / "examples_gold.json"
TEN_STEPS = RunOptions(ascent=AscentOptions(steps=10, tau=0.005))
Rng = np.random.Generator
Row = dict[str, Any]
"""What the index says of an example."""


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

    beside: the methods that show it, kept in the trace in addition to baseline and MACD.
    outcome_in_title: the title already says what came of it.
    selective: no more than half of the random masks, neither reversed gradient nor blank video may
        do what MACD does. Where no clip is like that, the first that `shows` is taken.
    """

    name: str
    title: str
    draw: Callable[[Rng], Case]
    shows: Callable[[Right, Trace, Case], bool]
    beside: tuple[str, ...] = ()
    selective: bool = False
    options: RunOptions = field(default_factory=RunOptions)
    outcome_in_title: bool = False


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
    """An animal that is unusual in this scene, next to another object."""
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


def _animal_among_three(rng: Rng) -> Case:
    """A usual animal, faint, next to two other objects."""
    p, scene = priors(), _scene(rng)
    labels = sample_labels(scene, rng, "consistent", 3)
    animals = [c for c in labels if p.kind[c] == "animal"]
    return Case(_faint(rng, scene, labels), ask.which("animal"), (animals or [ask.NONE])[0])


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
    counterfactual = trace.counterfactual
    if counterfactual is None or counterfactual.loss is None or counterfactual.base_loss is None:
        return False
    return counterfactual.loss > counterfactual.base_loss


def _three_levels(right: Right, trace: Trace, case: Case) -> bool:
    """The objects' levels hold 0, r0 and 1."""
    return trace.counterfactual is not None and len(set(trace.counterfactual.level.tolist())) == 3


KINDS = (
    Kind(
        "repaired",
        "Masks that MACD chose make a wrong answer right",
        _animal,
        lambda r, t, c: (
            _repaired(r, t, c) and _all_found(t, c) and len(t.tracks) > 2 and _raised(t)
        ),
        selective=True,
        outcome_in_title=True,
    ),
    Kind(
        "harmed",
        "Masks that MACD chose make a right answer wrong",
        _any,
        lambda r, t, c: r["baseline"] and not r["macd"] and _hides(t),
        outcome_in_title=True,
    ),
    Kind(
        "unchanged",
        "Objects are masked and the answer stays",
        _background,
        lambda r, t, c: r["baseline"] and r["macd"] and _hides(t),
        outcome_in_title=True,
    ),
    Kind(
        "levels",
        "Ten steps of ascent: all three levels",
        _animal_among_three,
        lambda r, t, c: _all_found(t, c) and _three_levels(r, t, c),
        options=TEN_STEPS,
    ),
    Kind(
        "frames",
        "The frame mask decides, the objects' masks do not",
        _any,
        lambda r, t, c: not r["baseline"] and r["macd"] and not r["macd-object"],
        ("macd-object",),
    ),
    Kind("background", "The scene suggests an object that is not there", _background, _repaired),
    Kind("co-occurrence", "One of a pair suggests the other", _partner, _wrong),
    Kind(
        "motion-leak",
        "Masks that move with their object give its motion away",
        _motion,
        lambda r, t, c: r["macd-swept"] and not r["macd"],
        ("macd-swept",),
    ),
    Kind("question-prior", "The question presupposes what is not there", _presupposed, _wrong),
    Kind(
        "small",
        "A small object",
        _small,
        lambda r, t, c: _wrong(r, t, c) and _asked_is_masked(t, c),
    ),
    Kind(
        "occluded",
        "A half hidden object",
        _occluded,
        lambda r, t, c: _wrong(r, t, c) and _asked_is_masked(t, c),
    ),
)

OUTCOMES = {
    (False, True): "wrong becomes right",
    (False, False): "wrong stays wrong",
    (True, False): "right becomes wrong",
    (True, True): "right stays right",
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
    truth: str,
    kind: Kind,
    lm: VideoLM,
    detector: Detector,
) -> Trace:
    """The real pipeline's trace of a file, or of a call that gives a clip, with its truth."""
    *_, last = run(
        video,  # type: ignore[arg-type]
        question,
        lambda: lm,
        lambda: detector,
        kind.options,
        methods=kind.beside,
    )
    assert last.trace is not None
    return replace(last.trace, truth=truth)


def plain_trace(clip: Clip, question: str, lm: VideoLM, detector: Detector) -> Trace:
    """The trace of a drawn clip with the default options and no further methods."""
    *_, last = run(lambda: clip, question, lambda: lm, lambda: detector)
    assert last.trace is not None
    return last.trace


def measured(trace: Trace, lm: VideoLM) -> Trace:
    """The trace with its occlusion report and its controls."""
    bench = Workbench(trace, lm)
    bench.measure_occlusion()
    return bench.measure_controls()


def is_selective(trace: Trace) -> bool:
    """Whether few controls do what MACD does: see `Kind.selective`."""
    assert trace.controls is not None
    same = [o for o in trace.controls.outcomes if o.same]
    random = sum(o.name == "random" for o in same)
    draws = sum(o.name == "random" for o in trace.controls.outcomes)
    return 2 * random <= draws and not any(o.name in ("reversed", "blank") for o in same)


def find(kind: Kind, seed: int, tries: int, lm: VideoLM, detector: Detector) -> Row | None:
    """The first clip of a kind, written with its trace; None where no try shows it."""
    rng = np.random.default_rng([seed, *kind.name.encode()])
    best: Row | None = None
    for attempt in range(1, tries + 1):
        case = kind.draw(rng)
        clip = drawn_clip(case.spec, kind.name, "0" * 64)
        trace = trace_of(lambda clip=clip: clip, case.question, case.truth, kind, lm, detector)
        if not _shows(kind, trace, case):
            continue
        selective = kind.selective and is_selective(measured(trace, lm))
        if best is not None and not selective:
            continue
        row = _written(kind, case, attempt, lm, detector, selective)
        best = row or best
        if row is not None and selective is kind.selective:
            break
    print(kind.name, best and {n: best[n] for n in ("tries", "answers", "controls")}, flush=True)
    return best


def _shows(kind: Kind, trace: Trace, case: Case) -> bool:
    return bool(trace.tracks) and kind.shows(_right(trace, case), trace, case)


def _right(trace: Trace, case: Case) -> Right:
    return {m: bool(is_right(text, case.truth)) for m, text in answers(trace).items()}


def _written(
    kind: Kind, case: Case, attempt: int, lm: VideoLM, detector: Detector, selective: bool
) -> Row | None:
    """Clip and trace as files, and their row; None where the codec changes what the trace shows."""
    with TemporaryDirectory() as folder:
        video = Path(folder) / f"{kind.name}.mp4"
        write_mp4(case.spec, video)
        trace = trace_of(video, case.question, case.truth, kind, lm, detector)
        if not _shows(kind, trace, case):
            return None
        trace = measured(trace, lm)
        if selective and not is_selective(trace):
            return None
        shutil.copy(video, OUT / video.name)
    save(trace, OUT / f"{kind.name}.macd")
    return _row(kind, case, attempt, trace)


def _row(kind: Kind, case: Case, attempt: int, trace: Trace) -> Row:
    assert trace.controls is not None
    right = _right(trace, case)
    same = [o.name for o in trace.controls.outcomes if o.same]
    draws = sum(o.name == "random" for o in trace.controls.outcomes)
    outcome = OUTCOMES[right["baseline"], right["macd"]]
    return {
        "title": kind.title if kind.outcome_in_title else f"{kind.title}: {outcome}",
        "question": case.question,
        "truth": describe(case),
        "answer": case.truth,
        "video": f"{kind.name}.mp4",
        "kind": kind.name,
        "tries": attempt,
        "answers": answers(trace),
        "controls": {
            "random": [same.count("random"), draws],
            "others": [name for name in same if name != "random"],
        },
    }


def write_gold(rows: list[Row]) -> None:
    """Questions of the rating study whose good and bad mask are known, about four of the examples.

    Two objects a clip, tracked under their own names: hiding the one that is asked for is right.
    """
    items: list[dict[str, Any]] = []
    for row in rows:
        labels = {t.id: t.label for t in load(OUT / f"{row['kind']}.macd").tracks}
        drawn = all(f" {label} (" in row["truth"] for label in labels.values())
        if len(items) == 4 or len(labels) < 2 or len(set(labels.values())) < len(labels):
            continue
        if not drawn:
            continue
        asked, other = list(labels)[-1 - len(items) % 2], list(labels)[-2 + len(items) % 2]
        about, beside = labels[asked], labels[other]
        right = {"hide": [asked], "low": 4, "high": 5}
        wrong = {"hide": [other], "low": 1, "high": 2}
        training = len(items) < 2
        if training:
            right["why"] = (
                f"This mask hides the {about}, which the question is about, and leaves the rest as"
                " it was: 4 or 5."
            )
            wrong["why"] = (
                f"This mask hides the {beside} and leaves the {about} in full view, so the"
                " question can still be answered: 1 or 2."
            )
        sides = [right, wrong] if len(items) % 3 == 0 else [wrong, right]
        question = f"Is there {ask.with_article(about)} in the video?"
        item = {"trace": f"{row['kind']}.macd", "question": question, "sides": sides}
        items.append(item | ({"training": True} if training else {}))
    GOLD.write_text(json.dumps(items, indent=1) + "\n")


def retrace(lm: VideoLM, detector: Detector) -> None:
    """Keeps the clips and computes their traces again; they must give the same answers."""
    rows = json.loads((OUT / "index.json").read_text())
    kinds = {kind.name: kind for kind in KINDS}
    for row in rows:
        video, kind = OUT / row["video"], kinds[row["kind"]]
        trace = trace_of(video, row["question"], row["answer"], kind, lm, detector)
        trace = measured(trace, lm)
        assert answers(trace) == row["answers"], row
        save(trace, video.with_suffix(".macd"))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--tries", type=int, default=1000, help="clips drawn for each kind")
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
    write_gold(list(kept.values()))


if __name__ == "__main__":
    main()
