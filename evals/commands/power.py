"""`python -m evals power`: how many questions show a difference, by the observed discordance."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import Maybe, Number, shown
from macd_studio.evals.benchmarks.layout import read_json


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("power", help="how many questions show a difference")
    parser.set_defaults(run=run)
    parser.add_argument("--difference", type=float, help="points of accuracy, such as 3")
    parser.add_argument("--n", type=int, help="questions at hand: what they can show")
    parser.add_argument(
        "--discordance", type=float, help="percent that only one of two methods answers right"
    )
    parser.add_argument(
        "--run", dest="folder", type=Path, help="take it from the folder that a run wrote"
    )
    parser.add_argument("--method", default="macd", help="the method of that run")
    parser.add_argument("--power", type=float, default=80, help="percent")
    parser.add_argument(
        "--design-effect", type=float, default=1.0, help="of several questions a clip"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the number of questions, or what the given number shows."""
    from macd_studio.evals.statistics.stats import power_of, questions_needed, smallest_difference

    Number(1, 99.9).read(args.power, "--power")
    Number(1, 1000).read(args.design_effect, "--design-effect")
    Maybe(Number(0.01, 100)).read(args.difference, "--difference")
    Maybe(Number(1, 10**7, whole=True)).read(args.n, "--n")
    if args.difference is None and args.n is None:
        raise OptionError("neither --difference nor --n is given", "Give one of them, or both")
    discordance, where = _discordance(args)
    power, effect = args.power / 100, args.design_effect
    print(f"discordance {100 * discordance:.1f} % ({where})")
    if args.difference is not None:
        d = args.difference / 100
        if args.n is None:
            n = questions_needed(d, discordance, power, design_effect=effect)
            print(f"{n} questions show {args.difference:g} points with a power of {args.power:g} %")
        else:
            achieved = power_of(args.n, d, discordance, design_effect=effect)
            print(f"{args.n} questions show {args.difference:g} points with a power of"
                  f" {100 * achieved:.1f} %")  # fmt: skip
        return 0
    least = smallest_difference(args.n, discordance, power, effect)
    if least is None:
        print(f"{args.n} questions show no difference with a power of {args.power:g} %")
    else:
        print(f"{args.n} questions show {100 * least:.2f} points or more with a power of"
              f" {args.power:g} %")  # fmt: skip
    return 0


def _discordance(args: argparse.Namespace) -> tuple[float, str]:
    """The share of discordant questions, and where it is from. Raises OptionError."""
    if (args.discordance is None) == (args.folder is None):
        raise OptionError("the discordance is not known", "Give --discordance, or --run FOLDER")
    if args.discordance is not None:
        return float(Number(0.01, 100).read(args.discordance, "--discordance") or 0) / 100, "given"
    report = read_json(args.folder / "report.json", "Give --run the folder that a run wrote")
    try:
        if report.get("kind") == "files":
            comparison = report["compared"][args.method]["all"]
            changed, n = comparison["repaired"] + comparison["spoiled"], report["n"]
        else:
            parts = report["regimes"].values()
            changed = sum(
                p["methods"][args.method]["repaired"] + p["methods"][args.method]["spoiled"]
                for p in parts
            )
            n = sum(p["n"] for p in parts)
    except (KeyError, TypeError, AttributeError):
        raise OptionError(
            f"the report has no comparison of {shown(args.method)} with the baseline",
            "Choose a method of that run by --method",
        ) from None
    if not changed:
        raise OptionError("no question was answered differently in that run",
                          "Give --discordance")  # fmt: skip
    return changed / n, f"of {n} questions, {args.method} against the baseline"
