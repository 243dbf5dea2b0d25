"""The table of real clips follows from its committed rows, and its counts from their definition."""

import json
from pathlib import Path

import pytest

from macd_studio.core.backbones.everyday import CLASSES
from macd_studio.evals.benchmarks.everyday import questions, sources
from macd_studio.evals.studies.real_clips import (
    balanced,
    constant_of,
    is_correct,
    stored,
    table_of,
)

DOCS = Path(__file__).parents[2] / "docs"


def committed():
    return stored(DOCS / "everyday-results" / "rows.jsonl")


def test_the_document_holds_the_tables_of_the_rows():
    told = (DOCS / "everyday.md").read_text(encoding="utf-8")
    for name, rows in (
        ("table", [row for row in committed() if row["part"] < 3]),
        ("fresh", [row for row in committed() if row["part"] == 2]),
        ("third", [row for row in committed() if row["part"] == 3]),
    ):
        table = told.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]
        assert table == table_of(rows)


def test_the_document_tells_how_often_both_readers_agree():
    asked = questions()
    part = {source.name: source.part for source in sources()}
    lines = (DOCS / "everyday-results" / "second.jsonl").read_text(encoding="utf-8").splitlines()
    same = {new: [] for new in (False, True)}
    exists = []
    for row in map(json.loads, lines):
        question = asked[row["item"]]
        right = is_correct(question, row["answer"])
        same[part[question["clip"]] == 3].append(right)
        exists += [right] * (question["kind"] == "exists")
    new = sum(p == 3 for p in part.values())
    told = (
        f"the same in {sum(same[False])} of {len(same[False])} about these clips and in"
        f" {sum(same[True])} of {len(same[True])} about the {new} of part 3; in all"
        f" {len(exists)} of *exists*"
    )
    assert all(exists)
    assert f"<!-- second -->{told}<!-- /second -->" in (DOCS / "everyday.md").read_text("utf-8")


def test_the_document_lists_what_can_be_asked_about():
    told = (DOCS / "everyday.md").read_text(encoding="utf-8")
    listed = " ".join(line[2:] for line in told.splitlines() if line.startswith("> "))
    assert listed == f"{', '.join(CLASSES)}."


def test_yes_and_no_count_the_same():
    rows = [{"clip": str(i), "answer": "yes", "said": "yes"} for i in range(3)]
    rows += [{"clip": "9", "answer": "no", "said": s} for s in ("yes", "no")]
    assert balanced(rows, "said")[0] == pytest.approx(0.75)
    assert constant_of(rows) == "yes"
    assert is_correct({"answer": "couch", "also": ["chair"]}, "A chair.")
    assert not is_correct({"answer": "couch"}, "chair")
