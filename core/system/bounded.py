"""Processes that read untrusted files: bounded in memory and time, and ended from outside.

A hostile file can at worst end such a process. It has one job, which comes on stdin; what it found
goes to stdout. Nothing of it is written to disk.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import macd_studio
from macd_studio.core.system.unix import unix

SMALL_PROCESS = {"MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Each thread would reserve address space, which is what a process's memory is counted in."""
PIPE = 2**20
"""Bytes that a pipe to such a process holds, where the system lets it be chosen: pictures are large
and both sides run while it is neither full nor empty."""
ASK_S = 0.1
"""How often it is looked whether a process has to end."""


def start_process(module: str) -> subprocess.Popen[bytes]:
    """A module as a process that waits for its one job on stdin, and ends when that closes.

    Raises PlatformError where a process cannot be bounded.
    """
    unix("resource")
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pipesize=PIPE,
        cwd=Path(macd_studio.__file__).parents[1],
        env={**os.environ, **SMALL_PROCESS},
    )


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, whatever it does, and closes its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


class Watch:
    """Ends a process that takes too long, or whose result is not needed any more."""

    def __init__(
        self, process: subprocess.Popen[bytes], cancelled: Callable[[], bool], seconds: float
    ) -> None:
        self.timed_out = self.cancelled = False
        self._end = time.monotonic() + seconds
        self._process, self._asked, self._done = process, cancelled, threading.Event()
        threading.Thread(target=self._watch, name="watch reader", daemon=True).start()

    def give(self, seconds: float) -> None:
        """Counts so many seconds from now on, instead of those before."""
        self._end = time.monotonic() + seconds

    def stop(self) -> None:
        """The result is there, or the process has ended."""
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(min(ASK_S, max(0.0, self._end - time.monotonic()))):
            self.timed_out = time.monotonic() >= self._end
            self.cancelled = not self.timed_out and self._asked()
            if self.timed_out or self.cancelled:
                self._process.kill()
                return


def limit_process(memory_bytes: int, seconds: float, threads: int) -> None:
    """Bounds this process before it looks at a file.

    memory_bytes: of its address space. seconds: wall time, for which each of `threads` may compute.
    """
    resource, processor_s = unix("resource"), math.ceil(threads * seconds) + 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except ValueError:
        if sys.platform != "darwin":  # macOS may refuse a bound below what it has reserved
            raise
    resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def address_space() -> int:
    """Bytes of address space that this process has taken; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
