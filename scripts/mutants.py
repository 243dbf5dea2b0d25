"""Plants small faults in the core with mutmut, one at a time; its tests must notice.

    python -m scripts.mutants                      every module of mutants.toml
    python -m scripts.mutants core/masking/masks.py   one of them
    python -m scripts.mutants --list MODULE        also the accepted survivors

Each module is changed in a copy of the checkout, so that the working tree stays as it is. Lines
that only raise or hold text are left alone, since no test should repeat a message. Exits 1 where
the tests of a module notice less than the goal of its mutants that are not accepted as equivalent.
`make mutants` installs mutmut first.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.mutant_session import NO_TEST, SURVIVED, TIMED_OUT

ROOT = Path(__file__).parents[1]
NOT_COPIED = (".git", ".venv*", ".*_cache", "runs", "*.pyc", "__pycache__", "node_modules")
PROCESSES = 2
PLANT = """
import sys
from pathlib import Path
from mutmut.__main__ import create_mutants_for_file

made = create_mutants_for_file(Path(sys.argv[1]), Path("mutants") / sys.argv[1])
if made.error:
    raise made.error
"""
"""Writes a module with all its mutants into mutmut's copy."""

Change = tuple[str, str, str]
"""Function, removed lines and added lines of a mutant."""


@dataclass(frozen=True)
class Result:
    """What became of one module's mutants."""

    module: str
    total: int
    survivors: tuple[Change, ...]
    """Without those accepted."""
    accepted: tuple[tuple[Change, str], ...]
    """Survivors that change nothing a test could see, with the reason."""
    timed_out: tuple[Change, ...]
    """Noticed, since a test did not end in its time."""

    @property
    def share(self) -> float:
        """Noticed mutants over those that are not accepted; 1 where there are none."""
        counted = self.total - len(self.accepted)
        return (counted - len(self.survivors)) / counted if counted else 1.0


def run_module(module: str, tests: list[str], reasons: dict[Change, str]) -> Result:
    """Mutates one module in a copy of the checkout and judges every mutant.

    Raises `RuntimeError` with the end of the output where the tests fail without a mutant.
    """
    # in the copy the package holds its parts themselves, not links to them
    place = f"macd_studio/{module}"
    tests = [t if t.startswith("tests/") else f"macd_studio/{t}" for t in tests]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        mutants = plant_mutants(Path(folder), place)
        verdicts = _judge(Path(folder), place, mutants, tests)
        planted = Path(folder) / "mutants" / place
        unnoticed = [mutant for mutant, v in verdicts.items() if v in (SURVIVED, NO_TEST)]
        changes = describe_changes(planted, unnoticed)
        late = describe_changes(planted, [m for m, v in verdicts.items() if v == TIMED_OUT])
    return Result(
        module,
        len(verdicts),
        tuple(c for c in changes if c not in reasons),
        tuple((c, reasons[c]) for c in changes if c in reasons),
        tuple(late),
    )


def plant_mutants(folder: Path, module: str) -> list[str]:
    """Copies the checkout to folder/mutants, with every mutant in the module; their names."""
    copy = folder / "mutants"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
    settings: dict[str, Any] = {
        "source_paths": [module.split("/")[0]],
        "only_mutate": [module],
        "do_not_mutate_patterns": [r"^\s*raise ", r'^\s*f?"'],
    }
    # a JSON list of plain strings is a TOML list too
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    with (copy / "pyproject.toml").open("a") as file:
        file.write("\n[tool.mutmut]\n" + "\n".join(lines) + "\n")
    (folder / module).parent.mkdir(parents=True)
    for name in ("pyproject.toml", module):
        shutil.copy2(copy / name, folder / name)
    _run([sys.executable, "-c", PLANT, module], folder, f"mutmut did not change {module}")
    meta = json.loads((copy / f"{module}.meta").read_text())
    return list(meta["exit_code_by_key"])


def _judge(folder: Path, module: str, mutants: list[str], tests: list[str]) -> dict[str, str]:
    """What became of each mutant, by its name; see `mutant_session`."""
    task, verdicts = folder / "task.json", folder / "verdicts.json"
    asked = {"mutants": mutants, "tests": tests, "processes": PROCESSES, "verdicts": str(verdicts)}
    task.write_text(json.dumps(asked))
    session = [sys.executable, "-m", "scripts.mutant_session", str(task)]
    _run(session, folder / "mutants", f"{module} was not judged")
    judged: dict[str, str] = json.loads(verdicts.read_text())
    return judged


def _run(command: list[str], folder: Path, failed: str) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": "."}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{failed}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def describe_changes(planted: Path, mutants: list[str]) -> list[Change]:
    """What each of the mutants changes, from mutmut's module, which holds every version."""
    lines = planted.read_text().splitlines()
    versions = {
        node.name: lines[node.lineno - 1 : node.end_lineno]
        for node in ast.walk(ast.parse("\n".join(lines)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    changes = []
    for mutant in mutants:
        version = mutant.rpartition(".")[2]
        mangled = version.rpartition("__mutmut_")[0]
        name = mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
        before, after = (
            [line.replace(v, name.rpartition(".")[2]) for line in versions[v]]
            for v in (f"{mangled}__mutmut_orig", version)
        )
        body = list(difflib.unified_diff(before, after, lineterm="", n=0))[2:]
        removed, added = (
            " ".join(line[1:].strip() for line in body if line.startswith(mark)) for mark in "-+"
        )
        changes.append((name, removed, added))
    return changes


def _reasons(entries: list[dict[str, Any]], module: str) -> dict[Change, str]:
    """Why each accepted change of a module is one that no test could see."""
    return {
        (at, removed, added): entry["reason"]
        for entry in entries
        if entry["module"] == module
        for at, removed, added in entry["changes"]
    }


def main(args: list[str] | None = None) -> int:
    """Runs the modules and prints what survived; 1 where one is below the goal."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("--list", action="store_true", help="show the accepted survivors too")
    options = parser.parse_args(args)
    config = tomllib.loads((ROOT / "scripts" / "mutants.toml").read_text())
    unknown = sorted(set(options.modules) - set(config["modules"]))
    if unknown:
        parser.error(f"not in scripts/mutants.toml: {', '.join(unknown)}")
    low = []
    for module in options.modules or config["modules"]:
        reasons = _reasons(config.get("accepted", []), module)
        result = run_module(module, config["modules"][module], reasons)
        print(f"{module}: {result.share:.0%} of {result.total - len(result.accepted)} noticed"
              f", {len(result.accepted)} accepted, {len(result.timed_out)} timed out",
              flush=True)  # fmt: skip
        for name, removed, added in result.survivors:
            print(f"  survived in {name}\n    - {removed}\n    + {added}", flush=True)
        for name, removed, added in result.timed_out:
            print(f"  timed out in {name}\n    - {removed}\n    + {added}", flush=True)
        if options.list:
            for (name, removed, added), reason in result.accepted:
                print(f"  accepted in {name}: {reason}\n    - {removed}\n    + {added}")
        if result.share < config["goal"]:
            low.append(module)
    if low:
        print(f"below {config['goal']:.0%}: {', '.join(low)}")
    return bool(low)


if __name__ == "__main__":
    raise SystemExit(main())
