"""Exports hold every event, open in the usual programs, and run nothing in a spreadsheet."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.ratings import export as export_module
from macd_studio.ratings.cli import main
from macd_studio.ratings.export import COLUMNS, as_csv, content_of, dictionary, export, rows
from macd_studio.ratings.report import figures
from tests.ratings.studies import event, known, rate, rater_in

ROOT = Path(__file__).parents[2]
NOTES = ['=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)", "\tx", 'a,b\n"c"', "ü 🙂", "plain"]


PLAN = {"clips": 3, "gold": (known(1),)}


@pytest.fixture
def filled(study):
    _, rater = rater_in(study)
    tasks = study.tasks(rater)
    for task in tasks:
        rate(study, rater, task["id"], [2, 4])
    study.append(rater, [event("consent")])
    study.append(rater, [event("rate", tasks[0]["id"], side=0, old=2, new=5)])
    study.append(rater, [event("flag", tasks[1]["id"], note=n) for n in NOTES])
    return study


def test_every_event_is_there_with_what_it_was_about(filled):
    content = list(rows(filled))
    assert len(content) == len(filled.rows("SELECT * FROM events"))
    assert all(set(row) == set(COLUMNS) for row in content)
    standing = [r for r in content if r["stands"]]
    assert len(standing) == 2 * len(filled.tasks(filled.raters()[0]))
    first = next(r for r in content if r["kind"] == "rate" and r["side"] == "left")
    assert (first["old"], first["new"], first["stands"]) == (None, 2, False)
    assert {r["arm"] for r in content if r["part"] == "main" and r["side"]} == {
        "macd", "random-elsewhere"}  # fmt: skip
    assert {r["part"] for r in content} == {"main", "gold", None}


def test_analysed_are_the_ratings_of_the_report_and_no_others(filled):
    """Neither known items, nor screens left by "cannot judge", nor ratings that were replaced."""
    rater = filled.raters()[0]
    parts = {r["task"]: r["part"] for r in rows(filled) if r["task"]}
    left = next(t["id"] for t in filled.tasks(rater) if parts[t["id"]] == "main")
    filled.append(rater, [event("skip", left)])
    content = list(rows(filled))
    analysed = [r for r in content if r["analysed"]]
    result = figures(filled, 50)
    assert len(analysed) == result["study"]["ratings"] == 2 * (3 - 1)
    assert left not in {r["task"] for r in analysed}
    by_arm = {arm: [r["new"] for r in analysed if r["arm"] == arm] for arm in result["arms"]}
    for arm, values in by_arm.items():
        assert result["arms"][arm]["mean"]["value"] == pytest.approx(sum(values) / len(values))


def test_the_guide_names_columns_of_the_data_dictionary():
    text = (ROOT / "docs" / "rating.md").read_text(encoding="utf-8")
    section = text.split("### Data dictionary")[1].split("[examples")[0]
    named = set(re.findall(r"`(\w+)`", section)) - {"export"}
    assert {"analysed", "new", "arm"} <= named <= COLUMNS.keys()
    assert all(f"| `{name}` | " in dictionary() for name in COLUMNS)


def test_formulas_are_escaped_in_csv_and_nowhere_else(filled):
    table = list(csv.DictReader(io.StringIO(as_csv(filled), newline="")))
    notes = [r["note"] for r in table if r["kind"] == "flag"]
    assert notes == [f"'{n}" if n[0] in "=+-@\t" else n for n in NOTES]
    lines = [json.loads(z) for z in content_of(filled, "jsonl").decode().splitlines()]
    assert [r["note"] for r in lines if r["kind"] == "flag"] == NOTES


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_it_opens(filled, tmp_path, library, kind):
    module = pytest.importorskip(library)
    path = tmp_path / f"events.{kind}"
    events = export(filled, kind, path)
    if library == "duckdb":
        reader = {"csv": "read_csv", "jsonl": "read_json", "parquet": "read_parquet"}[kind]
        table = module.sql(f"SELECT * FROM {reader}('{path}')").fetchall()
        assert len(table) == events
        return
    if library == "pandas":
        if kind == "parquet":
            pytest.importorskip("pyarrow")
        read = {"csv": module.read_csv, "parquet": module.read_parquet,
                "jsonl": lambda p: module.read_json(p, lines=True)}[kind]  # fmt: skip
    else:
        read = {"csv": module.read_csv, "parquet": module.read_parquet,
                "jsonl": module.read_ndjson}[kind]  # fmt: skip
    table = read(path)
    assert len(table) == events
    assert list(table.columns) == list(COLUMNS)
    chosen = table[table["analysed"]] if library == "pandas" else table.filter(table["analysed"])
    assert sum(chosen["new"]) == sum(r["new"] for r in rows(filled) if r["analysed"])


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_study_without_ratings_is_exported_too(study, tmp_path, kind):
    assert export(study, kind, tmp_path / "x") == 0
    content = (tmp_path / "x").read_bytes()
    if kind == "csv":
        assert content.decode().strip() == ",".join(COLUMNS)
    elif kind == "parquet":
        polars = pytest.importorskip("polars")
        assert polars.read_parquet(tmp_path / "x").columns == list(COLUMNS)


def test_parquet_without_its_libraries_says_how_to_get_one(filled, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(export_module, "_library", lambda name: None)
    words = ["export", str(filled.path), "--format", "parquet", "--out", str(tmp_path / "x")]
    assert main(words) == 2
    assert "pip install pyarrow" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_file_is_written_whole_or_not_at_all(filled, tmp_path):
    with pytest.raises(OptionError, match="cannot be written"):
        export(filled, "csv", tmp_path / "no" / "x.csv")
    with pytest.raises(OptionError, match="no format"):
        content_of(filled, "xlsx")
