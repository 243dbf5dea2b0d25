"""How often is the embedded everyday model right about real clips?

`python -m evals.studies.real_clips DATA --rows FILE` answers the questions of the benchmark
*everyday* about the clips of a folder (`python -m evals fetch`). Without DATA the rows of an
earlier run are counted again.

Beside the model stand its own answer to grey frames (the text alone), the answer that is right most
often (a constant), and what the detector alone would say. Of right answers that a thing is there it
is also asked behind grey over that thing, and over others; with what the network that the model
sees through still finds there, as a second cup may stand beside the one that is tracked.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from macd_studio.commands import parser as command_line
from macd_studio.core.embedded import EVERYDAY, REAL_DETECTOR
from macd_studio.core.objects.truth import normalized
from macd_studio.evals.benchmarks.everyday import questions, sources
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.stats import resampled_clusters

if TYPE_CHECKING:
    import torch

    from macd_studio.core.backbones.base import Encoded
    from macd_studio.core.backbones.local import DecodeState, LocalLM
    from macd_studio.core.types import Clip, Track

LONGEST = 40
"""Tokens of an answer."""
KINDS = ("exists", "which", "count", "colour", "where", "motion", "enter", "order")
"""Kinds of questions that have one right answer, in the order of the table."""
RESAMPLES, SEED = 4000, 1
STILL = 0.0
"""Logit from which on the network finds a thing, a probability of 0.5."""
Row = dict[str, Any]


def answered(
    lm: LocalLM, encoded: Encoded, video: torch.Tensor, reuse: DecodeState | None = None
) -> tuple[str, float, DecodeState]:
    """The greedy answer, the logit of "yes" over that of "no" before it, and the prefill."""
    state = first = lm.prefill(encoded, video, reuse=reuse)
    yes, no = (lm.tokens(word)[0] for word in ("yes", "no"))
    margin = float(state.logits[0, yes] - state.logits[0, no])
    written: list[int] = []
    while len(written) < LONGEST:
        token = int(state.logits[0].argmax())
        if token in lm.end_tokens:
            break
        written.append(token)
        state = lm.step(state, [token])
    return lm.text(written).strip(), margin, first


@cache
def nouns() -> dict[str, str]:
    """Every way to call a class → the class."""
    from macd_studio.core.backbones.everyday import CLASSES
    from macd_studio.everyday.language import nouns as nouns_of

    return {w: c for c in CLASSES for n in nouns_of(c) for w in (n.singular, n.plural)}


def class_of(question: str) -> str:
    """The class that a question names by its longest noun; "" where it names none."""
    words = f" {normalized(question)}"
    return nouns().get(max((n for n in nouns() if f" {n}" in words), key=len, default=""), "")


def listed(question: Row, boxes: Sequence[tuple[str, ...]]) -> str:
    """What the detector's own list says; "" of a question that a list does not answer.

    boxes: the labels found in each frame.
    """
    from macd_studio.everyday.language import KINDS as OF_KIND
    from macd_studio.everyday.language import NONE, NUMBERS

    words, named = normalized(question["question"]), class_of(question["question"])
    counts = [Counter(frame) for frame in boxes]
    most = Counter[str]()
    for frame in counts:
        most |= frame
    if question["kind"] == "exists" and named:
        return "yes" if most[named] else "no"
    if question["kind"] == "count" and named:
        return NUMBERS[min(most[named], len(NUMBERS) - 1)]
    if question["kind"] == "which":
        for names, members in OF_KIND.values():
            if any(name in words for name in names):
                seen = sum(counts, Counter[str]())
                found = [c for c, _ in seen.most_common() if c in members]
                return found[0] if found else NONE
    return ""


def rows_of(data: Path, lm: LocalLM, masked: bool = True) -> Iterator[Row]:
    """Every question with what was answered to it; masked: also behind grey over objects."""
    import torch

    from macd_studio.core.media.video import read_clip
    from macd_studio.core.objects.detect import load_detector
    from macd_studio.core.options import DetectOptions, RunOptions

    detector, options = load_detector(REAL_DETECTOR, lm.info.device), RunOptions()
    asked: dict[str, list[Row]] = {}
    for key, question in questions().items():
        asked.setdefault(question["clip"], []).append(question | {"item": key})
    for name, own in asked.items():
        if not (file := data / f"{name}.mp4").is_file():
            continue
        clip = read_clip(file, options.video)
        frames = lm.preprocess(clip)
        found = [d.labels for d in detector.detect(clip.frames, DetectOptions(low=0.5))]
        behind = Masked(lm, clip, detector) if masked else None
        state = grey = None
        for question in own:
            encoded = lm.encode_frames(frames, question["question"])
            with torch.no_grad():
                said, margin, state = answered(lm, encoded, encoded.video, state)
                alone, _, grey = answered(lm, encoded, torch.zeros_like(encoded.video), grey)
                row = {
                    "item": question["item"],
                    "said": said,
                    "margin": round(margin, 3),
                    "grey": alone,
                    "listed": listed(question, found),
                }
                if behind and question["kind"] == "exists" and question["answer"] == said == "yes":
                    row |= behind.answers(encoded, class_of(question["question"]))
            yield row


class Masked:
    """A clip behind grey over the objects of some class."""

    def __init__(self, lm: LocalLM, clip: Clip, detector: Any) -> None:
        from macd_studio.core.objects.find import find_cuts, look
        from macd_studio.core.options import RunOptions

        self.lm, self.options = lm, RunOptions()
        looked = look(clip, detector, self.options.detect, self.options, find_cuts(clip))
        *_, last = looked
        self.tracks: tuple[Track, ...] = last.finish()[0]

    def answers(self, encoded: Encoded, label: str) -> Row:
        """The answer behind grey over the things of a class ("own"), and over those of the other
        class with most tracks ("other"), each with the class's largest logit of YOLO11n in any
        frame behind it ("own_left", "other_left"); what is not tracked is left out."""
        from macd_studio.core.views.context import MethodContext

        others = Counter(t.label for t in self.tracks if t.label != label)
        wanted = {"own": label, "other": others.most_common(1)[0][0] if others else ""}
        out: Row = {}
        for name, masked in wanted.items():
            levels = np.array([float(t.label == masked) for t in self.tracks])
            if not levels.any():
                continue
            context = MethodContext(self.lm, encoded, self.tracks, self.options)
            masks = context.masks(self.options.mask)
            view = context.composite(masks, levels, np.zeros(len(encoded.groups)))
            out[name] = answered(self.lm, encoded, view)[0]
            out[f"{name}_left"] = round(self.left(view, label), 2)
        return out

    def left(self, view: torch.Tensor, label: str) -> float:
        """The largest logit of a class in any frame of a view."""
        import torch

        from macd_studio.core.backbones.everyday import CLASSES

        model: Any = self.lm
        tower = model.model.model.vision_tower
        frames = view.reshape(-1, *view.shape[-3:]).float() + tower.config.mean
        with torch.no_grad():
            logits, _ = tower.network(frames)
        return float(logits[..., CLASSES.index(label)].max())


def stored(path: Path) -> list[Row]:
    """The rows of a file, each with its question and the part of its clip."""
    asked, part = questions(), {source.name: source.part for source in sources()}
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [asked[r["item"]] | {"part": part[asked[r["item"]]["clip"]]} | r for r in rows]


def is_correct(row: Row, said: str) -> bool:
    """Whether an answer is one of the right ones."""
    right = {normalized(text) for text in (row["answer"], *row.get("also", ()))}
    return normalized(said) in right


def balanced(rows: Sequence[Row], key: str) -> tuple[float, float, float]:
    """Mean of the shares right of "yes" and of "no", with a 95 % interval over clips."""
    clips = sorted({row["clip"] for row in rows})
    sums = np.zeros((2, 2, len(clips)))  # truth; right, asked
    for row in rows:
        truth, clip = int(row["answer"] == "yes"), clips.index(row["clip"])
        sums[truth, 0, clip] += is_correct(row, row[key])
        sums[truth, 1, clip] += 1
    draws = resampled_clusters(len(clips), SEED, RESAMPLES)
    whole = sums.sum(-1)
    estimate = float((whole[:, 0] / whole[:, 1]).mean())
    drawn = sums @ draws.T  # (2, 2, draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = (drawn[:, 0] / drawn[:, 1]).mean(0)
    low, high = np.nanpercentile(shares, [2.5, 97.5])
    return estimate, float(low), float(high)


def counted(rows: Sequence[Row], key: str) -> tuple[float, float, float]:
    """The share right, with its interval over clips."""
    return clustered_share(
        np.array([is_correct(row, row[key]) for row in rows]), [row["clip"] for row in rows]
    )


def constant_of(rows: Sequence[Row]) -> str:
    """The answer that is right most often."""
    answers = Counter(normalized(row["answer"]) for row in rows)
    return max(answers, key=lambda a: sum(is_correct(row, a) for row in rows))


def table_of(rows: Sequence[Row]) -> str:
    """The table in Markdown."""

    def cell(values: tuple[float, float, float]) -> str:
        share, low, high = (100 * v for v in values)
        return f"{share:.0f} [{low:.0f}, {high:.0f}]"

    lines = [
        "| question | n (clips) | model | constant | text alone | detector's list |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        if not own:
            continue
        fixed = [row | {"fixed": constant_of(own)} for row in own]
        count = balanced if kind == "exists" else counted
        with_list = all(row["listed"] for row in own)
        clips = len({row["clip"] for row in own})
        cells = [
            count(own, "said"), count(fixed, "fixed"), count(own, "grey"),
        ]  # fmt: skip
        told = [cell(c) for c in cells] + [cell(count(own, "listed")) if with_list else "–"]
        name = "exists, balanced" if kind == "exists" else kind
        lines.append(f"| {name} | {len(own)} ({clips}) | {' | '.join(told)} |")
    for name, fits, text in (
        ("own", lambda left: True, "“yes” → “no” behind grey over it"),
        ("own", lambda left: left < STILL, "the same, where YOLO11n finds no more of it"),
        ("other", lambda left: True, "“yes” → “no” behind grey over another class"),
        ("other", lambda left: left >= STILL, "the same, where YOLO11n still finds it"),
    ):
        own = [row for row in rows if name in row and fits(row[f"{name}_left"])]
        if not own:
            continue
        own = [row | {"gone": row[name]} for row in own]
        gone = np.array([normalized(row["gone"]) == "no" for row in own])
        share = clustered_share(gone, [row["clip"] for row in own])
        lines.append(f"| {text} | {len(own)} | {cell(share)} | | | |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = command_line("evals.studies.real_clips", __doc__)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of clips")
    parser.add_argument("--rows", type=Path, help="rows, one a line, written or read")
    parser.add_argument("--plain", action="store_true", help="nothing behind grey over objects")
    parser.add_argument("--backbone", default=EVERYDAY)
    args: argparse.Namespace = parser.parse_args(argv)
    if args.data is not None:
        from macd_studio.core.backbones import load_backbone

        with args.rows.open("w", encoding="utf-8") as file:
            for row in rows_of(args.data, load_backbone(args.backbone), not args.plain):
                print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
    print(table_of(stored(args.rows)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
