"""What sessions keep, within one bound of bytes for all of them together.

A session keeps the clip that it read last, a bench for changes by hand, and traces. A clip is read
again and a bench made again when they are next needed; a trace goes into a file and comes back from
it. Whoever keeps more than an equal share gives first, and of that what was not used for longest.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from macd_studio.core.errors import TraceError
from macd_studio.core.system.process import return_free_memory
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.types import Trace
from macd_studio.macd_ui.forms import request_of_trace
from macd_studio.viewer import identity

if TYPE_CHECKING:
    from macd_studio.core.run.cache import StageCache
    from macd_studio.core.whatif.workbench import Workbench

GONE = (
    "the server no longer keeps the run on this page",
    "Open its saved file, or run the clip again",
)


MAX_OPENING = 2
"""Traces that are read back from their files at the same time: each may take 300 MB for it."""
_reading = threading.BoundedSemaphore(MAX_OPENING)


class StoredTrace:
    """A trace of a session: in memory, or in a file that goes when nothing refers to this any more.

    request, status, run: what is known of it without reading it, see `viewer.identity`. number:
    from 1, another one for each.
    """

    _numbers = itertools.count(1)

    def __init__(self, trace: Trace) -> None:
        self.number = next(self._numbers)
        self.request, self.status = request_of_trace(trace), trace.status
        self.run = identity(trace)
        self.file_bytes = 0
        self._trace: Trace | None = trace
        self._file: Path | None = None
        self._lock = threading.Lock()

    def drop(self) -> None:
        """Drops the trace and its file; `get` raises from now on."""
        with self._lock:
            if self._file is not None:
                self._file.unlink(missing_ok=True)
            self._trace, self._file, self.file_bytes = None, None, 0

    @property
    def in_memory(self) -> Trace | None:
        """The trace if it is in memory."""
        return self._trace

    def get(self) -> Trace:
        """The trace, read from its file where it was moved to one. Raises TraceError."""
        trace = self._trace
        if trace is not None:
            return trace
        with _reading, self._lock:
            if self._trace is None:
                self._trace = unpack(self._content())
            return self._trace

    def read(self) -> Trace:
        """The trace; what is read from its file for it does not stay in memory."""
        return self._trace or unpack(self._content())

    def content(self) -> bytes:
        """The trace as the bytes of a `.macd` file. Raises TraceError."""
        trace = self._trace
        return self._content() if trace is None else pack(trace)

    def _content(self) -> bytes:
        file = self._file
        try:
            if file is not None:
                return file.read_bytes()
        except OSError:
            pass
        raise TraceError(*GONE)

    def move_to_file(self, folder: Path) -> None:
        """Leaves memory for a file in the folder. Raises OSError, TraceError; it then stays."""
        with self._lock:
            if self._trace is None:
                return
            if self._file is None:
                content = pack(self._trace)
                folder.mkdir(mode=0o700, exist_ok=True)
                file = folder / f"{self.number}.macd"
                weakref.finalize(self, file.unlink, missing_ok=True)
                file.write_bytes(content)  # whole or not at all: on error it is not read again
                self._file, self.file_bytes = file, len(content)
            self._trace = None


class Holder(Protocol):
    """What a session shows to the budget."""

    busy: threading.Lock
    cache: StageCache | None
    bench: Workbench | None

    def stored_traces(self) -> Sequence[StoredTrace]:
        """All traces of the session; the one on show is the last."""

    def clear_history(self) -> bool:
        """Drops the traces that undo and redo come back to; False where there are none."""

    def drop_trace(self) -> None:
        """Drops the trace on show."""


@dataclass
class Usage:
    """Bytes that a session keeps of one kind, and when it last used them."""

    bytes: int
    used: float


class MemoryBudget:
    """Keeps what all sessions hold within bounds, bytes of memory and of files.

    folder: of the files. clock: seconds, never going back.
    """

    def __init__(
        self,
        memory: int,
        files: int,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.memory, self.files, self.folder, self.clock = memory, files, folder, clock
        self._usage: weakref.WeakKeyDictionary[Holder, dict[str, Usage]] = (
            weakref.WeakKeyDictionary()
        )
        self._used: weakref.WeakKeyDictionary[Holder, float] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def total(self) -> int:
        """Bytes of memory that all sessions keep."""
        return sum(usage.bytes for own in list(self._usage.values()) for usage in own.values())

    def rebalance(self, session: Holder, without: Collection[str] = ()) -> None:
        """A session has used what it keeps; others, or it, may have to give.

        without: of KINDS, what it is not to keep in memory.
        """
        with self._lock:
            now = self._used[session] = self.clock()
            self._measure(session, now)
            before = self.total
            for what in without:
                self._evict(session, what)
            self._fit()
            self._fit_files()
            gave = self.total < before
        if gave:
            return_free_memory()

    def forget(self, session: Holder) -> None:
        """The session is over."""
        with self._lock:
            self._usage.pop(session, None)

    def _measure(self, session: Holder, now: float | None = None) -> None:
        """Counts what a session holds; now: it has just used all of it."""
        before = self._usage.get(session, {})
        seen: set[int] = set()
        bench = session.bench
        if bench is not None:
            seen.add(id(bench.lm))  # the model is everybody's
        in_memory = [trace for stored in session.stored_traces() if (trace := stored.in_memory)]
        frames = [] if session.cache is None else session.cache.frames()
        sizes = {
            "traces": sum(memory_of(trace, seen) for trace in in_memory),
            "bench": memory_of(bench, seen),
            "clip": sum(memory_of(clip, seen) for clip in frames),
        }
        self._usage[session] = {
            what: Usage(size, before[what].used if now is None and what in before else now or 0.0)
            for what, size in sizes.items()
            if size
        }

    def _fit(self) -> None:
        tried: set[tuple[int, str]] = set()
        while self.total > self.memory:
            share = self.memory / max(1, sum(bool(own) for own in self._usage.values()))
            able = [
                (
                    sum(h.bytes for h in own.values()) <= share,
                    usage.used,
                    KINDS.index(what),
                    session,
                )
                for session, own in self._usage.items()
                if not session.busy.locked()
                for what, usage in own.items()
                if (id(session), what) not in tried
            ]
            if not able:  # the rest is in use, or no file can be written
                return
            *_, kind, session = min(able, key=lambda one: one[:3])
            tried.add((id(session), KINDS[kind]))
            self._evict(session, KINDS[kind])

    def _evict(self, session: Holder, what: str) -> None:
        """Takes one kind out of a session's memory."""
        if what == "traces":
            for stored in session.stored_traces():
                try:
                    stored.move_to_file(self.folder)
                except (OSError, TraceError):  # it stays until there is room
                    break
        elif session.busy.acquire(blocking=False):
            try:
                if what == "bench":
                    session.bench = None
                elif session.cache is not None:
                    session.cache.forget_frames()
            finally:
                session.busy.release()
        self._measure(session)

    def _fit_files(self) -> None:
        """Drops traces of those who have more than an equal share of the files."""
        while True:
            sizes = {s: sum(t.file_bytes for t in s.stored_traces()) for s in list(self._usage)}
            if sum(sizes.values()) <= self.files:
                return
            share = self.files / sum(bool(size) for size in sizes.values())
            over = [s for s, size in sizes.items() if size > share and not s.busy.locked()]
            if not over:
                return
            oldest = min(over, key=lambda session: self._used.get(session, 0.0))
            if not oldest.clear_history():
                oldest.drop_trace()


KINDS = ("clip", "bench", "traces")
"""What a session keeps; of equally old kinds the first is the cheapest to make again."""


def memory_of(value: Any, seen: set[int] | None = None) -> int:
    """Bytes of arrays, tensors, texts and containers that a value refers to, each once.

    seen: by `id`, what is not counted again; it is added to.
    """
    seen = set() if seen is None else seen
    total, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, np.ndarray):
            while isinstance(one.base, np.ndarray):
                one = one.base
        if id(one) in seen or isinstance(one, _SHARED) or hasattr(one, "named_parameters"):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            total += one.nbytes
        elif hasattr(one, "untyped_storage"):
            storage = one.untyped_storage()
            if (place := storage.data_ptr()) not in seen:
                seen.add(place)
                total += storage.nbytes()
        else:
            total += sys.getsizeof(one, 0)
            waiting += _parts(one)
    return total


_SHARED = (type(None), bool, int, float, type, type(sys), type(memory_of))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return value
    return vars(value).values() if hasattr(value, "__dict__") else ()
