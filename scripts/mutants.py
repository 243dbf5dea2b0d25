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

ROOT = Path(__file__).parents[1]
NOT_COPIED = (".git", ".venv", "runs", "*.pyc", "__pycache__", "node_modules")
SURVIVED = {0: "survived", 5: "no test", 33: "no test"}
"""mutmut's exit codes of a mutant that no test noticed; a time limit or a crash also notices."""

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

    @property
    def share(self) -> float:
        """Noticed mutants over those that are not accepted; 1 where there are none."""
        counted = self.total - len(self.accepted)
        return (counted - len(self.survivors)) / counted if counted else 1.0


def run_module(module: str, tests: list[str], reasons: dict[Change, str]) -> Result:
    """Mutates one module in a copy of the checkout and judges every mutant.

    Raises `RuntimeError` with the end of mutmut's output where the tests fail without a mutant.
    """
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*NOT_COPIED))
        _configure(copy, module, tests)
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "mutmut", "run", "--max-children", "2"],
            cwd=copy, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        meta = copy / "mutants" / f"{module}.meta"
        codes = json.loads(meta.read_text())["exit_code_by_key"] if meta.is_file() else {}
        if not codes or None in codes.values():
            raise RuntimeError(
                f"mutmut did not judge {module}:\n{done.stdout[-2000:]}{done.stderr}"
            )
        changes = [_change(copy, key) for key, code in codes.items() if code in SURVIVED]
    return Result(
        module,
        len(codes),
        tuple(c for c in changes if c not in reasons),
        tuple((c, reasons[c]) for c in changes if c in reasons),
    )


def _configure(copy: Path, module: str, tests: list[str]) -> None:
    top = module.split("/")[0]
    others = sorted(
        p.name for p in copy.iterdir() if p.name not in (top, "tests", "pyproject.toml")
    )
    settings: dict[str, Any] = {
        "source_paths": [top],
        "only_mutate": [module],
        "also_copy": others,
        "pytest_add_cli_args": ["-m", "not long and not browser"],
        "pytest_add_cli_args_test_selection": tests,
        "do_not_mutate_patterns": [r"^\s*raise ", r'^\s*f?"'],
        "use_git_change_detection": False,
    }
    # a JSON list of plain strings is a TOML list too
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    with (copy / "pyproject.toml").open("a") as file:
        file.write("\n[tool.mutmut]\n" + "\n".join(lines) + "\n")


def _change(copy: Path, key: str) -> Change:
    shown = subprocess.run(
        [sys.executable, "-m", "mutmut", "show", key],
        cwd=copy, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    body = [line for line in shown if not line.startswith(("---", "+++", "@@", "#"))]
    removed = " ".join(line[1:].strip() for line in body if line.startswith("-"))
    added = " ".join(line[1:].strip() for line in body if line.startswith("+"))
    name = key.rpartition(".")[2].rpartition("__mutmut_")[0]
    return name.removeprefix("x_").removeprefix("xǁ").replace("ǁ", "."), removed, added


def _reasons(entries: list[dict[str, str]], module: str) -> dict[Change, str]:
    return {
        (e["at"], e["removed"], e["added"]): e["reason"] for e in entries if e["module"] == module
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
              f", {len(result.accepted)} accepted", flush=True)  # fmt: skip
        for name, removed, added in result.survivors:
            print(f"  survived in {name}\n    - {removed}\n    + {added}", flush=True)
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
