"""The table of real clips follows from its committed rows, and its counts from their definition."""

from pathlib import Path

import pytest

from macd_studio.core.backbones.everyday import CLASSES
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
    ):
        table = told.partition(f"<!-- {name} -->\n")[2].partition(f"<!-- /{name} -->")[0]
        assert table == table_of(rows)


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
