"""What every job of a session needs: its turn, its errors, the model of the trace on show."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from macd_studio.core.embedded import AUTO, SHIPPED
from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.types import Trace
from macd_studio.macd_ui import sentences, zerogpu
from macd_studio.macd_ui.queues import Ticket
from macd_studio.macd_ui.session import Session
from macd_studio.macd_ui.session_view import SessionView, Updates
from macd_studio.macd_ui.settings import LIMITS
from macd_studio.macd_ui.store import Store
from macd_studio.viewer import status

if TYPE_CHECKING:
    from macd_studio.core.backbones.base import Reader
    from macd_studio.core.whatif.workbench import Workbench

ELSEWHERE = "Open it on a page of your own machine: python app.py"
NEAR_S, FAR_S = 0.5, 15.0
"""How often a waiting visitor's place in the queue is shown, seconds: when near, and at the end."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Jobs:
    """One job per session: it waits for the device, and an error gives back what was shown."""

    store: Store
    view: SessionView

    def alone(
        self,
        session: Session,
        work: Iterator[Updates],
        restore: Callable[[Session, dict[str, Any]], Updates],
        kind: str,
        where: str,
        ended: Callable[[], None],
    ) -> Iterator[Updates]:
        """The updates of a job, as long as the session has no other one; an error is explained.

        restore: what is shown after an error, given the state that explains it. kind: "run",
        "change" or "fetch". where: the part of the page that shows an error. ended: called when it
        has ended.
        """
        if not session.begin():
            yield self.view.show_state(session, status(message=sentences.BUSY))
            return
        try:
            session.stop.clear()
            yield from work
        except Cancelled as error:
            if kind == "run":
                self.store.stats.count_end("stopped")
            session.answered = True
            yield restore(session, status(message=sentences.of_stop(error)))
        except Exception as error:
            message = sentences.of_error(error)
            self.store.stats.count_end("refused" if message else "failed")
            if message is None and not session.gone:
                log.error("a %s failed", kind, exc_info=error)
            message = message or sentences.unforeseen(self.store.settings.shared)
            session.answered = True
            yield restore(session, status(error=message, where=where))
        finally:
            session.pending, session.answered = None, False
            session.busy.release()
            ended()

    def wait(
        self, session: Session, ticket: Ticket, done: tuple[str, ...] = ()
    ) -> Iterator[Updates]:
        """Waits for the device, telling place and expected time; raises Cancelled if stopped."""
        interval = 0.0
        while not ticket.wait(interval, session.stop.is_set):
            if session.stop.is_set():
                raise Cancelled(*sentences.STOPPED_WAITING)
            if interval:
                message = sentences.place_in_queue(ticket.runs_ahead, ticket.wait_s)
                yield self.view.show_state(
                    session, status(message=message, done=done, running=True)
                )
            interval = min(FAR_S, NEAR_S * max(1.0, ticket.runs_ahead / 8))

    def check_maker(self, trace: Trace, backbone: str) -> str:
        """The model that made a trace; raises OptionError where it may not be used."""
        made_by = trace.backbone.name
        self.store.settings.check_models(made_by, AUTO)
        if made_by not in (*SHIPPED, backbone):
            raise OptionError(
                f"this trace was made by {made_by!r}", "Choose that backbone in the settings"
            )
        return made_by

    def bench(self, session: Session, trace: Trace, backbone: str) -> Workbench:
        """The trace on a bench with its model; a file may not name a model to be loaded."""
        if session.bench is None or session.bench.trace is not trace:
            from macd_studio.core.whatif.workbench import Workbench

            lm = self.store.models.backbone(self.check_maker(trace, backbone))
            if self.store.settings.shared:
                check_pixels(trace, lm)
            segmenter = partial(self.store.models.segmenter, device=zerogpu.own_device())
            session.bench = Workbench(trace, lm, segmenter)
        return session.bench


def check_size(trace: Trace) -> None:
    """Raises OptionError where a file asks for more work than a run on a shared server may."""
    longest = max((len(a.tokens) for a in trace.answers.values()), default=0)
    asked = {
        "frames": (len(trace.frames), LIMITS["video.frames"]),
        "objects": (len(trace.tracks), LIMITS["track.max_tracks"]),
        "tokens": (longest, LIMITS["decode.max_tokens"]),
    }
    for path, most in LIMITS.items():
        part, name = path.split(".")
        if part == "decode":
            asked[path] = (getattr(trace.options.decode, name), most)
    for what, (value, most) in asked.items():
        if value > most:
            raise OptionError(
                f"the trace asks for {what}: {value:g}, and this server computes with at most"
                f" {most:g}", ELSEWHERE,
            )  # fmt: skip


def check_pixels(trace: Trace, lm: Reader) -> None:
    """Raises OptionError where a step of the model would read more pixels than a visitor may."""
    frames = trace.model_frames
    if frames is None:
        return
    (height, width), most = frames.size, lm.most_pixels(len(frames.pixels))
    if most is not None and height * width > most:
        raise OptionError(
            f"the trace's frames have {width}×{height} pixels, more than {lm.info.name} is given"
            " by its processor", ELSEWHERE,
        )  # fmt: skip
