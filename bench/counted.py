"""How something is measured: seconds of calls in turn, FLOPs, and bytes that live at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from macd_studio.core.system.cost import LivingTensors

Call = Callable[[], object]


def in_turn(calls: Mapping[str, Call], runs: int) -> dict[str, float]:
    """Median seconds of each; they take turns, so that a slow moment hits all.

    A first round warms up and is not counted.
    """
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(1 + runs):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            spent[name].append(time.perf_counter() - began)
    return {name: statistics.median(values[1:]) for name, values in spent.items()}


def ratio(one: Call, other: Call, runs: int) -> float:
    """Median time of one call over that of the other."""
    found = in_turn({"one": one, "other": other}, runs)
    return found["one"] / found["other"]


def flops(call: Call) -> int:
    """Of every matrix product, attention included."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:  # the fused kernel of a CPU is not counted
        call()
    return int(counter.get_total_flops())


def peak_bytes(model: nn.Module, call: Call) -> int:
    """Peak of the model's weights and everything the call makes, on any device."""
    weights = {p.untyped_storage() for p in model.parameters()}
    with LivingTensors(weights) as living:
        call()
    return int(living.alive.peak + sum(w.nbytes() for w in weights))
