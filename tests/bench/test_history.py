"""The history of measurements: what it keeps, and what it says got slower."""

import json

from bench import history
from bench.history import append, is_time_ratio, slower, table

HERE = {"processor": "A", "cores": 2, "date": "2026-01-01"}


def test_the_last_two_measurements_of_one_machine_are_compared(tmp_path, monkeypatch):
    path = tmp_path / "history.jsonl"
    commits = iter("abcdef")
    monkeypatch.setattr(history, "commit", lambda: next(commits))
    append({"a_over_b": 1.0, "c_over_d": 2.0, "e_ms": 5.0}, HERE, path)
    append({"a_over_b": 9.0}, HERE | {"cores": 64}, path)
    append({"a_over_b": 1.2, "c_over_d": 2.1, "e_ms": 50.0, "flops_a_over_b": 7.0}, HERE, path)
    (one,) = slower(path)
    assert one == ("a_over_b", 1.0, 1.2, "a", "2026-01-01")
    assert "| `a_over_b` | 1.000 | 1.200 | 2026-01-01, a |" in table(path)
    append({"a_over_b": 1.1}, HERE, path)  # faster again
    assert slower(path) == []
    assert table(path).startswith("No ratio of times grew")
    append({"a_over_b": 3.0}, HERE | {"cores": 64}, path)  # the other machine, once slower
    assert [z.key for z in slower(path)] == []
    assert [json.loads(line)["commit"] for line in path.read_text().splitlines()] == list("abcde")


def test_times_are_told_from_other_ratios():
    assert is_time_ratio("ascent_low_over_normal_memory_time_cpu")
    for key in (
        "memory_macd1_over_base_cpu", "evidence_occlusion8_over_forwards_flops", "page_ms",
        "ascent_low_over_normal_memory_activations", "lazy_over_full_where_open",
    ):  # fmt: skip
        assert not is_time_ratio(key)


def test_what_is_committed_can_be_read():
    every = list(history.rows())
    assert every
    assert all(row["commit"] and row["date"] and row["figures"] for row in every)
