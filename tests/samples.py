"""Samples of long suites: `make test` runs the named cases, `make test-all` every one."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """The cases for `pytest.mark.parametrize`; those that are not kept are marked `long`."""
    cases = list(cases)
    unknown = [case for case in kept if case not in cases]
    assert not unknown, f"no such cases: {unknown}"
    return [c if c in kept else pytest.param(c, marks=pytest.mark.long) for c in cases]
