"""A run of the form: clip and question → pipeline → what the widgets show."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from macd_studio.core.errors import Cancelled, VideoNotFound
from macd_studio.core.methods import find_methods
from macd_studio.core.options import RunOptions
from macd_studio.core.question import clean_question
from macd_studio.core.types import RANDOM_MASKS, Clip, Trace
from macd_studio.macd_ui import zerogpu
from macd_studio.macd_ui.computing import run_events
from macd_studio.macd_ui.draws import draw, fresh_seed
from macd_studio.macd_ui.estimate import STAGES, work_of, work_of_options, work_of_trace
from macd_studio.macd_ui.forms import Asked, run_options
from macd_studio.macd_ui.jobs import BUSY, Jobs
from macd_studio.macd_ui.kept import KeptTrace
from macd_studio.macd_ui.reading import read_beside, stamp
from macd_studio.macd_ui.session import Form, Session, Turn
from macd_studio.macd_ui.settings import EMBEDDED, check_limits
from macd_studio.macd_ui.showing import (
    DRAWN_TITLE,
    NO_STRIP,
    Updates,
    joined,
    plot,
    running,
    saving,
    tally_of,
)
from macd_studio.macd_ui.wording import left_in_words, out_of_time_in_words, stopped_in_words
from macd_studio.viewer import status
from macd_studio.viewer.payload import can_compare

SHORT_S, OFTEN_S = 2.0, 0.15
"""A run with less than that many seconds left is shown at most that often."""
AUTOMATIC_S = 2.0
"""Controls that take at most this long are compared without being asked for."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A run as the form asks for it, checked as far as can be without video and models.

    anyway: answers are asked for, whatever the clip is. truth: the right answer where it is known.
    """

    video: str
    question: str
    options: RunOptions
    methods: tuple[str, ...]
    backbone: str
    detector: str
    anyway: bool = False
    truth: str = ""


class Runs(Jobs):
    """One job per session: it waits, computes, streams its results, and ends."""

    def run(self, values: Mapping[str, Any], key: str, anyway: bool = False) -> Iterator[Updates]:
        """Runs the pipeline and streams its results; one job per session.

        Until the job computes, what is shown stays; a run that fails gives it back. anyway: the
        embedded backbone answers about a clip outside its training data too.
        """
        yield from self._alone(key, lambda session: self._run_form(session, values, anyway))

    def draw(self, values: Mapping[str, Any], key: str) -> Iterator[Updates]:
        """Draws a clip that nobody chose, and runs it with the form's settings."""
        yield from self._alone(key, lambda session: self._draw(session, values))

    def _alone(self, key: str, work: Callable[[Session], Iterator[Updates]]) -> Iterator[Updates]:
        session = self.store.session(key)
        if not session.begin():
            yield {"viewer": self._view(session, None, BUSY)}
            return
        former = session.shown
        try:
            session.stop.clear()
            yield from work(session)
        except Cancelled as error:
            self.store.figures.ended("stopped")
            yield self._given_back(session, status(message=stopped_in_words(error)))
        except Exception as error:
            message = self._failed(session, error, "a run failed")
            yield self._given_back(session, status(error=message, where="form"))
        finally:
            session.pending = None
            session.busy.release()
            self.store.settle(session, _without(session, former))

    def _run_form(
        self, session: Session, values: Mapping[str, Any], anyway: bool
    ) -> Iterator[Updates]:
        self._take_form(session, values)
        yield from self._run(session, self._job(session, values, anyway))

    def _draw(self, session: Session, values: Mapping[str, Any]) -> Iterator[Updates]:
        start = status("video", 0, "Drawing a clip", running=True)
        yield {"viewer": self._view(session, None, start)} | running(True)
        turn = self.store.readers.turn(session.visitor, session.stop.is_set)
        with self.store.quota.job(session.visitor), turn:
            drawn = draw(fresh_seed(), self.store.uploads.folder)
        session.drawn = drawn
        methods = dict.fromkeys((*(values["methods"] or ()), *drawn.methods))
        values = {
            **values, "example": None, "video": drawn.video, "question": drawn.question,
            "sampling": {}, "methods": list(methods),
        }  # fmt: skip
        self._drop_video(session)
        self._take_form(session, values)
        session.form.title = DRAWN_TITLE
        form = {
            "example": None, "video": drawn.video, "question": drawn.question,
            "methods": list(methods),
        }  # fmt: skip
        yield joined(form, NO_STRIP, self._buttons(session))
        yield from self._run(session, self._job(session, values))
        yield {"tally": tally_of(session.trace, drawn)}

    def _job(self, session: Session, values: Mapping[str, Any], anyway: bool = False) -> Job:
        job = Job(
            video=self._video(values),
            question=clean_question(values["question"] or ""),
            options=run_options(values),
            methods=tuple(m.name for m in find_methods(values["methods"] or ())),
            backbone=(values["backbone"] or EMBEDDED).strip(),
            detector=(values["detector"] or EMBEDDED).strip(),
            anyway=anyway,
            truth=self._truth(session, values),
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
        estimator = self.store.estimator
        with ExitStack() as stack:
            planned = work_of_options(job.options, job.backbone, job.detector, job.methods)
            place = stack.enter_context(self.store.lobby.enter(estimator.total(planned)))
            yield from self._wait(session, place)
            # needs neither model nor device, so a bad file is reported before the device is free
            clip = self._read(session, job)
            if session.form.video is not None:
                session.form.title = clip.title
            outside = not job.anyway and self._outside(session.form)
            expected = replace(job.options, masks_only=True) if outside else job.options
            work = work_of(clip, expected, job.backbone, job.detector, job.methods)
            ticket = stack.enter_context(self.store.line.enter(estimator.total(work)))
            yield from self._wait(session, ticket, ("video",))
            turn = stack.enter_context(self.store.turn(session))
            frames, sent = None, 0.0  # frames: those the viewer has already
            asked = zerogpu.RunJob(
                clip, job.question, job.options, job.methods, job.backbone, job.detector,
                # an example is its operator's choice
                answer_outside=job.anyway or session.form.video is None,
            )  # fmt: skip
            if zerogpu.active():
                cost = zerogpu.cost_in_words(zerogpu.seconds_of_run(asked))
                state = status(message=f"Waiting for a GPU · {cost}", running=True)
                yield {"viewer": self._view(session, None, state)}
            for event in run_events(self.store, asked, turn.is_over, session.cache):
                if event.trace is None:
                    continue
                trace = replace(event.trace, truth=job.truth)
                if event.stage == "done":
                    estimator.learn(work, trace)
                    yield self._finished(session, trace, turn, (job.backbone, job.detector))
                    yield from self._compare(session, job, turn)
                    return
                left = estimator.left(work, event.stage, event.fraction, trace)
                for held in (ticket, place):
                    held.tell(left)
                now = time.monotonic()
                if left is not None and left < SHORT_S and now - sent < OFTEN_S:
                    continue  # drawing every step of a short run would make it a longer one
                if self.store.is_behind(session):
                    continue
                sent = now
                state = status(
                    event.stage,
                    event.fraction,
                    event.message + left_in_words(left, turn.seconds),
                    done=STAGES[: STAGES.index(event.stage)],
                    running=True,
                )
                out: Updates = {
                    "viewer": self._view(session, trace, state, frames=trace.frames is not frames)
                }
                if session.pending is None:  # from now on the page shows this run
                    session.pending = _asked(job, clip)
                    out |= self._note(session) | saving(False) | plot(session, trace)
                elif event.stage == "ascent":
                    out |= plot(session, trace)
                frames = trace.frames
                yield out

    def _read(self, session: Session, job: Job) -> Clip:
        """The clip, read beside this thread, so that Stop is answered at once."""
        from macd_studio.core.cache import StageCache

        session.cache = session.cache or StageCache()
        key = ("clip", job.video, stamp(job.video), job.options.video)
        clip: Clip | None = session.cache.get(key)
        if clip is None:
            stopped, limits = session.stop.is_set, self.store.read_limits
            turn = self.store.readers.turn(session.visitor, stopped)
            session.cache.forget_frames()  # those of the clip before
            clip = read_beside(job.video, job.options.video, stopped, turn, limits)
            session.cache.put(key, clip)
        return clip

    def _finished(
        self, session: Session, trace: Trace, turn: Turn, models: tuple[str, str]
    ) -> Updates:
        done = trace.status == "complete"
        message = "" if done else f"This run was {trace.status}. What was computed is shown."
        if not done and turn.out_of_time:
            message = f"Stopped: {out_of_time_in_words(turn)}. What was computed is shown."
        self.store.figures.ended("complete" if done else "stopped", trace)
        session.show(trace, models=models)
        state = status("done", 1.0, message, done=STAGES if done else ())
        return joined(self._shown(session, state), running(False))

    def _compare(self, session: Session, job: Job, turn: Turn) -> Iterator[Updates]:
        """Compares the masks with controls after the answer was shown, where that is quick.

        Where it is slow or fails, the page offers it by a button.
        """
        trace = session.trace
        if trace is None or not can_compare(trace) or turn.is_over() or zerogpu.active():
            return  # on a shared GPU it would take more of the visitor's quota
        estimator, work, views = self.store.estimator, work_of_trace(trace), RANDOM_MASKS + 3
        expected = estimator.measured(work, "controls", views)
        if expected is None and "views" in trace.timings_ms:
            expected = views * trace.timings_ms["views"] / 1000
        if expected is None or expected > AUTOMATIC_S or any(t.outlines for t in trace.tracks):
            return  # random places for outlines take longer than reading the views
        session.comparing = True
        try:
            bench = self._bench(session, trace, job.backbone)
            compared = bench.measure_controls()
            assert compared.controls is not None
            took = compared.controls.milliseconds / 1000
            estimator.learn_action(work, "controls", views, took)
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
        same = video == session.form.video
        title = session.form.title if same else ""
        backbone = (values["backbone"] or EMBEDDED).strip()
        question, kept = values["question"] or "", self._settings_in(values)
        session.form = Form(example, video or None, question, title, backbone, kept)
        if video:
            self.store.uploads.hold(video, session.key)

    def _truth(self, session: Session, values: Mapping[str, Any]) -> str:
        """The right answer of a random draw or of an example, as long as its question is asked."""
        question, drawn = (values["question"] or "").strip(), session.drawn
        if values["video"]:
            same = drawn is not None and values["video"] == drawn.video
            return drawn.truth if drawn and same and question == drawn.question else ""
        index = self._index(values["example"])
        example = None if index is None else self.examples[index]
        return example.answer if example and question == example.question.strip() else ""

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


def _asked(job: Job, clip: Clip) -> Asked:
    return Asked(
        clip.name, clip.sha256, job.question, job.options, job.methods, job.backbone, job.detector
    )


def _without(session: Session, former: KeptTrace | None) -> tuple[str, ...]:
    """What a session does not keep in memory after a run: frames of one that did not end by itself.

    former: what was shown before it.
    """
    shown = session.shown
    if shown is None or shown is former:  # the run gave no trace
        return ("clip",)
    return () if shown.status == "complete" else ("clip", "traces")
