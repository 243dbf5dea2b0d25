"""Benchmarks by name. A new one is a class with the methods of `base.Benchmark` and a line here."""

from __future__ import annotations

from collections.abc import Callable

from core.errors import OptionError
from evals.benchmarks.base import Benchmark
from evals.benchmarks.toyworld import ToyWorld
from evals.benchmarks.toyworld_balanced import BalancedToyWorld

BENCHMARKS: dict[str, Callable[[], Benchmark]] = {
    "toyworld": ToyWorld,
    "toyworld-balanced": BalancedToyWorld,
}


def find_benchmark(name: str) -> Benchmark:
    """A benchmark by name; raises OptionError."""
    if name not in BENCHMARKS:
        raise OptionError(f"there is no benchmark {name!r}", f"Choose of {', '.join(BENCHMARKS)}")
    return BENCHMARKS[name]()
