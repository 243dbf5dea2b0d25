"""Small benchmarks in their authors' layouts, with empty files for videos."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from macd_studio.toyworld.export import Writer, export


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def eventhallusion(root: Path) -> Path:
    for split, answer, asked in (("entire", "No.", 2), ("misleading", "No.", 1),
                                 ("interleave", "Yes.", 1)):  # fmt: skip
        entries = []
        for i in (1, 2):
            name = f"{split}_00{i}"
            questions = [{"type": "hallucination", "question": f"Is it {split} {i} {k}?",
                          "answer": answer} for k in range(asked)]  # fmt: skip
            entries.append(
                {"id": name, "category": "gym", "length": "00:04", "questions": questions}
            )
            touch(root / split / f"{name}.mp4")
        write(root / "questions" / f"{split}_questions.json", entries)
    return root


def mvbench(root: Path) -> Path:
    plain = [{"video": "v1.mp4", "question": "Which way?", "candidates": ["up", "down"],
              "answer": "down"}]  # fmt: skip
    cut = [{"video": "v2.mp4", "question": "What then?", "candidates": ["run", "sit", "eat"],
            "answer": "run", "start": 1.5, "end": 4.0}]  # fmt: skip
    write(root / "json" / "moving_direction.json", plain)
    write(root / "json" / "action_sequence.json", cut)
    touch(
        root / "video/clevrer/video_validation/v1.mp4", root / "video/star/Charades_v1_480/v2.mp4"
    )
    return root


def perception_test(root: Path) -> Path:
    question = {"id": 0, "question": "What moves?", "options": ["a cup", "a ball", "a dog"],
                "answer_id": 1, "area": "physics", "reasoning": "descriptive",
                "tag": ["motion", "collision"]}  # fmt: skip
    other = question | {"id": 1, "area": "memory", "answer_id": 2}
    metadata = {"split": "valid", "frame_rate": 30.0, "num_frames": 120}
    write(root / "mc_question_valid.json", {
        "video_1": {"metadata": metadata, "mc_question": [question, other]},
        "video_2": {"metadata": metadata, "mc_question": [question]},
    })  # fmt: skip
    write(root / "cut_frame_mapping_valid.json", {"video_1": 0, "video_2": 60})
    touch(root / "videos/video_1.mp4", root / "videos/video_2.mp4")
    return root


def video_mme(root: Path) -> Path:
    options = ["A. One.", "B. Two.", "C. Three.", "D. Four."]
    question = {"task_type": "Counting Problem", "question": "How many?", "options": options}
    questions = [
        question | {"question_id": f"001-{i}", "answer": a} for i, a in ((1, "B"), (2, "C"))
    ]
    entry = {"video_id": "001", "duration": "short", "domain": "Knowledge",
             "sub_category": "Geography", "questions": questions}  # fmt: skip
    write(root / "video_mme.json", [entry])
    touch(root / "data/001.mp4")
    return root


def video_pope(root: Path) -> Path:
    lines = [
        {"video": "a.mp4", "objects": ["dog"]},
        {"video": "b.mp4", "objects": ["dog", "ball"]},
        {"video": "c.mp4", "objects": ["cat", "ball"]},
        {"video": "d.mp4", "objects": ["cat", "apple"]},
    ]
    write(root / "labels.jsonl", "\n".join(map(json.dumps, lines)))
    touch(*(root / f"{z}.mp4" for z in "abcd"))
    return root


def questions(root: Path) -> Path:
    write(
        root / "questions.csv",
        "id,video,question,answer,options,type,cluster\n"
        "q1,a.mp4,Is there a dog?,Yes,,animals,home\n"
        "q2,a.mp4,Which way?,down,up|down,motion,home\n"
        "q3,b.mp4,What is it?,a ball,,objects,\n",
    )
    touch(root / "a.mp4", root / "b.mp4")
    return root


def exported(name: str, n: int = 4) -> Callable[[Path], Path]:
    """Makes a layout as the drawn world is exported in it."""

    def make(root: Path) -> Path:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Writer, "video", lambda out, video, *_, **__: touch(out.folder / video))
            export(name, root, n)
        return root

    return make


PAIRS = ("videohallucer", "vidhalluc", "vidpair-halluc")
MAKERS = {
    "eventhallusion": eventhallusion,
    "mvbench": mvbench,
    "perception-test": perception_test,
    "video-mme": video_mme,
    "video-pope": video_pope,
    "questions": questions,
    **{name: exported(name) for name in PAIRS},
}
