"""A decoder for `core.media.video` in a thread of the test: quick to start, with its own clock."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import av

from macd_studio.core.media.worker import read, writer_to


class InProcess:
    """Stands in for the process that `core.media.video._start_worker` starts. now: its clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        reading, writing = os.pipe()
        self.stdin = Job(self._start)
        self.stdout = open(reading, "rb")
        self._out = open(writing, "wb")
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _start(self, line: bytes) -> None:
        self._job = json.loads(line)
        self._thread.start()

    def _read(self) -> None:
        av.logging.set_level(av.logging.PANIC)
        with suppress(BrokenPipeError), self._out:  # nobody may read any more
            read(self._job, writer_to(self._out), self._now)

    def kill(self) -> None:
        """Nothing to do: reading ends by itself, or when nobody takes its pictures."""

    def wait(self) -> int:
        """Before the pipes are closed; one that never had a job ends here."""
        if self._thread.ident is None:
            self._out.close()
        return 0

    def poll(self) -> None:
        """Always alive."""


class Job(io.BytesIO):
    """Stdin, which starts the work when it is closed."""

    def __init__(self, start: Callable[[bytes], None]) -> None:
        super().__init__()
        self._start = start

    def close(self) -> None:
        if not self.closed and self.getvalue():
            self._start(self.getvalue())
        super().close()
