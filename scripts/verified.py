"""When each check last passed, and on which commit: docs/verified.md, written by the checks.

`python -m scripts.verified NAME COMMAND…` runs a check and writes its row where it passed whole:
nothing failed, nothing was skipped, and no tracked file was changed and not committed. Lines that
begin with `ok` or `FAILED` are counted, or the tests of a pytest command. `make release-check`
refuses a row that is missing or older than the last change of a file that its check guards.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
FILE = "docs/verified.md"
ALL = ("core", "evals", "everyday", "macd_studio", "macd_ui", "ratings", "toyworld", "viewer",
       "assets", "bench", "requirements.txt", "constraints.txt", "app.py", "tests")  # fmt: skip
"""What nearly every check depends on; of the tests, what they share."""
BUILD = ("setup.py", "pyproject.toml", "locks")
SCRIPTS = "macd_ui/js/"
"""What runs in a browser that shows the page."""
WITHOUT_PAGE = ("core-clips", "core", "evals", "ratings")
"""Parts that never show it."""
RESULTS = "bench/results"
"""Figures, which a check may write: no check depends on them."""
SAMPLES = "tests/samples.toml"
"""What `make test` leaves out, and every check runs."""
ELSEWHERE = (
    "tests/macd_ui/test_mcp.py", "tests/security/test_mcp.py",  # `make mcp-check` runs them
    "tests/evals/test_harnesses.py::test_the_installed_lmms_eval_says_the_same",  # wants an old av
    "tests/evals/test_lmms_tasks.py::test_lmms_eval_itself_runs_the_controls",  # likewise
)  # fmt: skip
"""Tests that need another environment, and are left out of every part."""
PARTS: dict[str, tuple[str, ...]] = {
    "packages": ("tests/test_packaging.py",),
    "small": ("tests/test_*.py", "tests/bench", "tests/fuzz", "tests/toyworld", "tests/everyday",
              "tests/viewer", "macd_studio"),
    "core-clips": ("tests/core/test_video*.py", "tests/core/test_zoo*.py",
                   "tests/core/test_fetch_file.py", "tests/core/test_pictures.py"),
    "core": ("tests/core",),
    "evals": ("tests/evals",),
    "page": ("tests/macd_ui",),
    "ratings": ("tests/ratings",),
    "security": ("tests/security",),
    "browser-page": ("tests/browser/test_page.py", "tests/browser/test_form.py",
                     "tests/browser/test_ways.py", "tests/browser/test_whatif.py",
                     "tests/browser/test_zoo.py", "tests/browser/test_visitors.py",
                     "tests/browser/test_restart.py", "tests/browser/test_runs.py"),
    "browser-space": ("tests/browser/test_space.py", "tests/browser/test_shared_gpu.py",
                      "tests/browser/test_engine.py", "tests/browser/test_rating*.py"),
    "browser": ("tests/browser",),
}  # fmt: skip
"""Part of `make test-all` → what pytest runs; a file is in the first part that names it."""
USED = dict.fromkeys(("packages", "small", "browser"), ("scripts",))
"""What the tests of a part use beside the product."""
PART = "test-all PART="
"""How a check begins that runs a part."""
CHECKS: dict[str, tuple[str, ...]] = {
    **{PART + part: (*ALL, *BUILD, *USED.get(part, ())) for part in PARTS},
    "space-check": ALL,
    "mcp-check": (
        *ALL,
        *ELSEWHERE[:2],
        "requirements-mcp.txt",
        "constraints-mcp.txt",
        "locks/mcp.txt",
    ),
    "vllm-check": (
        "core",
        "assets/toyworld",
        "assets/examples",
        "evals",
        "requirements-vllm.txt",
        "overrides-vllm.txt",
        "locks/vllm.txt",
        "bench",
    ),
    "test-matrix": ("core", "toyworld", "requirements.txt", "scripts/matrix.py", "tests/core"),
    "test-pythons": (*ALL, *BUILD, "scripts"),
}
"""Check, as `make` calls it → the files and folders that it guards; see `guards`."""
NARROW = {
    **dict.fromkeys(
        ("bench/vllm_check.py", "bench/vllm_compare.py"), ("vllm-check", f"{PART}small")
    ),
    "scripts/verified.py": (f"{PART}small",),
}
"""File → the only checks that run it, of those that guard its folder."""
HELPERS = ("tests", "scripts", "bench")
"""Where modules lie that tests share."""
HEAD = """# When each check last passed

Written by the checks themselves, one row each, when a whole run of one passes: nothing failed and
nothing was skipped. `make release-check` refuses a check without a row, and one whose files were
changed after its commit.

