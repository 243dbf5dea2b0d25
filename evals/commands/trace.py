"""`python -m evals trace REPORT QUESTION --out FILE.macd`: the trace of one answer of a report."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError, OptionError
from macd_studio.core.text.words import visible
from macd_studio.core.traces.bundle import check_target, save
from macd_studio.core.validation import shown


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("trace", help="the trace of one answer of a report")
    parser.set_defaults(run=run)
    parser.add_argument("folder", type=Path, metavar="REPORT", help="the --out folder of a run")
    parser.add_argument("question", metavar="QUESTION", help="the question's id")
    parser.add_argument("--method", help="whose answer (default: macd, else the first that is not"
                        " the baseline)")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.macd")
    parser.add_argument("--data", type=Path, help="where the benchmark's folder is now")
    parser.add_argument(
        "--anyway",
        action="store_true",
        help="also where files, models, code or device are others than those of the run",
    )


def run(args: argparse.Namespace) -> int:
    """Computes the answer again and saves its trace. Raises MacdError."""
    from dataclasses import replace

    from macd_studio.evals.scoring.report import read_report

    check_target(args.out)
    report = read_report(args.folder)
    question, method = _find(report, args.question, args.method)
    from macd_studio.evals.running.engine import Worker
    from macd_studio.evals.running.rows import read_setting, row_key
    from macd_studio.evals.running.traces import compute_trace, contrast_of, differs

    if "setting" not in report:
        raise BenchmarkError("the report is of an older version, without its setting",
                             "Run it again; its answers are taken from its rows")  # fmt: skip
    setting = read_setting(report["setting"])
    if args.data is not None:
        setting = replace(setting, data=str(args.data))
    benchmark = setting.open()
    items = {i.id: i for i in benchmark.items("all", 10**9)}
    if args.question not in items:
        raise BenchmarkError(f"{shown(setting.data, 200)} does not have the question"
                             f" {shown(args.question)}", "Name its folder by --data")  # fmt: skip
    item, answer = items[args.question], question["answers"][method]
    contrast = contrast_of(method, {m: tuple(p) for m, p in report["contrasts"].items()})
    key = row_key(setting.content(benchmark), item, method, contrast)
    if key != answer["key"]:
        cause = "files, models, code or device are others than those of the report"
        if not args.anyway:
            raise OptionError(cause, "Run the benchmark again, or give --anyway")
        print(f"note: {cause}", file=sys.stderr)
    worker = Worker(setting, args.folder / "tracks")
    trace = compute_trace(worker, item, method, contrast)
    save(trace, args.out)
    if difference := differs(trace, method, answer["text"]):
        print(visible(f"note: {difference}"), file=sys.stderr)
    print(visible(f"{args.out}: {method} answers {trace.answers[method].text!r}"))
    return 0


def _find(report: dict[str, Any], name: str, method: str | None) -> tuple[dict[str, Any], str]:
    """The question's record, and the method whose answer is wanted. Raises a MacdError."""
    try:
        record = next((q for q in report["questions"] if q["id"] == name), None)
        if record is None:
            raise BenchmarkError(
                f"the report has no question {shown(name)}",
                f"Use ids such as {shown(report['questions'][0]['id'])}",
            )
        answers = {m: a for m, a in record["answers"].items() if a["key"]}
    except (KeyError, TypeError, AttributeError, IndexError):
        raise BenchmarkError("the report is damaged", "Run it again") from None
    if method is None:
        method = next((m for m in ("macd", *answers, "baseline") if m in answers
                       and (m != "baseline" or len(answers) == 1)), None)  # fmt: skip
    if method is None or method not in answers:
        raise OptionError(
            f"no model was asked for the answer of {shown(method)}",
            f"Choose --method of {', '.join(answers)}",
        )
    return record, method
