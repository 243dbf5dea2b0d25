"""What every job of a session shares: its line, its errors, the model that it needs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.types import Trace
from macd_studio.macd_ui.line import Ticket
from macd_studio.macd_ui.session import Session
from macd_studio.macd_ui.settings import EMBEDDED
from macd_studio.macd_ui.showing import Showing, Updates
from macd_studio.macd_ui.wording import UNFORESEEN, explained, place_in_words
from macd_studio.viewer import status

if TYPE_CHECKING:
    from macd_studio.core.whatif.workbench import Workbench

TELL_S, FAR_S = 0.5, 15.0
"""How often a waiting visitor's place in the line is shown, seconds: when near, and at the end."""
BUSY = status(message="A run is already going on.")
log = logging.getLogger(__name__)


class Jobs(Showing):
    """Waiting for the device, models, and what is reported of a job that fails."""

    def _failed(self, session: Session, error: Exception, what: str) -> str:
        """Counts and logs an error; gives its words for the visitor."""
        message = explained(error)
        self.store.figures.ended("refused" if message else "failed")
        if message is None and not session.gone:
            log.error(what, exc_info=error)
        return message or UNFORESEEN

    def _wait(
        self, session: Session, ticket: Ticket, done: tuple[str, ...] = ()
    ) -> Iterator[Updates]:
        """Waits for the device, telling place and expected time; raises Cancelled if stopped."""
        interval = 0.0
        while not ticket.wait(interval, session.stop.is_set):
            if session.stop.is_set():
                raise Cancelled("stopped while waiting", "Nothing was computed")
            if interval:
                state = status(message=place_in_words(ticket), done=done, running=True)
                yield {"viewer": self._view(session, None, state)}
            interval = min(FAR_S, TELL_S * max(1.0, ticket.runs_ahead / 8))

    def _maker(self, trace: Trace, backbone: str) -> str:
        """The model that made a trace; raises OptionError where it may not be used."""
        made_by = trace.backbone.name
        self.store.settings.check_models(made_by, EMBEDDED)
        if made_by not in ("toyworld", backbone):
            raise OptionError(
                f"this trace was made by {made_by!r}", "Choose that backbone in the settings"
            )
        return made_by

    def _bench(self, session: Session, trace: Trace, backbone: str) -> Workbench:
        """The trace on a bench with its model; a file may not name a model to be loaded."""
        if session.bench is None or session.bench.trace is not trace:
            from macd_studio.core.whatif.workbench import Workbench

            session.bench = Workbench(trace, self.store.backbone(self._maker(trace, backbone)))
        return session.bench

    def _drop_video(self, session: Session) -> None:
        if session.form.video:
            self.store.uploads.release(session.key, session.form.video)
        session.form.video, session.form.title = None, ""
