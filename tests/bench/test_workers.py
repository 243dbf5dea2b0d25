"""The bench of workers: what it counts, and that a small one runs."""

import json
import os
import subprocess
import sys

import pytest

from bench import report, workers
from macd_studio.evals.running.rows import Row


def fake_engine(seconds, clock):
    """Each answer takes that long."""

    def engine(groups, setting, tracks):
        for group in groups:
            for want in group:
                clock[0] += seconds
                yield Row(want.key, want.item.id, want.method, "yes")

    return engine


class Want:
    key, method = "k", "baseline"

    class item:
        id = "1"


def test_answers_before_the_clock_starts_are_not_counted(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(workers.time, "perf_counter", lambda: clock[0])
    groups = [[Want, Want], [Want, Want], [Want, Want]]
    assert workers.rows_a_second(fake_engine(0.5, clock), None, groups, 2) == pytest.approx(2.0)


def test_an_answer_that_failed_is_no_throughput():
    def engine(groups, setting, tracks):
        yield Row("k", "1", "macd", error="it failed")

    with pytest.raises(RuntimeError, match="it failed"):
        workers.rows_a_second(engine, None, [], 1)


def test_ratios_are_those_of_the_measurements(monkeypatch):
    speeds = {"process": 8.0, "ray 1": 3.0, "ray 2": 5.7} | {
        "ray 1, any core": 5.0, "ray 2, any core": 6.0
    } | {f"process {m}": 4.0 for m in workers.METHODS}  # fmt: skip
    monkeypatch.setattr(workers, "export", lambda *how: None)
    monkeypatch.setattr(workers, "groups_of", lambda *how: [[1] * 8] * 3)
    taken = {name: iter([0.1, value, 100.0]) for name, value in speeds.items()}
    monkeypatch.setattr(workers, "_measurements", lambda *how: {
        name: (lambda values=values: next(values)) for name, values in taken.items()
    })  # fmt: skip
    found = workers.measure(1, runs=3)
    assert found["two_over_one"] == pytest.approx(1.9)
    assert found["two_over_one_any_core"] == pytest.approx(1.2)
    assert found["questions"] == 6
    assert (found["questions_per_s_shared"], found["questions_per_s_one_by_one"]) == (2.0, 1.0)
    assert found["sharing"] == 2.0
    shown = "\n".join(report.workers_lines(found | {"machine": {"cores": 2, "processor": "x",
                                                                "date": "d"}}))  # fmt: skip
    assert "1.90×" in shown
    assert "1.20×" in shown
    assert "2.00×" in shown
    assert "not measured" in "\n".join(report.workers_lines(None))


def test_a_worker_and_what_it_starts_keep_to_one_core():
    core = max(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    task = (
        "import os, subprocess, sys; sys.stdin.readline(); print(os.sched_getaffinity(0));"
        "subprocess.run([sys.executable, '-c', 'import os; print(os.sched_getaffinity(0))'])"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-u", "-c", task], text=True, **pipes)
    workers._hold(process.pid, core)
    said, _ = process.communicate("go\n")
    assert said.splitlines() == [str({core})] * 2
    assert os.sched_getaffinity(0) == before


@pytest.mark.long
def test_a_small_bench_runs(tmp_path, monkeypatch):
    out = tmp_path / "workers.json"
    monkeypatch.setattr("sys.argv", ["workers", "--clips", "2", "--runs", "1", "--out", str(out)])
    workers.main()
    found = json.loads(out.read_text())
    assert found["answers_per_s_in_process"] > 0
    assert found["sharing"] > 0  # a ratio of times, which other work on the machine changes
