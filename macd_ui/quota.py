"""What each visitor of a public server has used of it lately. Visitors are keys, never stored long.

quota = Quota(VisitorLimits())
with quota.job("address"):  # raises QuotaError where too many wait or too much was computed
    quota.add_device_s("address", 12.0)
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from macd_studio.core.errors import MacdError
from macd_studio.core.text.words import count
from macd_studio.macd_ui.limits import BY_ADDRESS, VisitorLimits, Whose

REMEMBERED = 20_000
"""Most visitors that are remembered; those without requests for longest are forgotten first."""
ELSEWHERE = "or run the project on a machine of your own"


class QuotaError(MacdError):
    """A visitor has used as much of a public server as one visitor may."""


@dataclass
class _Bucket:
    """Fills with time up to `burst`, and is emptied by what is taken from it."""

    burst: float
    filled_at: float
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.burst

    def take(self, amount: float, per_s: float, now: float) -> bool:
        """Takes the amount if it is there."""
        self.left = min(self.burst, self.left + (now - self.filled_at) * per_s)
        self.filled_at = now
        if self.left < amount:
            return False
        self.left -= amount
        return True


@dataclass
class _Use:
    """uploads, files, computed, read: (time, amount) pairs of the last window.

    Amounts are megabytes, a count, seconds of computing, and seconds of reading videos.
    """

    requests: _Bucket
    answers: _Bucket
    jobs: int = 0
    streams: int = 0
    opening: int = 0
    uploads: deque[tuple[float, float]] = field(default_factory=deque)
    files: deque[tuple[float, float]] = field(default_factory=deque)
    computed: deque[tuple[float, float]] = field(default_factory=deque)
    read: deque[tuple[float, float]] = field(default_factory=deque)


class Quota:
    """Counts jobs, uploads, computing and requests of each visitor; safe between threads.

    limits: None on a private server, where nothing is counted. clock: seconds, never going back.
    whose: for whom they are counted.
    """

    def __init__(
        self,
        limits: VisitorLimits | None,
        clock: Callable[[], float] = time.monotonic,
        whose: Whose = BY_ADDRESS,
    ) -> None:
        self.limits, self.clock, self.whose = limits, clock, whose
        self._uses: OrderedDict[str, _Use] = OrderedDict()
        self._lock = threading.Lock()

    def _use(self, visitor: str) -> _Use:
        assert self.limits is not None
        use = self._uses.get(visitor)
        if use is None:
            limits, now = self.limits, self.clock()
            use = self._uses[visitor] = _Use(
                _Bucket(limits.burst, now), _Bucket(1000 * limits.answer_burst_s, now)
            )
            while len(self._uses) > REMEMBERED:
                self._uses.popitem(last=False)
        self._uses.move_to_end(visitor)
        return use

    def _sum(self, entries: deque[tuple[float, float]]) -> float:
        assert self.limits is not None
        while entries and entries[0][0] < self.clock() - self.limits.window_s:
            entries.popleft()
        return sum(amount for _, amount in entries)

    @contextmanager
    def job(self, visitor: str) -> Iterator[None]:
        """A job of the visitor, from before it waits until it ends. Raises QuotaError."""
        if self.limits is None:
            yield
            return
        with self._lock:
            use = self._use(visitor)
            if use.jobs >= self.limits.jobs:
                raise QuotaError(
                    f"{count(use.jobs, 'run')} {self.whose.words} wait or compute already",
                    self.whose.remedy("Wait until one of them ends, or stop it"),
                )
            if self._sum(use.computed) >= 60 * self.limits.device_minutes:
                raise QuotaError(
                    f"runs {self.whose.words} have computed for {self.limits.device_minutes:g}"
                    f" minutes of the last {self._window()}",
                    self._later,
                )
            use.jobs += 1
        try:
            yield
        finally:
            with self._lock:
                use.jobs -= 1

    def add_device_s(self, visitor: str, seconds: float) -> None:
        """The visitor's job has computed for so long."""
        if self.limits is not None:
            with self._lock:
                self._use(visitor).computed.append((self.clock(), seconds))

    def check_reading(self, visitor: str) -> None:
        """Raises QuotaError where the visitor's videos took too long to read lately."""
        if self.limits is not None:
            with self._lock:
                if self._sum(self._use(visitor).read) >= 60 * self.limits.read_minutes:
                    raise QuotaError(
                        f"reading files {self.whose.words} has taken"
                        f" {self.limits.read_minutes:g} minutes of the last {self._window()}",
                        self._later,
                    )

    def add_read_s(self, visitor: str, seconds: float) -> None:
        """A video of the visitor took so long to read."""
        if self.limits is not None:
            with self._lock:
                self._use(visitor).read.append((self.clock(), seconds))

    def add_file(self, visitor: str) -> None:
        """The visitor begins another upload. Raises QuotaError."""
        if self.limits is None:
            return
        with self._lock:
            use = self._use(visitor)
            if self._sum(use.files) >= self.limits.files:
                raise QuotaError(
                    f"{self.limits.files} files {self.whose.words} were uploaded in the last"
                    f" {self._window()}",
                    self._later,
                )
            use.files.append((self.clock(), 1))

    def add_upload(self, visitor: str, count: int) -> None:
        """The visitor uploads so many bytes more. Raises QuotaError."""
        if self.limits is None:
            return
        with self._lock:
            use = self._use(visitor)
            if self._sum(use.uploads) + count / 1e6 > self.limits.megabytes:
                raise QuotaError(
                    f"{self.limits.megabytes:g} MB {self.whose.words} were uploaded in the last"
                    f" {self._window()}",
                    self._later,
                )
            now = self.clock()
            if use.uploads and now - use.uploads[-1][0] < 1.0:  # chunks of one file are one entry
                use.uploads[-1] = (use.uploads[-1][0], use.uploads[-1][1] + count / 1e6)
            else:
                use.uploads.append((now, count / 1e6))

    def allows_request(self, visitor: str) -> bool:
        """Whether the visitor may send another request that changes something."""
        if self.limits is None:
            return True
        with self._lock:
            bucket = self._use(visitor).requests
            return bucket.take(1, self.limits.requests_per_s, self.clock())

    def allows_answer(self, visitor: str, ms: float) -> bool:
        """Whether the visitor may have another answer that takes so long to make."""
        if self.limits is None:
            return True
        with self._lock:
            bucket = self._use(visitor).answers
            return bucket.take(ms, 1000 * self.limits.answer_s_per_s, self.clock())

    @contextmanager
    def stream(self, visitor: str, places: int) -> Iterator[None]:
        """An answer that stays open and takes so many of its visitor's. Raises QuotaError."""
        if self.limits is None:
            yield
            return
        with self._lock:
            use = self._use(visitor)
            if use.streams + places > self.limits.streams:
                raise QuotaError(
                    f"too many pages {self.whose.words} are open",
                    self.whose.remedy("Close some of them"),
                )
            use.streams += places
        try:
            yield
        finally:
            with self._lock:
                use.streams -= places

    @contextmanager
    def open_file(self, visitor: str) -> Iterator[None]:
        """A trace that the visitor opens, from before it waits until it is read. QuotaError."""
        if self.limits is None:
            yield
            return
        with self._lock:
            use = self._use(visitor)
            if use.opening >= self.limits.opening:
                raise QuotaError(
                    f"{count(use.opening, 'file')} {self.whose.words}"
                    f" {'is' if use.opening == 1 else 'are'} waiting to be opened",
                    self.whose.remedy("Wait until one of them is open"),
                )
            use.opening += 1
        try:
            yield
        finally:
            with self._lock:
                use.opening -= 1

    @property
    def _later(self) -> str:
        return self.whose.remedy(f"Try again later, {ELSEWHERE}")

    def _window(self) -> str:
        assert self.limits is not None
        minutes = self.limits.window_s / 60
        return "hour" if minutes == 60 else f"{minutes:g} minutes"
