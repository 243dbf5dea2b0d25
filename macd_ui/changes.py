"""Changes of a finished run by hand: the viewer's actions → the workbench → the new trace."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from macd_studio.core.errors import Cancelled, TraceError
from macd_studio.core.types import Edit, Trace
from macd_studio.core.whatif.redecodable import redecodable
from macd_studio.macd_ui import zerogpu
from macd_studio.macd_ui.actions import (
    MEASUREMENTS,
    NO_CHANGE,
    PLACES,
    change_events,
    expected_s,
    learn_measurement,
    plain_action,
)
from macd_studio.macd_ui.estimate import STAGES, work_of_trace
from macd_studio.macd_ui.jobs import BUSY, Jobs
from macd_studio.macd_ui.kept import GONE
from macd_studio.macd_ui.session import Session, Turn
from macd_studio.macd_ui.showing import Updates, joined, plot, running
from macd_studio.macd_ui.wording import out_of_time_in_words, stopped_in_words
from macd_studio.viewer import status

if TYPE_CHECKING:
    from macd_studio.core.pipeline import Event


class Changes(Jobs):
    """Each action of the viewer, checked and computed when the device is free."""

    def act(self, action: Any, backbone: str, key: str) -> Iterator[Updates]:
        """A commit of the viewer: a change by hand, undo, redo, decoding on, or measuring."""
        session = self.store.session(key)
        if not session.begin():
            yield {"viewer": self._view(session, None, BUSY)}
            return
        if isinstance(action, Mapping) and action.get("do") == "ledger":
            action = {**action, "do": "occlusion"}  # a page that was opened before an update
        where = PLACES.get(str(action.get("do")), "whatif") if isinstance(action, Mapping) else ""
        try:
            session.stop.clear()
            yield from self._act(session, action, backbone)
        except Cancelled as error:
            yield self._kept(session, status(message=stopped_in_words(error)))
        except Exception as error:
            message = self._failed(session, error, "a change failed")
            yield self._kept(session, status(error=message, where=where))
        finally:
            session.busy.release()
            self.store.settle(session)

    def _act(self, session: Session, action: Any, backbone: str) -> Iterator[Updates]:
        if not isinstance(action, Mapping):
            raise NO_CHANGE
        what = action.get("do")
        if session.shown is None:  # the page was just opened: its first example is on show
            if self.first is None:
                raise TraceError("there is nothing to change yet", "Run a clip first")
            session.show(self.first[1], self.first[0].link)
            assert session.shown is not None
        if action.get("run") != session.shown.run:
            raise TraceError(*GONE)
        if what in ("undo", "redo"):
            with self.store.open_in_turn(session.visitor):  # it may have to be read from its file
                session.undo() if what == "undo" else session.redo()
                changed = self._changed(session)
            yield changed
            return
        if what not in PLACES:
            raise NO_CHANGE
        yield running(True) | {
            "viewer": self._view(session, None, status(message="Starting", running=True))
        }
        yield from self._compute(session, action, backbone)
        yield self._changed(session)

    def _compute(
        self, session: Session, action: Mapping[str, Any], backbone: str
    ) -> Iterator[Updates]:
        """Makes the change that an action asks for, when the device is free."""
        what = str(action["do"])
        with self.store.open_in_turn(session.visitor):
            edit, plain, expected = self._checked(session.trace, action)
        self.store.settle(session)  # it is read again when its turn comes
        with ExitStack() as stack:
            stack.enter_context(self.store.quota.job(session.visitor))
            ticket = stack.enter_context(self.store.line.enter(expected))
            yield from self._wait(session, ticket)
            turn = stack.enter_context(self.store.turn(session))
            trace = session.trace
            assert trace is not None
            if zerogpu.active():
                made_by = self._maker(trace, backbone)
                job = zerogpu.ChangeJob(trace, plain, made_by)
                with closing(zerogpu.change(job, turn.is_over)) as events:
                    changed = yield from self._stream(session, events, trace, turn)
                self._took(session, changed, what)
                return
            bench = self._bench(session, trace, backbone)
            began = turn.seconds  # without what loading the model took
            changes = change_events(bench, plain, edit, turn.is_over)
            with closing(changes) as events:  # closing it takes an edit back
                yield from self._stream(session, events, trace, turn)
            learn_measurement(self.store.estimator, trace, plain, turn.seconds - began)
        self._took(session, bench.trace, what)

    def _checked(
        self, trace: Trace | None, action: Mapping[str, Any]
    ) -> tuple[Edit | None, dict[str, Any], float | None]:
        """The edit, the plain action, and seconds; raises MacdError before anything waits."""
        from macd_studio.core.whatif.workbench import read_edit

        assert trace is not None
        what = str(action["do"])
        edit = read_edit(action.get("edit"), trace) if what == "edit" else None
        plain = plain_action(action)
        if what == "redecode":
            redecodable(trace, plain["method"])
        return edit, plain, expected_s(self.store.estimator, work_of_trace(trace), trace, plain)

    def _took(self, session: Session, changed: Trace, what: str) -> None:
        if what in MEASUREMENTS:  # nothing was changed by hand
            session.trace = changed
        else:
            session.change(changed)

    def _stream(
        self, session: Session, events: Iterator[Event], former: Trace, turn: Turn
    ) -> Generator[Updates, None, Trace]:
        """Shows a change as it goes on; gives the trace of its last event."""
        last = former
        for event in events:
            last = event.trace or last
            if turn.is_over():
                why = out_of_time_in_words(turn) if turn.out_of_time else "the change was stopped"
                raise Cancelled(why, "What was there before is shown")
            if event.stage != "done" and event.trace is not None:
                state = status(event.stage, event.fraction, event.message, running=True)
                before = None if event.trace is former else former
                view = self._view(session, event.trace, state, False, before, session.link)
                yield {"viewer": view} | plot(session, event.trace)
        return last

    def _changed(self, session: Session) -> Updates:
        return joined(self._shown(session, status(done=STAGES)), running(False))
