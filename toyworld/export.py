"""The drawn world in the layouts in which benchmarks are published: mp4 files and annotations.

So that loaders, sampling from files, prompts, scorers and reports are used from end to end without
anybody's data. Every clip comes from its own seed: exporting more adds clips and changes none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import FPS, SECONDS, TITLE, write_frames
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, frame_times, render, sample, sample_labels

SEED, SIZE = 11, 192
CLEAR = (0.5, 0.8)
Rng = np.random.Generator
Json = Any


def export(name: str, folder: Path, n: int = 4) -> list[Path]:
    """Writes n clips a split, or a task, with their annotations; returns the files written."""
    written: list[Path] = []
    FORMATS[name](_Writer(folder, written), n)
    return written


class _Writer:
    """Puts files below one folder, and remembers them."""

    def __init__(self, folder: Path, written: list[Path]) -> None:
        self.folder, self.written = folder, written

    def video(self, name: str, *specs: ClipSpec, seconds: int = SECONDS) -> None:
        """One clip of that length for each spec, one after another in one file."""
        frames = [render(s, frame_times(seconds * FPS), SIZE) for s in specs]
        whole = np.concatenate(frames)
        write_frames(whole, self._path(name), FPS, {"title": TITLE}, preset="veryfast")

    def json(self, name: str, value: Json) -> None:
        self._path(name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    def lines(self, name: str, records: list[Json]) -> None:
        text = "".join(json.dumps(r) + "\n" for r in records)
        self._path(name).write_text(text, encoding="utf-8")

    def _path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written.append(path)
        return path


def _rng(*key: int) -> Rng:
    return np.random.default_rng([SEED, *key])


def _spec(rng: Rng, n: int = 2, late: float = 0.0) -> ClipSpec:
    scene = priors().scenes[rng.integers(len(priors().scenes))]
    labels = sample_labels(scene, rng, "consistent", n)
    return sample(rng, scene, labels, weak=1.0, contrast=CLEAR, fog=0.0, late=late)


def _one(rng: Rng, among: Any) -> Any:
    return list(among)[rng.integers(len(among))]


def _absent(rng: Rng, spec: ClipSpec, n: int = 1) -> list[str]:
    """Classes that are not in the clip, those that its scene suggests first."""
    p = priors()
    missing = [c for c in p.typical[spec.scene] if c not in spec.labels]
    missing += [c for c in p.classes if c not in spec.labels and c not in missing]
    return [missing[i] for i in range(n)]


def _shuffled(rng: Rng, *options: str) -> list[str]:
    return [options[i] for i in rng.permutation(len(options))]


def _wrong_motion(rng: Rng, spec: ClipSpec, label: str) -> str:
    return str(_one(rng, [m for m in priors().motions if m != spec.find(label).motion]))


def _moving(rng: Rng, spec: ClipSpec) -> tuple[str, str, list[str]]:
    """A question on a motion, its answer, and four options."""
    label = _one(rng, spec.labels)
    answer = spec.find(label).motion
    others = [m for m in priors().motions if m != answer]
    options = _shuffled(rng, answer, *(others[i] for i in rng.permutation(len(others))[:3]))
    return ask.which_way(label), answer, options


def _eventhallusion(out: _Writer, n: int) -> None:
    """Three splits, each with one answer only, as released."""
    for s, split in enumerate(("entire", "misleading", "interleave")):
        entries = []
        for i in range(n):
            rng = _rng(0, s, i)
            spec, name = _spec(rng), f"{split}_{i + 1:03d}"
            label = _one(rng, spec.labels)
            if split == "entire":
                asked, answer = [ask.exists(c) for c in _absent(rng, spec, 1 + i % 2)], "No."
            elif split == "misleading":
                asked, answer = [ask.moves(label, _wrong_motion(rng, spec, label))], "No."
            else:
                asked, answer = [ask.exists(label)], "Yes."
            out.video(f"{split}/{name}.mp4", spec)
            entries.append({
                "id": name,
                "category": "daily",
                "length": f"00:{SECONDS:02d}",
                "event_info": {"object": list(spec.labels), "scene": spec.scene,
                               "caption": ask.caption(spec)},
                "questions": [{"type": "hallucination", "question": q, "answer": answer}
                              for q in asked],
            })  # fmt: skip
        out.json(f"questions/{split}_questions.json", entries)


def _mvbench(out: _Writer, n: int) -> None:
    """Five of the 20 tasks; action_sequence asks about the second half of a longer video."""
    tasks: dict[str, list[Json]] = {t: [] for t in (
        "moving_direction", "object_existence", "moving_count", "character_order",
        "action_sequence")}  # fmt: skip
    for t, (task, entries) in enumerate(tasks.items()):
        for i in range(n):
            rng = _rng(1, t, i)
            spec = _spec(rng, 1 + i % 3 if task == "moving_count" else 2,
                         late=float(task == "character_order"))  # fmt: skip
            video, more = f"{task}_{i:03d}.mp4", {}
            if task in ("moving_direction", "action_sequence"):
                question, answer, options = _moving(rng, spec)
            elif task == "object_existence":
                there = bool(rng.random() < 0.5)
                label = _one(rng, spec.labels) if there else _absent(rng, spec)[0]
                question, answer = ask.exists(label), "yes" if there else "no"
                options = ["yes", "no", "not sure"]
            elif task == "moving_count":
                question, answer = ask.HOW_MANY, ask.NUMBERS[len(spec.objects)]
                options = list(ask.NUMBERS[1:4])
            else:
                first, second = sorted(spec.objects, key=lambda o: o.appears)[:2]
                question = ask.order(*_shuffled(rng, first.label, second.label))
                answer, options = first.label, _shuffled(rng, first.label, second.label)
            if task == "action_sequence":
                out.video(f"video/star/Charades_v1_480/{video}", _spec(rng), spec)
                more = {"start": float(SECONDS), "end": float(2 * SECONDS)}
            else:
                perception = task == "character_order"
                where = "perception/videos" if perception else "clevrer/video_validation"
                out.video(f"video/{where}/{video}", spec)
            entries.append({"video": video, "question": question, "candidates": options,
                            "answer": answer} | more)  # fmt: skip
    for task, entries in tasks.items():
        out.json(f"json/{task}.json", entries)


def _perception_test(out: _Writer, n: int) -> None:
    """Two questions a video; every second video goes on after the frame at which it is cut."""
    videos: dict[str, Json] = {}
    cuts: dict[str, int] = {}
    for i in range(n):
        rng, name = _rng(2, i), f"video_{i + 1}"
        spec = _spec(rng)
        question, answer, options = _moving(rng, spec)
        options = _shuffled(rng, answer, *[o for o in options if o != answer][:2])
        label, missing = _one(rng, spec.labels), _absent(rng, spec, 2)
        kinds = _shuffled(rng, label, *missing)
        count = SECONDS * FPS
        cut = i % 2 == 1
        out.video(f"videos/{name}.mp4", spec, *([_spec(rng)] if cut else []))
        cuts[name] = count if cut else 0
        videos[name] = {
            "metadata": {"video_id": name, "split": "valid", "frame_rate": float(FPS),
                         "num_frames": count * (1 + cut)},
            "mc_question": [
                {"id": 0, "question": question, "options": options,
                 "answer_id": options.index(answer), "area": "physics",
                 "reasoning": "descriptive", "tag": ["motion"]},
                {"id": 1, "question": ask.DESCRIBE, "options": kinds,
                 "answer_id": kinds.index(label), "area": "semantics",
                 "reasoning": "descriptive", "tag": ["object recognition", "distractor object"]},
            ],
        }  # fmt: skip
    out.json("mc_question_valid.json", videos)
    out.json("cut_frame_mapping_valid.json", cuts)


def _video_mme(out: _Writer, n: int) -> None:
    """Short, medium and long are 4, 8 and 12 seconds here."""
    entries = []
    for d, duration in enumerate(("short", "medium", "long")):
        for i in range(n):
            rng, name = _rng(3, d, i), f"{d * n + i + 1:03d}"
            spec = _spec(rng)
            question, answer, options = _moving(rng, spec)
            lines = [f"{'ABCD'[k]}. {o}" for k, o in enumerate(options)]
            out.video(f"data/{name}.mp4", spec, seconds=SECONDS * (d + 1))
            entries.append({
                "video_id": name, "duration": duration, "domain": "Knowledge",
                "sub_category": "Technology",
                "questions": [{"question_id": f"{name}-1", "task_type": "Action Recognition",
                               "question": question, "options": lines,
                               "answer": "ABCD"[options.index(answer)]}],
            })  # fmt: skip
    out.json("video_mme.json", entries)


def _video_pope(out: _Writer, n: int) -> None:
    """Clips and what is in them."""
    labels = []
    for i in range(n):
        spec = _spec(_rng(4, i), 1 + i % 3)
        out.video(f"clip_{i:03d}.mp4", spec)
        labels.append({"video": f"clip_{i:03d}.mp4", "objects": list(spec.labels)})
    out.lines("labels.jsonl", labels)


def _questions(out: _Writer, n: int) -> None:
    """One's own questions: yes/no, open, and with options."""
    records: list[Json] = []
    for i in range(n):
        rng = _rng(5, i)
        spec, video = _spec(rng), f"clip_{i:03d}.mp4"
        out.video(video, spec)
        label = _one(rng, spec.labels)
        question, answer, options = _moving(rng, spec)
        there = i % 2 == 0
        named = label if there else _absent(rng, spec)[0]
        records += [
            {"id": f"{i}-there", "video": video, "question": ask.exists(named),
             "answer": "yes" if there else "no", "type": "objects"},
            {"id": f"{i}-way", "video": video, "question": ask.which_way(label),
             "answer": spec.find(label).motion, "type": "motion"},
            {"id": f"{i}-choice", "video": video, "question": question, "answer": answer,
             "options": options, "type": "choice"},
        ]  # fmt: skip
    out.lines("questions.jsonl", records)


FORMATS: dict[str, Callable[[_Writer, int], None]] = {
    "eventhallusion": _eventhallusion,
    "mvbench": _mvbench,
    "perception-test": _perception_test,
    "video-mme": _video_mme,
    "video-pope": _video_pope,
    "questions": _questions,
}
