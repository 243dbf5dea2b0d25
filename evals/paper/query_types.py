"""Does the rule that sorts questions by type agree with a reader.

`python -m evals.paper.query_types`.

The paper tells right answers by reasoning depth and content focus and not how questions were
sorted; here a rule does (`evals.paper.ours.label_queries`). docs/query-types.csv holds 60 distinct
questions, drawn by a seed from each source, as one reader labelled them by reading the question
alone, and the rule's labels. With --data the questions are drawn again, checked against the file,
and sorted by the rule anew. Questions are not copied into the file: EventHallusion states no
licence.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import bootstrap

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.statistics import UNKNOWN, Interval
from macd_studio.core.text.words import visible
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.layout import read_json
from macd_studio.evals.paper.ours import label_queries
from macd_studio.evals.printing.figures import area, table
from macd_studio.evals.running.output import say
from macd_studio.parts import ROOT

FILE = ROOT / "docs" / "query-types.csv"
EVENTS = ("entire", "misleading", "interleave")
POPE = ("random", "popular", "adversarial")
TAKEN = {"eventhallusion/entire": 30, "eventhallusion/misleading": 18,
         "eventhallusion/interleave": 1, "pope": 11}  # fmt: skip
"""Questions of each source; "interleave" asks one question of all its clips."""
SEED, RESAMPLED = 7, 1999
DIMENSIONS = {"depth": "reasoning depth", "focus": "content focus"}
"""Column of the file → dimension of the rule; "rule_" before it, of the rule's labels."""

Question = tuple[str, str, str]
"""source, id and text"""
Row = dict[str, str]


def draw(folder: Path) -> list[Question]:
    """The 60 questions, of distinct texts, from a folder with eventhallusion/ and pope/.

    Raises BenchmarkError where a file cannot be read.
    """
    sources: dict[str, list[tuple[str, str]]] = {}
    for split in EVENTS:
        entries = read_json(folder / "eventhallusion" / f"{split}_questions.json")
        sources[f"eventhallusion/{split}"] = [
            (f"{entry['id']}/{i}", question["question"])
            for entry in entries
            for i, question in enumerate(entry["questions"])
        ]
    sources["pope"] = []
    for split in POPE:
        path = folder / "pope" / f"coco_pope_{split}.json"
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            sources["pope"].append((f"{split}/{row['question_id']}", row["text"]))
    drawn = []
    for number, (source, questions) in enumerate(sources.items()):
        distinct = {text: name for name, text in reversed(questions)}  # the first of each text
        kept = sorted(((n, t) for t, n in distinct.items()), key=lambda z: questions.index(z))
        rng = np.random.default_rng([SEED, number])
        taken = sorted(rng.choice(len(kept), TAKEN[source], replace=False))
        drawn += [(source, *kept[i]) for i in taken]
    return drawn


def digest(text: str) -> str:
    """The first 12 digits of a question's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def read(path: Path = FILE) -> tuple[str, list[Row]]:
    """The comment of the file, and its rows."""
    first, _, rest = path.read_text(encoding="utf-8").partition("\n")
    return first, list(csv.DictReader(io.StringIO(rest)))


def with_rule(rows: Sequence[Row], questions: Sequence[Question]) -> list[Row]:
    """The rows with the rule's labels. Raises OptionError where they are of other questions."""
    named = [(r["source"], r["id"], r["text"]) for r in rows]
    if named != [(source, name, digest(text)) for source, name, text in questions]:
        raise OptionError(
            "the questions drawn are not those that were labelled",
            "Take the question files of the same release",
        )
    items = [Item(name, name, "", "", "yes-no", text, "yes") for _, name, text in questions]
    labels = label_queries(items)
    return [
        row | {f"rule_{column}": labels[row["id"]][name] for column, name in DIMENSIONS.items()}
        for row in rows
    ]


def kappa(one: Sequence[str], two: Sequence[str]) -> float:
    """Cohen's kappa of two labellings (N,), (p_o − p_e)/(1 − p_e); NaN where p_e is 1.

    Cohen (1960), Educational and Psychological Measurement 20, 37-46.

    >>> round(kappa(list("aabb"), list("abbb")), 2)
    0.5
    """
    a, b = np.asarray(one), np.asarray(two)
    agreed = float(np.mean(a == b))
    chance = sum(float(np.mean(a == z) * np.mean(b == z)) for z in np.unique(np.append(a, b)))
    return (agreed - chance) / (1 - chance) if chance < 1 else float("nan")


def kappa_interval(one: Sequence[str], two: Sequence[str]) -> Interval:
    """Kappa with its 95 % BCa bootstrap interval over questions; NaN ends where none can be had."""
    estimate = kappa(one, two)
    if np.isnan(estimate):
        return UNKNOWN
    pairs = np.unique(np.append(one, two), return_inverse=True)[1].reshape(2, -1)
    found = bootstrap(
        tuple(pairs), kappa, paired=True, vectorized=False, n_resamples=RESAMPLED,
        method="BCa", rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return estimate, float(found.low), float(found.high)


def markdown(rows: Sequence[Row]) -> str:
    """A table: for each dimension what both say, how often they agree, and kappa."""
    lines = []
    for column, name in DIMENSIONS.items():
        reader, rule = ([r[key] for r in rows] for key in (column, f"rule_{column}"))
        kappa = area(kappa_interval(reader, rule))
        values = sorted({*reader, *rule})
        counts = "; ".join(f"{z} {reader.count(z)}, {rule.count(z)}" for z in values)
        agreed = sum(a == b for a, b in zip(reader, rule, strict=True))
        lines.append([name, counts, f"{agreed} of {len(rows)}", kappa])
    return table(["dimension", "reader, rule", "agree", "kappa"], lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; with --data writes the rule's labels again."""
    parser = command_line("evals.paper.query_types", __doc__)
    parser.add_argument("--data", type=Path, help="folder with eventhallusion/ and pope/")
    args: argparse.Namespace = parser.parse_args(argv)
    try:
        comment, rows = read()
        if args.data:
            if not args.data.is_dir():
                raise OptionError(f"{args.data.name} is no folder", "Give the benchmarks' folder")
            rows = with_rule(rows, draw(args.data))
            text = io.StringIO()
            writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
            FILE.write_text(f"{comment}\n{text.getvalue()}", encoding="utf-8")
    except (MacdError, OSError, ValueError, KeyError) as error:
        say(f"error: {visible(str(error))}")
        return 2
    print(markdown(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
