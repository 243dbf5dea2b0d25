"""Time and peak memory of pieces of work, nested ones apart: what a method itself costs."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

T = TypeVar("T")


class _End:
    """What an iterator gives after its last item."""


_END = _End()


@dataclass
class Cost:
    """seconds: without the pieces measured inside. peak_bytes: tensors alive at once."""

    seconds: float = 0.0
    peak_bytes: int = 0

    def add(self, other: Cost) -> None:
        """Takes in what was done after it."""
        self.seconds += other.seconds
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)


class AliveBytes:
    """Bytes of the storages that were added and not yet freed; on any device, fake ones too.

    now, peak: bytes; `peak` may be set back at any time. known: storages that are not counted.
    """

    def __init__(self, known: Iterable[torch.UntypedStorage] = ()) -> None:
        self.now = self.peak = 0
        self._known = {s._cdata for s in known}
        self._alive: dict[int, Any] = {}

    def add(self, tensor: torch.Tensor) -> None:
        """Counts the tensor's storage until it is freed; a second time does nothing."""
        storage = tensor.untyped_storage()
        place = storage._cdata
        if place in self._alive or place in self._known:
            return
        size = storage.nbytes()
        if not size:
            return

        def free(_: Any) -> None:
            if self._alive.pop(place, None) is not None:
                self.now -= size

        self._alive[place] = weakref.ref(storage, free)
        self.now += size
        self.peak = max(self.peak, self.now)


class LivingTensors(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is on, counts the bytes of every storage that an operation makes, until freed."""

    def __init__(self, known: Iterable[torch.UntypedStorage] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive = AliveBytes(known)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **kwargs) if kwargs else func(*args)
        if isinstance(out, torch.Tensor):
            self.alive.add(out)
        elif isinstance(out, tuple | list):
            for tensor in tree_leaves(out):
                if isinstance(tensor, torch.Tensor):
                    self.alive.add(tensor)
        return out


class Meter:
    """Measures pieces of work that may contain each other.

    weights: bytes that are there throughout and are part of every peak. On a GPU the allocator's
    own figure is taken, which holds the weights already. memory: on a CPU every operation is
    watched for it, some 10 µs each; without it only time is measured.
    """

    def __init__(self, device: str = "cpu", weights: int = 0, memory: bool = False) -> None:
        self._cuda = device.startswith("cuda") and torch.cuda.is_available()
        self._watching = memory and not self._cuda
        self._weights = weights if self._watching else 0
        self._living = LivingTensors()
        self._within: list[float] = []
        self._owner: int | None = None

    @contextmanager
    def measure(self) -> Iterator[Cost]:
        """The cost of what happens inside, complete when the block ends."""
        cost, outer = Cost(), self._take_peak()
        self._within.append(0.0)
        began = time.perf_counter()
        try:
            with self._counting():
                yield cost
        finally:
            spent = time.perf_counter() - began
            cost.seconds = spent - self._within.pop()
            if self._within:
                self._within[-1] += spent
            cost.peak_bytes = self._weights + self._take_peak()
            self._living.alive.peak = max(
                self._living.alive.peak, outer, cost.peak_bytes - self._weights
            )

    def each(self, items: Iterator[T], cost: Cost) -> Iterator[T]:
        """The items one by one; what each takes to come is added to `cost`."""
        while True:
            with self.measure() as one:
                item = next(items, _END)
            cost.add(one)
            if isinstance(item, _End):
                return
            yield item

    @contextmanager
    def _counting(self) -> Iterator[None]:
        here = threading.get_ident()
        if not self._watching or self._owner == here:  # the mode is on already
            yield
            return
        self._owner = here
        try:
            with self._living:
                yield
        finally:
            self._owner = None

    def _take_peak(self) -> int:
        """The peak since the last call; counting starts anew from what is alive now."""
        if self._cuda:
            peak = int(torch.cuda.max_memory_allocated())
            torch.cuda.reset_peak_memory_stats()
            return peak
        peak, self._living.alive.peak = self._living.alive.peak, self._living.alive.now
        return peak
