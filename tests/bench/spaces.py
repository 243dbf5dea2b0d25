"""Runs `make space-check`'s command for tests."""

import json
import subprocess
import sys

from bench import space_check
from tests.patience import PATIENCE_S


def checked(*flags):
    """The names of the steps of a check; none may have failed but for its time."""
    words = [sys.executable, "-m", "bench.space_check", "--json", "--port", "0", *flags]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert {"network", "user"} <= set(report["conditions"])
    failed = [c for c in report["checks"] if not c["passed"] and c["name"] != space_check.PAINTED]
    assert failed == []
    return {check["name"] for check in report["checks"]}
