"""Where may a choice of objects be judged? A pilot on clips of its own.

`python -m evals.studies.pilot`.

For each variant of a question the logits of its options under the video, behind each object masked
alone, and behind all of them; true boxes, no frame mask. Told is what the oracle gains over the
null among objects, as `evals.studies.selection` asks it, but with constants and α, β of the very
clips: good enough to choose a variant by, and no verdict. The rows that were read are committed;
`--read` adds to them.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from macd_studio.commands import parser as command_line
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.options import RunOptions
from macd_studio.core.text.question import word_tokens
from macd_studio.core.text.words import visible
from macd_studio.core.validation import Number
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.toyworld import DrawnBenchmark, Maker, Opacity
from macd_studio.evals.benchmarks.toyworld_crossed import OPTION_CELLS, which_animal, which_way
from macd_studio.evals.printing.figures import change, percent, table
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.running.output import pack_lines, say, write_json
from macd_studio.evals.statistics.constant import likely_constants
from macd_studio.evals.statistics.intervals import difference_interval
from macd_studio.evals.statistics.stats import clustered_share
from macd_studio.evals.studies.first_token import contrasted
from macd_studio.parts import ROOT

FILE = ROOT / "docs" / "toyworld-results" / "pilot.jsonl.gz"
ALONE = [cell for cell in OPTION_CELLS if cell[3] is None]


@dataclass(frozen=True)
class Variant:
    """Which clips are drawn, and how faint the asked object is."""

    maker: Maker
    opacity: Opacity


VARIANTS = {
    "motion, 3 companions": Variant(which_way(), (0.10, 0.20)),
    "motion, 3 companions, .07": Variant(which_way(), (0.07, 0.15)),
    "motion, 3 companions, .06": Variant(which_way(), (0.06, 0.12)),
    "motion, 3 companions, .05": Variant(which_way(), (0.05, 0.11)),
    "motion, 4 companions": Variant(which_way(4), (0.07, 0.15)),
    "motion, 3 that move otherwise": Variant(which_way(apart=True), (0.07, 0.15)),
    "motion, 3 that move otherwise, .05": Variant(which_way(apart=True), (0.05, 0.11)),
    "options, 3 companions": Variant(which_animal(), (0.07, 0.13)),
    "options, 3 companions, .06": Variant(which_animal(), (0.06, 0.11)),
    "options, 3 companions, .05": Variant(which_animal(), (0.05, 0.11)),
    "options, 4 companions": Variant(which_animal(4), (0.07, 0.15)),
    "options, 4 companions, .06": Variant(which_animal(4), (0.06, 0.11)),
    "options, 3 that suggest nothing": Variant(which_animal(3, ALONE), (0.07, 0.13)),
    "options, 4 that suggest nothing": Variant(which_animal(4, ALONE), (0.07, 0.13)),
}
"""Everything that was tried, by name."""


@dataclass(frozen=True)
class PilotRow:
    """One clip. truth: index of the right option; asked: of the asked object among K.

    video: (options,) logits; alone: (K, options) behind each object masked alone; all: (options,)
    behind all of them.
    """

    variant: str
    seed: int
    index: int
    truth: int
    asked: int
    video: list[float]
    alone: list[list[float]]
    all: list[float]


class _World(DrawnBenchmark):
    """The clips of one variant and seed."""

    levels = ("faint",)

    def __init__(self, variant: Variant, seed: int) -> None:
        super().__init__("pilot", {"pilot": variant.maker}, {"pilot": "balanced"})
        self.seeds = MappingProxyType({"test": seed})
        self._variant = variant

    def _make(self, key: str) -> Any:
        rng = np.random.default_rng([self.seeds["test"], 1, int(key.rsplit("/", 1)[1])])
        return self._variant.maker(rng, int(key.rsplit("/", 1)[1]), self._variant.opacity)


def item_of(variant: str, seed: int, index: int) -> tuple[DrawnBenchmark, Item]:
    """The world of a row, and its question."""
    world = _World(VARIANTS[variant], seed)
    return world, world.item(f"test/pilot/{index}")


@torch.no_grad()
def read_row(lm: LocalLM, variant: str, seed: int, index: int) -> PilotRow:
    """The row of one clip; its K + 2 views in one batch of the model."""
    world, item = item_of(variant, seed, index)
    tracks = world.true_tracks(item.clip)
    context = MethodContext(lm, lm.encode(world.clip(item.clip), item.question), tracks, OFF)
    masks, count = context.masks(OFF.mask), len(tracks)
    levels = np.concatenate([np.zeros((1, count)), np.eye(count), np.ones((1, count))])
    videos = [context.composite(masks, level, np.zeros(0)) for level in levels]
    state = lm.prefill(context.encoded, torch.stack(videos), reuse=context.base)
    ids = [word_tokens(lm.tokens, option) for option in item.options]
    named = sorted({i for tokens in ids for i in tokens})
    video, *alone, whole = (
        [round(float(row.among(np.array(tokens)).values.max()), 4) for tokens in ids]
        for row in lm.next_rows(state, ids=named)
    )
    asked = [t.label for t in tracks].index(item.about)
    truth = item.options.index(item.truth)
    return PilotRow(variant, seed, index, truth, asked, video, alone, whole)


OFF = replace(RunOptions(), mask=replace(RunOptions().mask, frame_mask="off"))


def stored(path: Path = FILE) -> list[PilotRow]:
    """The rows of a packed file; none where there is none."""
    if not path.exists():
        return []
    return [
        PilotRow(**json.loads(line)) for line in gzip.decompress(path.read_bytes()).splitlines()
    ]


def pack(rows: Sequence[PilotRow], path: Path = FILE) -> None:
    """Writes the rows packed, the same bytes for the same rows."""
    pack_lines(path, (asdict(r) for r in rows))


def room(rows: Sequence[PilotRow]) -> dict[str, Any]:
    """What the null and the oracle gain with constants, of rows of one variant; see the module."""
    truth = np.array([r.truth for r in rows])
    video = np.array([r.video for r in rows])
    alone = np.array([r.alone for r in rows])
    at = np.arange(len(rows))
    found = likely_constants(video, truth, np.ones(len(rows)), range(video.shape[1]))
    added = np.array([found[k] for k in range(video.shape[1])])
    base = (video + added).argmax(1) == truth

    def right(pair: tuple[float, float]) -> Any:
        views = (alone + added).swapaxes(0, 1)
        return np.array([contrasted(video + added, view, *pair) == truth for view in views])

    pair = max(GRID, key=lambda c: (round(float(right(c).mean()), 9), -c[0], c[1]))
    hits = right(pair)
    oracle, null = hits[[r.asked for r in rows], at].astype(float), hits.mean(0)

    def over(after: Any, before: Any) -> list[float]:
        return list(difference_interval(after - before, range(len(rows))))

    return {
        "n": len(rows), "seeds": sorted({r.seed for r in rows}), "pair": list(pair),
        "right": clustered_share(video.argmax(1) == truth, at), "null": over(null, base),
        "oracle": over(oracle, base), "over": over(oracle, null),
    }  # fmt: skip


def report_of(rows: Sequence[PilotRow]) -> dict[str, Any]:
    """Variant → its figures, in the order of VARIANTS."""
    parts = {name: [r for r in rows if r.variant == name] for name in VARIANTS}
    return {name: room(part) for name, part in parts.items() if part}


def markdown(report: Mapping[str, Any]) -> str:
    """One line a variant."""
    lines = []
    for name, one in report.items():
        opacity = "{:g} to {:g}".format(*VARIANTS[name].opacity)
        seeds, pair = ", ".join(map(str, one["seeds"])), "{:g}, {:g}".format(*one["pair"])
        gains = (change(one[z]) for z in ("null", "oracle", "over"))
        lines.append([name, opacity, str(one["n"]), seeds, percent(one["right"]), pair, *gains])
    heads = ["variant", "opacity", "clips", "seeds", "baseline right, %", "α, β", "any one object",
             "oracle", "oracle over any one"]  # fmt: skip
    return table(heads, lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table of the committed rows; with --read reads further ones first."""
    parser = command_line("evals.studies.pilot", __doc__)
    parser.add_argument("--read", default="", help="a variant; ';' between several")
    parser.add_argument("--n", type=int, default=100, help="clips of each")
    parser.add_argument("--seed", type=int, default=501)
    parser.add_argument("--rows", type=Path, default=FILE, help="the packed rows")
    parser.add_argument("--out", type=Path, help="a JSON file")
    args: argparse.Namespace = parser.parse_args(argv)
    try:
        Number(1, 10_000, whole=True).read(args.n, "n")
        Number(0, 2**31, whole=True).read(args.seed, "seed")
        wanted = [v.strip() for v in args.read.split(";") if v.strip()]
        if unknown := [v for v in wanted if v not in VARIANTS]:
            raise OptionError(
                f"there is no variant {unknown[0][:60]!r}", f"Choose of: {'; '.join(VARIANTS)}"
            )
        rows = stored(args.rows)
        if wanted:
            from macd_studio.core.backbones import load_backbone

            lm, known = load_backbone("toyworld"), {(r.variant, r.seed, r.index) for r in rows}
            todo = [(v, args.seed, i) for i in range(args.n) for v in wanted]
            rows += [read_row(lm, *one) for one in todo if one not in known]
            pack(rows, args.rows)
        if not rows:
            raise OptionError("there are no rows", "Read some by --read")
    except MacdError as error:
        say(f"error: {visible(str(error))}")
        return 2
    report = report_of(rows)
    print(markdown(json.loads(json.dumps(report))))
    if args.out:
        write_json(args.out, report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
