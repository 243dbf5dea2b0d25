"""The command line: `python -m evals run BENCHMARK`, `score`, `paper`, `report`, `doctor`, …"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from macd_studio.commands import parser as command_line
from macd_studio.commands import pipe_closed
from macd_studio.core.cli.flags import add_version, add_weights, weights_of
from macd_studio.core.embedded import AUTO, DRAWN, backbone_for, detector_for
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.methods import METHODS
from macd_studio.core.objects.detect import check_detector
from macd_studio.core.options import PRESETS
from macd_studio.core.system.process import configure_process
from macd_studio.core.text.words import visible
from macd_studio.core.validation import Number, shown
from macd_studio.evals.audit.printed import at_the_same_rate, sentence
from macd_studio.evals.benchmarks import BENCHMARKS, FILES, find_benchmark
from macd_studio.evals.benchmarks.base import evaluation_options
from macd_studio.evals.commands import (
    audit,
    detectors,
    diff,
    fetch,
    label,
    pairs,
    paper,
    power,
    trace,
)
from macd_studio.evals.commands import files as files_command
from macd_studio.evals.commands import score as score_command
from macd_studio.evals.commands.common import (
    add_engine_flags,
    check_engine_flags,
    find_engine,
    for_reader,
)
from macd_studio.evals.paper.doctor import (
    METRICS,
    Claim,
    Printed,
    Unmatched,
    always_yes,
    audit_metrics,
)
from macd_studio.evals.paper.published import diagnose, read_table
from macd_studio.evals.printing.report import load, markdown, write
from macd_studio.evals.running.contrasts import CONSTANT, PUBLISHED, read_contrasts, refuse_lazy
from macd_studio.evals.running.output import (
    EXIT,
    check_folder,
    count_failures,
    failures_line,
    machine,
    say,
    tell_replaced,
)
from macd_studio.evals.scoring.show import markdown as files_markdown

DEFAULT_METHODS = (
    "baseline",
    CONSTANT,
    "olm",
    "vcd",
    "macd-object",
    "macd",
    "macd-swept",
    "macd-measured",
    "mask-all",
    "random-place",
    "random-objects",
    "reversed",
    "blank",
    "head-only",
)
QUICK = {"n": 216, "split": 288}
"""Questions over all regimes: to see it work, and to choose α, β and the constants by more than
chance, in two minutes on two cores with three methods.
"""
QUICK_METHODS = ("baseline", "vcd", "macd", "random-place", "mask-all")


def main(argv: list[str] | None = None) -> int:
    """Parses and runs; returns the exit code."""
    configure_process()
    args = _parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except MacdError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return pipe_closed()
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
    parser = command_line("evals", __doc__)
    add_version(parser)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="answer a benchmark by several methods")
    run.set_defaults(run=_run)
    run.add_argument("benchmark", choices=tuple(BENCHMARKS))
    run.add_argument(
        "--methods",
        default="",
        help="with commas, each with α and β of its own where wanted, as in"
        f" macd:alpha=2.6,beta=0.1,vcd:preset={PUBLISHED}; of: {', '.join(METHODS)}",
    )
    run.add_argument("--alpha", type=float, help="without it, α and β are chosen on a split")
    run.add_argument("--beta", type=float)
    run.add_argument("--preset", choices=tuple(PRESETS), help="the paper's α and β by benchmark")
    run.add_argument("--n", type=int, default=1200, help="questions a regime")
    run.add_argument("--split", type=int, default=240, help="questions a regime to choose α and β")
    run.add_argument("--quick", action="store_true", help="a small run, to see it work")
    run.add_argument(
        "--lazy",
        action="store_true",
        help="look for objects and read second views only where a token needs them: the same"
        " answers; α and β must be given, and figures of margins are left out",
    )
    run.add_argument("--boxes", choices=("detector", "truth"), default="detector")
    run.add_argument(
        "--backbone",
        default=AUTO,
        help="default: toyworld for drawn clips, everyday for files of others",
    )
    add_weights(run)
    run.add_argument("--detector", default=AUTO, help="default: toyworld, or yolo11n")
    run.add_argument("--seed", type=int, default=0, help="another drawing of the clips, 0 to 9999")
    run.add_argument("--out", type=Path, default=Path("runs/evals"))
    add_engine_flags(run)
    files_command.add_flags(run)
    score_command.add(commands)
    detectors.add(commands)
    label.add(commands)
    fetch.add(commands)
    paper.add(commands)
    power.add(commands)
    trace.add(commands)
    diff.add(commands)
    audit.add(commands)
    pairs.add(commands)
    report = commands.add_parser("report", help="print the report of a folder")
    report.set_defaults(run=_report)
    report.add_argument("folder", type=Path)
    report.add_argument("--again", action="store_true", help="compute it again from its rows")
    doctor = commands.add_parser("doctor", help="can these published figures be true?")
    doctor.set_defaults(run=_doctor)
    doctor.add_argument("--n", type=int, help="questions")
    doctor.add_argument("--positives", type=int, help="questions whose answer is yes")
    for name in ("accuracy", "precision", "recall", "f1", "yes-rate"):
        doctor.add_argument(f"--{name}", type=float, help="percent, as printed")
    doctor.add_argument(
        "--decimals", default="2", help="decimals printed: 2, or by metric accuracy=2,f1=1"
    )
    doctor.add_argument(
        "--unmatched",
        choices=("wrong", "no"),
        default="wrong",
        help="what an answer that is neither yes nor no counts as",
    )
    doctor.add_argument("--truncated", action="store_true", help="figures may have been cut off")
    doctor.add_argument("--table", type=Path, metavar="FILE.csv", help="every row of a table")
    return parser


def _run(args: argparse.Namespace) -> int:
    if args.benchmark in FILES:
        return files_command.run(args)
    args.backbone = backbone_for(args.backbone, DRAWN)
    args.detector = detector_for(args.detector, DRAWN)
    files_command.refuse_flags(args)
    n, split = args.n, args.split
    if args.quick:
        regimes = len(find_benchmark(args.benchmark).regimes)
        n, split = (max(6, QUICK[name] // regimes) for name in ("n", "split"))
    default = QUICK_METHODS if args.quick else DEFAULT_METHODS
    values = {"decode": {"max_tokens": 24}, "lazy": args.lazy}
    options = for_reader(evaluation_options(values), args.backbone)
    asked = read_contrasts(
        args.methods, ["baseline", CONSTANT], default, args.alpha, args.beta, args.preset, options
    )
    refuse_lazy(asked, options)
    methods = list(asked.methods)
    _check_run(args)
    engine = find_engine(args)
    # with torch: only what cannot be refused without it
    from macd_studio import __version__
    from macd_studio.evals.protocol.bounds import NAME_OF_FILE
    from macd_studio.evals.protocol.record import make_protocol
    from macd_studio.evals.running.answer import GRID
    from macd_studio.evals.running.output import write_json
    from macd_studio.evals.running.rows import PACKED, Setting, code_fingerprint, pack, unpack
    from macd_studio.evals.running.run import choose, complete, plan, ticking
    from macd_studio.evals.statistics.constant import DELTAS
    from macd_studio.evals.statistics.stats import RESAMPLES
    from macd_studio.evals.statistics.table import summarise

    setting = Setting(
        args.benchmark, options, args.backbone, args.detector, args.boxes, seed=args.seed,
        held=args.weights, offload=args.offload, dtype=args.dtype,
    )  # fmt: skip
    benchmark, rows = setting.open(), args.out / "rows"
    of = [m for m in methods if m in asked.tuned or m == "baseline"]
    tried = plan(benchmark, setting, "choose", split, of, None)
    rows_by_key = complete(tried, setting, rows, engine, ticking("choosing", say))
    kept = [rows_by_key[w.key] for w in tried]
    contrasts = choose(benchmark.items("choose", split), rows_by_key, tried) | asked.given
    planned = plan(benchmark, setting, "test", n, methods, contrasts)
    rows_by_key = complete(planned, setting, rows, engine, ticking("test", say))
    kept += [rows_by_key[w.key] for w in planned]
    pack(args.out / PACKED, kept)
    # from the packed rows, so that anybody who has only these gets the same figures
    figures = summarise(benchmark, unpack(args.out / PACKED), methods, n, split)
    report = figures | {
        "benchmark": args.benchmark,
        "methods": methods,
        "contrasts": {m: list(contrasts[m]) for m in asked.sources},
        "contrast_sources": asked.sources,
        "how_chosen": asked.how(f"a split of {split} other questions a regime"),
        "grid": {"alpha_beta": len(GRID), "constant": len(DELTAS)},
        "asked": {"choose": split, "test": n},
        "fit": options.video.fit,
        "failures": count_failures(kept),
        "boxes": "of the detector" if args.boxes == "detector" else "the true ones",
        "split": "test",
        "seed": benchmark.seeds.get("test"),
        "seed_step": args.seed,
        "resamples": RESAMPLES,
        "backbone": args.backbone,
        "content": setting.content(benchmark),
        "setting": setting.as_dict(),
        "made_by": {"version": __version__, "code": code_fingerprint()[:16]},
        "machine": machine(),
    }
    tell_replaced(args.out, report)
    write(report, args.out)
    answers = {(w.item.id, w.method): rows_by_key[w.key] for w in planned}
    asked_of = benchmark.items("test", n)
    write_json(
        args.out / NAME_OF_FILE, make_protocol(benchmark, setting, asked_of, answers, report)
    )
    print(markdown(report))
    say(f"written to {args.out}: report.md, report.json, report.html, {NAME_OF_FILE}, {PACKED}")
    if failed := failures_line(report["failures"]):
        say(f"error: {visible(failed)}")
        return EXIT
    return 0


def _check_run(args: argparse.Namespace) -> None:
    """Raises OptionError for what cannot be run; imports no torch."""
    limits = (("n", 1, 100_000), ("split", 1, 100_000), ("seed", 0, 9999))
    for name, low, high in limits:
        Number(low, high, whole=True).read(getattr(args, name), name)
    weights_of(args)
    check_engine_flags(args)
    check_detector(args.detector)
    check_folder(args.out)


def _report(args: argparse.Namespace) -> int:
    where = shown(str(args.folder), 200)
    if not os.path.isfile(args.folder / "report.json"):
        raise OptionError(f"{where} holds no report.json", "Give the --out folder of a run")
    try:
        report = load(args.folder)
        files = report.get("kind") == "files"
        if args.again and not files:
            from macd_studio.evals.statistics.table import summarise_again

            report = summarise_again(report, args.folder)
            write(report, args.folder)
        text = files_markdown(report) if files else markdown(report)
    except MacdError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise OptionError(
            f"the report of {where} is damaged ({type(error).__name__})", "Run it again"
        ) from None
    print(visible(text))
    return 0


def _doctor(args: argparse.Namespace) -> int:
    printed: Printed = "rounded-or-truncated" if args.truncated else "rounded"
    if args.table is not None:
        return _doctor_of_table(args.table, args.unmatched, printed)
    if args.n is None:
        raise OptionError("the number of questions is missing", "Give --n, or --table FILE.csv")
    names = ("n", "positives", *METRICS)
    audit = audit_metrics(
        Claim(
            **{name: getattr(args, name) for name in names},
            decimals=_decimals(args.decimals),
            unmatched=args.unmatched,
            printed=printed,
        )
    )
    print(f"{audit.verdict} ({audit.possible} confusion matrices)")
    if audit.example:
        print("for example TP {} FN {} FP {} TN {}".format(*audit.example), end="")
        left = args.n - sum(audit.example)
        print(f", and {left} unmatched where no is right" if left else "")
    if args.positives is not None:
        line = always_yes(args.n, args.positives)
        print(f"always yes gets accuracy {line['accuracy']:.2f} and F1 {line['f1']:.2f}")
    for note in audit.notes:
        print(note)
    return 0 if audit.possible else 1


def _decimals(text: str) -> int | dict[str, int]:
    """ "2", or "accuracy=2,f1=1"; Claim checks the numbers."""
    try:
        if "=" not in text:
            return int(text)
        pairs = [part.split("=") for part in text.split(",")]
        decimals = {name.strip().replace("-", "_"): int(number) for name, number in pairs}
    except ValueError:
        raise OptionError(
            f"decimals are {shown(text)}", "Give 2, or by metric accuracy=2,f1=1"
        ) from None
    if unknown := set(decimals) - set(METRICS):
        raise OptionError(
            f"there is no metric {shown(min(unknown))}", f"Choose one of {', '.join(METRICS)}"
        )
    return decimals


def _doctor_of_table(path: Path, unmatched: Unmatched, printed: Printed) -> int:
    """Prints a verdict a row; 1 where a row fits no counts."""
    impossible = 0
    rows = read_table(path).rows
    for row, same_rate in zip(rows, at_the_same_rate(rows), strict=True):
        diagnosis = diagnose(row, unmatched, printed)
        if diagnosis is None:
            print(visible(f"{row.name}: nothing to check without n and a metric"))
            continue
        impossible += not diagnosis.possible
        line = ""
        if row.n is not None and row.positives is not None:
            line = f" (always yes: accuracy {always_yes(row.n, row.positives)['accuracy']:.1f})"
        notes = "".join(f"; {note}" for note in diagnosis.notes)
        told = f"{row.name}: {diagnosis.verdict}{line}{sentence(same_rate)}{notes}"
        print(visible(told))
    return 1 if impossible else 0


if __name__ == "__main__":
    raise SystemExit(main())
