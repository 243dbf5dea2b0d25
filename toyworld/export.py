"""The drawn world in the layouts in which benchmarks are published: mp4 files and annotations.

So that loaders, sampling from files, prompts, scorers and reports are used from end to end without
anybody's data. Every clip comes from its own seed: exporting more adds clips and changes none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import FPS, SECONDS
from macd_studio.toyworld.export_files import (
    Json,
    Writer,
    absent_from,
    clear_spec,
    clip_rng,
    moving_question,
    one_of,
    shuffled,
    wrong_motion,
)
from macd_studio.toyworld.export_pairs import PAIR_FORMATS


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


FORMATS: dict[str, Callable[[Writer, int], None]] = {
    "eventhallusion": _eventhallusion,
    "mvbench": _mvbench,
    "perception-test": _perception_test,
    "video-mme": _video_mme,
    "video-pope": _video_pope,
    "questions": _questions,
    **PAIR_FORMATS,
}
