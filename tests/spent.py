"""What a run of the tests took, by folder and by file, printed at its end.

Seconds of waiting and of processor time: of this process and of those that it started and that
have ended. The processor's seconds say more on a machine that does other work beside.
`MACD_TEST_SECONDS=FILE` writes them of each test, as rows of a CSV file; without its fixtures too.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest


def processor_s() -> float:
    """Seconds of processor time so far, with those of processes that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Spent:
    """Notes the seconds of each phase of each test; prints their sums by folder."""

    def __init__(self) -> None:
        self.last = processor_s()
        self.by_folder: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        self.by_file: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        self.by_test: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        self.alone: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """In the process that runs a test: notes what a phase took."""
        report: Any = yield
        now = processor_s()
        report.processor_s, self.last = now - self.last, now
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        """In the process that reports: adds it up."""
        file = report.nodeid.split("::")[0]
        for row in (
            self.by_folder[os.path.dirname(file)],
            self.by_file[file],
            self.by_test[report.nodeid],
        ):
            row[0] += report.when == "call"
            row[1] += report.duration
            row[2] += getattr(report, "processor_s", 0.0)
        if report.when == "call":
            self.alone[report.nodeid] = getattr(report, "processor_s", 0.0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The table."""
        if path := os.environ.get("MACD_TEST_SECONDS"):
            with open(path, "w", newline="") as file:
                rows = csv.writer(file)
                rows.writerow(["test", "waited", "processor", "without fixtures"])
                rows.writerows(
                    (name, *row[1:], self.alone.get(name)) for name, row in self.by_test.items()
                )
        if sum(row[1] for row in self.by_folder.values()) < MIN_S:
            return
        for what, found in (("folder", self.by_folder), ("file, the slowest", self.by_file)):
            terminalreporter.section(f"seconds by {what}")
            terminalreporter.write_line(f"{'':44}{'tests':>7}{'waited':>9}{'processor':>11}")
            slowest = sorted(found.items(), key=lambda z: -z[1][1])[:MAX_ROWS]
            for name, (n, waited, spent) in slowest:
                terminalreporter.write_line(f"{name:44}{n:7.0f}{waited:9.1f}{spent:11.1f}")


MAX_ROWS = 25
MIN_S = 20.0
"""Shorter runs print no table."""
