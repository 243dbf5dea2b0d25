"""What studies share: rows that are read once and kept, packed files of them, the command line."""

from __future__ import annotations

import argparse
import json
import lzma
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.options import RunOptions
from macd_studio.core.text.question import word_tokens
from macd_studio.core.text.words import visible
from macd_studio.core.types import Clip, Track
from macd_studio.core.validation import Number
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.base import Benchmark, Item, Split
from macd_studio.evals.running.answer import choices_of, item_seed
from macd_studio.evals.running.output import check_folder, say, write_json
from macd_studio.evals.running.rows import Setting, seeded
from macd_studio.parts import ROOT

FOLDER = ROOT / "docs" / "toyworld-results"
"""The committed rows and figures."""
Row = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R", bound=Any)
"""A dataclass with `item`, the item's id, and `seed`, of the drawing of the clips."""


def command(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], str],
    argv: Sequence[str] | None,
) -> int:
    """Parses, runs and prints; 2 with one line where a MacdError says what is wrong."""
    args = parser.parse_args(argv)
    try:
        text = run(args)
    except MacdError as error:
        say(f"error: {visible(str(error))}")
        return 2
    print(text)
    return 0


def check_counts(args: argparse.Namespace, **most: int) -> None:
    """Raises OptionError for a flag that is no whole number from 1 to its largest."""
    for name, limit in most.items():
        Number(1, limit, whole=True).read(getattr(args, name), name)


def plain(report: Any) -> Any:
    """The report as JSON holds it."""
    return json.loads(json.dumps(report))


def told(
    report: dict[str, Any], markdown: Callable[[dict[str, Any]], str], out: Path | None
) -> str:
    """The report's tables; writes the report where out is given."""
    if out:
        write_json(out, report)
    return markdown(plain(report))


# rows, one a line while they are read


def lines_of(path: Path) -> Iterator[Row]:
    """Every whole row of a file of lines, none where there is none; a torn line is left out."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


def kept(
    path: Path,
    wanted: Iterable[tuple[str, T]],
    start: Callable[[], Callable[[T], Row]],
    key: str = "key",
    fits: Callable[[Row], bool] = lambda row: True,
) -> Iterator[Row]:
    """The row of each wanted thing, in order; one that the file lacks is made and added to it.

    wanted: (name, thing); a row holds its name as `key`. start: loads what makes rows, called where
    any is missing. fits: whether a stored row can be used. Stopped anywhere, it goes on there.
    """
    stored = {row[key]: row for row in lines_of(path) if key in row and fits(row)}
    path.parent.mkdir(parents=True, exist_ok=True)
    make, began, made = None, time.monotonic(), 0
    for name, thing in wanted:
        if name not in stored:
            make = make or start()
            stored[name] = {key: name} | make(thing)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(stored[name]) + "\n")
            made += 1
            if made % 50 == 0:
                say(f"{made} rows after {time.monotonic() - began:.0f} s")
        yield stored[name]


# packed files: columns of JSON, compressed; the same bytes for the same rows


def _columns(values: list[Any]) -> Any:
    """Values of one shape as columns: objects by their fields, lists by lengths and members."""
    if values and all(isinstance(v, dict) for v in values):
        kinds = list(dict.fromkeys(tuple(v) for v in values))
        which = [kinds.index(tuple(v)) for v in values]
        parts = []
        for k, kind in enumerate(kinds):
            own = [v for v, w in zip(values, which, strict=True) if w == k]
            parts.append({name: _columns([v[name] for v in own]) for name in kind})
        return {"fields": parts, "which": which if len(kinds) > 1 else []}
    if values and all(isinstance(v, list) for v in values):
        sizes = [len(v) for v in values]
        same = len(set(sizes)) == 1
        return {
            "sizes": sizes[:1] if same else sizes,
            "of": _columns([x for v in values for x in v]),
        }
    return values


def _values(columns: Any, n: int) -> list[Any]:
    """The n values that `_columns` took apart."""
    if isinstance(columns, list):
        return columns
    if "fields" in columns:
        which = columns["which"] or [0] * n
        made = []
        for k, fields in enumerate(columns["fields"]):
            own = (_values(part, which.count(k)) for part in fields.values())
            made.append(
                iter([dict(zip(fields, row, strict=True)) for row in zip(*own, strict=True)])
            )
        return [next(made[k]) for k in which]
    sizes = columns["sizes"] * (n if len(columns["sizes"]) == 1 else 1)
    members = iter(_values(columns["of"], sum(sizes)))
    return [[next(members) for _ in range(size)] for size in sizes]


def pack_rows(path: Path, rows: Sequence[Any]) -> None:
    """Writes rows, plain or dataclasses, all of the same fields."""
    values = [row if isinstance(row, dict) else asdict(row) for row in rows]
    text = json.dumps({"n": len(values), "rows": _columns(values)}, separators=(",", ":"))
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def unpack_rows(path: Path) -> list[Row]:
    """The rows that `pack_rows` wrote. Raises OptionError for anything else."""
    try:
        whole = json.loads(lzma.decompress(path.read_bytes()))
        return _values(whole["rows"], whole["n"])
    except (OSError, lzma.LZMAError, ValueError, TypeError, KeyError) as error:
        raise OptionError(
            f"{path.name} cannot be read ({type(error).__name__})",
            "Take it from the repository, or read it again",
        ) from None


def stored(path: Path, of: Callable[[Row], R]) -> dict[str, R]:
    """Item id → its row, of a packed file. of: the row of plain values."""
    return {row["item"]: of(row) for row in unpack_rows(path)}


# drawn clips


def as_options(options: RunOptions, item: Item) -> RunOptions:
    """The options with the item's own seed and answers."""
    return replace(options, seed=item_seed(item.id), choices=choices_of(item, options))


