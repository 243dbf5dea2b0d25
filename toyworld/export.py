"""The drawn world in the layouts in which benchmarks are published: mp4 files and annotations.

So that loaders, sampling from files, prompts, scorers and reports are used from end to end without
anybody's data. Every clip comes from its own seed: exporting more adds clips and changes none. A
pair of clips is drawn twice: with an object, and without it or with another one in its place.
Everything else is the same to the last pixel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import FPS, SECONDS, TITLE, write_frames
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import (
    ClipSpec,
    ObjectSpec,
    frame_times,
    render,
    sample,
    sample_labels,
)

LETTERS = "ABCD"
SEED, SIZE = 11, 192
CLEAR = (0.5, 0.8)
Rng = np.random.Generator
Json = Any


class Writer:
    """Puts files below one folder, and remembers them."""

    def __init__(self, folder: Path, written: list[Path]) -> None:
        self.folder, self.written = folder, written

    def video(self, name: str, *specs: ClipSpec, seconds: int = SECONDS) -> None:
        """One clip of that length for each spec, one after another in one file."""
        frames = [render(s, frame_times(seconds * FPS), SIZE) for s in specs]
        whole = np.concatenate(frames)
        write_frames(whole, self._path(name), FPS, {"title": TITLE}, preset="veryfast")

    def json(self, name: str, value: Json) -> None:
        """A file of JSON."""
        self._path(name).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")

    def lines(self, name: str, records: list[Json]) -> None:
        """A file of JSON, one record a line."""
        text = "".join(json.dumps(r) + "\n" for r in records)
        self._path(name).write_text(text, encoding="utf-8")

    def _path(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.written.append(path)
        return path


def clip_rng(*key: int) -> Rng:
    """The draws of one clip, whatever else is drawn."""
    return np.random.default_rng([SEED, *key])


def clear_spec(rng: Rng, n: int = 2, late: float = 0.0) -> ClipSpec:
    """A clip of n clear objects that its scene suggests."""
    scene = priors().scenes[rng.integers(len(priors().scenes))]
    labels = sample_labels(scene, rng, "consistent", n)
    return sample(rng, scene, labels, weak=1.0, contrast=CLEAR, fog=0.0, late=late)


def one_of(rng: Rng, among: Any) -> Any:
    """One of them, drawn."""
    return list(among)[rng.integers(len(among))]


def absent_from(rng: Rng, spec: ClipSpec, n: int = 1) -> list[str]:
    """Classes that are not in the clip, those that its scene suggests first."""
    p = priors()
    missing = [c for c in p.typical[spec.scene] if c not in spec.labels]
    missing += [c for c in p.classes if c not in spec.labels and c not in missing]
    return [missing[i] for i in range(n)]


def shuffled(rng: Rng, *options: str) -> list[str]:
    """The options in a drawn order."""
    return [options[i] for i in rng.permutation(len(options))]


def wrong_motion(rng: Rng, spec: ClipSpec, label: str) -> str:
    """A motion that is not the object's."""
    return str(one_of(rng, [m for m in priors().motions if m != spec.find(label).motion]))


def moving_question(rng: Rng, spec: ClipSpec) -> tuple[str, str, list[str]]:
    """A question on a motion, its answer, and four options."""
    label = one_of(rng, spec.labels)
    answer = spec.find(label).motion
    others = [m for m in priors().motions if m != answer]
    options = shuffled(rng, answer, *(others[i] for i in rng.permutation(len(others))[:3]))
    return ask.which_way(label), answer, options


def export(name: str, folder: Path, n: int = 4) -> list[Path]:
    """Writes n clips a split, or a task, with their annotations; returns the files written."""
    written: list[Path] = []
    FORMATS[name](Writer(folder, written), n)
    return written


