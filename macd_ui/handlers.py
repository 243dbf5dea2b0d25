"""Events → pipeline → what the widgets show. No layout here, no maths."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from core.errors import Cancelled, MacdError, OptionError, TraceError, VideoNotFound
from core.methods import find_methods
from core.options import RunOptions
from core.question import clean_question
from core.traces.bundle import load
from core.types import Clip, Trace
from macd_ui import zerogpu
from macd_ui.actions import NO_CHANGE, PLACES, plain_action
from macd_ui.computing import run_events
from macd_ui.estimate import STAGES, work_of, work_of_options, work_of_trace
from macd_ui.forms import run_options
from macd_ui.line import Ticket
from macd_ui.reading import digest, read_beside, stamp
from macd_ui.session import Asked, Form, Session, Turn
from macd_ui.settings import EMBEDDED, check_limits
from macd_ui.showing import Showing, Updates, plot, running, saving
from macd_ui.wording import (
    UNFORESEEN,
    explained,
    left_in_words,
    out_of_time_in_words,
    place_in_words,
    stopped_in_words,
)
from viewer import identity, status
from viewer.payload import can_compare, controls_ms

if TYPE_CHECKING:
    from core.pipeline import Event
    from core.whatif.workbench import Workbench

SHORT_S, OFTEN_S = 2.0, 0.15
"""A run with less than that many seconds left is shown at most that often."""
TELL_S = 0.5
"""How often a waiting visitor's place in the line is shown, seconds."""
BUSY = status(message="A run is already going on.")
AUTOMATIC_MS = 2000.0
"""Controls that take at most this long are compared without being asked for."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A run as the form asks for it, checked as far as can be without video and models."""

    video: str
    question: str
    options: RunOptions
    methods: tuple[str, ...]
    backbone: str
    detector: str


