"""Codes of raters and of the organiser: made, hashed, compared, and guarded against guessing."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""Without the letters and digits that are taken for one another."""
LENGTH = 24
"""118 bits: no guess succeeds, and the plain hash that is stored cannot be searched."""
CODE = re.compile(rf"[{ALPHABET}]{{{LENGTH}}}")
REMEMBERED = 10_000


def new_code() -> str:
    """A random code."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def derived_code(key: str, identity: str) -> str:
    """The code of an identity under a study's key: always the same, and nobody else's.

    >>> derived_code("key", "42") == derived_code("key", "42") != derived_code("other", "42")
    True
    """
    number = int.from_bytes(hmac.digest(key.encode(), identity.encode(), "sha256"), "big")
    letters = []
    for _ in range(LENGTH):
        number, at = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[at])
    return "".join(letters)


def hash_code(code: str) -> str:
    """What the study keeps of a code."""
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


class Attempts:
    """Wrong codes of each address: after `most` of them, one more every `every_s` seconds."""

    def __init__(
        self, most: int = 10, every_s: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.most, self.every_s, self.clock = most, every_s, clock
        self._failures: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def allows(self, address: str) -> bool:
        """Whether the address may try a code now."""
        with self._lock:
            return self._count(address) <= self.most - 1

    def failed(self, address: str) -> None:
        """A wrong code came from the address."""
        with self._lock:
            self._failures[address] = (self._count(address) + 1, self.clock())
            self._failures.move_to_end(address)
            while len(self._failures) > REMEMBERED:
                self._failures.popitem(last=False)

    def _count(self, address: str) -> float:
        count, at = self._failures.get(address, (0.0, 0.0))
        return max(0.0, count - (self.clock() - at) / self.every_s)
