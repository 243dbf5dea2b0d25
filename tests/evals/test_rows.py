"""Rows of answers in files: what a killed run leaves behind."""

import pytest

from macd_studio.evals.running.rows import Row, append, read


@pytest.mark.parametrize(
    "torn", ['{"key": "b", "item": "i', "[1, 2]", '{"another": 1}', "7", "\ufffd"]
)
def test_a_line_that_is_no_row_is_left_out(tmp_path, torn):
    path = tmp_path / "rows-0.jsonl"
    first = Row("a", "i", "baseline", "yes", gradient=[("dog", 0.5)])
    append(path, first)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{torn}\n")
    append(path, Row("c", "j", "macd", "no"))
    assert [row.key for row in read(tmp_path)] == ["a", "c"]
    assert next(iter(read(tmp_path))) == first
