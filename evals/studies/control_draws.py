"""Many draws of each control for one clip: what one random mask gains on average, not by luck.

A row holds the logits of a question's options under the video, behind the mask of a choice of
objects, behind R independent `random-place` masks of it, and behind every order of its object
levels (`random-objects`, the frame levels in a random order each). The choice is MACD's, or the
oracle's: the asked object alone, without a frame mask. `python -m evals.studies.control_draws`
reads and stores them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from macd_studio.commands import parser as command_line
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.macd import empty_counterfactual
from macd_studio.core.masking.controls import (
    ControlMask,
    Hidden,
    arrangements,
    count_arrangements,
    permuted,
    random_objects,
    random_place,
)
from macd_studio.core.options import RunOptions
from macd_studio.core.types import Clip, Counterfactual, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.table import hidden_pixels_of
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.studies.first_token import ORACLE
from macd_studio.evals.studies.shared import (
    check_counts,
    command,
    context_of,
    option_logits,
    read_missing,
)
from macd_studio.evals.studies.shared import stored as stored_rows

PLACES = 8
"""Independent placements of a clip."""
ORDERS = 16
"""Orders of MACD's levels that are all read; where there are more, so many are drawn."""

DIGITS = 4
"""Decimals of what is stored."""
MACD = "macd"
CHOICES = (MACD, ORACLE)
"""Choices of objects whose rows can be read."""


@dataclass(frozen=True)
class Draw:
    """One mask. logits: of the options; area, overlap: see `ControlMask`; level: of the objects."""

    logits: list[float]
    area: float
    overlap: float
    level: list[float]


@dataclass(frozen=True)
class ControlDraws:
    """One item. video, macd: logits of its options, the latter behind the choice's own mask;
    level: the choice's own of the objects.

    seed: of the drawing of the clips, as `--seed` gives it. choice: of CHOICES.
    """

    item: str
    video: list[float]
    macd: list[float]
    level: list[float]
    places: list[Draw]
    objects: list[Draw]
    seed: int = 0
    choice: str = MACD

    @staticmethod
    def of(values: dict[str, Any]) -> ControlDraws:
        """From plain values."""
        draws = {k: [Draw(**d) for d in values[k]] for k in ("places", "objects")}
        return ControlDraws(**(values | draws))


def orders(hidden: Hidden, seed: int) -> Iterator[ControlMask]:
    """`random-objects` in full: every order of the object levels, the frame levels at random."""
    if count_arrangements(hidden.level.tolist()) > ORDERS:
        for draw in range(ORDERS):
            yield random_objects(hidden, seed + draw)
        return
    rng = np.random.default_rng(seed)
    for level in arrangements(hidden.level.tolist()):
        yield permuted(hidden, np.array(level), rng.permutation(hidden.frame_level))


def chosen_by(choice: str, context: MethodContext, about: str) -> Counterfactual:
    """The levels of a choice, of CHOICES. about: the asked class, see `Item.about`.

    The oracle masks it fully, in a context without a frame mask, and masks nothing for "".
    """
    if choice == ORACLE:
        asked = [float(t.label == about) for t in context.tracks]
        return replace(empty_counterfactual(), level=np.array(asked))
    with torch.enable_grad():
        return context.counterfactual(context.options.mask)


@torch.no_grad()
def read_draws(
    lm: LocalLM,
    clip: Clip,
    tracks: tuple[Track, ...],
    item: Item,
    options: RunOptions,
    choice: str = MACD,
    places: int = PLACES,
) -> ControlDraws:
    """The item's row; all masks in one batch of the model. choice: of CHOICES. places: at least 1.

    Where the oracle's object lies under another one, it is masked there too, and so is each
    object of its orders.
    """
    if choice == ORACLE:
        options = replace(options, mask=replace(options.mask, frame_mask="off", overlap="raw"))
    context = context_of(lm, clip, tracks, item, options)
    mask = options.mask
    macd = chosen_by(choice, context, item.about)
    hidden = hidden_pixels_of(context, macd)
    seeds = np.random.SeedSequence(context.options.seed).generate_state(max(places, PLACES) + 1)
    placed = [random_place(hidden, int(seed)) for seed in seeds[:places]]
    objects = list(orders(hidden, int(seeds[-1])))
    masks = context.masks(mask)
    videos = [context.composite(masks, macd.level, macd.frame_level)]
    for drawn in (*placed, *objects):
        moved = masks if drawn.tracks is hidden.tracks else context.masks(mask, drawn.tracks)
        videos.append(context.composite(moved, drawn.level, drawn.frame_level))
    state = lm.prefill(context.encoded, torch.stack(videos), reuse=context.base)
    (plain,) = option_logits(lm, context.base, item.options, DIGITS)
    read = option_logits(lm, state, item.options, DIGITS)
    described = [
        Draw(logits, round(d.area_ratio, DIGITS), round(d.overlap, DIGITS), d.level.tolist())
        for d, logits in zip((*placed, *objects), read[1:], strict=True)
    ]
    return ControlDraws(
        item.id,
        plain,
        read[0],
        macd.level.tolist(),
        described[:places],
        described[places:],
        choice=choice,
    )


def stored(path: Path) -> dict[str, ControlDraws]:
    """Item id → its row, of a packed file."""
    return stored_rows(path, ControlDraws.of)


def main(argv: Sequence[str] | None = None) -> int:
    """Reads what is not stored yet, a clip after the other, then packs all rows."""
    parser = command_line("evals.studies.control_draws", __doc__)
    parser.add_argument("--regime", default="options", help="of toyworld-crossed")
    parser.add_argument("--n", type=int, default=1000, help="questions of the test split")
    parser.add_argument("--split", type=int, default=300, help="questions to tune on")
    parser.add_argument("--seed", type=int, default=0, help="another drawing of the clips")
    parser.add_argument("--choice", choices=CHOICES, default=MACD, help="whose mask is compared")
    parser.add_argument("--places", type=int, default=PLACES, help="random places a clip")
    parser.add_argument("--backbone", default="toyworld")
    parser.add_argument("--out", type=Path, default=Path("runs/control-draws"))

    def run(args: Any) -> str:
        check_counts(args, n=100_000, split=100_000, places=64)
        name = "draws" if args.choice == MACD else f"draws-{args.choice}"
        read = partial(read_draws, choice=args.choice, places=args.places)
        return read_missing(args, {"choose": args.split, "test": args.n}, name, read)

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