| check | passed on | at commit | run | skipped | failed | minutes |
|---|---|---|---|---|---|---|
"""
ROW = re.compile(
    r"^\| `make (.+?)` \| (\S+) \| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \| (.+?) \|$", re.M
)


@dataclass(frozen=True)
class Passed:
    """A row. day: as 2026-11-25. run: tests or steps, those skipped and failed among them."""

    check: str
    day: str
    commit: str
    run: int
    skipped: int
    failed: int
    minutes: str

    @property
    def is_pass(self) -> bool:
        """Whether everything was run, and nothing failed."""
        return self.run > 0 and not self.skipped and not self.failed


def rows(root: Path = ROOT) -> dict[str, Passed]:
    """What the file says, by check; nothing where there is no file."""
    path = root / FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = [
        Passed(c, d, g, int(r), int(s), int(f), m) for c, d, g, r, s, f, m in ROW.findall(text)
    ]
    return {row.check: row for row in found}


def write(row: Passed, root: Path = ROOT) -> None:
    """Puts a row into the file, in the place of the one before."""
    kept = rows(root) | {row.check: row}
    lines = [
        f"| `make {r.check}` | {r.day} | `{r.commit}` | {r.run} | {r.skipped} | {r.failed}"
        f" | {r.minutes} |\n"
        for name in CHECKS
        if (r := kept.get(name)) is not None
    ]
    (root / FILE).write_text(HEAD + "".join(lines), encoding="utf-8")


def problems(root: Path = ROOT) -> list[str]:
    """Why the file is no proof for the last commit; nothing where it is one."""
    known, told = rows(root), []
    for name in CHECKS:
        row = known.get(name)
        if row is None:
            told.append(f"make {name} has no row in {FILE}")
        elif not row.is_pass:
            told.append(f"make {name}: {row.skipped} skipped, {row.failed} failed")
        else:
            done = _git(root, "diff", "--name-only", row.commit, "HEAD")
            changed = [file for file in done.stdout.splitlines() if guards(name, file)]
            if done.returncode:
                told.append(f"make {name} passed on {row.commit}, which this history lacks")
            elif changed:
                told.append(f"make {name} passed before {changed[0]} was changed last")
    return told


def guards(check: str, file: str) -> bool:
    """Whether a run of the check is old once the file has changed.

    Of the Python files of tests a check guards those that it runs, and those that these use.

    >>> guards("test-all PART=core", "tests/core/test_video.py")
    False
    >>> guards("test-all PART=core-clips", "tests/core/test_video.py")
    True
    >>> guards("test-all PART=core", "tests/fakes.py")
    True
    >>> guards("test-all PART=core", "tests/browser/parity.py")
    False
    >>> guards("test-all PART=core", "tests/samples.toml")
    False
    >>> guards("test-all PART=core", "bench/vllm_check.py")
    False
    """
    named, users = CHECKS[check], users_of(file)
    tests = {user for user in users if _is_test(user)}
    if file.startswith("tests/") and tests:
        if check.startswith(PART):
            return check.removeprefix(PART) in {part_of(test) for test in tests}
        if all(user.startswith("tests/") for user in users):
            named = tuple(one for one in named if one != "tests")
            return any(test == one or test.startswith(f"{one}/") for one in named for test in tests)
    guarded = any(file == one or file.startswith(f"{one}/") for one in named)
    if check not in NARROW.get(file, (check,)):
        return False
    if file.startswith(SCRIPTS) and check.removeprefix(PART) in WITHOUT_PAGE:
        return False
    return guarded and file != SAMPLES and not file.startswith(f"{RESULTS}/")


def users_of(file: str) -> set[str]:
    """The Python files of `HELPERS` that use a file, directly or through others, and itself.

    >>> sorted(users_of("tests/browser/test_learn.py"))
    ['tests/browser/test_learn.py', 'tests/browser/test_learn_name.py']
    """
    found, left = set(), [file]
    while left:
        if (one := left.pop()) not in found:
            found.add(one)
            left += _importers().get(one, ())
    return found


def _is_test(file: str) -> bool:
    return file.startswith("tests/") and fnmatchcase(Path(file).name, "test_*.py")


@cache
def _importers() -> dict[str, set[str]]:
    """Python file of `HELPERS` → those that import it, or have its name as a string.

    Each test uses the conftest.py of the folders that it lies in.
    """
    files = {
        p.relative_to(ROOT).as_posix(): p.read_text(encoding="utf-8")
        for folder in HELPERS
        for p in (ROOT / folder).rglob("*.py")
    }
    folders = "|".join(HELPERS)
    named = re.compile(rf"^ *import ((?:{folders})[\w.]*)|[\"']((?:{folders})\.[\w.]+)[\"']", re.M)
    taken = re.compile(rf"^ *from ((?:{folders})[\w.]*) import (\([^)]*\)|[^\n]*)", re.M)
    found: dict[str, set[str]] = {file: set() for file in files}
    for file, text in files.items():
        names = {one or other for one, other in named.findall(text)}
        for module, members in taken.findall(text):
            names |= {module} | {f"{module}.{member}" for member in re.findall(r"\w+", members)}
        parts = {tuple(name.split(".")) for name in names}
        used = {f"{'/'.join(p[:n])}.py" for p in parts for n in range(2, len(p) + 1)}
        if _is_test(file):
            used |= {f"{folder}/conftest.py" for folder in Path(file).parents}
        for one in used & files.keys() - {file}:
            found[one].add(file)
    return found


def part_of(file: str) -> str | None:
    """The part that runs a file: the first that names it, or a folder that it lies in."""
    if file in ELSEWHERE:
        return None
    for part, wanted in PARTS.items():
        if any(fnmatchcase(file, one) or file.startswith(f"{one}/") for one in wanted):
            return part
    return None


def counted(output: str) -> tuple[int, int, int]:
    """Steps run, skipped and failed, of lines that begin with a word.

    >>> counted("ok  one\\nFAILED  two\\nskipped three\\nand more\\n")
    (3, 1, 1)
    """
    words = [line.split(maxsplit=1)[0] for line in output.splitlines() if line.strip()]
    skipped, failed = words.count("skipped"), words.count("FAILED")
    return words.count("ok") + skipped + failed, skipped, failed


def tests_of(report: Path) -> tuple[int, int, int]:
    """The same of pytest's report in JUnit's format."""
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))

    def total(name: str) -> int:
        return sum(int(suite.get(name, 0)) for suite in suites)

    return total("tests"), total("skipped"), total("failures") + total("errors")


def run(check: str, command: Sequence[str], root: Path = ROOT) -> int:
    """Runs a check's command, and notes it where it passed; gives the exit code."""
    began, commit = time.monotonic(), _commit(root)
    if "pytest" in command:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            code = subprocess.run([*command, f"--junitxml={report}"], cwd=root).returncode
            counts = tests_of(report) if report.is_file() else (0, 0, 1)
    else:
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
            lines = []
            for line in process.stdout or ():
                print(line, end="", flush=True)
                lines.append(line)
        code, counts = process.returncode, counted("".join(lines))
    minutes = f"{(time.monotonic() - began) / 60:.1f}"
    row = Passed(check, time.strftime("%Y-%m-%d"), commit, *counts, minutes)
    if code or not row.is_pass:
        why = f"{row.run} run, {row.skipped} skipped, {row.failed} failed, exit code {code}"
        print(f"make {check} is not noted as passed: {why}", file=sys.stderr)
    elif not commit or _commit(root) != commit:
        print(f"make {check} is not noted: files are changed and not committed", file=sys.stderr)
    else:
        write(row, root)
        print(f"make {check} is noted in {FILE}", file=sys.stderr)
    return code


