"""What *everyday* says of real clips behind every view: `python -m evals.studies.real_draws`.

A row holds one yes/no question about what is there (the kind *exists*), and under each view the
margin: the logit of "yes" less that of "no" before the first token. From these every α and β can be
tried without reading the clip again; the answer is a forced choice between the two words.

Random draws have one seed a clip, so that questions for which MACD hides the same pixels have the
same controls, and a view that was read once is read on from its question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.commands import parser as command_line
from macd_studio.core.backbones.base import Prune
from macd_studio.core.backbones.local import DecodeState, LocalLM
from macd_studio.core.embedded import EVERYDAY, REAL_DETECTOR
from macd_studio.core.masking.controls import random_objects, random_place
from macd_studio.core.methods import find_method
from macd_studio.core.options import RunOptions
from macd_studio.core.types import Clip, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.table import hidden_pixels_of
from macd_studio.evals.benchmarks import SHIPPED
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.files import FileBenchmark
from macd_studio.evals.running.answer import item_seed
from macd_studio.evals.running.output import check_folder
from macd_studio.evals.running.rows import Setting
from macd_studio.evals.studies.first_token import oracle_view
from macd_studio.evals.studies.real_clips import class_of
from macd_studio.evals.studies.shared import (
    check_counts,
    command,
    kept,
    open_models,
    option_logits,
    pack_rows,
    unpack_rows,
)

PLACES, ORDERS = 8, 8
"""Draws of `random-place` and of `random-objects` a question."""
METHODS = ("vcd", "sid", "tcd", "mask-all")
"""Read beside MACD, each with one second view."""
MAPPED = 6
"""Most objects of a clip whose subsets are all read."""
DIGITS = 3
YES_NO = ("yes", "no")


@dataclass(frozen=True)
class RealDraws:
    """One question. Margins of "yes" over "no" under each view.

    item: CLIP/NUMBER; about: the class it names; labels, level: (K,) of the objects, MACD's level;
    framed: whether MACD hides frames too; video: the clip itself; views: name → the margin behind
    MACD's mask, the oracle's (the asked class alone) and those of METHODS; places, objects: behind
    each draw of `random-place` and `random-objects`; subsets: (2^K,) behind each subset of the
    objects at level 1 without a frame mask, row n those whose bits are set in n; empty where there
    are more than MAPPED.
    """

    item: str
    about: str
    labels: list[str]
    level: list[float]
    framed: bool
    video: float
    views: dict[str, float]
    places: list[float]
    objects: list[float]
    subsets: list[float] = field(default_factory=list)

    @property
    def clip(self) -> str:
        """The clip's name."""
        return self.item.rpartition("/")[0]

    @property
    def chosen(self) -> int | None:
        """The subset that MACD masks, as a number; None where it masks an object in part."""
        if any(0 < level < 1 for level in self.level):
            return None
        return sum(1 << k for k, level in enumerate(self.level) if level >= 1)


class KnownViews:
    """The model, which keeps what it read of each view of one clip; everything else is its own."""

    def __init__(self, lm: LocalLM) -> None:
        self._lm = lm
        self._read: dict[bytes, DecodeState] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)

    def prefill(
        self,
        encoded: Any,
        video: Tensor,
        prune: Prune | None = None,
        reuse: DecodeState | None = None,
        graph: bool = False,
    ) -> DecodeState:
        """The model's; of a view that another question showed, only the question is read."""
        if prune is not None or graph or video.ndim != 4:
            return self._lm.prefill(encoded, video, prune, reuse, graph)
        key = hashlib.blake2b(video.detach().cpu().numpy().tobytes()).digest()
        state = self._lm.prefill(encoded, video, reuse=self._read.get(key, reuse))
        self._read.setdefault(key, state)
        return state


