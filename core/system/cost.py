"""What pieces of a run take: time, and memory of tensors; and results that several share.

Nested pieces are measured separately: what a method itself costs.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
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
    """What a piece of work takes, without the pieces measured inside it.

    rise_bytes: tensors alive at its peak above those at its start; kept_bytes: alive at its end
    above those at its start.
    """

    seconds: float = 0.0
    rise_bytes: int = 0
    kept_bytes: int = 0

    def add(self, later: Cost) -> None:
        """Takes in what was done after it."""
        self.seconds += later.seconds
        self.rise_bytes = max(self.rise_bytes, self.kept_bytes + later.rise_bytes)
        self.kept_bytes += later.kept_bytes


class AliveBytes:
    """Bytes of the storages that were added and not yet freed; on any device, fake ones too.

    now, peak: bytes; `peak` may be set back at any time. uncounted: storages to leave out.
    """

    def __init__(self, uncounted: Iterable[torch.UntypedStorage] = ()) -> None:
        self.now = self.peak = 0
        self._uncounted = {s._cdata for s in uncounted}
        self._alive: dict[int, Any] = {}

    def add(self, tensor: torch.Tensor) -> None:
        """Counts the tensor's storage until it is freed; a second time does nothing."""
        storage = tensor.untyped_storage()
        place = storage._cdata
        if place in self._alive or place in self._uncounted:
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

    def __init__(self, uncounted: Iterable[torch.UntypedStorage] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.alive = AliveBytes(uncounted)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **kwargs) if kwargs else func(*args)
        if func.is_view:  # no storage of its own; that of a weight is not ours to count
            return out
        if isinstance(out, torch.Tensor):
            self.alive.add(out)
        elif isinstance(out, tuple | list):
            for tensor in tree_leaves(out):
                if isinstance(tensor, torch.Tensor):
                    self.alive.add(tensor)
        return out


@dataclass
class _Piece:
    """A piece being measured: bytes that do not count for it, its peak so far, time of others."""

    base: int
    rise: int = 0
    elsewhere_s: float = 0.0


class Meter:
    """Measures pieces of work that may contain each other.

    memory: on a CPU every operation is watched for it, some 10 µs each; on a GPU the allocator's
    figures are taken. Without it only time is measured.
    """

    def __init__(self, device: str = "cpu", memory: bool = False) -> None:
        self._cuda = memory and device.startswith("cuda") and torch.cuda.is_available()
        self._watching = memory and not self._cuda
        self._living = LivingTensors()
        self._pieces: list[_Piece] = []
        self._owner: int | None = None

    @contextmanager
    def measure(self) -> Iterator[Cost]:
        """The cost of what happens inside, complete when the block ends."""
        cost, (now, peak) = Cost(), self._read()
        outer = self._pieces[-1] if self._pieces else None
        if outer is not None:
            outer.rise = max(outer.rise, peak - outer.base)
        piece = _Piece(now)
        self._pieces.append(piece)
        began = time.perf_counter()
        try:
            with self._counting():
                yield cost
        finally:
            spent = time.perf_counter() - began
            now, peak = self._read()
            self._pieces.pop()
            cost.seconds = spent - piece.elsewhere_s
            cost.rise_bytes = max(piece.rise, peak - piece.base)
            cost.kept_bytes = now - piece.base
            if outer is not None:
                outer.elsewhere_s += spent
                outer.base += cost.kept_bytes

    def each(self, items: Iterator[T], cost: Cost) -> Iterator[T]:
        """The items one by one; the cost of producing each is added to `cost`."""
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

    def _read(self) -> tuple[int, int]:
        """Bytes alive now, and the most since the last call."""
        if self._cuda:
            now, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            return int(now), int(peak)
        alive = self._living.alive
        now, peak, alive.peak = alive.now, alive.peak, alive.now
        return now, peak


class WorkCache:
    """Results that several methods share, each made once, with what it took.

    The first method to need a result pays for it. shared: how many methods each kind of result
    served that another had made.
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.shared: dict[str, int] = {}
        self._used: set[str] | None = None
        self._computed: set[str] = set()
        self._done: dict[Hashable, Any] = {}
        self._costs: dict[Hashable, Cost] = {}
        self._needs: dict[Hashable, set[Hashable]] = {}
        self._making: list[set[Hashable]] = [set()]

    def start_method(self) -> None:
        """From here on another method asks."""
        self._used, self._computed = set(), set()
        self._making = [set()]

    def memoize(self, name: str, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, made at most once for a key."""
        if (name, key) not in self._done:
            self._making.append(set())
            with self.meter.measure() as cost:
                result = make()
            self.put(name, key, result, cost, self._making.pop())
            self._computed.add(name)
        self._note_use(name, key)
        kept: T = self._done[name, key]
        return kept

    def stream(
        self,
        name: str,
        key: Hashable,
        make: Callable[[], Iterator[T]],
        needs: Iterable[Hashable] = (),
    ) -> Iterator[T]:
        """The items of `make` as they come, computed once; kept only if all of them were taken."""
        if (name, key) in self._done:
            self._note_use(name, key)
            yield from self._done[name, key]
            return
        cost, items = Cost(), list[T]()
        for item in self.meter.each(make(), cost):
            items.append(item)
            yield item
        self.put(name, key, tuple(items), cost, needs)
        self._computed.add(name)
        self._note_use(name, key)

    def put(
        self,
        name: str,
        key: Hashable,
        result: Any,
        cost: Cost | None = None,
        needs: Iterable[Hashable] = (),
    ) -> None:
        """Keeps a result that was computed elsewhere, with its cost and what it needed."""
        self._done[name, key] = result
        self._costs[name, key] = cost or Cost()
        self._needs[name, key] = set(needs)

    def _note_use(self, name: str, key: Hashable) -> None:
        if self._used is not None:
            if name not in self._used | self._computed:
                self.shared[name] = self.shared.get(name, 0) + 1
            self._used.add(name)
        self._making[-1].add((name, key))

    def needs(self) -> frozenset[Hashable]:
        """The names of the results that were used since `start_method`."""
        return frozenset(self._making[0])

    def whole_cost(self, own: Cost, needs: Iterable[Hashable]) -> Cost:
        """What an answer takes from the prompt on: its own part, and the results it needs.

        own: measured around its own work, without the results made inside it. A result counts in
        full, whichever method made it, with everything that it needed in turn.
        """
        results: set[Hashable] = set()
        waiting = set(needs)
        while waiting:
            result = waiting.pop()
            results.add(result)
            waiting |= self._needs.get(result, set()) - results
        whole = Cost()
        for result, cost in self._costs.items():  # in the order in which they were made
            if result in results:
                whole.add(cost)
        whole.add(own)
        return whole
