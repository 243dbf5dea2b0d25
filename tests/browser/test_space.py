"""The app as a Space starts it, by the short form of `make space-check`."""

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
    command = [sys.executable, "-m", "bench.space_check", "--short", "--json", "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    failed = [c for c in report["checks"] if not c["passed"] and c["name"] != space_check.PAINTED]
    assert not failed
    assert len(report["checks"]) > 12
    assert {"network", "user"} <= set(report["conditions"])
