"""Rewrites the assertions of all tests once, before several workers start.

Each worker of pytest-xdist collects every test; where the cache is empty, as in a fresh clone, each
would parse and rewrite all of them anew. This uses private functions of pytest: where they are no
longer there, or nothing can be written, the workers do it as before.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent
PROCESSES = 2


def ahead(config: pytest.Config) -> None:
    """Rewrites what no cache holds, in as many processes; does nothing without workers."""
    workers = getattr(config.option, "numprocesses", None)
    if not workers or hasattr(config, "workerinput") or sys.dont_write_bytecode:
        return
    files = sorted(p for p in ROOT.rglob("*.py") if p.name.startswith(("test_", "conftest")))
    context = multiprocessing.get_context("fork")
    parts = [
        context.Process(target=_rewrite, args=(files[i::PROCESSES], config))
        for i in range(PROCESSES)
    ]
    for part in parts:
        part.start()
    for part in parts:
        part.join()


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
