"""`python -m evals score BENCHMARK --data FOLDER --predictions FILE`: answers made elsewhere."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from macd_studio.core.text.words import visible, visible_json
from macd_studio.evals.benchmarks import FILES, open_files
from macd_studio.evals.scoring.score import OVER


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("score", help="score predictions made elsewhere; needs no model")
    parser.set_defaults(run=run)
    parser.add_argument("benchmark", choices=tuple(FILES))
    parser.add_argument("--data", type=Path, help="the benchmark's folder")
    parser.add_argument("--predictions", type=Path, required=True, help="JSON, JSONL or CSV")
    parser.add_argument("--rule", help="the rule of the headline, such as strict or lmms-eval")
    parser.add_argument("--over", choices=OVER, default="all", help="what accuracies are shares of")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Prints the scores. Videos need not be there."""
    from macd_studio.evals.scoring.predictions import read_predictions
    from macd_studio.evals.scoring.score import check_rule, score
    from macd_studio.evals.scoring.show import scores_markdown

    benchmark = open_files(args.benchmark, args.data, videos=False)
    check_rule(benchmark, args.rule)
    predictions = read_predictions(args.predictions, benchmark.everything)
    scores = score(benchmark, predictions.texts, args.rule, args.over)
    scores["notes"] += [predictions.note] if predictions.note else []
    if args.json:
        print(visible_json(json.dumps(scores, ensure_ascii=False, allow_nan=False)))
    else:
        print(visible(scores_markdown(scores).rstrip("\n")))
    return 0
