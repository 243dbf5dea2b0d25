"""`python -m evals paper TABLE`: computes a table of the paper and shows our figures next to it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.objects.detect import check_detector
from macd_studio.core.options import ContrastOptions
from macd_studio.core.text.words import visible
from macd_studio.core.validation import Maybe, Number
from macd_studio.evals.benchmarks.base import FIT
from macd_studio.evals.commands.common import add_engine_flags, check_engine_flags, find_engine
from macd_studio.evals.paper.tables import PaperTable, TableRow, read_table, table_names
from macd_studio.evals.running.output import EXIT, check_folder, machine, say

DRAWN = 4
"""Clips a split of the drawn world, where no data are given."""


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("paper", help="compute a table of the paper, next to its figures")
    parser.set_defaults(run=run)
    parser.add_argument("table", choices=(*table_names(), "list"))
    parser.add_argument("--data", type=Path, help="folder of the benchmark, or of several by name")
    parser.add_argument("--backbone", default="toyworld")
    parser.add_argument("--detector", default="toyworld")
    parser.add_argument("--limit", type=int, default=10**6, help="questions of each split")
    parser.add_argument("--n", type=int, default=DRAWN, help="drawn clips a split, without --data")
    parser.add_argument("--alpha", type=float, help="of every row, instead of the published ones")
    parser.add_argument("--beta", type=float)
    parser.add_argument("--sample-fps", type=float, help="frames sampled a second")
    parser.add_argument("--frame-size", type=int, help="side of sampled frames in pixels")
    parser.add_argument("--prompts", choices=("published", "bare"), default="published")
    parser.add_argument("--study", type=Path, help="ratings for mask-quality: condition, score")
    parser.add_argument("--cost-questions", type=int, default=4, help="questions that are timed")
    parser.add_argument("--out", type=Path, default=Path("runs/paper"))
    add_engine_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Computes and prints; writes OUT/TABLE.json and OUT/TABLE.md."""
    if args.table == "list":
        for name in table_names():
            print(f"{name:24} {read_table(name).title}")
        return 0
    _check(args)
    table = read_table(args.table)
    data = {} if not table.benchmarks else _data(args, table)
    check_folder(args.out)
    engine = find_engine(args)
    from macd_studio.evals.paper.ours import Source, add_overheads, compute
    from macd_studio.evals.paper.show import as_data, markdown, same_backbone
    from macd_studio.evals.running.output import write_json
    from macd_studio.evals.running.run import ticking

    source = Source(
        backbone=args.backbone,
        detector=args.detector,
        data=data,
        out=args.out,
        limit=args.limit,
        published=args.prompts == "published",
        fps=args.sample_fps,
        size=args.frame_size,
        contrast=None if args.alpha is None else (args.alpha, args.beta),
        engine=engine,
        study=args.study,
        cost_questions=args.cost_questions,
    )
    rows = _rows(table, [r for r in table.rows if same_backbone(r.backbone, args.backbone)])
    computed = []
    for i, row in enumerate(rows, 1):
        label = f"{args.table}, row {i} of {len(rows)}, {row.name}"
        computed.append(compute(table, row, source, ticking(label, say)))
    computed = [replace(o, figures=dict(o.figures)) for o in computed]
    add_overheads(table, computed)
    where = str(args.data) if args.data else f"the drawn world, {args.n} clips a split or task"
    about = {
        "backbone": args.backbone,
        "detector": args.detector,
        "data": where,
        "fit": FIT,
        "machine": machine(),
    }
    text = markdown(table, rows, computed, about)
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / f"{table.name}.json", as_data(table, rows, computed, about))
    (args.out / f"{table.name}.md").write_text(text, encoding="utf-8")
    print(visible(text))
    print(f"written to {args.out}: {table.name}.md, {table.name}.json", file=sys.stderr)
    lacking = [(r.name, o.failures) for r, o in zip(rows, computed, strict=True) if o.failures]
    for name, failures in lacking:
        print(f"error: {visible(f'{name}: {failures}')}", file=sys.stderr)
    return EXIT if lacking else 0


def _check(args: argparse.Namespace) -> None:
    for name, low, high, whole in (
        ("limit", 1, 1e6, True), ("n", 1, 999, True), ("sample_fps", 0.01, 60, False),
        ("frame_size", 28, 2048, True), ("cost_questions", 1, 1000, True),
    ):  # fmt: skip
        rule = Maybe(Number(low, high, whole))
        rule.read(getattr(args, name), f"--{name.replace('_', '-')}")
    if (args.alpha is None) != (args.beta is None):
        raise OptionError("only one of α and β is given", "Give both, or neither")
    if args.alpha is not None:
        ContrastOptions(args.alpha, args.beta)
    check_detector(args.detector)
    check_engine_flags(args)


def _rows(table: PaperTable, own: list[TableRow]) -> list[TableRow]:
    """The rows to compute: those of our backbone, or those of the table's first one."""
    return own or [r for r in table.rows if r.backbone == table.rows[0].backbone]


def _data(args: argparse.Namespace, table: PaperTable) -> dict[str, Path]:
    """The folder of each benchmark of the table; new drawn clips where no folder is given."""
    from macd_studio.evals.benchmarks import open_files

    if args.data is None:
        from macd_studio.toyworld.export import export

        folders = {}
        for name in table.benchmarks:
            folder = args.out / "drawn" / f"{name}-{args.n}"
            done = folder / "whole"
            if not done.exists():
                export(name, folder, max(args.n, 3 if name == "video-pope" else 1))
                done.touch()
            folders[name] = folder
        return folders
    named = {b: args.data / b for b in table.benchmarks if (args.data / b).is_dir()}
    folders = named or {table.benchmarks[0]: args.data}
    for name, folder in folders.items():
        open_files(name, folder)
    return folders
