"""What all visitors of one running page share: sessions, models, queues, limits and files."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from macd_studio.core.embedded import AUTO, DRAWN, backbone_for, detector_for
from macd_studio.core.errors import Cancelled, TraceError
from macd_studio.core.media.video import OWN_MACHINE, PUBLIC_SERVER, keep_worker_ready
from macd_studio.core.system.process import return_free_memory
from macd_studio.core.types import Trace
from macd_studio.macd_ui.clips import ReaderPool
from macd_studio.macd_ui.estimate import Estimator
from macd_studio.macd_ui.models import Models, try_out
from macd_studio.macd_ui.queues import NEAR, JobQueue, Ticket
from macd_studio.macd_ui.quota import Quota
from macd_studio.macd_ui.serving.passwords import Delays
from macd_studio.macd_ui.serving.states import TabStates
from macd_studio.macd_ui.session import DeviceTurn, Session, Sessions
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.storage import ServerFolder, Uploads
from macd_studio.macd_ui.traces import MAX_OPENING, MemoryBudget

if TYPE_CHECKING:
    from macd_studio.core.backbones import LocalLM
    from macd_studio.ratings.web import StudySite

GRACE_S = 60.0
"""How long a visitor's data stays after the tab was closed; MACD_GRACE_S overrides it."""
FETCH_S = 5.0
"""How long a server that ends waits for browsers to fetch the traces of the runs it stopped."""
OPENING_S = 1.0
"""How long opening a trace takes, for those who wait for others to do so."""
SHOWING_S = 10.0
"""How long a shared server may take to make what the page shows of a trace."""
MAX_UNREAD = 4
"""Messages that a tab may have yet to read when it is sent another step of a run."""
log = logging.getLogger(__name__)


