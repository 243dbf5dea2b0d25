"""The tests of all families against other releases of transformers, as a table.

`make test-matrix`. transformers, and what it needs at that release, are laid in front of what is
installed. Exit codes: 0 every release passed, 1 one did not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.verified import tests_of

ROOT = Path(__file__).parents[1]
FILES = ("tests/core/test_families.py", "tests/core/test_universal.py")
OWN = ("transformers", "tokenizers", "huggingface-hub", "huggingface_hub", "hf-xet", "safetensors")
"""Packages that a release of transformers brings; all others are those of constraints.txt."""


def install(version: str) -> Path:
    """The folder of a release, made once."""
    place = ROOT / "runs" / "matrix" / version
    if not (place / "transformers").is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        pins = [z for z in (ROOT / "constraints.txt").read_text().split() if not z.startswith(OWN)]
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
            constraints.write("\n".join(pins))
            constraints.flush()
            words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                     "--target", str(place), "-c", constraints.name]  # fmt: skip
            subprocess.run([sys.executable, *words, f"transformers=={version}"], check=True)
    return place


def run(version: str, more: Sequence[str]) -> str:
    """A row of the table for one release."""
    env = os.environ | {"PYTHONPATH": str(install(version))}
    said = "import transformers; print(transformers.__version__)"
    found = subprocess.run([sys.executable, "-c", said], env=env, capture_output=True, text=True)
    if found.stdout.strip() != version:
        return f"FAILED  transformers {version:8} is not what is imported: {found.stdout.strip()}"
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [sys.executable, "-m", "pytest", "-m", "matrix", f"--junitxml={report}", *more]
        done = subprocess.run([*words, *FILES], cwd=ROOT, env=env, stdout=sys.stderr)
        total, skipped, failed = tests_of(report) if report.is_file() else (0, 0, 1)
    held = done.returncode == 0 and total
    took = f"{(time.monotonic() - began) / 60:.1f} min"
    passed = total - skipped - failed
    return (
        f"{'ok' if held else 'FAILED':7} transformers {version:8} {passed:4} passed"
        f" {failed:3} failed {skipped:3} need another release {took:>9}"
    )


def main(words: Sequence[str]) -> int:
    """Versions, then options of pytest; prints the table."""
    versions = [z for z in words if z[0].isdigit()]
    table = [run(version, [z for z in words if z not in versions]) for version in versions]
    print("\n".join(table))
    return int(any(row.startswith("FAILED") for row in table))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
