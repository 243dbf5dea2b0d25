"""`python -m evals audit BASELINE METHOD`: does a gain survive what looks at nothing?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from macd_studio.core.text.words import visible, visible_json
from macd_studio.evals.commands.common import add_questions, both, questions_of
from macd_studio.evals.running.output import check_folder, say


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("audit", help="does a gain survive rules that look at nothing?")
    parser.set_defaults(run=run)
    what = (
        "samples of lmms-eval; xlsx or tsv of VLMEvalKit; JSONL or CSV of video, question, answer,"
        " prediction; predictions by id; or a folder of a run, FOLDER:METHOD"
    )
    parser.add_argument("baseline", metavar="BASELINE", help=f"plain decoding: {what}")
    parser.add_argument("method", metavar="METHOD", help="likewise, of the method")
    parser.add_argument("--rule", default="", help="scoring rule of both, or A,B")
    parser.add_argument("--split", default="", help="only questions of this split or regime")
    add_questions(parser, "where the files do not hold the questions")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="a folder for audit.json, audit.md and audit.tex")


def run(args: argparse.Namespace) -> int:
    """Prints the page; writes it too with --out. Raises MacdError."""
    from macd_studio.evals.audit.answers import pair
    from macd_studio.evals.audit.findings import find
    from macd_studio.evals.audit.show import as_json, latex, markdown, plain, write
    from macd_studio.evals.protocol.inputs import Asked, read_pair

    if args.out is not None:
        check_folder(args.out)
    rules = both(args.rule)
    first, second = read_pair(
        Asked(args.baseline, rule=rules[0], plain=True),
        Asked(args.method, rule=rules[1]),
        questions_of(args),
        args.split,
    )
    report = plain(first, second, [find(z) for z in pair(first, second)])
    if args.json:
        print(visible_json(as_json(report)))
    else:
        print(visible(markdown(report)))
        print(visible(latex(report).rstrip("\n")))
    if args.out is not None:
        write(report, args.out)
        say(f"written to {args.out}: audit.json, audit.md, audit.tex")
    return 0
