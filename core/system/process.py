"""What the C libraries do with threads and memory in a program that is this project's own.

Threads of PyTorch that wait for each other spin first, by default for long. Beside another process
that wants the cores a detection then takes up to twenty times as long; with threads that sleep at
once it is a fifth slower on idle cores. Spinning for a short while is about as fast as the better
of both in either case.

glibc keeps freed blocks, so that a process grows to the sum of what its stages held: 6.3 GB where
3.0 are in use at most (SmolVLM2-256M, float32, 8 frames, low memory). With a small threshold each
large block is a mapping of its own and goes back when it is freed, for a tenth more time: so for a
large model and a server. A detector, whose frames all need the same blocks, would take 1.4 times as
long: while it looks, freed blocks are kept.

All of this is the whole process's. So only a program of ours changes it, as the page, the command
line or a worker, and never a call from somebody else's notebook.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from macd_studio.core.system.requirements import untested_versions

LARGE = 50_000_000
"""Parameters of a model whose tensors are worth returning."""
OF_MODELS, OF_SERVERS = 64 * 1024, 4 * 2**20
"""Bytes of the smallest block that is a mapping of its own: where a large model is held, and in a
server. glibc's own threshold grows as blocks are freed."""
MOST = 32 * 2**20
"""The largest threshold that glibc takes."""
KEPT, PAD = 2**30, 64 * 2**20
"""Bytes of freed blocks that are kept while they are wanted again; a thread's own heap, of at most
PAD, is then never made smaller."""
GLIBC_PAD = 128 * 1024
"""What glibc takes itself."""
HEAPS = 4
"""Of a server, where else each thread has one, up to eight for each core."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8

SPINS, MAX_SPINS = "GOMP_SPINCOUNT", "1000"
"""The variable of GNU's OpenMP, which reads it once, when PyTorch is imported, and our value."""
POLICY = "OMP_WAIT_POLICY"
"""OpenMP's own variable, for somebody who wants another."""


class _Heap:
    """How glibc treats freed blocks; nothing is changed until a threshold is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threshold, self._keeping = 0, 0

    def return_from(self, threshold: int) -> bool:
        """Blocks of so many bytes go back to the system when they are freed; whether they do."""
        with self._lock:
            self._threshold = min(threshold, self._threshold or threshold)
            return bool(self._keeping) or self._apply()

    def keep(self, by: int) -> None:
        """One more (1) or one less (-1) wants freed blocks to be kept."""
        with self._lock:
            self._keeping += by
            if self._threshold and self._apply() and not self._keeping:
                return_free_memory()

    def _apply(self) -> bool:
        small = self._threshold
        blocks, freed, pad = (MOST, KEPT, PAD) if self._keeping else (small, small, GLIBC_PAD)
        sizes = {_MMAP_THRESHOLD: blocks, _TRIM_THRESHOLD: freed, _TOP_PAD: pad}
        return all([_tune(what, size) for what, size in sizes.items()])


_ours = False
_heap = _Heap()


def configure_process() -> None:
    """Says that this process, and what it starts, runs a program of the project.

    To be called before PyTorch is imported. What the environment says of waiting threads stands.
    Libraries of other versions than were tested are told on stderr, as their import may fail.
    """
    global _ours
    _ours = True
    for sentence in untested_versions():
        print(f"note: {sentence}", file=sys.stderr)
    if POLICY not in os.environ:
        os.environ.setdefault(SPINS, MAX_SPINS)


def return_freed(parameters: int) -> bool:
    """Lets freed memory go back to the system from now on, where a model of so many is held.

    Whether anything was changed: not in another's process, for small models, or without glibc.
    """
    return _ours and parameters >= LARGE and _heap.return_from(OF_MODELS)


def keep_heaps_small() -> None:
    """In a server, at its start: few heaps, and blocks as large as a clip's frames outside them."""
    _tune(_ARENA_MAX, HEAPS)
    _heap.return_from(OF_SERVERS)


@contextmanager
def freed_kept() -> Iterator[None]:
    """While inside, freed blocks stay in the process, for work that needs the same ones again.

    After it they go back, where they do otherwise. Several may be inside at once.
    """
    _heap.keep(1)
    try:
        yield
    finally:
        _heap.keep(-1)


def return_free_memory() -> None:
    """Gives pages that the C library holds free back to the system, where it is glibc.

    Runs allocate on many threads, each with a heap of its own that would stay as large as its
    largest run.
    """
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _tune(what: int, value: int) -> bool:
    """Sets one of glibc's parameters; whether it took it."""
    mallopt = _of_glibc("mallopt")
    return mallopt is not None and bool(mallopt(what, value))


def _of_glibc(name: str) -> Any:
    """A function of the C library; None where there is none of that name."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return getattr(ctypes.CDLL(None), name, None)  # musl has neither
    except OSError:
        return None
