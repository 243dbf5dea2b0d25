"""`python -m evals diff A B`: what makes two figures differ, as shares of causes in points."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.text.words import visible
from macd_studio.core.validation import Maybe, Number, shown
from macd_studio.evals.commands.common import add_questions, both, questions_of
from macd_studio.evals.running.output import check_folder, say
from macd_studio.evals.scoring.score import OVER

RERUN = "rerun"


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("diff", help="what makes two figures differ")
    parser.set_defaults(run=run)
    what = "folder of a run, or FOLDER:METHOD; samples of lmms-eval; predictions; paper:FIGURE,n=N"
    parser.add_argument("first", metavar="A", help=what)
    parser.add_argument("second", metavar="B", help="likewise; shares lead from A to B")
    parser.add_argument("--method", default="", help="of both folders; A,B where they differ")
    parser.add_argument(
        "--rule", default="", help="scoring rule of both, or A,B; their own without"
    )
    parser.add_argument("--over", default="", help=f"what is counted: {', '.join(OVER)}; or A,B")
    parser.add_argument("--split", default="", help="only questions of this split or regime")
    add_questions(parser, "where neither is a folder", "; with --rerun also where A's lies now")
    parser.add_argument("--second-data", type=Path, help="with --rerun: where B's lies now")
    parser.add_argument(
        "--rerun",
        type=int,
        metavar="N",
        help="answer N questions again, each difference alone and all in order",
    )
    parser.add_argument(
        "--python", type=Path, help="with --rerun: the Python of B, for what packages do"
    )
    parser.add_argument("--out", type=Path, help="a folder for diff.json, diff.md and diff.html")


def run(args: argparse.Namespace) -> int:
    """Prints the shares; writes them too with --out. Raises MacdError."""
    from macd_studio.evals.protocol.inputs import Asked, read_pair
    from macd_studio.evals.protocol.show import markdown, plain, printed_difference, write
    from macd_studio.evals.protocol.split import split

    Maybe(Number(1, 100_000, whole=True)).read(args.rerun, "--rerun")
    for name in ("python", "second_data"):
        if getattr(args, name) is not None and args.rerun is None:
            raise OptionError(f"--{name.replace('_', '-')} is for --rerun", "Give --rerun N too")
    if args.second_data is not None and not args.second_data.is_dir():
        raise OptionError(
            f"there is no folder {shown(str(args.second_data), 200)}", "Name B's by --second-data"
        )
    if args.out is not None:
        check_folder(args.out)
    methods, rules, overs = (both(z) for z in (args.method, args.rule, args.over))
    first, second = read_pair(
        Asked(args.first, methods[0], rules[0], overs[0]),
        Asked(args.second, methods[1], rules[1], overs[1]),
        questions_of(args),
        args.split,
    )
    more: dict[str, Any] = {}
    made = None
    if first.has_answers and second.has_answers:
        made = split(first, second)
    else:
        ours, printed = (first, second) if first.has_answers else (second, first)
        value, difference, notes = printed_difference(ours, printed)
        sides = [[value, len(ours.items)], list(printed.stated or ())]
        if ours is second:
            sides, difference = sides[::-1], (-difference[0], -difference[2], -difference[1])
        more = {"printed": {"figures": sides, "difference": difference}, "notes": notes}
    if args.rerun is not None:
        from macd_studio.evals.protocol.rerun import Places, rerun

        places = Places(args.data, args.second_data, args.python)
        work = args.out or Path("runs/diff")
        more[RERUN] = rerun(first, second, args.rerun, work, places, say)
    more["notes"] = list(dict.fromkeys([*more.get("notes", ()), *first.notes, *second.notes]))
    report = plain(first, second, made, more)
    print(visible(markdown(report).rstrip("\n")))
    if args.out is not None:
        write(report, args.out)
        say(f"written to {args.out}: diff.json, diff.md, diff.html")
    return 0
