"""What can be counted instead of timed: FLOPs, and the bytes of tensors that live at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode


def flops(call: Callable[[], object]) -> int:
    """Of every matrix product, attention included."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:  # the fused kernel of a CPU is not counted
        call()
    return int(counter.get_total_flops())


def peak_bytes(model: nn.Module, call: Callable[[], object]) -> int:
    """Peak of the model's weights and everything the call makes, on any device."""
    weights = {p.untyped_storage() for p in model.parameters()}
    with _Living(weights) as living:
        call()
    return living.peak + sum(w.nbytes() for w in weights)


class _Living(TorchDispatchMode):
    """Counts the bytes of every storage from the operation that makes it until it is freed."""

    def __init__(self, known: Iterable[torch.UntypedStorage]) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known = {s.data_ptr() for s in known}
        self._counted: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **kwargs or {})
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self._see(tensor.untyped_storage())
        return out

    def _see(self, storage: torch.UntypedStorage) -> None:
        place, size = storage.data_ptr(), storage.nbytes()
        if not size or place in self._known or place in self._counted:
            return
        self._counted.add(place)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, place, size)

    def _free(self, place: int, size: int) -> None:
        self._counted.discard(place)
        self.now -= size
