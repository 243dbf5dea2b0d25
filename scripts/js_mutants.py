"""Plants small faults in the viewer's scripts, one at a time; each should fail a check.

    python -m scripts.js_mutants            those of what the scripts compute, about two minutes
    python -m scripts.js_mutants "raw cut"  those whose name holds this
    python -m scripts.js_mutants --page     those of what the viewer draws

The faults of js_mutants.toml are made in the text of the bundle, in memory, and noticed by checks
of parity with the core; those of --page in a copy of the checkout, and noticed by browser tests.
Exits 1 where less than the goal of them are noticed, or where the checks fail without any.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Error, Page, sync_playwright

from bench.server import chromium
from macd_studio.viewer import bundle
from scripts.mutants import NOT_COPIED, ROOT
from tests.browser.parity import CASES, ENTRIES, Case

GOALS = {"parity": 1.0, "page": 0.95}
FAULTS = tomllib.loads((ROOT / "scripts" / "js_mutants.toml").read_text(encoding="utf-8"))
MUTANTS: dict[str, list[str]] = FAULTS["parity"]
"""Name → text that occurs once in the bundle, and its replacement."""
DRAWN: dict[str, dict[str, list[str]]] = FAULTS["page"]
"""The same by script."""
TESTS = [
    f"tests/browser/test_{name}.py"
    for name in ("answers", "layout", "tools", "steps", "reach", "first_screen", "signs", "export")
]


def planted(text: str, name: str, fault: list[str]) -> str:
    """The text with a fault; ends the program where its place is not found once."""
    old, new = fault
    if text.count(old) != 1:
        raise SystemExit(f"{name}: {old!r} stands {text.count(old)} times")
    return text.replace(old, new)


def noticed_by(page: Page, cases: dict[str, Case], script: str) -> str | None:
    """The first case that fails, with what it fails by."""
    for name, case in cases.items():
        try:
            case.run(page, script)
        except (AssertionError, Error) as error:
            kind = "script error" if isinstance(error, Error) else "difference"
            return f"{name} ({kind})"
    return None


def in_bundle(part_of_name: str) -> int:
    """Plants the faults of the bundle; the exit status."""
    script = bundle(*ENTRIES)
    cases = {name: make() for name, make in CASES.items()}
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        page = browser.new_page()

        def judge(name: str) -> str | None:
            fault = MUTANTS.get(name)
            return noticed_by(page, cases, planted(script, name, fault) if fault else script)

        status = judge_all(list(MUTANTS), part_of_name, judge, GOALS["parity"])
        browser.close()
    return status


def in_copy(part_of_name: str) -> int:
    """Plants the faults of what is drawn; the exit status."""
    faults = {f"{js}: {name}": (js, f) for js, own in DRAWN.items() for name, f in own.items()}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))

        def judge(name: str) -> str | None:
            if name not in faults:
                return failing_test(copy)
            js, fault = faults[name]
            file = copy / "viewer" / "js" / f"{js}.js"
            text = file.read_text(encoding="utf-8")
            file.write_text(planted(text, name, fault), encoding="utf-8")
            noticed = failing_test(copy)
            file.write_text(text, encoding="utf-8")
            return noticed

        return judge_all(list(faults), part_of_name, judge, GOALS["page"])


def failing_test(copy: Path) -> str | None:
    """The first browser test that fails in this checkout."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-n", "2", "--tb=no", *TESTS],
        cwd=copy, capture_output=True, text=True,
        env=os.environ | {"MACD_REQUIRE_BROWSER": "1", "MACD_PATIENCE_S": "60"},
    )  # fmt: skip
    if ran.returncode == 0:
        return None
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else (ran.stdout + ran.stderr)[-300:]


def judge_all(
    names: list[str], part_of_name: str, judge: Callable[[str], str | None], goal: float
) -> int:
    """Tells what noticed each fault; 1 where too few are noticed. judge: "" is no fault."""
    if trouble := judge(""):
        print(f"without any fault: {trouble}")
        return 1
    chosen = [name for name in names if part_of_name in name]
    survivors = 0
    for name in chosen:
        noticed = judge(name)
        survivors += noticed is None
        print(f"{name:36} {noticed or 'SURVIVED'}", flush=True)
    print(f"{survivors} of {len(chosen)} survived")
    return int(survivors > (1 - goal) * len(chosen))


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", nargs="?", default="", help="faults whose name holds this")
    parser.add_argument("--page", action="store_true", help="of what the viewer draws")
    args = parser.parse_args()
    return in_copy(args.name) if args.page else in_bundle(args.name)


if __name__ == "__main__":
    sys.exit(main())
