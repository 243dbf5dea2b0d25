"""What outlives one click: loaded models, the line for the device, and each visitor's session."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from macd_studio.core.media.video import OWN_MACHINE, PUBLIC_SERVER, keep_worker_ready
from macd_studio.core.types import Progress, Trace
from macd_studio.macd_ui.draws import Drawn
from macd_studio.macd_ui.estimate import Estimator
from macd_studio.macd_ui.forms import Asked
from macd_studio.macd_ui.health import Figures
from macd_studio.macd_ui.kept import AT_ONCE, Budget, KeptTrace
from macd_studio.macd_ui.line import NEAR, Line, Ticket
from macd_studio.macd_ui.quota import Quota, QuotaError
from macd_studio.macd_ui.reading import Readers
from macd_studio.macd_ui.serving.passwords import Delays
from macd_studio.macd_ui.serving.states import TabStates, return_free_memory
from macd_studio.macd_ui.settings import EMBEDDED, ServerSettings
from macd_studio.macd_ui.storage import ServerFolder, Uploads

if TYPE_CHECKING:
    from macd_studio.core.backbones import VideoLM
    from macd_studio.core.cache import StageCache
    from macd_studio.core.objects.detect import Detector
    from macd_studio.core.whatif.workbench import Workbench
    from macd_studio.ratings.web import StudySite

MODELS_KEPT = 2
GRACE_S = 60.0
"""How long a visitor's data is kept after the tab was closed; MACD_GRACE_S overrides it."""
FETCH_S = 5.0
"""How long a server that ends waits for browsers to fetch the traces of the runs it stopped."""
OPENING_S = 1.0
"""How long opening a trace takes, for those who wait for others to do so."""
IDLE_S = 12 * 3600.0
"""How long a session is kept whose tab is open and does nothing."""
MAX_SESSIONS = 1000
"""Tabs of a shared server, all visitors together."""
FORMER_KEPT = 21
"""Traces of a session that undo can come back to."""
BEHIND = 4
"""Messages that a tab may have yet to read when it is sent another step of a run."""
log = logging.getLogger(__name__)


ENDING_S, COMPARING_S = 0.5, 60.0
"""How long a click waits for the job before it."""


@dataclass
class Form:
    """What the form holds: the index of an example, an uploaded file, a question, a model.

    title: of the uploaded file, once it was looked at; a drawn clip has the toy world's. values: of
    the settings by name, {} as long as they are as the page was opened.
    """

    example: int | None = None
    video: str | None = None
    question: str = ""
    title: str = ""
    backbone: str = EMBEDDED
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Session:
    """One visitor's tab: what it shows, what its form holds, a running job if any.

    shown: the trace on the page, which can be saved; None until the first example is replaced.
    pending: what is shown of a run that goes on. plot_open: whether the strength plot is unfolded.
    token: in the addresses of its files, which need the visitor's cookie too. visitor: who may open
    only so many; browser: who may have its files; owner: for a call of a program, the key of the
    program's connection. fetched: the trace that was last downloaded, by its `KeptTrace.number`.
    comparing: the job has given its answer and compares its masks with controls. drawn: the last
    random draw. former, undone: the traces that undo and redo come back to, the nearest last.
    """

    key: str = ""
    visitor: str = ""
    browser: str = ""
    owner: str = ""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    stop: threading.Event = field(default_factory=threading.Event)
    busy: threading.Lock = field(default_factory=threading.Lock)
    comparing: bool = False
    shown: KeptTrace | None = None
    fetched: int = 0
    pending: Asked | None = None
    form: Form = field(default_factory=Form)
    cache: StageCache | None = None
    bench: Workbench | None = None
    former: list[KeptTrace] = field(default_factory=list)
    undone: list[KeptTrace] = field(default_factory=list)
    link: str = ""
    models: tuple[str, str] | None = None
    plot_open: bool = False
    drawn: Drawn | None = None
    gone: bool = False
    seen_at: float = 0.0
    left_at: float | None = None

    def begin(self) -> bool:
        """Takes the session for a job; False while another one goes on.

        A job that has reported its end is waited for, and one that compares its controls longer.
        """
        return self.busy.acquire(timeout=COMPARING_S if self.comparing else ENDING_S)

    @property
    def trace(self) -> Trace | None:
        """The trace on the page, from its file where it was put into one. Raises TraceError."""
        return None if self.shown is None else self.shown.get()

    @trace.setter
    def trace(self, trace: Trace) -> None:
        self.shown = KeptTrace(trace)

    def show(self, trace: Trace, link: str = "", models: tuple[str, str] | None = None) -> None:
        """Another trace is on the page: changes by hand start over."""
        self.shown, self.bench, self.link, self.pending = KeptTrace(trace), None, link, None
        self.models = models
        self.forget_history()

    def change(self, changed: Trace) -> None:
        """Shows the trace changed by hand; what was undone before cannot be made again."""
        if self.shown is not None:
            self.former = [*self.former, self.shown][-FORMER_KEPT:]
        self.undone.clear()
        self.trace = changed

    def undo(self) -> None:
        """Shows the trace before the last change by hand, if there is one."""
        if self.former and self.shown is not None:
            self.undone.append(self.shown)
            self.shown, self.bench = self.former.pop(), None

    def redo(self) -> None:
        """Shows the trace that was undone last, if there is one."""
        if self.undone and self.shown is not None:
            self.former.append(self.shown)
            self.shown, self.bench = self.undone.pop(), None

    def kept_traces(self) -> list[KeptTrace]:
        """All traces that the session keeps; the one on the page is the last."""
        return [*self.former, *self.undone, *([] if self.shown is None else [self.shown])]

    def forget_history(self) -> bool:
        """Undo and redo have nothing to come back to; False where they had not."""
        had = bool(self.former or self.undone)
        self.former, self.undone = [], []
        return had

    def forget_trace(self) -> None:
        """The server no longer keeps the run; the page shows it still, and may have it saved."""
        self.bench = None
        if self.shown is not None:
            self.shown.forget()


