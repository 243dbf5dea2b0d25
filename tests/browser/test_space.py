"""The app as a Space starts it, by what `make space-check` runs."""

import json
import subprocess
import sys

import pytest

from bench import space_check
from tests.patience import PATIENCE_S


def checked(*flags):
    """The report of a check: the names of its steps; none may have failed but for its time."""
    words = [sys.executable, "-m", "bench.space_check", "--json", "--port", "0", *flags]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert {"network", "user"} <= set(report["conditions"])
    failed = [c for c in report["checks"] if not c["passed"] and c["name"] != space_check.PAINTED]
    assert not failed
    return {check["name"] for check in report["checks"]}


def test_a_cpu_space_starts_and_ends():
    names = checked("--brief")
    for word in ("answers", "cookie", "frame", "whole source", "written outside", "SIGTERM"):
        assert any(word in name for name in names), word


@pytest.mark.long
@pytest.mark.browser
def test_a_cpu_space_serves_its_visitors(browser):
    """browser: only to skip where there is none."""
    names = checked()
    for word in ("uploaded clip runs", "α is moved", "by hand", "compared", "trace is opened",
                 "course", "gallery", "rater rates", "rescores"):  # fmt: skip
        assert any(word in name for name in names), word
