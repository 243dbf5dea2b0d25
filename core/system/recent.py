"""The values that were used last, within a bound: the one cache of this kind."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Keeps what was used last while the sum of the sizes is at most `most`. For several threads.

    size: of a value; by default each counts 1, so that `most` is their number. A value that is
    larger than all of it is not kept.
    """

    def __init__(self, most: int, size: Callable[[V], int] = lambda value: 1) -> None:
        self.most, self._size, self._sum = most, size, 0
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, key: K) -> V | None:
        """A value, which is now the one used last; None where it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Adds a value; those that were not used for longest go."""
        with self._lock:
            self._drop(key)
            self._values[key] = value
            self._sum += self._size(value)
            while self._sum > self.most:
                self._drop(next(iter(self._values)))

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """A value, made where it is not there; no other is made or asked for meanwhile."""
        with self._lock:
            value = self.get(key)
            if value is None:
                value = make()
                self.put(key, value)
            return value

    def values(self) -> Iterator[V]:
        """All of them, the one used last at the end."""
        with self._lock:
            return iter([*self._values.values()])

    def forget(self, unwanted: Callable[[V], bool]) -> None:
        """Drops the values of which this is true."""
        with self._lock:
            for key in [key for key, value in self._values.items() if unwanted(value)]:
                self._drop(key)

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._values

    def _drop(self, key: K) -> None:
        if key in self._values:
            self._sum -= self._size(self._values.pop(key))
