"""Answers the clips of the course's quiz of real clips: `python -m everyday.make_lessons`.

Clips and questions are fixed: `quiz.jsonl` holds the questions about whether, which, how many,
what colour and where that were written about these clips, with the truth, by looking at their
frames before any model was asked; one that two answers fit was left out. Kept are those whose
plain answer leads its rival by least, at most MOST of a clip, for there contrast can change
something. What MACD makes of them plays no part in it. The result is assets/learn/real.json, which
`macd_ui.learn` reads.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.embedded import EVERYDAY, REAL_DETECTOR
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.detect import Detector, load_detector
from macd_studio.core.objects.truth import is_right
from macd_studio.core.options import RunOptions
from macd_studio.core.run.cache import StageCache
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.shipped import assets
from macd_studio.toyworld.make_lessons import outcome, picture, said, write

QUESTIONS = Path(__file__).with_name("quiz.jsonl")
CLIPS = {
    "carwhite-b": "A white car drives over an empty car park and leaves the picture.",
    "twocars-b": "A pale blue car and a red one pass each other on a car park.",
    "tablewoman-b": "A woman walks to a small round table, and stays there; “dining table” is the"
    " model's word for every table.",
    "fruit-b": "A green apple, broccoli, a cauliflower and an orange pass by, one after the other.",
    "worker-b": "A man in a helmet and an orange vest walks through an empty hall.",
    "bolt-b": "A large bolt passes by, and nothing else.",
    "walkpair-b": "A woman and a man come along a corridor.",
    "flower-b": "A red flower opens among leaves.",
}
"""Clip → what is in it, written by looking at it."""
WANTED, MOST = 10, 2
"""Questions that are kept, of all clips and at most of one."""
SIDE = 160
Row = dict[str, Any]


def questions() -> list[Row]:
    """Every question with its clip and its true answer."""
    return [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


def clip_file(name: str) -> Path:
    """The shipped file of a clip."""
    return assets() / "everyday-clips" / f"{name}.mp4"


@torch.no_grad()
def leads(rows: list[Row], lm: LocalLM) -> list[float]:
    """By how many logits the first token of the plain answer leads its rival, for each question."""
    found, frames = [], {}
    for row in rows:
        if row["clip"] not in frames:
            clip = read_clip(clip_file(row["clip"]), RunOptions().video)
            frames[row["clip"]] = lm.preprocess(clip)
        encoded = lm.encode_frames(frames[row["clip"]], row["question"])
        first, second = lm.prefill(encoded, encoded.video).logits[0].double().topk(2).values
        found.append(round(float(first - second), 4))
    return found


def closest(rows: list[Row], by: list[float]) -> list[int]:
    """Places of the WANTED questions with the smallest leads, at most MOST of a clip.

    >>> closest([{"clip": c} for c in "aaab"], [0.1, 0.3, 0.2, 4.0])
    [0, 2, 3]
    """
    kept, of = list[int](), Counter[str]()
    for i in sorted(range(len(rows)), key=lambda i: by[i]):
        if of[rows[i]["clip"]] < MOST and len(kept) < WANTED:
            of[rows[i]["clip"]] += 1
            kept.append(i)
    return kept


def answered(row: Row, lm: LocalLM, detector: Detector, cache: StageCache | None = None) -> Row:
    """An item of the quiz: its clip, and what `Item` in macd_ui/learn/js/types.d.ts names.

    Of the frames, what is no padding.
    """
    clip, question = clip_file(row["clip"]), row["question"]
    *_, last = run(clip, question, lambda: lm, lambda: detector, cache=cache)
    assert last.trace is not None
    trace, frames = last.trace, last.trace.model_frames
    assert frames is not None
    macd = trace.answers["macd"]
    shown = macd.second_views[0].shown if macd.second_views else None
    x0, y0, x1, y1 = frames.content
    views = [
        [picture(frame[y0:y1, x0:x1], SIDE) for frame in view]
        for view in (frames.pixels, frames.pixels if shown is None else shown)
    ]
    right = [bool(is_right(trace.answers[m].text, row["answer"])) for m in ("baseline", "macd")]
    return {
        "clip": row["clip"],
        "question": row["question"],
        "truth": row["answer"],
        "drawn": f"True answer: {row['answer']}. {CLIPS[row['clip']]}",
        "frames": views[0],
        "behind": views[1],
        "objects": [track.label for track in trace.tracks],
        "alpha": macd.alpha,
        "beta": macd.beta,
        "answers": {m: said(a) for m, a in trace.answers.items()},
        "outcome": outcome(right[0], right[1]),
    }


def main() -> None:
    """Command line."""
    need_checkout("everyday.make_lessons")
    command_line("everyday.make_lessons", __doc__).parse_args()
    lm, detector = load_backbone(EVERYDAY, "cpu"), load_detector(REAL_DETECTOR)
    rows = questions()
    by = leads(rows, lm)
    items, cache = [], StageCache(len(CLIPS))
    for i in closest(rows, by):
        items.append(answered(rows[i], lm, detector, cache) | {"lead": by[i]})
        texts = {m: a["text"] for m, a in items[-1]["answers"].items()}
        print(by[i], rows[i], items[-1]["outcome"], texts, flush=True)
    content = {"asked": len(rows), "clips": len(CLIPS), "most": MOST, "items": items}
    write("real", content)


if __name__ == "__main__":
    main()
