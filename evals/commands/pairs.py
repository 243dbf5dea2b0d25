"""`python -m evals pairs BENCHMARK`: the patch meter and the headroom of true pairs of clips."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from macd_studio.core.cli.flags import add_weights, weights_of
from macd_studio.core.objects.detect import check_detector
from macd_studio.core.options import RunOptions
from macd_studio.core.text.words import visible
from macd_studio.core.validation import Number
from macd_studio.evals.benchmarks.base import evaluation_options
from macd_studio.evals.running.output import (
    check_folder,
    finite,
    machine,
    pack_lines,
    say,
    write_json,
)

DRAWN = "drawn"
NAMES = (DRAWN, "questions", "vidpair-halluc", "videohallucer")


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("pairs", help="what a true removal is worth, and a patch tells")
    parser.set_defaults(run=run)
    parser.add_argument("benchmark", choices=NAMES, help="drawn: pairs of the drawn world")
    parser.add_argument("--data", type=Path, help="the benchmark's folder; not of drawn pairs")
    parser.add_argument("--n", type=int, default=300, help="pairs at most (default: 300)")
    parser.add_argument("--seed", type=int, default=9, help="of drawn pairs (default: 9)")
    parser.add_argument("--alpha", type=float, default=1.0)
    parser.add_argument("--beta", type=float, default=0.1)
    parser.add_argument("--frames", type=int, default=8, help="frames sampled of each clip")
    parser.add_argument("--backbone", default="toyworld")
    parser.add_argument("--detector", default="toyworld", help="of objects of files")
    add_weights(parser)
    parser.add_argument("--out", type=Path, help="a folder for pairs.json, .md and rows.jsonl.gz")


def run(args: argparse.Namespace) -> int:
    """Reads, prints and writes. Raises MacdError."""
    from macd_studio.evals.benchmarks import open_files
    from macd_studio.evals.benchmarks.files import Sampling

    for name, low, high in (("n", 2, 100_000), ("seed", 0, 2**31), ("frames", 1, 256)):
        Number(low, high, whole=True).read(getattr(args, name), f"--{name}")
    for name in ("alpha", "beta"):
        Number(0.0, 100.0).read(getattr(args, name), f"--{name}")
    check_detector(args.detector)
    held = weights_of(args)
    if args.out is not None:
        check_folder(args.out)
    files = args.benchmark != DRAWN
    options = evaluation_options({"video": {"frames": args.frames}}) if files else RunOptions()
    benchmark = None
    if files:
        benchmark = open_files(args.benchmark, args.data, Sampling(options.video))
    from macd_studio.core.backbones import load_backbone
    from macd_studio.evals.pairs.items import drawn, pairs_of
    from macd_studio.evals.pairs.meter import METHODS, figures_of, markdown, read_pairs
    from macd_studio.evals.protocol.bounds import NAME_OF_FILE
    from macd_studio.evals.protocol.record import make_protocol
    from macd_studio.evals.running.rows import Row, Setting
    from macd_studio.evals.running.run import ticking

    if benchmark is None:
        found, source = drawn(args.n, args.seed)
    else:
        found = pairs_of(benchmark)
    lm = load_backbone(args.backbone, **asdict(held))
    if benchmark is None:
        clip_of, tracks_of, cluster_of = source.clip, source.tracks, source.cluster
    else:
        from macd_studio.core.objects.detect import load_detector
        from macd_studio.evals.running.tracks import Preparing

        preparing = Preparing(benchmark, load_detector(args.detector, lm.info.device), options)

        def tracks_of(pair: Any) -> Any:
            clip = benchmark.clip(pair.item.clip)
            return preparing.tracks_of(pair.item.clip, clip, pair.item.question)

        clip_of, cluster_of = benchmark.clip, benchmark.cluster
    pairs = found.pairs[: args.n]
    rows = read_pairs(
        lm, pairs, clip_of, tracks_of, options, cluster_of, progress=ticking("reading pairs", say)
    )
    figures = figures_of(rows, args.alpha, args.beta, found.left_out) | {
        "name": found.name, "seed": None if files else args.seed, "backbone": args.backbone,
        "machine": machine(),
    }  # fmt: skip
    text = markdown(figures)
    print(visible(text.rstrip("\n")))
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        write_json(args.out / "pairs.json", finite(figures))
        (args.out / "pairs.md").write_text(text, encoding="utf-8")
        kept = ({n: z for n, z in asdict(r).items() if n != "given"} for r in rows)
        pack_lines(args.out / "rows.jsonl.gz", kept)
        setting = Setting(
            args.benchmark, options, args.backbone, args.detector if files else "",
            "detector" if files else "truth", held=held.weights, dtype=held.dtype,
        )  # fmt: skip
        answers = {(r.id, "baseline"): Row("", r.id, "baseline", error=r.error, given=r.given)
                   for r in rows}  # fmt: skip
        contrasts = {m: [args.alpha, args.beta] for m in (*METHODS, "pair")}
        about = {
            "rule": "the larger of both logits", "methods": ["baseline", *contrasts],
            "contrasts": contrasts, "failures": {"failed": len(figures["failed"])},
        }  # fmt: skip
        asked, of = [p.item for p in pairs], benchmark or source
        write_json(args.out / NAME_OF_FILE, make_protocol(of, setting, asked, answers, about))
        say(f"written to {args.out}: pairs.json, pairs.md, rows.jsonl.gz, {NAME_OF_FILE}")
    return 0