def _eventhallusion(out: Writer, n: int) -> None:
    """Three splits, each with one answer only, as released."""
    for s, split in enumerate(("entire", "misleading", "interleave")):
        entries = []
        for i in range(n):
            rng = clip_rng(0, s, i)
            spec, name = clear_spec(rng), f"{split}_{i + 1:03d}"
            label = one_of(rng, spec.labels)
            if split == "entire":
                asked, answer = [ask.exists(c) for c in absent_from(rng, spec, 1 + i % 2)], "No."
            elif split == "misleading":
                asked, answer = [ask.moves(label, wrong_motion(rng, spec, label))], "No."
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


def _mvbench(out: Writer, n: int) -> None:
    """Five of the 20 tasks; action_sequence asks about the second half of a longer video."""
    tasks: dict[str, list[Json]] = {t: [] for t in (
        "moving_direction", "object_existence", "moving_count", "character_order",
        "action_sequence")}  # fmt: skip
    for t, (task, entries) in enumerate(tasks.items()):
        for i in range(n):
            rng = clip_rng(1, t, i)
            spec = clear_spec(rng, 1 + i % 3 if task == "moving_count" else 2,
                         late=float(task == "character_order"))  # fmt: skip
            video, more = f"{task}_{i:03d}.mp4", {}
            if task in ("moving_direction", "action_sequence"):
                question, answer, options = moving_question(rng, spec)
            elif task == "object_existence":
                there = bool(rng.random() < 0.5)
                label = one_of(rng, spec.labels) if there else absent_from(rng, spec)[0]
                question, answer = ask.exists(label), "yes" if there else "no"
                options = ["yes", "no", "not sure"]
            elif task == "moving_count":
                question, answer = ask.HOW_MANY, ask.NUMBERS[len(spec.objects)]
                options = list(ask.NUMBERS[1:4])
            else:
                first, second = sorted(spec.objects, key=lambda o: o.appears)[:2]
                question = ask.order(*shuffled(rng, first.label, second.label))
                answer, options = first.label, shuffled(rng, first.label, second.label)
            if task == "action_sequence":
                out.video(f"video/star/Charades_v1_480/{video}", clear_spec(rng), spec)
                more = {"start": float(SECONDS), "end": float(2 * SECONDS)}
            else:
                perception = task == "character_order"
                where = "perception/videos" if perception else "clevrer/video_validation"
                out.video(f"video/{where}/{video}", spec)
            entries.append({"video": video, "question": question, "candidates": options,
                            "answer": answer} | more)  # fmt: skip
    for task, entries in tasks.items():
        out.json(f"json/{task}.json", entries)


def _perception_test(out: Writer, n: int) -> None:
    """Two questions a video; every second video goes on after the frame at which it is cut."""
    videos: dict[str, Json] = {}
    cuts: dict[str, int] = {}
    for i in range(n):
        rng, name = clip_rng(2, i), f"video_{i + 1}"
        spec = clear_spec(rng)
        question, answer, options = moving_question(rng, spec)
        options = shuffled(rng, answer, *[o for o in options if o != answer][:2])
        label, missing = one_of(rng, spec.labels), absent_from(rng, spec, 2)
        kinds = shuffled(rng, label, *missing)
        count = SECONDS * FPS
        cut = i % 2 == 1
        out.video(f"videos/{name}.mp4", spec, *([clear_spec(rng)] if cut else []))
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


def _video_mme(out: Writer, n: int) -> None:
    """Short, medium and long are 4, 8 and 12 seconds here."""
    entries = []
    for d, duration in enumerate(("short", "medium", "long")):
        for i in range(n):
            rng, name = clip_rng(3, d, i), f"{d * n + i + 1:03d}"
            spec = clear_spec(rng)
            question, answer, options = moving_question(rng, spec)
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


def _video_pope(out: Writer, n: int) -> None:
    """Clips and what is in them."""
    labels = []
    for i in range(n):
        spec = clear_spec(clip_rng(4, i), 1 + i % 3)
        out.video(f"clip_{i:03d}.mp4", spec)
        labels.append({"video": f"clip_{i:03d}.mp4", "objects": list(spec.labels)})
    out.lines("labels.jsonl", labels)


