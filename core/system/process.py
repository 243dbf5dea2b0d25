"""What the C libraries do with threads and memory in a program that is this project's own.

Threads of PyTorch that wait for each other spin for about a millisecond, by default. Where another
process wants the cores, as a browser beside the page or a second run does, they hold the cores that
the others of them need, and a detection takes up to twenty times as long. Threads that sleep at
once make it a fifth slower on idle cores. Those that spin for a few microseconds first are about as
fast as the better of both in either case (`python -m bench beside`).

glibc keeps freed blocks for later ones, so that a process grows to the sum of what its stages held
and never shrinks: SmolVLM2-256M, float32, 8 frames, low memory: 6.3 GB where 3.0 are in use at
most. With a small threshold each large block is a mapping of its own, which goes back to the system
when it is freed. That costs about a sixteenth more processor time there and a large share for small
tensors, so it is left alone until a large model is loaded.

Both settings are the whole process's. So only a program of ours changes them, as the page, the
command line or a worker, and never a call from somebody else's notebook.
"""

from __future__ import annotations

import ctypes
import os
import sys

LARGE = 50_000_000
"""Parameters of a model whose tensors are worth returning."""
THRESHOLD = 64 * 1024
"""Bytes; glibc's own grows up to 32 MB as blocks are freed."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

SPINS, MOST_SPINS = "GOMP_SPINCOUNT", "1000"
"""The variable of GNU's OpenMP, which reads it once, when PyTorch is imported, and our value."""
POLICY = "OMP_WAIT_POLICY"
"""OpenMP's own variable, for somebody who wants another."""

_ours = False


def own_process() -> None:
    """Says that this process, and what it starts, runs a program of the project.

    To be called before PyTorch is imported. What the environment says of waiting threads stands.
    """
    global _ours
    _ours = True
    if POLICY not in os.environ:
        os.environ.setdefault(SPINS, MOST_SPINS)


def return_freed(parameters: int) -> bool:
    """Lets freed memory go back to the system from now on, where a model of so many is held.

    Whether anything was changed: not in another's process, for small models, or without glibc.
    """
    if not _ours or parameters < LARGE or not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl
        return False
    changed = [mallopt(what, THRESHOLD) for what in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD)]
    return all(changed)
