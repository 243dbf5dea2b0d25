"""The app as a Space starts it, by what `make space-check` runs."""

import json
import subprocess
import sys

import pytest

from bench import space_check
from tests.browser.conftest import ROOT
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.browser


@pytest.mark.long
def test_a_cpu_space_serves_its_visitors(browser):
    """browser: only to skip where there is none."""
    command = [sys.executable, "-m", "bench.space_check", "--json", "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    failed = [c for c in report["checks"] if not c["passed"] and c["name"] != space_check.PAINTED]
    assert not failed
    names = {c["name"] for c in report["checks"]}
    for word in ("uploaded clip runs", "α is moved", "by hand", "compared", "trace is opened",
                 "course", "gallery", "rater rates", "rescores"):  # fmt: skip
        assert any(word in name for name in names), word
    assert {"network", "user"} <= set(report["conditions"])
