"""Compiles once, before several workers start, what each of them would compile anew.

Each worker of pytest-xdist collects every test and imports the same libraries. Where no cache holds
their bytecode, as in a fresh clone, one process collects all tests for the others while another one
rewrites their assertions from the last file on. The rewriting uses private functions of pytest:
where they are no longer there, or nothing can be written, the workers do it as before.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent


def ahead(config: pytest.Config) -> None:
    """Compiles what no cache holds, in two processes; does nothing without workers."""
    workers = getattr(config.option, "numprocesses", None)
    if not workers or hasattr(config, "workerinput") or sys.dont_write_bytecode:
        return
    files = sorted(p for p in ROOT.rglob("*.py") if p.name.startswith(("test_", "conftest")))
    spec = importlib.util.find_spec("torch")
    context = multiprocessing.get_context("fork")
    if spec is not None and spec.cached is not None and Path(spec.cached).is_file():
        parts = [context.Process(target=_rewrite, args=(files[i::2], config)) for i in range(2)]
    else:
        parts = [
            context.Process(target=_rewrite, args=(files[::-1], config)),
            context.Process(target=_collect),
        ]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


def _collect() -> None:
    words = ["-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", str(ROOT)]
    subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os._exit(0)  # what could not be collected is told by the workers


def _rewrite(files: list[Path], config: Any) -> None:
    try:
        from _pytest.assertion import rewrite

        state = config.stash[rewrite.assertstate_key]
        for file in files:
            folder = rewrite.get_cache_dir(file)
            cached = folder / (file.stem + rewrite.PYC_TAIL)
            if rewrite._read_pyc(file, cached) is None and rewrite.try_makedirs(folder):
                found, code = rewrite._rewrite_test(file, config)
                rewrite._write_pyc(state, code, found, cached)
    except Exception:  # another pytest, or a file that is no Python: told when it is collected
        os._exit(1)
