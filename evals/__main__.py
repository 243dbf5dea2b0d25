"""The command line: `python -m evals run BENCHMARK`, `score`, `paper`, `report`, `doctor`, …"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from core.errors import MacdError, OptionError
from core.methods import METHODS, find_methods
from core.objects.detect import check_detector
from core.options import ContrastOptions, DecodeOptions, RunOptions
from core.validation import Number, shown
from core.words import visible
from evals.benchmarks import BENCHMARKS, find_benchmark
from evals.commands import engine_flags, label, paper, power
from evals.commands import files as files_command
from evals.commands import score as score_command
from evals.doctor import Claim, audit_metrics
from evals.report import load, markdown, write
from evals.scoring.report import markdown as files_markdown

DEFAULT_METHODS = (
    "baseline",
    "vcd",
    "macd-object",
    "macd",
    "macd-swept",
    "mask-all",
    "random-mask",
    "reversed",
    "blank",
    "head-only",
)
QUICK = {"n": 18, "split": 12}
QUICK_METHODS = ("baseline", "vcd", "macd", "macd-swept", "mask-all")


def main(argv: list[str] | None = None) -> int:
    """Parses and runs; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        code: int = args.run(args)
        return code
    except MacdError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return 2
    except OSError as error:
        where = f" {error.filename!r}" if error.filename else " the results"
        print(
            f"error: the system refused{where} ({error.strerror}). Free space, or choose another"
            " folder.",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("stopped; run the same command again to go on", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals", description=__doc__)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="answer a benchmark by several methods")
    run.set_defaults(run=_run)
    run.add_argument("benchmark", choices=tuple(BENCHMARKS))
    run.add_argument("--methods", default="", help=f"with commas, of: {', '.join(METHODS)}")
    run.add_argument("--alpha", type=float, help="without it, α and β are chosen on a split")
    run.add_argument("--beta", type=float)
    run.add_argument("--n", type=int, default=1200, help="questions a regime")
    run.add_argument("--split", type=int, default=240, help="questions a regime to choose α and β")
    run.add_argument("--quick", action="store_true", help="a small run, to see it work")
    run.add_argument("--boxes", choices=("detector", "truth"), default="detector")
    run.add_argument("--backbone", default="toyworld")
    run.add_argument("--detector", default="toyworld")
    run.add_argument("--out", type=Path, default=Path("runs/evals"))
    engine_flags.add(run)
    files_command.add_flags(run)
    score_command.add(commands)
    label.add(commands)
    paper.add(commands)
    power.add(commands)
    report = commands.add_parser("report", help="print the report of a folder")
    report.set_defaults(run=_report)
    report.add_argument("folder", type=Path)
    doctor = commands.add_parser("doctor", help="can these published figures be true?")
    doctor.set_defaults(run=_doctor)
    doctor.add_argument("--n", type=int, required=True, help="questions")
    doctor.add_argument("--positives", type=int, help="questions whose answer is yes")
    for name in ("accuracy", "precision", "recall", "f1", "yes-rate"):
        doctor.add_argument(f"--{name}", type=float, help="percent, as printed")
    doctor.add_argument("--decimals", type=int, default=2, help="decimals printed")
    return parser


def _run(args: argparse.Namespace) -> int:
    if args.benchmark != "toyworld":
        return files_command.run(args)
    files_command.refuse_flags(args)
    n, split = (QUICK["n"], QUICK["split"]) if args.quick else (args.n, args.split)
    named = [m for m in args.methods.split(",") if m]
    chosen = named or (QUICK_METHODS if args.quick else DEFAULT_METHODS)
    methods = [m.name for m in find_methods(["baseline", *chosen])]
    _check_run(args, methods)
    engine = engine_flags.find(args)
    # with torch: only what cannot be refused without it
    from evals.answer import ONE_VIEW
    from evals.rows import Setting
    from evals.run import Contrasts, choose, complete, plan, ticking
    from evals.stats import RESAMPLES
    from evals.table import tabulate

    options = RunOptions(decode=DecodeOptions(max_tokens=24))
    setting = Setting(args.benchmark, options, args.backbone, args.detector, args.boxes)
    benchmark, rows = find_benchmark(args.benchmark), args.out / "rows"
    if args.alpha is not None:
        contrasts: Contrasts = dict.fromkeys(methods, (args.alpha, args.beta))
        how = "given"
    else:
        tried = plan(benchmark, setting, "choose", split, methods, None)
        items = benchmark.items("choose", split)
        found = complete(tried, setting, rows, engine, ticking("choosing α and β", _say))
        contrasts = choose(items, found, tried)
        how = f"chosen for each method on a split of {split} other questions a regime"
    wanted = plan(benchmark, setting, "test", n, methods, contrasts)
    found = complete(wanted, setting, rows, engine, ticking("test", _say))
    items = benchmark.items("test", n)
    answers = {(w.item.id, w.method): found[w.key] for w in wanted}
    figures = tabulate(benchmark, items, answers, methods)
    report = figures | {
        "benchmark": args.benchmark,
        "methods": methods,
        "contrasts": {m: list(contrasts[m]) for m in methods if m not in ONE_VIEW},
        "how_chosen": how,
        "boxes": "of the detector" if args.boxes == "detector" else "the true ones",
        "split": "test",
        "seed": benchmark.seeds["test"],
        "resamples": RESAMPLES,
        "backbone": args.backbone,
        "content": setting.content(benchmark),
        "machine": _machine(),
    }
    write(report, args.out)
    print(markdown(report))
    _say(f"written to {args.out}: report.md, report.json, report.html")
    return 0


def _check_run(args: argparse.Namespace, methods: list[str]) -> None:
    """Raises OptionError for what cannot be run; imports no torch."""
    find_methods(methods)
    for name, low, high in (("n", 1, 100_000), ("split", 1, 100_000)):
        Number(low, high, whole=True).read(getattr(args, name), name)
    engine_flags.check(args)
    if (args.alpha is None) != (args.beta is None):
        raise OptionError("only one of α and β is given", "Give both, or neither to choose them")
    if args.alpha is not None:
        ContrastOptions(args.alpha, args.beta)
    check_detector(args.detector)
    _check_folder(args.out)


def _check_folder(out: Path) -> None:
    """Raises OptionError where a folder cannot be made or written into."""
    try:
        near = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    except (OSError, ValueError) as error:
        raise OptionError(
            f"{shown(str(out), 200)} cannot be a folder ({error})", "Choose another"
        ) from None
    if not near.is_dir():
        raise OptionError(
            f"{shown(str(near), 200)} is no folder", "Choose a folder for the results"
        )
    if not os.access(near, os.W_OK | os.X_OK):
        raise OptionError(
            f"nothing can be written in {shown(str(near), 200)}", "Choose another folder"
        )


def _machine() -> str:
    import platform

    import torch

    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, float32"
    return f"{where}, torch {torch.__version__}, Python {platform.python_version()}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _report(args: argparse.Namespace) -> int:
    where = shown(str(args.folder), 200)
    if not os.path.isfile(args.folder / "report.json"):
        raise OptionError(f"{where} holds no report.json", "Give the --out folder of a run")
    try:
        found = load(args.folder)
        text = files_markdown(found) if found.get("kind") == "files" else markdown(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise OptionError(
            f"the report of {where} is damaged ({type(error).__name__})", "Run it again"
        ) from None
    print(visible(text))
    return 0


def _doctor(args: argparse.Namespace) -> int:
    names = ("n", "positives", "accuracy", "precision", "recall", "f1", "yes_rate", "decimals")
    found = audit_metrics(Claim(**{name: getattr(args, name) for name in names}))
    print(f"{found.verdict} ({found.possible} confusion matrices)")
    if found.example:
        print("for example TP {} FN {} FP {} TN {}".format(*found.example))
    return 0 if found.possible else 1


if __name__ == "__main__":
    raise SystemExit(main())