def _commit(root: Path) -> str:
    """The last commit; "" where a tracked file differs from it that no check writes."""
    written = (f":!{FILE}", f":!{RESULTS}")
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", *written)
    done = _git(root, "rev-parse", "--short=10", "HEAD")
    return "" if changed.returncode or changed.stdout or done.returncode else done.stdout.strip()


def _git(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)


def paths(part: str) -> list[str]:
    """What pytest runs for a part. Raises KeyError.

    A file that an earlier part names is left out of the later one.
    """
    taken = list(ELSEWHERE)
    for name, wanted in PARTS.items():
        found = [str(p.relative_to(ROOT)) for w in wanted for p in sorted(ROOT.glob(w))]
        if name == part:
            return [*found, *(f"--deselect={t}" for t in taken if t.startswith(tuple(found)))]
        taken += found
    raise KeyError(part)


def main(words: Sequence[str]) -> int:
    """`NAME COMMAND…`, or `part NAME PYTEST…` for a part of the tests, `all` for each of them."""
    if words[0] != "part":
        return run(words[0], words[1:])
    chosen = list(PARTS) if words[1] == "all" else [words[1]]
    if unknown := [part for part in chosen if part not in PARTS]:
        print(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    codes = [run(PART + part, [*words[2:], *paths(part)]) for part in chosen]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