class Turn:
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


class Store:
    """All sessions and models of one running page, and the files of its visitors.

    settings: what the server allows. grace_s: how long a visitor's data is kept after the tab was
    closed, for connections that come back; by default MACD_GRACE_S, else 60.
    """

    def __init__(
        self, grace_s: float | None = None, settings: ServerSettings | None = None
    ) -> None:
        if grace_s is None:
            grace_s = float(os.environ.get("MACD_GRACE_S") or GRACE_S)
        self.grace_s, self.settings = grace_s, settings or ServerSettings()
        self.folder = ServerFolder()
        self.uploads = Uploads(self.folder.path / "uploads", grace_s)
        self._sessions: dict[str, Session] = {}
        self._connections: Counter[str] = Counter()
        self._models: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._lock, self._loading = threading.Lock(), threading.Lock()
        self.line, self.estimator, self.figures = Line(), Estimator(), Figures()
        self.lobby = Line(at_once=NEAR + 1)
        self.opening = Line(at_once=AT_ONCE, waiting_for="files wait to be opened")
        kept = self.settings.kept
        self.kept = Budget(kept.memory, kept.files, self.folder.path / "traces")
        self.quota = Quota(self.settings.visitor if self.settings.public else None)
        self.logins = Delays()
        self.site: StudySite | None = None  # set where a study is served
        self.readers = Readers(self.quota)
        self.closing = False
        self.tab_states: TabStates | None = None
        self.read_limits = PUBLIC_SERVER if self.settings.public else OWN_MACHINE
        self._closed = threading.Event()
        threading.Thread(target=self._sweep, name="sweep", daemon=True).start()

    def session(self, key: str, visitor: str = "", browser: str = "") -> Session:
        """The session of a browser tab, made when first asked for. Raises QuotaError."""
        with self._lock:
            session = self._sessions.get(key)
            if session is None:
                session = self._sessions[key] = self._new(key, visitor)
                session.browser = browser
            session.seen_at, session.left_at = time.monotonic(), None
            return session

    def find(self, key: str) -> Session | None:
        """The session of a browser tab if there is one."""
        with self._lock:
            return self._sessions.get(key)

    @contextmanager
    def call(self, owner: str, visitor: str = "") -> Iterator[Session]:
        """A session for one call of a program, out of reach of others. Raises QuotaError."""
        key = f"call-{secrets.token_urlsafe(16)}"
        with self._lock:
            session = self._sessions[key] = self._new(key, visitor)
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
            theirs = sum(s.visitor == visitor for s in self._sessions.values())
            if theirs >= self.settings.visitor.sessions or len(self._sessions) >= MAX_SESSIONS:
                raise QuotaError(
                    "too many tabs use this server", "Close some of yours, or try again later"
                )
        return Session(key, visitor)

    def connect(self, key: str) -> None:
        """A stream to this tab was opened; it counts as open until `disconnect`."""
        with self._lock:
            self._connections[key] += 1

    def disconnect(self, key: str) -> None:
        """The stream has ended; without any, the session is kept for the grace."""
        with self._lock:
            self._connections[key] -= 1
            if self._connections[key] <= 0:
                del self._connections[key]
            if key in self._sessions:
                self._sessions[key].seen_at = time.monotonic()

    def is_live(self, key: str) -> bool:
        """Whether a session hash is that of an open tab, or of a program whose call is running."""
        with self._lock:
            owned = any(key in (s.key, s.owner) for s in self._sessions.values())
            return owned or self._connections.get(key, 0) > 0

    def of_token(self, token: str) -> Session | None:
        """The session whose files' addresses hold this secret."""
        with self._lock:
            sessions = list(self._sessions.values())
        encoded = token.encode()
        return next(
            (s for s in sessions if secrets.compare_digest(s.token.encode(), encoded)), None
        )

    def leave(self, key: str) -> None:
        """The tab was closed: its job stops at once, its data goes after the grace."""
        with self._lock:
            left = [s for s in self._sessions.values() if key in (s.key, s.owner)]
            for session in left:
                session.left_at = time.monotonic()
        for session in left:
            self.stop(session)

    def is_behind(self, session: Session) -> bool:
        """Whether the tab has yet to read what it was sent; it can do without steps in between."""
        return self.tab_states is not None and self.tab_states.unread(session.key) > BEHIND

    def as_dict(self) -> dict[str, Any]:
        """Figures for /healthz: nothing of what visitors asked or uploaded."""
        with self._lock:
            sessions = len(self._sessions)
        far = max(0, len(self.lobby) - self.lobby.at_once)
        line = {"computing": min(1, len(self.line)), "waiting": max(0, len(self.line) - 1) + far}
        return self.figures.as_dict() | line | {"sessions": sessions}

    def stop(self, session: Session) -> None:
        """Asks the session's job to stop; if it waits in the line, it leaves it now."""
        session.stop.set()
        for line in (self.lobby, self.line, self.opening):
            line.wake()

    def settle(self, session: Session, without: Collection[str] = ()) -> None:
        """The session has used what it keeps, see `Budget.settle`."""
        if not session.gone:
            self.kept.settle(session, without)

    @contextmanager
    def place_to_open(self, visitor: str) -> Iterator[Ticket]:
        """A place among those who open a trace. Raises QuotaError, LineFull."""
        with self.quota.open_file(visitor), self.opening.enter(OPENING_S) as ticket:
            yield ticket

    @contextmanager
    def open_in_turn(self, visitor: str) -> Iterator[None]:
        """Waits until a trace may be read, for callers that nobody can tell their place."""
        with self.place_to_open(visitor) as ticket:
            while not ticket.wait(1.0):
                pass
            yield

    @contextmanager
    def turn(self, session: Session) -> Iterator[Turn]:
        """The session's job computes, and its time counts as its visitor's."""
        turn = Turn(session, self.settings.time_limit_s)
        try:
            yield turn
        finally:
            self.quota.add_device_s(session.visitor, turn.seconds)

    def forget(self, key: str) -> None:
        """Drops a session and everything of its visitor."""
        with self._lock:
            session = self._sessions.pop(key, None)
        if session is not None:
            session.gone = True
            self.stop(session)
            self.kept.forget(session)
        self.uploads.release(key)

    def sweep(self) -> None:
        """Forgets the sessions that are over, and deletes the files that are not referred to."""
        now = time.monotonic()
        with self._lock:
            over = [key for key, s in self._sessions.items() if self._is_over(s, now)]
        for key in over:
            self.forget(key)
        self.uploads.sweep()
        dropped = self.tab_states.drop(self.is_live, self.grace_s) if self.tab_states else 0
        if over or dropped:
            return_free_memory()

    def _is_over(self, session: Session, now: float) -> bool:
        if session.left_at is not None:
            return now - session.left_at > self.grace_s
        kept = IDLE_S if self._connections[session.key] else self.grace_s
        return now - session.seen_at > kept and not session.busy.locked()

    def _sweep(self) -> None:
        while not self._closed.wait(max(0.1, min(self.grace_s / 4, 15.0))):
            try:
                self.sweep()
            except Exception:  # the next round must come
                log.exception("files could not be cleaned up")

    def drain(self, timeout_s: float) -> None:
        """Takes no more visitors and jobs, stops the running ones, and waits until they ended.

        Their pages then have a moment to fetch what was computed, and show it after a restart.
        """
        self.closing = True
        with self._lock:
            sessions = list(self._sessions.values())
        stopped = [s for s in sessions if s.busy.locked()]
        for session in sessions:
            self.stop(session)
        until = time.monotonic() + timeout_s
        while any(s.busy.locked() for s in sessions) and time.monotonic() < until:
            time.sleep(0.05)
        until = min(until, time.monotonic() + FETCH_S)
        while any(self.is_unfetched(s) for s in stopped) and time.monotonic() < until:
            time.sleep(0.05)

    def is_unfetched(self, session: Session) -> bool:
        """Whether an open tab has not yet downloaded the trace that it shows."""
        unfetched = session.shown is not None and session.fetched != session.shown.number
        return unfetched and self._connections[session.key] > 0

    def close(self) -> None:
        """Ends every job and deletes every file of the page."""
        self.closing = True
        self._closed.set()
        with self._lock:
            keys = list(self._sessions)
        for key in keys:
            self.forget(key)
        self.folder.close()

    def backbone(self, name: str, progress: Progress | None = None) -> VideoLM:
        """A loaded backbone, the same for all sessions; progress: updated while it loads."""

        def load() -> VideoLM:
            from macd_studio.core.backbones import load_backbone

            return load_backbone(name, progress=progress)

        lm: VideoLM = self._kept(("backbone", name), load)
        return lm

    def detector(self, name: str, progress: Progress | None = None) -> Detector:
        """A loaded detector, the same for all sessions; progress: updated while it loads."""

        def load() -> Detector:
            from macd_studio.core.backbones.base import device_of
            from macd_studio.core.objects.detect import load_detector

            return load_detector(name, device_of().type, progress)

        detector: Detector = self._kept(("detector", name), load)
        return detector

    def _kept(self, key: tuple[str, str], load: Callable[[], Any]) -> Any:
        """A model that is there, had at once whatever is being loaded; else it is loaded.

        Of each kind the MODELS_KEPT stay that were used last.
        """
        with suppress(KeyError):
            return self._used(key)
        with self._loading:
            with suppress(KeyError):  # loaded while this one waited
                return self._used(key)
            model = load()
            with self._lock:
                self._models[key] = model
                same = [k for k in self._models if k[0] == key[0]]
                for old in same[:-MODELS_KEPT]:
                    del self._models[old]
            return model

    def _used(self, key: tuple[str, str]) -> Any:
        """A model that is there, which is now the last used; raises KeyError."""
        with self._lock:
            self._models.move_to_end(key)
            return self._models[key]

    def warm_up(self) -> None:
        """Loads the embedded models and uses them once, beside the first visitor's reading.

        Starts a first decoder too. What is slow only once is then behind them.
        """

        from macd_studio.macd_ui.computing import try_out

        keep_worker_ready()

        def load() -> None:
            try:
                lm, detector = self.backbone("toyworld"), self.detector("toyworld")
                with self.line.enter(is_run=False) as ticket:
                    while not ticket.wait(1.0):
                        pass
                    try_out(lm, detector)
                # else each collection would walk all that the libraries hold, which any request
                # with many values can bring about; it stays as long as the process does
                gc.collect()
                gc.freeze()
            except Exception:  # the first run will meet it again and explain it
                log.exception("the embedded models could not be loaded ahead")

        threading.Thread(target=load, name="warm-up", daemon=True).start()