def context_of(
    lm: LocalLM, clip: Clip, tracks: tuple[Track, ...], item: Item, options: RunOptions
) -> MethodContext:
    """The item's clip and question, encoded."""
    own = as_options(options, item)
    return MethodContext(lm, lm.encode(clip, item.question), tracks, own)


def option_logits(
    lm: LocalLM, state: Any, options: Sequence[str], digits: int
) -> list[list[float]]:
    """(views, options) the logit of each option's likeliest first token, of all views read."""
    ids = [np.array(word_tokens(lm.tokens, option)) for option in options]
    named = sorted({int(i) for tokens in ids for i in tokens})
    return [
        [round(float(row.among(tokens).values.max()), digits) for tokens in ids]
        for row in lm.next_logits(state, ids=named)
    ]


def open_models(
    benchmark: Benchmark, setting: Setting
) -> tuple[LocalLM, Callable[[Item], tuple[Clip, tuple[Track, ...]]]]:
    """The backbone, and what gives an item's clip and its objects.

    Raises MacdError for models that cannot be loaded; the call, for a clip that cannot be read.
    """
    from macd_studio.core.backbones import load_backbone
    from macd_studio.core.objects.detect import load_detector
    from macd_studio.evals.running.tracks import Preparing

    lm = load_backbone(setting.backbone)
    own = setting.boxes == "detector"
    detector = load_detector(setting.detector, lm.info.device) if own else None
    preparing = Preparing(benchmark, detector, setting.options)

    def prepare(item: Item) -> tuple[Clip, tuple[Track, ...]]:
        prepared = preparing.prepare(item.clip, (item.question,))
        if prepared.clip is None:
            raise prepared.error or OptionError("a clip cannot be read", "Run it again")
        return prepared.clip, prepared.tracks or ()

    return lm, prepare


def read_missing(
    args: argparse.Namespace,
    counts: Mapping[Split, int],
    name: str,
    read: Callable[[LocalLM, Clip, tuple[Track, ...], Item, RunOptions], R],
    options: RunOptions | None = None,
) -> str:
    """Reads the items of `args.regime` that `args.out` does not hold yet, and packs all rows.

    args: regime of toyworld-crossed, seed, backbone, out. counts: split → questions. name: of the
    file, without its ending. read: makes the row of one item, with `options`, the defaults
    without. Returns what was written, in words.
    """
    check_folder(args.out)
    options = options or RunOptions()
    setting = Setting(
        "toyworld-crossed", options, args.backbone, "toyworld", "truth", seed=args.seed
    )
    benchmark = setting.open()
    items = [
        i
        for split, n in counts.items()
        for i in benchmark.items(split, n)
        if i.regime == args.regime and i.options
    ]

    def start() -> Callable[[Item], Row]:
        lm, prepare = open_models(benchmark, setting)
        return lambda item: asdict(replace(read(lm, *prepare(item), item, options), seed=args.seed))

    rows = list(kept(args.out / f"{name}.jsonl", ((i.id, i) for i in items), start, "item"))
    packed = args.out / f"{name}.json.xz"
    pack_rows(packed, rows)
    return f"{len(rows)} clips are in {packed}"


def items_of(rows: Sequence[R]) -> list[Item]:
    """The question of each row. Raises OptionError for a row of no question."""
    drawings = {
        seed: seeded(find_benchmark("toyworld-crossed"), seed) for seed in {r.seed for r in rows}
    }
    found = []
    for row in rows:
        key, _, which = row.item.rpartition("/")
        try:
            found.append(drawings[row.seed].item(key, int(which)))  # type: ignore[attr-defined]
        except (ValueError, KeyError, IndexError):
            raise OptionError(
                f"there is no question {row.item[:60]!r}", "Read the clips again"
            ) from None
    return found


def truths(rows: Sequence[R]) -> list[int]:
    """Index of the right option of each row. Raises OptionError for a row of no question."""
    return [item.options.index(item.truth) for item in items_of(rows)]
