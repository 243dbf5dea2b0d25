"""What can be counted instead of timed: FLOPs, and the bytes of tensors that live at once."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from macd_studio.core.system.cost import LivingTensors


def flops(call: Callable[[], object]) -> int:
    """Of every matrix product, attention included."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:  # the fused kernel of a CPU is not counted
        call()
    return int(counter.get_total_flops())


def peak_bytes(model: nn.Module, call: Callable[[], object]) -> int:
    """Peak of the model's weights and everything the call makes, on any device."""
    weights = {p.untyped_storage() for p in model.parameters()}
    with LivingTensors(weights) as living:
        call()
    return int(living.alive.peak + sum(w.nbytes() for w in weights))
