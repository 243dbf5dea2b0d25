"""What does hiding the companion do to a false yes? Measured on the co-occurrence regime.

`python -m evals.companion --n 300 --out FILE.json`: clips with one of a pair, asked for the other;
the margin of "yes" over "no" with the one that is there masked (true boxes, r = 1, no frame mask),
less that of the video as it is.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from macd_studio.core.backbones import load_backbone
from macd_studio.core.backbones.base import VideoLM
from macd_studio.core.backbones.host import to_host
from macd_studio.core.context import MethodContext
from macd_studio.core.errors import MacdError
from macd_studio.core.masking.composite import one_by_one
from macd_studio.core.options import MaskOptions, RunOptions
from macd_studio.core.question import word_tokens
from macd_studio.core.validation import Number
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.base import Benchmark, Item
from macd_studio.evals.run import write_json
from macd_studio.evals.stats import bootstrap_ratio, clustered_share


def margin_change(lm: VideoLM, benchmark: Benchmark, item: Item) -> tuple[float, float]:
    """The margin of the video as it is, and its change with every object masked, in logits."""
    encoded = lm.encode(benchmark.clip(item.clip), item.question)
    context = MethodContext(lm, encoded, benchmark.true_tracks(item.clip), RunOptions())
    masks = context.masks(MaskOptions(frame_mask="off"))
    (masked,) = one_by_one(masks)
    state = lm.prefill(encoded, torch.cat([encoded.video[None].to(masked.dtype), masked]))
    logits = to_host(state.logits)
    yes, no = (logits[:, list(word_tokens(lm.tokens, w))].max(1) for w in ("yes", "no"))
    margins = yes - no
    return float(margins[0]), float(margins[1] - margins[0])


def measure(lm: VideoLM, benchmark: Benchmark, n: int) -> dict[str, Any]:
    """Over n clips that show the companion alone, and over those of them that misled the model."""
    items = [i for i in benchmark.items("test", 4 * n) if i.regime == "co-occurrence"]
    alone = [i for i in items if i.truth == "no" and len(benchmark.present(i.clip)) == 1][:n]
    pairs = np.array([margin_change(lm, benchmark, i) for i in alone])
    clips = [i.clip for i in alone]
    false_yes = pairs[:, 0] > 0
    figures: dict[str, Any] = {"clips": len(alone), "false_yes": int(false_yes.sum())}
    for name, kept in (("all", np.ones(len(alone), bool)), ("of_false_yes", false_yes)):
        change, keys = pairs[kept, 1], [c for c, k in zip(clips, kept, strict=True) if k]
        figures[name] = {
            "change": bootstrap_ratio(change, np.ones(len(change)), keys),
            "rises": clustered_share(change > 0, keys),
        }
    return figures


def main(argv: list[str] | None = None) -> int:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(prog="python -m evals.companion", description=__doc__)
    parser.add_argument("--n", type=int, default=300, help="clips")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    try:
        Number(2, 10_000, whole=True).read(args.n, "n")
        figures = measure(load_backbone("toyworld"), find_benchmark("toyworld"), args.n)
    except MacdError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(figures, indent=1))
    if args.out:
        write_json(args.out, figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
