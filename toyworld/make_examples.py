"""Looks for clips that show the mechanism, and writes them with their traces to assets/examples.

`python -m toyworld.make_examples`: draws clips by fixed seeds, runs the real pipeline on the real
mp4 files with the shipped models, and keeps the first clip of each kind. Nothing is hand-picked
beyond that, and each example's line of truth is computed from its spec.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.backbones import load_backbone
from core.bundle import save
from core.detect import load_detector
from core.pipeline import run
from core.types import Trace
from toyworld import questions as ask
from toyworld.clips import write_mp4
from toyworld.priors import priors
from toyworld.world import ClipSpec, sample, sample_labels

OUT = Path(__file__).parents[1] / "assets" / "examples"


@dataclass(frozen=True)
class Case:
    """A drawn clip with a question whose true answer is known."""

    name: str
    spec: ClipSpec
    question: str
    truth: str


KINDS = {
    "repaired": "MACD repairs the answer",
    "harmed": "MACD makes it worse",
    "unchanged": "MACD changes nothing",
    "frames": "The frame mask matters",
}


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Faint evidence against a habit: an expected object that is absent, an unexpected animal, an
    unusual motion, a partner that is missing. Endless."""
    p = priors()
    while True:
        faint = {"weak": 0.8, "contrast": (0.15, 0.4), "fog": 0.0}
        scene = p.scenes[rng.integers(len(p.scenes))]
        labels = sample_labels(scene, rng, "breaking", 2)
        absent = [c for c in p.typical[scene] if c not in labels]
        spec = sample(rng, scene, labels, **faint)
        yield Case("background", spec, ask.exists(absent[rng.integers(len(absent))]), "no")
        yield Case("present", spec, ask.exists(labels[0]), "yes")
        animals = [a for a in p.of_kind("animal") if a not in p.typical[scene]]
        animal = animals[rng.integers(len(animals))]
        things = [c for c in labels if p.kind[c] == "thing"]
        spec = sample(rng, scene, [animal, *things], **faint)
        yield Case("animal", spec, ask.which("animal"), animal)
        label = labels[0]
        moves = [m for m in p.motions if m != p.usual_motion[label]]
        motion = moves[rng.integers(len(moves))]
        spec = sample(rng, scene, labels, motions={label: motion}, **faint)
        yield Case("motion", spec, ask.which_way(label), motion)
        head = list(p.partner)[rng.integers(len(p.partner))]
        spec = sample(rng, scene, [head], **faint)
        yield Case("partner", spec, ask.exists(p.partner[head]), "no")


def kind_of(trace: Trace, truth: str) -> str | None:
    """Which of KINDS a trace shows, if any."""
    base, macd = (trace.answers[m].text for m in ("baseline", "macd"))
    found = trace.counterfactual
    if found is None or not trace.tracks:
        return None
    if base != truth and macd == truth:
        hidden_frames = found.frame_level.any() and not found.level.any()
        return "frames" if hidden_frames else "repaired"
    if base == truth and macd != truth:
        return "harmed"
    if base == macd == truth and found.level.any():
        return "unchanged"
    return None


def describe(case: Case) -> str:
    """The truth in one line."""
    seen = ", ".join(
        f"{ask.with_article(o.label)} ({'still' if o.motion == 'still' else 'moving ' + o.motion})"
        for o in case.spec.objects
    )
    return f"True answer: {case.truth}. Drawn {priors().phrase[case.spec.scene]}: {seen}."


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--tries", type=int, default=400)
    parser.add_argument("--retrace", action="store_true", help="keep the clips, redo the traces")
    args = parser.parse_args()
    lm, detector = load_backbone("toyworld", "cpu"), load_detector("toyworld")
    if args.retrace:
        for row in json.loads((OUT / "index.json").read_text()):
            video = OUT / row["video"]
            *_, last = run(video, row["question"], lambda: lm, lambda: detector)
            assert last.trace is not None
            assert row["answers"] == {m: a.text for m, a in last.trace.answers.items()}, row
            save(last.trace, video.with_suffix(".macd"))
        return
    wanted, rows = dict(KINDS), []
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    seen: dict[str, int] = {}
    used: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        clip = Path(folder) / "clip.mp4"
        for i, case in enumerate(cases(np.random.default_rng(args.seed))):
            if not wanted or i >= args.tries:
                break
            write_mp4(case.spec, clip)
            *_, last = run(clip, case.question, lambda: lm, lambda: detector)
            trace = last.trace
            kind = kind_of(trace, case.truth) if trace else None
            seen[kind or "other"] = seen.get(kind or "other", 0) + 1
            if trace is None or kind not in wanted or case.name in used:
                continue
            used.add(case.name)
            name = f"{kind}-{case.name}"
            video = OUT / f"{name}.mp4"
            shutil.copy(clip, video)
            *_, last = run(video, case.question, lambda: lm, lambda: detector)
            assert last.trace is not None
            save(last.trace, video.with_suffix(".macd"))
            title = KINDS[kind]
            rows.append(
                {
                    "title": title,
                    "question": case.question,
                    "truth": describe(case),
                    "video": video.name,
                    "kind": kind,
                    "answers": {m: a.text for m, a in last.trace.answers.items()},
                }
            )
            del wanted[kind]
            print(f"{i:4d} {name}: {rows[-1]['answers']}", flush=True)
    rows.sort(key=lambda r: list(KINDS).index(str(r["kind"])))
    (OUT / "index.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(json.dumps(seen), f"missing: {sorted(wanted)}")


if __name__ == "__main__":
    main()