class Store:
    """All sessions and models of one running page, and the files of its visitors.

    settings: what the server allows. grace_s: how long a visitor's data stays after the tab was
    closed, for connections that come back; by default MACD_GRACE_S, else 60.
    """

    def __init__(
        self, grace_s: float | None = None, settings: ServerSettings | None = None
    ) -> None:
        if grace_s is None:
            grace_s = float(os.environ.get("MACD_GRACE_S") or GRACE_S)
        self.settings = settings or ServerSettings()
        self.folder = ServerFolder()
        self.uploads = Uploads(self.folder.path / "uploads", grace_s)
        self.sessions = Sessions(self.settings, grace_s, self.stop, self._release)
        self.models = Models(self.settings.weights, self.settings.offload, self.settings.backbones)
        self.estimator, self.stats = Estimator(), ServerStats()
        self.device_queue = JobQueue()
        self.admission_queue = JobQueue(capacity=NEAR + 1)
        self.opening_queue = JobQueue(capacity=MAX_OPENING, waiting_for="files wait to be opened")
        limits = self.settings.kept
        self.budget = MemoryBudget(limits.memory, limits.files, self.folder.path / "traces")
        self.quota = Quota(self.settings.limits, whose=self.settings.whose)
        self.logins = Delays()
        self.site: StudySite | None = None  # set where a study is served
        self.readers = ReaderPool(self.quota, people=self.settings.people)
        self.tab_states: TabStates | None = None
        bounds = PUBLIC_SERVER if self.settings.public else OWN_MACHINE
        self.read_limits = replace(bounds, megabytes=self.settings.largest_mb)
        self._closed = threading.Event()
        threading.Thread(target=self._sweep, name="sweep", daemon=True).start()

    @property
    def closing(self) -> bool:
        """Whether the server is about to stop, and takes nobody any more."""
        return self.sessions.closing

    def is_behind(self, session: Session) -> bool:
        """Whether the tab has yet to read what it was sent; it can do without steps in between."""
        return self.tab_states is not None and self.tab_states.unread(session.key) > MAX_UNREAD

    def is_unfetched(self, session: Session) -> bool:
        """Whether an open tab has not yet downloaded the trace that it shows."""
        unfetched = session.current is not None and session.fetched != session.current.number
        return unfetched and self.sessions.is_connected(session.key)

    def as_dict(self) -> dict[str, Any]:
        """Figures for /healthz: nothing of what visitors asked or uploaded."""
        far = max(0, len(self.admission_queue) - self.admission_queue.capacity)
        queued = len(self.device_queue)
        line = {"computing": min(1, queued), "waiting": max(0, queued - 1) + far}
        return self.stats.as_dict() | line | {"sessions": len(self.sessions)}

    def stop(self, session: Session) -> None:
        """Asks the session's job to stop; if it waits in a queue, it leaves it now."""
        session.stop.set()
        for queue in (self.admission_queue, self.device_queue, self.opening_queue):
            queue.wake()

    def drop_video(self, session: Session) -> None:
        """The session's form holds no upload any more, and no partner of it."""
        video, session.form.video, session.form.title = session.form.video, None, ""
        self.keep_partner(session, None)
        if video:
            self.let_go(session, video)

    def keep_partner(self, session: Session, path: str | None) -> None:
        """The session's form holds this partner of its clip, and no other."""
        former = session.form.values.pop("counterpart", None)
        if path:
            session.form.values["counterpart"] = path
            self.uploads.hold(path, session.key)
        if former and former != path:
            self.let_go(session, former)

    def let_go(self, session: Session, file: str) -> None:
        """The session no longer needs a file, unless its form holds it in another role as well.

        Equal uploads are one file: a clip can be its own partner.
        """
        form, path = session.form, Path(file).resolve()
        others = (form.video, *(form.values.get(name) for name in ("tracks", "counterpart")))
        if not any(other and Path(other).resolve() == path for other in others):
            self.uploads.release(session.key, path)

    def rebalance(self, session: Session, without: Collection[str] = ()) -> None:
        """The session has used its memory, see `MemoryBudget.rebalance`."""
        if not session.gone:
            self.budget.rebalance(session, without)

    @contextmanager
    def place_to_open(self, visitor: str) -> Iterator[Ticket]:
        """A place among those who open a trace, whose time there is its visitor's time of reading.

        Raises QuotaError, QueueFull.
        """
        self.quota.check_reading(visitor)
        with self.quota.open_file(visitor), self.opening_queue.enter(OPENING_S) as ticket:
            try:
                yield ticket
            finally:
                if ticket.began_at is not None:
                    self.quota.add_read_s(visitor, time.monotonic() - ticket.began_at)

    @contextmanager
    def open_in_turn(
        self, visitor: str, ended: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """Waits until a trace may be read, for callers that nobody can tell their place.

        ended: whether nobody waits for it any more; raises Cancelled then.
        """
        with self.place_to_open(visitor) as ticket:
            while not ticket.wait(1.0, ended):
                if ended():
                    raise Cancelled("nobody waits for this trace any more", "Ask for it again")
            yield

    def showing(self, session: Session) -> Callable[[], None]:
        """A clock for making what the page shows of a trace: raises once it took too long.

        Also when the tab is closed. Raises Cancelled then, else TraceError.
        """
        until = time.monotonic() + SHOWING_S if self.settings.shared else float("inf")

        def check() -> None:
            if session.gone:
                raise Cancelled("the tab was closed", "Open the page again")
            if time.monotonic() > until:
                raise TraceError(
                    f"showing this trace takes more than {SHOWING_S:g} s",
                    "Open it on a page of your own machine: python app.py",
                )

        return check

    def open_for(self, session: Session) -> AbstractContextManager[None]:
        """A turn to open a file for a session's job.

        Which leaves the line on Stop and with its tab.
        """
        return self.open_in_turn(session.visitor, lambda: session.gone or session.stop.is_set())

    @contextmanager
    def device_turn(self, session: Session) -> Iterator[DeviceTurn]:
        """The session's job computes, and its time counts as its visitor's."""
        turn = DeviceTurn(session, self.settings.time_limit_s)
        try:
            yield turn
        finally:
            self.quota.add_device_s(session.visitor, turn.seconds)

    def _release(self, key: str, session: Session | None) -> None:
        if session is not None:
            self.budget.forget(session)
        self.uploads.release(key)

    def sweep(self) -> None:
        """Forgets the sessions that are over, and deletes the files that are not referred to."""
        over = self.sessions.forget_expired()
        self.uploads.sweep()
        dropped = 0
        if self.tab_states:
            dropped = self.tab_states.drop(self.sessions.is_live, self.sessions.grace_s)
        if over or dropped:
            return_free_memory()

    def _sweep(self) -> None:
        while not self._closed.wait(max(0.1, min(self.sessions.grace_s / 4, 15.0))):
            try:
                self.sweep()
            except Exception:  # the next round must come
                log.exception("files could not be cleaned up")

    def drain(self, timeout_s: float) -> None:
        """Takes no more visitors and jobs, stops the running ones, and waits until they ended.

        Their pages then have a moment to fetch what was computed, and show it after a restart.
        """
        self.sessions.closing = True
        sessions = self.sessions.all()
        stopped = [s for s in sessions if s.busy.locked()]
        for session in sessions:
            self.stop(session)
        until = time.monotonic() + timeout_s
        while any(s.busy.locked() for s in sessions) and time.monotonic() < until:
            time.sleep(0.05)
        until = min(until, time.monotonic() + FETCH_S)
        while any(self.is_unfetched(s) for s in stopped) and time.monotonic() < until:
            time.sleep(0.05)

    def close(self) -> None:
        """Ends every job and deletes every file of the page."""
        self.sessions.closing = True
        self._closed.set()
        for session in self.sessions.all():
            self.sessions.forget(session.key)
        self.folder.close()

    def warm_up(self) -> None:
        """Loads the embedded models and uses them once, beside the first visitor's reading.

        Starts a first decoder too. What is slow only once is then behind them.
        """
        keep_worker_ready()

        def load() -> None:
            try:
                for title in (DRAWN, ""):
                    lm = self.models.backbone(backbone_for(AUTO, title))
                    detector = self.models.detector(detector_for(AUTO, title))
                    with self.device_queue.enter(is_run=False) as ticket:
                        while not ticket.wait(1.0):
                            pass
                        try_out(cast("LocalLM", lm), detector)
                # else each collection would walk all that the libraries hold, which any request
                # with many values can bring about; it stays as long as the process does
                gc.collect()
                gc.freeze()
            except Exception:  # the first run will meet it again and explain it
                log.exception("the embedded models could not be loaded ahead")

        threading.Thread(target=load, name="warm-up", daemon=True).start()


class ServerStats:
    """Counts of runs by how they ended, seconds by stage, for /healthz; safe between threads."""

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def count_end(self, how: str, trace: Trace | None = None) -> None:
        """A job ended: "complete", "stopped", "refused" or "failed"; its trace, if it has one."""
        with self._lock:
            self._ends[how] += 1
            for stage, ms in {} if trace is None else trace.timings_ms.items():
                self._seconds[stage] = self._seconds.get(stage, 0.0) + ms / 1000

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        with self._lock:
            return {
                "up_s": round(time.monotonic() - self._began, 1),
                "runs": {k: self._ends[k] for k in ("complete", "stopped", "refused", "failed")},
                "seconds": {k: round(v, 3) for k, v in sorted(self._seconds.items())},
                "memory_mb": memory_mb(),
                "threads": threading.active_count(),
            }


def memory_mb() -> float | None:
    """Resident memory of this process; None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(z.split()[1]) / 1024 for z in lines if z.startswith("VmRSS")), None)