def _questions(out: Writer, n: int) -> None:
    """One's own questions: yes/no, open, and with options."""
    records: list[Json] = []
    for i in range(n):
        rng = clip_rng(5, i)
        spec, video = clear_spec(rng), f"clip_{i:03d}.mp4"
        out.video(video, spec)
        label = one_of(rng, spec.labels)
        question, answer, options = moving_question(rng, spec)
        there = i % 2 == 0
        named = label if there else absent_from(rng, spec)[0]
        records += [
            {"id": f"{i}-there", "video": video, "question": ask.exists(named),
             "answer": "yes" if there else "no", "type": "objects"},
            {"id": f"{i}-way", "video": video, "question": ask.which_way(label),
             "answer": spec.find(label).motion, "type": "motion"},
            {"id": f"{i}-choice", "video": video, "question": question, "answer": answer,
             "options": options, "type": "choice"},
        ]  # fmt: skip
    out.lines("questions.jsonl", records)


def without(spec: ClipSpec, label: str) -> ClipSpec:
    """The same clip without the object of a class."""
    return replace(spec, objects=tuple(o for o in spec.objects if o.label != label))


def instead(spec: ClipSpec, label: str, other: str) -> ClipSpec:
    """The same clip with an object of another class at its place, moving alike."""

    def swapped(o: ObjectSpec) -> ObjectSpec:
        return replace(o, label=other) if o.label == label else o

    return replace(spec, objects=tuple(map(swapped, spec.objects)))


def pairs(part: int, n: int, remove: bool) -> Iterator[tuple[Rng, ClipSpec, ClipSpec, str, str]]:
    """n pairs: draws, clip, partner, the class that changes, and what stands there instead.

    remove: whether nothing stands there; the last is then a class that neither clip shows.
    """
    for i in range(n):
        rng = clip_rng(6, part, i)
        spec = clear_spec(rng)
        label = one_of(rng, spec.labels)
        other = absent_from(rng, spec)[0]
        partner = without(spec, label) if remove else instead(spec, label, other)
        yield rng, spec, partner, label, other


def _videohallucer(out: Writer, n: int) -> None:
    """Objects of one clip, and one question about two clips."""
    same: list[Json] = []
    for i, (_, spec, _, label, other) in enumerate(pairs(0, n, remove=True)):
        out.video(f"object_relation/videos/{i:03d}.mp4", spec)
        same.append({
            "basic": {"video": f"{i:03d}.mp4", "question": ask.exists(label), "answer": "yes"},
            "hallucination": {"video": f"{i:03d}.mp4", "question": ask.exists(other),
                              "answer": "no"},
            "type": "object",
        })  # fmt: skip
    out.json("object_relation/object_relation.json", same)
    two: list[Json] = []
    for i, (_, spec, partner, label, _) in enumerate(pairs(1, n, remove=True)):
        for name, drawn in ((f"{i:03d}_a.mp4", spec), (f"{i:03d}_b.mp4", partner)):
            out.video(f"semantic_detail/videos/{name}", drawn)
        question = ask.exists(label)
        two.append({
            "basic": {"video": f"{i:03d}_a.mp4", "question": question, "answer": "yes"},
            "hallucination": {"video": f"{i:03d}_b.mp4", "question": question, "answer": "no"},
            "type": "semantic_detail",
        })  # fmt: skip
    out.json("semantic_detail/semantic_detail.json", two)


