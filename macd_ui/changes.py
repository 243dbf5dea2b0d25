"""Changes of a finished run by hand: the viewer's actions → the workbench → the new trace."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from macd_studio.core.errors import Cancelled, TraceError
from macd_studio.core.objects.registry import COLOURS
from macd_studio.core.records import Edit
from macd_studio.core.types import Trace
from macd_studio.core.whatif.edits import redecodable
from macd_studio.macd_ui import sentences, zerogpu
from macd_studio.macd_ui.actions import (
    MEASUREMENTS,
    NO_CHANGE,
    PLACES,
    action_of_point,
    change_events,
    expected_s,
    learn_measurement,
    plain_action,
    point_stage,
)
from macd_studio.macd_ui.estimate import STAGES, work_of_trace
from macd_studio.macd_ui.jobs import Jobs, check_size
from macd_studio.macd_ui.session import DeviceTurn, Session
from macd_studio.macd_ui.session_view import Updates, joined, plot, running
from macd_studio.macd_ui.traces import GONE, StoredTrace
from macd_studio.viewer import identity, status

if TYPE_CHECKING:
    from macd_studio.core.run.state import Event


class Changes:
    """Actions of the viewer, each checked, and computed when the device is free."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs, self.store, self.view = jobs, jobs.store, jobs.view

    def act(
        self, action: Any, backbone: str | None, segmenter: str | None, key: str
    ) -> Iterator[Updates]:
        """A commit of the viewer: a change by hand, undo, redo, decoding on, or measuring.

        backbone, segmenter: as the form names them.
        """
        session = self.store.sessions.open(key)
        where = PLACES.get(str(action.get("do")), "whatif") if isinstance(action, Mapping) else ""
        yield from self.jobs.alone(
            session,
            self._act(session, action, (backbone or "").strip(), (segmenter or COLOURS).strip()),
            self.view.restore_after_change,
            "change",
            where,
            lambda: self.store.rebalance(session),
        )

    def _act(
        self, session: Session, action: Any, backbone: str, segmenter: str
    ) -> Iterator[Updates]:
        if not isinstance(action, Mapping):
            raise NO_CHANGE
        what = action.get("do")
        start = self._on_show(session, action.get("run"))
        if what in ("undo", "redo"):
            with self.store.open_for(session):  # it may have to be read from its file
                _check_on_show(session, start)
                session.undo() if what == "undo" else session.redo()
                changed = self._changed(session)
            yield changed
            return
        if not isinstance(what, str) or what not in PLACES:
            raise NO_CHANGE
        if what == "point":
            self.store.settings.check_segmenter(segmenter)
            action = action_of_point(action, segmenter)
        state = status(message=sentences.STARTING, running=True)
        yield running(True) | self.view.show_state(session, state)
        changed_trace = yield from self._compute(session, start, action, backbone)
        with self.store.open_in_turn(session.visitor, lambda: session.gone):
            _check_on_show(session, start)
            if what in MEASUREMENTS:  # nothing was changed by hand
                session.trace = changed_trace
            else:
                session.change(changed_trace)
            changed = self._changed(session)
        yield changed

    def _on_show(self, session: Session, run: Any) -> StoredTrace:
        """The run on the page, which has to be the one that an action names. Raises TraceError."""
        if session.current is None and not session.lost:  # the page opened on the first example
            if self.view.first is None:
                raise TraceError(*sentences.NOTHING_TO_CHANGE)
            example, trace = self.view.first
            if run == identity(trace):
                session.show(trace, example.link)
        session.lost = session.current is None  # what the page shows is of a server before
        if session.current is None or run != session.current.run:
            raise TraceError(*GONE)
        return session.current

    def _compute(
        self, session: Session, start: StoredTrace, action: Mapping[str, Any], backbone: str
    ) -> Generator[Updates, None, Trace]:
        """Makes the change that an action asks for, when the device is free.

        start: the run that it was asked of. Raises Cancelled once another one is on show.
        """
        with self.store.open_for(session):
            edit, plain, expected = self._checked(start.get(), action)
        self.store.rebalance(session)  # the trace is read again when its turn comes
        with ExitStack() as stack:
            stack.enter_context(self.store.quota.job(session.visitor))
            ticket = stack.enter_context(self.store.device_queue.enter(expected))
            yield from self.jobs.wait(session, ticket)
            _check_on_show(session, start)
            turn = stack.enter_context(self.store.device_turn(session))
            trace = start.get()

            def stopped() -> bool:
                return turn.is_over() or session.current is not start

            if zerogpu.borrows(trace.backbone.name):
                job = zerogpu.ChangeJob(trace, plain, self.jobs.check_maker(trace, backbone))
                with closing(zerogpu.change(job, stopped)) as events:
                    return (yield from self._stream(session, events, start, trace, turn))
            bench = self.jobs.bench(session, trace, backbone)
            began = turn.seconds  # without what loading the model took
            changes = change_events(bench, plain, edit, stopped)
            with closing(changes) as events:  # closing it takes an edit back
                timed = self._timed(events, turn, trace, plain)
                yield from self._stream(session, timed, start, trace, turn)
            spent = turn.seconds - began
            learn_measurement(self.store.estimator, trace, plain, spent, bench.trace)
        return bench.trace

    def _timed(
        self, events: Iterator[Event], turn: DeviceTurn, trace: Trace, plain: Mapping[str, Any]
    ) -> Iterator[Event]:
        """Passes events on, and learns how long an object was followed."""
        began: float | None = None
        for event in events:
            if event.stage == "track":
                began = turn.seconds if began is None else began
                if event.fraction == 1:
                    stage, seconds = point_stage(plain["edit"]), turn.seconds - began
                    self.store.estimator.learn_action(work_of_trace(trace), stage, 1, seconds)
            yield event

    def _checked(
        self, trace: Trace, action: Mapping[str, Any]
    ) -> tuple[Edit | None, dict[str, Any], float | None]:
        """The edit, the plain action, and seconds; raises MacdError before anything waits."""
        from macd_studio.core.whatif.workbench import read_edit

        if self.store.settings.shared:
            check_size(trace)
        what = str(action["do"])
        edit = read_edit(action.get("edit"), trace) if what == "edit" else None
        if edit is not None and edit.kind == "point":  # whoever sent it
            self.store.settings.check_segmenter(edit.segmenter)
        plain = plain_action(action)
        if what == "redecode":
            redecodable(trace, plain["method"])
        return edit, plain, expected_s(self.store.estimator, work_of_trace(trace), trace, plain)

    def _stream(
        self,
        session: Session,
        events: Iterator[Event],
        start: StoredTrace,
        before: Trace,
        turn: DeviceTurn,
    ) -> Generator[Updates, None, Trace]:
        """Shows the progress of a change; gives the trace of its last event."""
        last = before
        for event in events:
            last = event.trace or last
            _check_on_show(session, start)
            if turn.is_over():
                cause, remedy = sentences.CHANGE_STOPPED
                if turn.out_of_time and turn.limit_s is not None:
                    cause = sentences.out_of_time(turn.limit_s)
                raise Cancelled(cause, remedy)
            if event.stage != "done" and event.trace is not None:
                state = status(event.stage, event.fraction, event.message, running=True)
                compared = None if event.trace is before else before
                viewer = self.view.viewer(
                    session, event.trace, state, False, compared, session.link
                )
                yield {"viewer": viewer} | plot(session, event.trace)
        return last

    def _changed(self, session: Session) -> Updates:
        session.answered = True
        return joined(self.view.show_trace(session, status(done=STAGES)), running(False))


def _check_on_show(session: Session, start: StoredTrace) -> None:
    """Raises Cancelled where the visitor has gone on to another run than `start`."""
    if session.current is not start:
        raise Cancelled(*sentences.GONE_ON)
