"""Sessions: what each visitor's tab shows, what its form holds, its job; all of them by key."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from macd_studio.core.embedded import AUTO
from macd_studio.core.text.words import count
from macd_studio.core.types import Trace
from macd_studio.macd_ui.forms import RunRequest
from macd_studio.macd_ui.quota import QuotaError
from macd_studio.macd_ui.random_clips import RandomClip
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.traces import StoredTrace

if TYPE_CHECKING:
    from macd_studio.core.run.cache import StageCache
    from macd_studio.core.whatif.workbench import Workbench

IDLE_S = 12 * 3600.0
"""How long a session lives whose tab is open and does nothing."""
MAX_SESSIONS = 1000
"""Tabs of a shared server, all visitors together."""
MAX_UNDO = 21
"""Changes by hand that a session can undo."""
ENDING_S, ANSWERED_S = 0.5, 60.0
"""How long a click waits for the job before it."""


@dataclass
class Form:
    """What the form holds: the index of an example, an uploaded file, a question, a model.

    title: of the uploaded file, once it was looked at; a random clip has the toy world's.
    unreadable: the last uploaded file that could not be read as a clip. values:
    of the settings by name, {} as long as they are as the page was opened. phrases: what the
    question names, as it was last offered.
    """

    example: int | None = None
    video: str | None = None
    question: str = ""
    title: str = ""
    backbone: str = AUTO
    values: dict[str, Any] = field(default_factory=dict)
    phrases: list[str] = field(default_factory=list)
    unreadable: str = ""


@dataclass(eq=False)
class Session:
    """One visitor's tab: what it shows, what its form holds, a running job if any."""

    key: str = ""
    visitor: str = ""
    """The visitor, who may open only so many."""
    browser: str = ""
    """The browser that may have its files."""
    owner: str = ""
    """For a call of a program, the key of the program's connection."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """A part of the addresses of its files, which need the visitor's cookie too."""
    stop: threading.Event = field(default_factory=threading.Event)
    busy: threading.Lock = field(default_factory=threading.Lock)
    answered: bool = False
    """Whether the job has reported its end; what is left of it, such as comparing its masks with
    controls, another job waits for."""
    current: StoredTrace | None = None
    """The trace on the page, which can be saved; None until the first example is replaced."""
    lost: bool = False
    """Whether the page shows a run of a former session of this tab, which the server has
    forgotten."""
    fetched: int = 0
    """The newest trace that the page has heard of and downloaded, by its number."""
    pending: RunRequest | None = None
    """The run whose first results are on the page."""
    form: Form = field(default_factory=Form)
    cache: StageCache | None = None
    bench: Workbench | None = None
    undo_stack: list[StoredTrace] = field(default_factory=list)
    redo_stack: list[StoredTrace] = field(default_factory=list)
    """`undo_stack` and `redo_stack`: traces before and after, the nearest last."""
    link: str = ""
    models: tuple[str, str] | None = None
    plot_open: bool = False
    """Whether the strength plot is unfolded."""
    random_clip: RandomClip | None = None
    """The last clip that was drawn."""
    gone: bool = False
    seen_at: float = 0.0
    left_at: float | None = None

    def begin(self) -> bool:
        """Takes the session for a job; False while another one runs.

        A job that has reported its end is waited for, however busy the machine is.
        """
        return self.busy.acquire(timeout=ANSWERED_S if self.answered else ENDING_S)

    @property
    def trace(self) -> Trace | None:
        """The trace on the page, from its file where it was moved to one. Raises TraceError."""
        return None if self.current is None else self.current.get()

    @trace.setter
    def trace(self, trace: Trace) -> None:
        self.current = StoredTrace(trace)

    def show(self, trace: Trace, link: str = "", models: tuple[str, str] | None = None) -> None:
        """Another trace is on the page: changes by hand start over."""
        self.trace, self.bench, self.link, self.pending = trace, None, link, None
        self.models, self.lost = models, False
        self.clear_history()

    def change(self, changed: Trace) -> None:
        """Shows the trace changed by hand; what was undone before cannot be made again."""
        if self.current is not None:
            self.undo_stack = [*self.undo_stack, self.current][-MAX_UNDO:]
        self.redo_stack.clear()
        self.trace = changed

    def undo(self) -> None:
        """Shows the trace before the last change by hand, if there is one."""
        self._step(self.undo_stack, self.redo_stack)

    def redo(self) -> None:
        """Shows the trace that was undone last, if there is one."""
        self._step(self.redo_stack, self.undo_stack)

    def _step(self, source: list[StoredTrace], target: list[StoredTrace]) -> None:
        if source and self.current is not None:
            target.append(self.current)
            self.current, self.bench = source.pop(), None

    def stored_traces(self) -> list[StoredTrace]:
        """All traces of the session; the one on the page is the last."""
        current = [] if self.current is None else [self.current]
        return [*self.undo_stack, *self.redo_stack, *current]

    def clear_history(self) -> bool:
        """Undo and redo have nothing to come back to; False where they had not."""
        had = bool(self.undo_stack or self.redo_stack)
        self.undo_stack, self.redo_stack = [], []
        return had

    def drop_trace(self) -> None:
        """The server drops the run; the page shows it still, and may have it saved."""
        self.bench = None
        if self.current is not None:
            self.current.drop()