@torch.no_grad()
def read_draws(
    lm: Any,
    clip: Clip,
    tracks: tuple[Track, ...],
    item: Item,
    options: RunOptions,
    draws: tuple[int, int] = (PLACES, ORDERS),
) -> RealDraws:
    """The question's row. lm: a KnownViews. options: with the clip's seed."""

    def margin(state: Any) -> float:
        (logits,) = option_logits(lm, state, YES_NO, 6)
        return round(logits[0] - logits[1], DIGITS)

    context = MethodContext(lm, lm.encode(clip, item.question), tracks, options)
    mask, about = options.mask, class_of(item.question)
    plain = margin(context.base)
    with torch.enable_grad():
        macd = context.counterfactual(mask)
    hidden = hidden_pixels_of(context, macd)

    def behind(
        level: NDArray[np.float64], frame_level: NDArray[np.float64], moved: Any = hidden.tracks
    ) -> float:
        if not level.any() and not frame_level.any():
            return plain
        masks = context.masks(mask, None if moved is hidden.tracks else moved)
        return margin(context.prefill(context.composite(masks, level, frame_level)))

    views = {"macd": behind(macd.level, macd.frame_level)}
    views["oracle"] = margin(oracle_view(context, about).state)
    for name in METHODS:
        context.cache.start_method()
        (second,) = find_method(name).build(context)
        views[name] = margin(second.state)
    seeds = np.random.SeedSequence(options.seed).generate_state(sum(draws)).tolist()
    placed = [random_place(hidden, seed) for seed in seeds[: draws[0]]]
    ordered = [random_objects(hidden, seed) for seed in seeds[draws[0] :]]
    return RealDraws(
        item.id,
        about,
        [t.label for t in tracks],
        macd.level.tolist(),
        bool(macd.frame_level.any()),
        plain,
        views,
        [behind(d.level, d.frame_level, d.tracks) for d in placed],
        [behind(d.level, d.frame_level) for d in ordered],
    )


@torch.no_grad()
def read_subsets(
    lm: Any, clip: Clip, tracks: tuple[Track, ...], item: Item, options: RunOptions
) -> list[float]:
    """The margin behind each subset of the objects, see `RealDraws`."""
    if len(tracks) > MAPPED:
        return []
    context = MethodContext(lm, lm.encode(clip, item.question), tracks, options)
    masks, found = context.masks(options.mask), list[float]()
    for subset in range(1 << len(tracks)):
        level = np.array([float(subset >> k & 1) for k in range(len(tracks))])
        video = context.composite(masks, level, np.zeros(len(context.encoded.groups)))
        (logits,) = option_logits(lm, context.prefill(video), YES_NO, 6)
        found.append(round(logits[0] - logits[1], DIGITS))
    return found


def by_clip(
    setting: Setting, read: Callable[..., dict[str, Any]]
) -> Callable[[Item], dict[str, Any]]:
    """What makes the row of an item; questions of one clip share what was read of it."""
    lm, prepare = open_models(setting.open(), setting)
    now: list[Any] = ["", None, None, None]

    def make(item: Item) -> dict[str, Any]:
        if item.clip != now[0]:
            now[:] = [item.clip, KnownViews(lm), *prepare(item)]
        options = RunOptions(seed=item_seed(item.clip))
        return read(*now[1:], item, options)

    return make


def asked(setting: Setting, clips: Sequence[str]) -> Iterator[tuple[str, Item]]:
    """The questions that are read, clips in an order that looks random.

    clips: of these alone, where any is named.
    """
    benchmark = setting.open()
    assert isinstance(benchmark, FileBenchmark)

    def order(item: Item) -> str:
        return hashlib.sha256(item.clip.encode()).hexdigest()

    for item in sorted(benchmark.everything, key=order):
        if item.regime == "exists" and (not clips or item.id.rpartition("/")[0] in clips):
            yield item.id, item


def stored(path: Path) -> list[RealDraws]:
    """The rows of a packed file."""
    return [RealDraws(**row) for row in unpack_rows(path)]


def main(argv: Sequence[str] | None = None) -> int:
    """Reads what is not stored yet, a clip after the other, then packs all rows."""
    parser = command_line("evals.studies.real_draws", __doc__)
    parser.add_argument("data", type=Path, nargs="?", default=SHIPPED["everyday"])
    parser.add_argument("--clips", default="", help="of these alone, names with commas")
    parser.add_argument("--places", type=int, default=PLACES, help="random places a question")
    parser.add_argument("--orders", type=int, default=ORDERS, help="random orders a question")
    parser.add_argument("--subsets", action="store_true", help="also every subset of the objects")
    parser.add_argument("--backbone", default=EVERYDAY)
    parser.add_argument("--out", type=Path, default=Path("runs/real-draws"))

    def run(args: Any) -> str:
        check_counts(args, places=64, orders=64)
        check_folder(args.out)
        setting = Setting(
            "everyday", RunOptions(), args.backbone, REAL_DETECTOR, data=str(args.data)
        )
        draw: Callable[..., RealDraws] = partial(read_draws, draws=(args.places, args.orders))
        items = list(asked(setting, list(filter(None, args.clips.split(",")))))

        def read(*of: Any) -> dict[str, Any]:
            row = asdict(draw(*of))
            return row | {"subsets": read_subsets(*of)} if args.subsets else row

        made = list(kept(args.out / "draws.jsonl", items, lambda: by_clip(setting, read), "item"))
        packed = args.out / "draws.json.xz"
        pack_rows(packed, made)
        return f"{len(made)} questions are in {packed}"

    return command(parser, run, argv)


if __name__ == "__main__":
    raise SystemExit(main())