def _vidhalluc(out: Writer, n: int) -> None:
    """What each clip of a pair shows, in yes/no and with several right letters; one order."""
    binary: dict[str, Json] = {}
    choice: dict[str, Json] = {}
    order: dict[str, Json] = {}
    for i, (rng, spec, partner, label, other) in enumerate(pairs(2, n, remove=False)):
        clips = {f"pair{i}_clip_1": spec, f"pair{i}_clip_2": partner}
        for name, drawn in clips.items():
            out.video(f"data/ACH/{name}.mp4", drawn)
        binary[str(i)] = [{
            "q": ask.exists(z),
            "a": {name: "Yes" if z in drawn.labels else "No" for name, drawn in clips.items()},
        } for z in (label, other)]  # fmt: skip
        kinds = [label, other, *absent_from(rng, spec, 3)[1:2], *spec.labels]
        kinds = list(dict.fromkeys(kinds))[:4]
        choice[str(i)] = {
            name: {
                "Question": ask.DESCRIBE,
                "Choices": dict(zip(LETTERS, kinds, strict=False)),
                "Correct Answer": "".join(z for z, k in zip(LETTERS, kinds, strict=False)
                                          if k in drawn.labels),
            }
            for name, drawn in clips.items()
        }  # fmt: skip
        late = clear_spec(clip_rng(6, 3, i), 2, late=1.0)
        first, second = sorted(late.objects, key=lambda o: o.appears)[:2]
        out.video(f"data/TSH/order{i}.mp4", late)
        turned = i % 2 == 1
        named = (second, first) if turned else (first, second)
        order[str(i)] = {
            "video": f"order{i}",
            "Question": f"Action A: {ask.with_article(named[0].label)} appears. Action B:"
                        f" {ask.with_article(named[1].label)} appears. ",
            "Correct Answer": "BA" if turned else "AB",
        }  # fmt: skip
    out.json("ach_binaryqa.json", binary)
    out.json("ach_mcq.json", choice)
    out.json("tsh.json", order)


def _vidpair_halluc(out: Writer, n: int) -> None:
    """Pairs with another object at the same place, or another motion of the same one."""
    rows: dict[str, list[Json]] = {"binary": [], "multiple_choice": []}
    listed: list[Json] = []
    for i, (rng, spec, partner, label, other) in enumerate(pairs(4, n, remove=False)):
        aspect = ("object", "action")[i % 2]
        asked = [ask.exists(label), ask.exists(other)]
        if aspect == "action":
            turned = wrong_motion(rng, spec, label)
            moved = (replace(o, motion=turned) if o.label == label else o for o in spec.objects)
            partner = replace(spec, objects=tuple(moved))
            asked = [ask.moves(label, m) for m in (spec.find(label).motion, turned)]
        pair = f"{aspect}_{i:04d}"
        names = [f"{pair}/R_{pair}_{k}.mp4" for k in range(2)]
        first, second = (f"VidPair-Halluc/{name}" for name in names)
        listed.append({"pair_id": pair, "positive_video": first, "adversarial_video": second,
                       "aspect": aspect})  # fmt: skip
        question, _, options = moving_question(rng, spec)
        for k, (name, drawn) in enumerate(zip(names, (spec, partner), strict=True)):
            out.video(f"VidPair-Halluc/{name}", drawn)
            for j, words in enumerate(asked):
                rows["binary"].append({
                    "qa_id": f"{pair}-b{k}{j}", "id": pair, "aspect": aspect,
                    "repo_video_path": f"VidPair-Halluc/{name}", "question": words,
                    "answer": "yes" if j == k else "no"})  # fmt: skip
            if aspect == "object":
                kinds = [label, other, *absent_from(rng, spec, 4)[1:3]]
                question, answer = ask.DESCRIBE, (label, other)[k]
            else:
                kinds = list(dict.fromkeys([spec.find(label).motion, turned, *options]))[:4]
                question, answer = ask.which_way(label), drawn.find(label).motion
            rows["multiple_choice"].append({
                "qa_id": f"{pair}-m{k}", "id": pair, "aspect": aspect,
                "repo_video_path": f"VidPair-Halluc/{name}", "question": question,
                "choices_json": json.dumps(dict(zip(LETTERS, kinds, strict=True))),
                "answer": LETTERS[kinds.index(answer)]})  # fmt: skip
    for split, records in rows.items():
        out.lines(f"qa/hf/{split}.jsonl", records)
    out.json("pairs/pairs.json", listed)


FORMATS: dict[str, Callable[[Writer, int], None]] = {
    "eventhallusion": _eventhallusion,
    "mvbench": _mvbench,
    "perception-test": _perception_test,
    "video-mme": _video_mme,
    "video-pope": _video_pope,
    "questions": _questions,
    "videohallucer": _videohallucer,
    "vidhalluc": _vidhalluc,
    "vidpair-halluc": _vidpair_halluc,
}
