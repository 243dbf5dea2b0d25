"""Tells the speed of each fuzz target after a run of more cases than the usual."""

import os

from tests.fuzz.cases import CASES, SPEEDS


def pytest_terminal_summary(terminalreporter):
    if "MACD_FUZZ_CASES" in os.environ:
        for name, speed in SPEEDS.items():
            terminalreporter.write_line(f"{name}: {CASES} cases, {speed:.0f} a second")
