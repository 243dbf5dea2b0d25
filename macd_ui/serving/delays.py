"""Slows down whoever guesses passwords, without ever refusing a right one."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

FREE = 3
"""Wrong passwords of one account from one address before an attempt waits."""
FIRST_S, LONGEST_S = 1.0, 30.0
"""The first wait, which doubles with each wrong password, and the longest."""
APART_S = 1.0
"""Between two attempts that wait, so that many at once get no more guesses."""
FORGOTTEN_S = 3600.0
"""After so long without an attempt, wrong passwords no longer count."""
REMEMBERED = 10_000
SENDER: ContextVar[str] = ContextVar("sender", default="")
"""The address of the request that is being answered, which the gate sets."""


@dataclass
class _Pair:
    """An account as somebody at one address sees it. free_at: when its next attempt may be made."""

    wrong: int = 0
    waiting: int = 0
    seen_at: float = 0.0
    free_at: float = 0.0


@dataclass
class _Turn:
    """One password of an address is looked at, at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


class Delays:
    """Passwords that were tried, by account and sender.

    The owner of an account does not wait for what is guessed elsewhere, and neither do other
    accounts at an address where somebody guesses. clock, sleep: in seconds; for tests.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.clock, self.sleep = clock, sleep
        self._pairs: OrderedDict[tuple[str, str], _Pair] = OrderedDict()
        self._turns: dict[str, _Turn] = {}
        self._hashing = asyncio.Semaphore(1)

    async def check(self, account: str, matches: Callable[[], bool]) -> bool:
        """Whether the password matches, once it is this attempt's turn.

        matches: takes processor time, and is called in a thread; one at a time for each sender, and
        one at all, so that a flood of one sender makes no other wait for more than its share.
        """
        sender = SENDER.get()
        pair = self._pair(account, sender)
        pair.waiting += 1
        try:
            if (wait := self._wait_s(pair)) > 0:
                await self.sleep(wait)
            turn = self._turns.setdefault(sender, _Turn())
            turn.users += 1
            try:
                async with turn.lock, self._hashing:
                    right = await asyncio.to_thread(matches)
            finally:
                turn.users -= 1
                if not turn.users:
                    self._turns.pop(sender, None)
        finally:
            pair.waiting -= 1
        pair.seen_at = self.clock()
        pair.wrong = 0 if right else pair.wrong + 1
        return right

    def _pair(self, account: str, sender: str) -> _Pair:
        pair = self._pairs.setdefault((account, sender), _Pair())
        self._pairs.move_to_end((account, sender))
        while len(self._pairs) > REMEMBERED:
            self._pairs.popitem(last=False)
        if pair.wrong and not pair.waiting and self.clock() - pair.seen_at > FORGOTTEN_S:
            pair.wrong = 0
        return pair

    def _wait_s(self, pair: _Pair) -> float:
        """How long this attempt waits; those that wait already count as wrong ones."""
        beyond = pair.wrong + pair.waiting - 1 - FREE
        if beyond < 0:
            return 0.0
        now = self.clock()
        start = max(now + min(FIRST_S * 2.0 ** min(beyond, 32), LONGEST_S), pair.free_at)
        pair.free_at = start + APART_S
        return start - now