class Handlers(Showing):
    """Each method answers one event with updates by widget name; layout.py maps the names."""

    def run(self, values: Mapping[str, Any], key: str) -> Iterator[Updates]:
        """Runs the pipeline and streams its results; one job per session.

        Until the job computes, what is shown stays; a run that fails gives it back.
        """
        session = self.store.session(key)
        if not session.begin():
            yield {"viewer": self._view(session, None, BUSY)}
            return
        try:
            session.stop.clear()
            self._take_form(session, values)
            yield from self._run(session, self._job(values))
        except Cancelled as error:
            self.store.figures.ended("stopped")
            yield self._given_back(session, status(message=stopped_in_words(error)))
        except Exception as error:
            message = self._failed(session, error, "a run failed")
            yield self._given_back(session, status(error=message, where="form"))
        finally:
            session.pending = None
            session.busy.release()

    def _failed(self, session: Session, error: Exception, what: str) -> str:
        """Counts and logs an error; gives its words for the visitor."""
        message = explained(error)
        self.store.figures.ended("refused" if message else "failed")
        if message is None and not session.gone:
            log.error(what, exc_info=error)
        return message or UNFORESEEN

    def _job(self, values: Mapping[str, Any]) -> Job:
        job = Job(
            video=self._video(values),
            question=clean_question(values["question"] or ""),
            options=run_options(values),
            methods=tuple(m.name for m in find_methods(values["methods"] or ())),
            backbone=(values["backbone"] or EMBEDDED).strip(),
            detector=(values["detector"] or EMBEDDED).strip(),
        )
        settings = self.store.settings
        settings.check_models(job.backbone, job.detector)
        if settings.shared:
            check_limits(job.options)
        return job

    def _run(self, session: Session, job: Job) -> Iterator[Updates]:
        start = status("video", 0, "Reading the video", running=True)
        yield {"viewer": self._view(session, None, start)} | running(True)
        with self.store.quota.job(session.visitor):
            yield from self._run_within_quota(session, job)

    def _run_within_quota(self, session: Session, job: Job) -> Iterator[Updates]:
        # needs neither model nor device, so a bad file is reported before anything waits
        clip = self._read(session, job)
        work = work_of(clip, job.options, job.backbone, job.detector, job.methods)
        estimator = self.store.estimator
        with ExitStack() as stack:
            ticket = stack.enter_context(self.store.line.enter(estimator.total(work)))
            yield from self._wait(session, ticket, ("video",))
            turn = stack.enter_context(self.store.turn(session))
            frames, sent = None, 0.0  # frames: those the viewer has already
            asked = zerogpu.RunJob(
                clip, job.question, job.options, job.methods, job.backbone, job.detector
            )
            if zerogpu.active():
                cost = zerogpu.cost_in_words(zerogpu.seconds_of_run(asked))
                state = status(message=f"Waiting for a GPU · {cost}", running=True)
                yield {"viewer": self._view(session, None, state)}
            for event in run_events(self.store, asked, turn.is_over, session.cache):
                trace = event.trace
                if trace is None:
                    continue
                if event.stage == "done":
                    estimator.learn(work, trace)
                    yield self._finished(session, trace, turn)
                    yield from self._compare(session, job, turn)
                    return
                left = estimator.left(work, event.stage, event.fraction, trace)
                ticket.tell(left)
                now = time.monotonic()
                if left is not None and left < SHORT_S and now - sent < OFTEN_S:
                    continue  # drawing every step of a short run would make it a longer one
                sent = now
                state = status(
                    event.stage,
                    event.fraction,
                    event.message + left_in_words(left),
                    done=STAGES[: STAGES.index(event.stage)],
                    running=True,
                )
                out: Updates = {
                    "viewer": self._view(session, trace, state, frames=trace.frames is not frames)
                }
                if session.pending is None:  # from now on the page shows this run
                    session.pending = Asked(clip.name, clip.sha256, job.question)
                    out |= self._note(session) | saving(False) | plot(session, trace)
                elif event.stage == "ascent":
                    out |= plot(session, trace)
                frames = trace.frames
                yield out

    def _read(self, session: Session, job: Job) -> Clip:
        """The clip, read beside this thread, so that Stop is answered at once."""
        from core.pipeline import StageCache

        session.cache = session.cache or StageCache()
        key = ("clip", job.video, stamp(job.video), job.options.video)
        clip: Clip | None = session.cache.get(key)
        if clip is None:
            stopped, readers = session.stop.is_set, self.store.readers
            limits = self.store.read_limits
            clip = read_beside(job.video, job.options.video, stopped, readers, limits)
            session.cache.put(key, clip)
        return clip

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
            interval = TELL_S

    def _finished(self, session: Session, trace: Trace, turn: Turn) -> Updates:
        done = trace.status == "complete"
        message = "" if done else f"This run was {trace.status}. What was computed is shown."
        if not done and turn.out_of_time:
            message = f"Stopped: {out_of_time_in_words(turn)}. What was computed is shown."
        self.store.figures.ended("complete" if done else "stopped", trace)
        session.show(trace)
        state = status("done", 1.0, message, done=STAGES if done else ())
        return self._shown(session, state) | running(False)

    def _compare(self, session: Session, job: Job, turn: Turn) -> Iterator[Updates]:
        """Compares the masks with controls after the answer was shown, where that is quick.

        Where it is slow or fails, the page offers it by a button.
        """
        trace = session.trace
        if trace is None or not can_compare(trace) or turn.is_over() or zerogpu.active():
            return  # on a shared GPU it would take more of the visitor's quota
        expected = controls_ms(trace)
        if expected is None or expected > AUTOMATIC_MS:
            return
        session.comparing = True
        try:
            bench = self._bench(session, trace, job.backbone)
            compared = bench.measure_controls()
        except Exception as error:
            log.warning("controls were not compared", exc_info=error)
            return
        finally:
            session.comparing = False
        if session.trace is trace:  # else the visitor has gone on to another one
            session.trace = compared
            state = status("done", 1.0, done=STAGES)
            yield {"viewer": self._view(session, compared, state, frames=False)}

    def _take_form(self, session: Session, values: Mapping[str, Any]) -> None:
        video = values["video"] and str(values["video"])
        example = self._index(values["example"])
        session.form = Form(example, video or None, values["question"] or "")
        if video:
            self.store.uploads.hold(video, session.key)

    def _index(self, value: Any) -> int | None:
        return None if value is None or not 0 <= int(value) < len(self.examples) else int(value)

    def _video(self, values: Mapping[str, Any]) -> str:
        if video := values["video"]:
            if not Path(video).is_file():
                raise VideoNotFound("the server no longer keeps this clip", "Upload it again")
            return str(video)
        if (index := self._index(values["example"])) is not None:
            return str(self.examples[index].video)
        raise VideoNotFound("no video was chosen", "Choose an example or upload a clip")

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

    def _act(self, session: Session, action: Any, backbone: str) -> Iterator[Updates]:
        if not isinstance(action, Mapping):
            raise NO_CHANGE
        what = action.get("do")
        if session.trace is None:  # the page was just opened: its first example is on show
            if self.first is None:
                raise TraceError("there is nothing to change yet", "Run a clip first")
            session.show(self.first[1], self.first[0].link)
        trace = session.trace
        assert trace is not None
        if action.get("run") != identity(trace):
            raise TraceError(
                "the server no longer keeps the run on this page",
                "Open its saved file, or run the clip again",
            )
        if what in ("undo", "redo"):
            session.undo() if what == "undo" else session.redo()
            yield self._changed(session)
            return
        if what not in PLACES:
            raise NO_CHANGE
        yield running(True) | {
            "viewer": self._view(session, None, status(message="Starting", running=True))
        }
        yield from self._compute(session, trace, action, backbone)
        yield self._changed(session)

    def _compute(
        self, session: Session, trace: Trace, action: Mapping[str, Any], backbone: str
    ) -> Iterator[Updates]:
        """Makes the change that an action asks for, when the device is free."""
        from core.whatif.workbench import read_edit

        what = str(action["do"])
        edit = read_edit(action.get("edit"), trace) if what == "edit" else None
        work = work_of_trace(trace)
        kind = edit.kind if edit is not None else what
        expected = self.store.estimator.change(work, kind, len(trace.tracks))
        with ExitStack() as stack:
            stack.enter_context(self.store.quota.job(session.visitor))
            ticket = stack.enter_context(self.store.line.enter(expected))
            yield from self._wait(session, ticket)
            turn = stack.enter_context(self.store.turn(session))
            if zerogpu.active():
                made_by = self._maker(trace, backbone)
                job = zerogpu.ChangeJob(trace, plain_action(action), made_by)
                with closing(zerogpu.change(job, turn.is_over)) as events:
                    changed = yield from self._stream(session, events, trace, turn)
                self._took(session, trace, changed, what)
                return
            bench = self._bench(session, trace, backbone)
            if edit is not None:
                with closing(bench.change(edit)) as events:  # closing it takes the change back
                    yield from self._stream(session, events, trace, turn)
            elif what == "redecode":
                change = plain_action(action)
                bench.redecode(change["alpha"], change["beta"])
            elif what == "controls":
                bench.measure_controls()
            else:
                bench.measure_occlusion()
        self._took(session, trace, bench.trace, what)

    def _took(self, session: Session, former: Trace, changed: Trace, what: str) -> None:
        if what in ("occlusion", "controls"):  # measured: nothing was changed by hand
            session.trace = changed
        else:
            session.change(former, changed)

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
                view = self._view(session, event.trace, state, False, former, session.link)
                yield {"viewer": view} | plot(session, event.trace)
        return last

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
            from core.whatif.workbench import Workbench

            session.bench = Workbench(trace, self.store.backbone(self._maker(trace, backbone)))
        return session.bench

    def _changed(self, session: Session) -> Updates:
        return self._shown(session, status(done=STAGES)) | running(False)

    def cost(self, values: Mapping[str, Any]) -> Updates:
        """What a run of this form would take of its visitor's quota, where there is one."""
        try:
            job = values["backbone"] or EMBEDDED, values["detector"] or EMBEDDED
            work = work_of_options(run_options(values), *job, values["methods"] or ())
        except MacdError:  # told when it is run
            return {"cost": {"text": ""}}
        seconds = zerogpu.declared(work, self.store.estimator.total(work))
        return {"cost": {"text": f"A run takes {zerogpu.cost_in_words(seconds)}."}}

    def stop(self, key: str) -> Updates:
        """Asks the running job to stop: it ends with what it has, or leaves the line."""
        session = self.store.find(key)
        if session is not None:
            self.store.stop(session)
        return {"stop": gr.update(interactive=False)}

    def choose(self, index: int | None, key: str) -> Updates:
        """An example was chosen: shows its saved trace and takes its question."""
        session = self.store.session(key)
        session.form.example = self._index(index)
        if session.form.example is None:
            return self._note(session)
        example = self.examples[session.form.example]
        self._drop_video(session)
        session.form.question = example.question
        out: Updates = {"question": example.question, "video": None}
        if example.trace is None:
            return out | self._note(session)
        try:
            session.show(example.load_trace(), example.link)
        except TraceError as error:
            return out | self._refused(session, error)
        message = f"{example.title}. {example.truth}"
        return out | self._shown(session, status(message=message, done=STAGES))

    def visit(self, name: str | None, key: str) -> Updates:
        """The page was opened, perhaps by a link to an example: `?example=NAME`."""
        session = self.store.session(key)
        if session.trace is not None:  # a tab that was reloaded has already opened what it showed
            return self._note(session)
        session.form = self.first_form()
        for i, example in enumerate(self.examples):
            if name and example.name == name:
                return {"example": i} | self.choose(i, key)
        if name:
            state = status(message=f"There is no example {name[:60]!r}; another one is shown.")
            return {"viewer": self._view(session, None, state)}
        return self._note(session)

    def upload(self, path: str | None, key: str) -> Updates:
        """A clip was uploaded: it takes the example's place. None: it was taken away again."""
        session = self.store.session(key)
        self._drop_video(session)
        if not path:
            return self._note(session)
        self.store.uploads.hold(path, key)
        session.form.video, session.form.example = str(path), None
        return {"example": None} | self._note(session)

    def ask(self, index: int | None, question: str | None, key: str) -> Updates:
        """Example or question changed, by hand or by us."""
        session = self.store.session(key)
        session.form.example, session.form.question = self._index(index), question or ""
        return self._note(session)

    def open(self, path: str | None, key: str) -> Updates:
        """Shows a saved trace; needs no model. The form then asks for the same."""
        if not path:
            return {}
        session = self.store.session(key)
        self.store.uploads.hold(path, key)
        try:
            trace = load(path)
        except TraceError as error:
            return self._refused(session, error)
        finally:  # what is in the file is in memory now
            self.store.uploads.release(key, path)
        example = self._example_of(trace)
        self._drop_video(session)
        session.form = Form(example, None, trace.question)
        session.show(trace, "" if example is None else self.examples[example].link)
        form: Updates = {"example": example, "question": trace.question, "video": None}
        return form | self._shown(session, status(done=STAGES))

    def _refused(self, session: Session, error: TraceError) -> Updates:
        return {"viewer": self._view(session, None, status(error=str(error), where="form"))}

    def _drop_video(self, session: Session) -> None:
        if session.form.video:
            self.store.uploads.release(session.key, session.form.video)
        session.form.video = None

    def _example_of(self, trace: Trace) -> int | None:
        """The example with the trace's clip and question, by the clip's content."""
        for i, example in enumerate(self.examples):
            same_clip = digest(str(example.video)) == trace.clip.sha256
            if same_clip and example.question.strip() == trace.question.strip():
                return i
        return None

    def first_form(self) -> Form:
        """What the form holds when the page is opened."""
        if self.first is None:
            return Form()
        return Form(self.examples.index(self.first[0]), None, self.first[0].question)

    def unfold_plot(self, unfolded: bool, key: str) -> Updates:
        """The strength plot was opened or folded away; only an open one is drawn and sent."""
        session = self.store.session(key)
        session.plot_open = unfolded
        trace = session.trace or (self.first and self.first[1])
        return plot(session, trace or None)

    def first_paint(self) -> dict[str, Any] | None:
        """Viewer value of the first example that has a trace, or nothing."""
        if self.first is None:
            return None
        example, trace = self.first
        state = status(message=f"{example.title}. {example.truth}", done=STAGES)
        return self._view(Session(), trace, state, link=example.link)
