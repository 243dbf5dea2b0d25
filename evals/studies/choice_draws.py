"""Every subset of a clip's objects, read once: what any choice of objects would have answered.

A row holds the logits of a question's options under the video and behind each subset of the true
boxes at level 1, with the frame mask of MACD, under one reading of the paper.
`python -m evals.studies.choice_draws` reads and stores the rows, `evals.studies.choice_readings`
judges MACD's choice by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from macd_studio.commands import parser as command_line
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.errors import OptionError
from macd_studio.core.measurements import MAX_MAPPED
from macd_studio.core.options import AscentOptions, MaskOptions, RunOptions
from macd_studio.core.types import Clip, Track
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.studies.shared import (
    check_counts,
    command,
    context_of,
    option_logits,
    read_missing,
)

DIGITS = 3
"""Decimals of the stored logits."""
READINGS = {
    "default": ("default", RunOptions()),
    "additive": ("V + r ⊙ M, clamped", RunOptions(mask=MaskOptions(fill="additive"))),
    "twice": ("each strength twice", RunOptions(mask=MaskOptions(strength_twice=True))),
    "whole": (
        "frame mask over whole frames, fusion or",
        RunOptions(mask=MaskOptions(frame_mask="whole", fusion="or")),
    ),
    "uncapped": (
        "any number of frame groups masked",
        RunOptions(ascent=AscentOptions(frame_fraction=1.0)),
    ),
}
"""Readings of what the paper leaves open: name → words and options. "default": blended with the
mean, strengths once, frame mask outside the objects, at most a quarter of the frame groups; each
other one differs in one of these. A maximum with a mask over whole frames has no gradient for
objects, see `MaskOptions.check_trainable`: there the fusion is "or"."""


@dataclass(frozen=True)
class ChoiceDraws:
    """One item with K objects and C options."""

    item: str
    labels: list[str]
    """(K,) labels of the objects."""
    level: list[float]
    """(K,) MACD's levels."""
    video: list[float]
    own: list[float]
    """`video` and `own`: (C,) logits under the video and behind MACD's own levels."""
    bare: list[list[float]]
    framed: list[list[float]]
    """`bare` and `framed`: (2^K, C) logits behind each subset with MACD's frame mask; row n masks
    the objects whose bits are set in n. bare where MACD masks no frames, else framed; the other is
    empty."""
    seed: int = 0
    """Seed of the drawing of the clips, as `--seed` gives it."""

    @property
    def subsets(self) -> list[list[float]]:
        """(2^K, C) the subsets with the frame mask as MACD has it."""
        return self.framed or self.bare

    @property
    def chosen(self) -> int | None:
        """The subset that MACD masks, as a number; None where it masks an object in part."""
        if any(0 < level < 1 for level in self.level):
            return None
        return sum(1 << k for k, level in enumerate(self.level) if level >= 1)


@torch.no_grad()
def read_choices(
    lm: LocalLM,
    clip: Clip,
    tracks: tuple[Track, ...],
    item: Item,
    options: RunOptions,
) -> ChoiceDraws:
    """The item's row; all subsets in one batch. Raises OptionError for too many objects."""
    if len(tracks) > MAX_MAPPED:
        raise OptionError(
            f"{item.id} has {len(tracks)} objects; subsets of at most {MAX_MAPPED} are read",
            "Take another regime",
        )
    context = context_of(lm, clip, tracks, item, options)
    mask = context.options.mask
    with torch.enable_grad():
        macd = context.counterfactual(mask)
    masks, framed = context.masks(mask), bool(macd.frame_level.any())
    videos = [context.composite(masks, macd.level, macd.frame_level)]
    for subset in range(1 << len(tracks)):
        level = np.array([float(subset >> k & 1) for k in range(len(tracks))])
        videos.append(context.composite(masks, level, macd.frame_level))
    state = lm.prefill(context.encoded, torch.stack(videos), reuse=context.base)
    (plain,) = option_logits(lm, context.base, item.options, DIGITS)
    own, *subsets = option_logits(lm, state, item.options, DIGITS)
    return ChoiceDraws(
        item.id,
        [t.label for t in tracks],
        macd.level.tolist(),
        plain,
        own,
        [] if framed else subsets,
        subsets if framed else [],
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Reads what is not stored yet, a clip after the other, then packs all rows."""
    parser = command_line("evals.studies.choice_draws", __doc__)
    parser.add_argument("--regime", default="faint", help="of toyworld-crossed")
    parser.add_argument("--n", type=int, default=1152, help="questions of the test split")
    parser.add_argument("--seed", type=int, default=731, help="of the drawing of the clips")
    parser.add_argument("--backbone", default="toyworld")
    parser.add_argument("--reading", choices=READINGS, default="default", help="of the paper")
    parser.add_argument("--out", type=Path, default=Path("runs/choice-draws"))

    def run(args: Any) -> str:
        check_counts(args, n=100_000)
        options = READINGS[args.reading][1]
        return read_missing(args, {"test": args.n}, args.reading, read_choices, options)

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
