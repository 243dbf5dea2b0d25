"""Rows of items, one a line, read by a model clip by clip and packed when all are there."""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.options import RunOptions
from macd_studio.core.types import Clip, Track
from macd_studio.evals.benchmarks.base import Item, Split
from macd_studio.evals.running.output import pack_lines, say
from macd_studio.evals.running.rows import Setting

R = TypeVar("R", bound=Any)
"""A dataclass with `item`, the item's id, and `seed`, of the drawing of the clips."""


def rows_of(path: Path, of: Callable[[dict[str, Any]], R]) -> dict[str, R]:
    """Item id → its row, of a file of lines, packed or not; a line torn by a kill is left out.

    of: the row of a line's plain values.
    """
    if not path.exists():
        return {}
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")
    rows = {}
    for line in text.splitlines():
        try:
            row = of(json.loads(line))
        except (ValueError, TypeError, KeyError):
            continue
        rows[row.item] = row
    return rows


def pack_rows(path: Path, rows: Sequence[R]) -> None:
    """Writes the rows packed, the same bytes for the same rows."""
    pack_lines(path, (asdict(r) for r in rows))


def read_missing(
    args: argparse.Namespace,
    counts: Mapping[Split, int],
    name: str,
    of: Callable[[dict[str, Any]], R],
    read: Callable[[LocalLM, Clip, tuple[Track, ...], Item, RunOptions], R],
) -> None:
    """Reads the items of `args.regime` that `args.out` does not hold yet, then packs all rows.

    args: regime of toyworld-crossed, seed, backbone, out. counts: split → questions. name: of the
    file, without its ending. of: see `rows_of`. read: makes the row of one item.
    """
    from macd_studio.evals.studies.headroom import open_models

    setting = Setting(
        "toyworld-crossed", RunOptions(), args.backbone, "toyworld", "truth", seed=args.seed
    )
    benchmark = setting.open()
    items = [
        i
        for split, n in counts.items()
        for i in benchmark.items(split, n)
        if i.regime == args.regime and i.options
    ]
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{name}.jsonl"
    rows = rows_of(path, of)
    missing = [i for i in items if i.id not in rows]
    if missing:
        lm, prepare = open_models(benchmark, setting)
        with path.open("a", encoding="utf-8") as file:
            for done, item in enumerate(missing):
                clip, tracks = prepare(item)
                row = replace(read(lm, clip, tracks, item, setting.options), seed=args.seed)
                rows[item.id] = row
                file.write(json.dumps(asdict(row)) + "\n")
                file.flush()
                if done % 50 == 49:
                    say(f"{done + 1} of {len(missing)} clips")
    packed = path.with_suffix(".jsonl.gz")
    pack_rows(packed, [rows[i.id] for i in items])
    say(f"{len(items)} clips are in {packed}")
