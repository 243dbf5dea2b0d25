"""What each visitor of a public server has used of it lately. Visitors are keys, never stored long.

quota = Quota(VisitorLimits())
with quota.job("address"):  # raises QuotaError where too many wait or too much was computed
    quota.add_device_s("address", 12.0)
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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
    """held: jobs, streams and files opening now. uploads, files, computed, read: (time, amount)
    pairs of the last window.

    Amounts are megabytes, a count, seconds of computing, and seconds of reading videos.
    """

    requests: _Bucket
    answers: _Bucket
    held: Counter[str] = field(default_factory=Counter)
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
    def _held(
        self, visitor: str, name: str, places: int, check: Callable[[int, _Use], None]
    ) -> Iterator[None]:
        """Meanwhile so many places are the visitor's, unless `check` of those held raises."""
        if self.limits is None:
            yield
            return
        with self._lock:
            use = self._use(visitor)
            check(use.held[name], use)
            use.held[name] += places
        try:
            yield
        finally:
            with self._lock:
                use.held[name] -= places

    def job(self, visitor: str) -> AbstractContextManager[None]:
        """A job of the visitor, from before it waits until it ends. Raises QuotaError."""

        def check(jobs: int, use: _Use) -> None:
            assert self.limits is not None
            if jobs >= self.limits.jobs:
                raise QuotaError(
                    f"{count(jobs, 'run')} {self.whose.words} wait or compute already",
                    self.whose.remedy("Wait until one of them ends, or stop it"),
                )
            if self._sum(use.computed) >= 60 * self.limits.device_minutes:
                raise self._used_up(
                    f"runs {self.whose.words} have computed for {self.limits.device_minutes:g}"
                    " minutes of"
                )

        return self._held(visitor, "jobs", 1, check)

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
                    raise self._used_up(
                        f"reading files {self.whose.words} has taken"
                        f" {self.limits.read_minutes:g} minutes of"
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
                raise self._used_up(
                    f"{self.limits.files} files {self.whose.words} were uploaded in"
                )
            use.files.append((self.clock(), 1))

    def add_upload(self, visitor: str, count: int) -> None:
        """The visitor uploads so many bytes more. Raises QuotaError."""
        if self.limits is None:
            return
        with self._lock:
            use = self._use(visitor)
            if self._sum(use.uploads) + count / 1e6 > self.limits.megabytes:
                raise self._used_up(
                    f"{self.limits.megabytes:g} MB {self.whose.words} were uploaded in"
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

    def stream(self, visitor: str, places: int) -> AbstractContextManager[None]:
        """An answer that stays open and takes so many of its visitor's. Raises QuotaError."""

        def check(streams: int, _: _Use) -> None:
            assert self.limits is not None
            if streams + places > self.limits.streams:
                raise QuotaError(
                    f"too many pages {self.whose.words} are open",
                    self.whose.remedy("Close some of them"),
                )

        return self._held(visitor, "streams", places, check)

    def open_file(self, visitor: str) -> AbstractContextManager[None]:
        """A trace that the visitor opens, from before it waits until it is read. QuotaError."""

        def check(opening: int, _: _Use) -> None:
            assert self.limits is not None
            if opening >= self.limits.opening:
                raise QuotaError(
                    f"{count(opening, 'file')} {self.whose.words}"
                    f" {'is' if opening == 1 else 'are'} waiting to be opened",
                    self.whose.remedy("Wait until one of them is open"),
                )

        return self._held(visitor, "opening", 1, check)

    def _used_up(self, what: str) -> QuotaError:
        """The refusal for what the last window holds already."""
        assert self.limits is not None
        minutes = self.limits.window_s / 60
        window = "hour" if minutes == 60 else f"{minutes:g} minutes"
        remedy = self.whose.remedy(f"Try again later, {ELSEWHERE}")
        return QuotaError(f"{what} the last {window}", remedy)