class DeviceTurn:
    """A job's time on the device. limit_s: the longest it may take; None: as long as it takes."""

    def __init__(self, session: Session, limit_s: float | None) -> None:
        self.limit_s, self._session, self._began = limit_s, session, time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._began

    @property
    def out_of_time(self) -> bool:
        """Whether it has taken longer than it may."""
        return self.limit_s is not None and self.seconds > self.limit_s

    def is_over(self) -> bool:
        """Whether the job has to end: it was stopped, or has taken too long."""
        return self._session.stop.is_set() or self.out_of_time


class Sessions:
    """The sessions of all tabs and of calls of programs, by key. Safe to share between threads.

    grace_s: how long a session lives after its tab was closed, for connections that come back.
    stop: ends a session's job. release: frees what a key, and its session if there is one, hold.
    """

    def __init__(
        self,
        settings: ServerSettings,
        grace_s: float,
        stop: Callable[[Session], None],
        release: Callable[[str, Session | None], None],
    ) -> None:
        self.settings, self.grace_s, self.closing = settings, grace_s, False
        self._stop, self._release = stop, release
        self._by_key: dict[str, Session] = {}
        self._connections: Counter[str] = Counter()
        self._lost: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._by_key)

    def all(self) -> list[Session]:
        """Every session."""
        with self._lock:
            return list(self._by_key.values())

    def open(self, key: str, visitor: str = "", browser: str = "") -> Session:
        """The session of a browser tab, made when first asked for. Raises QuotaError."""
        with self._lock:
            session = self._by_key.get(key)
            if session is None:
                session = self._by_key[key] = self._new(key, visitor)
                session.browser = browser
            session.seen_at, session.left_at = time.monotonic(), None
            return session

    def find(self, key: str) -> Session | None:
        """The session of a browser tab if there is one."""
        with self._lock:
            return self._by_key.get(key)

    @contextmanager
    def call(self, owner: str, visitor: str = "") -> Iterator[Session]:
        """A session for one call of a program, out of reach of others. Raises QuotaError."""
        key = f"call-{secrets.token_urlsafe(16)}"
        with self._lock:
            session = self._by_key[key] = self._new(key, visitor)
            session.owner, session.seen_at = owner, time.monotonic()
        try:
            with session.busy:  # no tab reports that it is still open, so the job itself does
                yield session
        finally:
            self.forget(key)

    def _new(self, key: str, visitor: str) -> Session:
        if self.closing:
            raise QuotaError("the server is about to stop", "Reload the page in a minute")
        if self.settings.shared:
            theirs = sum(s.visitor == visitor for s in self._by_key.values())
            limits, whose = self.settings.visitor.times(self.settings.people), self.settings.whose
            if theirs >= limits.sessions:
                raise QuotaError(
                    f"{count(theirs, 'tab')} {whose.words} use this server already",
                    whose.remedy("Close some of them"),
                )
            if len(self._by_key) >= MAX_SESSIONS:
                raise QuotaError(
                    f"{MAX_SESSIONS:,} tabs use this server, as many as it takes",
                    "Try again in some minutes",
                )
        lost = key in self._lost
        self._lost.pop(key, None)
        return Session(key, visitor, lost=lost)

    def connect(self, key: str) -> None:
        """A stream to this tab was opened; it counts as open until `disconnect`."""
        with self._lock:
            self._connections[key] += 1

    def disconnect(self, key: str) -> None:
        """The stream has ended; without any, the session lives for the grace."""
        with self._lock:
            self._connections[key] -= 1
            if self._connections[key] <= 0:
                del self._connections[key]
            if key in self._by_key:
                self._by_key[key].seen_at = time.monotonic()

    def is_connected(self, key: str) -> bool:
        """Whether a stream to this tab is open."""
        return self._connections[key] > 0

    def is_live(self, key: str) -> bool:
        """Whether a session hash is that of an open tab, or of a program whose call is running."""
        with self._lock:
            owned = any(key in (s.key, s.owner) for s in self._by_key.values())
            return owned or self._connections.get(key, 0) > 0

    def find_by_token(self, token: str) -> Session | None:
        """The session whose files' addresses hold this secret."""
        encoded, found = token.encode(), None
        for session in self.all():
            if secrets.compare_digest(session.token.encode(), encoded):
                found = session
        return found

    def leave(self, key: str) -> None:
        """The tab was closed: its job stops at once, its data goes after the grace."""
        with self._lock:
            left = [s for s in self._by_key.values() if key in (s.key, s.owner)]
            for session in left:
                session.left_at = time.monotonic()
        for session in left:
            self._stop(session)

    def forget(self, key: str) -> None:
        """Drops a session and everything of its visitor."""
        with self._lock:
            session = self._by_key.pop(key, None)
            if session is not None and not session.owner and (session.current or session.lost):
                self._lost[key] = None  # the tab may come back, and shows the run still
                while len(self._lost) > MAX_SESSIONS:
                    self._lost.popitem(last=False)
        if session is not None:
            session.gone = True
            self._stop(session)
        self._release(key, session)

    def forget_expired(self) -> int:
        """Forgets the sessions that are over; gives how many."""
        now = time.monotonic()
        with self._lock:
            over = [key for key, s in self._by_key.items() if self._is_over(s, now)]
        for key in over:
            self.forget(key)
        return len(over)

    def _is_over(self, session: Session, now: float) -> bool:
        if session.left_at is not None:
            return now - session.left_at > self.grace_s
        longest = IDLE_S if self._connections[session.key] else self.grace_s
        return now - session.seen_at > longest and not session.busy.locked()
