"""Is a masked object the same to the model as one that was never there?

`python -m evals.studies.redrawn --n 600 --out FILE.json --rows FILE.json.xz`: clips with one of a
usual pair and a second object, asked for the other one of the pair, which is not there. The margin
of "yes" over "no" with the companion masked (its true box, r = 1, no frame mask), by each fill, is
held against that of the same clip drawn again without it. Beside it: the clip as it is, and a mask
where nothing is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from macd_studio.commands import parser as command_line
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.masking.composite import one_object_at_a_time
from macd_studio.core.options import Fill, MaskOptions, RunOptions
from macd_studio.core.text.question import word_tokens
from macd_studio.core.types import SEEN, Track
from macd_studio.core.validation import Number
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.running.output import check_folder
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.stats import bootstrap_ratio
from macd_studio.evals.studies.shared import command, pack_rows, told
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import FRAMES, drawn_clip
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, ObjectSpec, frame_times, sample

SEED = 9
"""Of these clips; no other module draws from it."""
OPACITY = 0.15, 0.7
FLAT: tuple[Fill, ...] = ("mean", "black", "blur", "noise")
"""Fills that the model saw in training, which have to be neutral."""
FILLS: tuple[Fill, ...] = (*FLAT, "plate")
WITHIN = 0.5
"""Logits by which a mask may differ from true removal, interval included; docs/toyworld.md."""


def draw_clips(n: int, seed: int = SEED) -> Iterator[tuple[ClipSpec, str, str]]:
    """n clips of two objects, each with its companion's class and the absent one of its pair."""
    p = priors()
    heads = list(p.partner)
    for i in range(n):
        rng = np.random.default_rng([seed, i])
        head = heads[i % len(heads)]
        fitting = [s for s in p.scenes if head in p.typical[s]]
        scene = fitting[rng.integers(len(fitting))]
        pair = {head, p.partner[head]}
        # neither of the pair nor usually beside the absent one
        others = [c for c in p.of_kind("thing") if c not in pair and p.partner.get(c) not in pair]
        second = others[rng.integers(len(others))]
        spec = sample(rng, scene, [head, second], weak=0.0, fog=0.0)
        opacity = float(rng.uniform(*OPACITY))
        objects = [replace(o, contrast=opacity if o.label == head else 1.0) for o in spec.objects]
        yield replace(spec, objects=tuple(objects)), head, p.partner[head]


def true_track(o: ObjectSpec) -> Track:
    """Where an object is drawn, as a track."""
    times = frame_times(FRAMES)
    state = np.full(FRAMES, SEEN, np.int8)
    boxes = o.boxes(times).astype(np.float32)
    return Track(1, o.label, 1.0, boxes, state, frames_seen=FRAMES)


def _margins(lm: LocalLM, spec: ClipSpec, question: str, masked: Track | None) -> dict[str, float]:
    """The margin of the clip as it is, and with the track masked by each fill, in logits."""
    encoded = lm.encode(drawn_clip(spec, "clip", "clip"), question)
    names, videos = ["as it is"], [encoded.video[None]]
    if masked is not None:
        context = MethodContext(lm, encoded, (masked,), RunOptions())
        for fill in FILLS:
            (video,) = one_object_at_a_time(context.masks(MaskOptions(frame_mask="off", fill=fill)))
            names.append(fill)
            videos.append(video)
    batch = torch.cat([v.to(videos[-1].dtype) for v in videos])
    yes, no = (np.array(word_tokens(lm.tokens, word)) for word in ("yes", "no"))
    rows = lm.next_logits(lm.prefill(encoded, batch), ids=[*yes, *no])
    differences = (float(r.among(yes).values.max() - r.among(no).values.max()) for r in rows)
    return dict(zip(names, differences, strict=True))


def margins(lm: LocalLM, spec: ClipSpec, head: str, absent: str) -> dict[str, float]:
    """Margins of one clip: "as it is", "redrawn", each fill over it, and over nothing.

    Over nothing: where the companion would lie mirrored, in the clip drawn without it.
    """
    question = ask.exists(absent)
    companion = spec.find(head)
    without = replace(spec, objects=tuple(o for o in spec.objects if o is not companion))
    over = _margins(lm, spec, question, true_track(companion))
    x, y = companion.start
    turned = {"left": "right", "right": "left"}.get(companion.motion, companion.motion)
    elsewhere = replace(companion, start=(1 - x, y), motion=turned)
    nothing = _margins(lm, without, question, true_track(elsewhere))
    return (
        over
        | {"redrawn": nothing.pop("as it is")}
        | {f"{fill} over nothing": margin for fill, margin in nothing.items()}
    )


def figures_of(rows: Sequence[dict[str, float]], seed: int = SEED) -> dict[str, Any]:
    """Each view's margin less that of the redrawn clip, and its false yeses.

    rows: as `margins` gives them, of the first clips of the seed. A plate shows what lies behind an
    object that moves; behind a still one it is inpainted.
    """
    n = len(rows)
    clips = list(draw_clips(n, seed))
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    keys = [str(i) for i in range(n)]
    ones: NDArray[np.float64] = np.ones(n)
    figures: dict[str, Any] = {"clips": n, "seed": seed, "views": {}}
    for name, margin in columns.items():
        figures["views"][name] = {
            "over_redrawn": bootstrap_ratio(margin - columns["redrawn"], ones, keys),
            "false_yes": clustered_share(margin > 0, keys),
            "answers_as_redrawn": clustered_share((margin > 0) == (columns["redrawn"] > 0), keys),
        }
    still = np.array([spec.find(head).motion == "still" for spec, head, _ in clips])
    plate = columns["plate"] - columns["redrawn"]
    figures["plate_by_motion"] = {
        name: {"n": int(of.sum()), "over_redrawn": bootstrap_ratio(plate * of, of * 1.0, keys)}
        for name, of in (("still", still), ("moving", ~still))
    }
    figures["masks_are_neutral"] = all(
        max(map(abs, figures["views"][fill]["over_redrawn"][1:])) <= WITHIN for fill in FLAT
    )
    return figures


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints the figures, and writes them with --out and what each clip gave with
    --rows."""
    parser = command_line("evals.studies.redrawn", __doc__)
    parser.add_argument("--n", type=int, default=600, help="clips (default: 600)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--backbone", default="toyworld")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    parser.add_argument("--rows", type=Path, help="a packed file of what each clip gave")

    def run(args: argparse.Namespace) -> str:
        Number(2, 10_000, whole=True).read(args.n, "n")
        Number(0, 2**31, whole=True).read(args.seed, "seed")
        for path in filter(None, (args.out, args.rows)):
            check_folder(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
        lm = load_backbone(args.backbone)
        rows = [margins(lm, *clip) for clip in draw_clips(args.n, args.seed)]
        rows = [{name: round(margin, 4) for name, margin in row.items()} for row in rows]
        if args.rows:
            pack_rows(args.rows, rows)
        return told(
            figures_of(rows, args.seed), lambda report: json.dumps(report, indent=1), args.out
        )

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
