"""Samples of long suites: `make test` runs some cases, `make test-all` every one.

Which ones is said where they matter, by `sampled`; elsewhere `samples.toml` says how many.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("samples.toml")


def kept() -> dict[str, int]:
    """A test without its case, as pytest names it → how many of its cases are kept."""
    tables = tomllib.loads(FILE.read_text())
    return {f"{file}::{test}": n for file, tests in tables.items() for test, n in tests.items()}


def mark(items: list[pytest.Item]) -> None:
    """Marks as `long` what is left out. Of n cases those are kept that stand at equal distances."""
    counts, cases = kept(), defaultdict[str, list[pytest.Item]](list)
    for item in items:
        name = item.nodeid.partition("[")[0]
        if name in counts and item.get_closest_marker("long") is None:
            cases[name].append(item)
    for name, found in cases.items():
        n = counts[name]
        chosen = {i * len(found) // n for i in range(n)} if n else set()
        for i, item in enumerate(found):
            if i not in chosen:
                item.add_marker(pytest.mark.long)


def sampled(cases: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`; those that are not kept are marked `long`."""
    cases = list(cases)
    unknown = [case for case in kept if case not in cases]
    assert not unknown, f"no such cases: {unknown}"
    return [c if c in kept else pytest.param(c, marks=pytest.mark.long) for c in cases]
