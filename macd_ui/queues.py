"""First-in-first-out queues: for the device, for a place near it, and for opening files.

A run holds its clip in memory from when it is read, so only the runs that are near the device read
theirs; all others wait before that, with a place and a time.

queue = JobQueue()
with queue.enter(expected_s=12.0) as ticket:
    while not ticket.wait(0.5):
        print(ticket.ahead, ticket.wait_s)
    ...  # compute; ticket.update(seconds_left) keeps the others' expectations true
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from macd_studio.core.errors import MacdError

NEAR = 1
"""Runs that wait behind the one that computes with their clips read already: up to 400 MB each."""
MAX_WAITING = 500
"""Jobs that may wait, far from the device and near it."""


class QueueFull(MacdError):
    """As many jobs wait for the device as the server takes."""


class JobQueue:
    """Jobs in the order in which they came; the first one holds the device.

    max_waiting: how many may wait behind those that go on. clock: seconds, never going back.
    capacity: how many of the first may go on. waiting_for: what is told to those who find it full.
    """

    def __init__(
        self,
        max_waiting: int = MAX_WAITING,
        clock: Callable[[], float] = time.monotonic,
        capacity: int = 1,
        waiting_for: str = "runs wait for this server's device",
    ) -> None:
        self.max_waiting, self.clock, self.capacity = max_waiting, clock, capacity
        self.waiting_for = waiting_for
        self._tickets: list[Ticket] = []
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._tickets)

    def enter(self, expected_s: float | None = None, is_run: bool = True) -> Ticket:
        """A place at the end. expected_s: how long the job will compute, None if not known.

        is_run: somebody asked for it; else it is the server's own work.

        Raises QueueFull.
        """
        with self._changed:
            if len(self._tickets) >= self.max_waiting + self.capacity:
                raise QueueFull(
                    f"{self.max_waiting} {self.waiting_for} already",
                    "Try again in some minutes, or run the project on a machine of your own",
                )
            ticket = Ticket(self, expected_s, is_run)
            self._tickets.append(ticket)
            return ticket

    def wake(self) -> None:
        """Wakes all waiting jobs, so that each checks whether it was stopped."""
        with self._changed:
            self._changed.notify_all()


class Ticket:
    """A place in the queue; leave it, or use it as a context manager, to let the next one in.

    began_at: when its job could compute, by the queue's clock; None: not yet.
    """

    def __init__(self, queue: JobQueue, expected_s: float | None, is_run: bool) -> None:
        self._queue, self.is_run = queue, is_run
        self.began_at: float | None = None
        self._left_s, self._updated_at = expected_s, queue.clock()

    @property
    def _place(self) -> int:
        tickets = self._queue._tickets
        return tickets.index(self) if self in tickets else 0

    @property
    def ahead(self) -> int:
        """How many jobs have to end before this one may go on; 0: it may."""
        return max(0, self._place - self._queue.capacity + 1)

    @property
    def runs_ahead(self) -> int:
        """How many of the jobs before this one somebody asked for."""
        return sum(t.is_run for t in self._queue._tickets[: self._place])

    @property
    def wait_s(self) -> float | None:
        """Expected seconds until all before this job have computed; None if one cannot be told.

        As if they went on one after another; `JobQueue.capacity` may do so at the same time.
        """
        with self._queue._changed:
            before = self._queue._tickets[: self._place]
            seconds = [t._remaining(computing=i == 0) for i, t in enumerate(before)]
        return None if None in seconds else sum(s for s in seconds if s is not None)

    def _remaining(self, computing: bool) -> float | None:
        if self._left_s is None or not computing:
            return self._left_s
        return max(0.0, self._left_s - (self._queue.clock() - self._updated_at))

    @property
    def capacity(self) -> int:
        """How many of the line may go on."""
        return self._queue.capacity

    def update(self, left_s: float | None) -> None:
        """How long the job will still compute, as it now seems."""
        self._left_s, self._updated_at = left_s, self._queue.clock()

    def wait(self, timeout_s: float, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Waits until the job may compute; False after the timeout, or at once if stopped."""
        with self._queue._changed:
            self._queue._changed.wait_for(lambda: not self.ahead or stopped(), timeout_s)
            free = not self.ahead and not stopped()
        if free and self.began_at is None:
            self.began_at = self._queue.clock()
        return free

    def leave(self) -> None:
        """Gives the place up; a second time does nothing."""
        with self._queue._changed:
            if self in self._queue._tickets:
                was_computing = not self._place
                self._queue._tickets.remove(self)
                if was_computing and self._queue._tickets:  # its time starts now
                    follower = self._queue._tickets[0]
                    follower.update(follower._left_s)
                self._queue._changed.notify_all()

    def __enter__(self) -> Ticket:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
