"""A run of the form: clip and question → pipeline → what the widgets show."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.embedded import AUTO, DRAWN
from macd_studio.core.errors import (
    OptionError,
    SeveralVideos,
    TracksError,
    VideoError,
    VideoNotFound,
)
from macd_studio.core.measurements import RANDOM_MASKS
from macd_studio.core.media.sampling import check_partner
from macd_studio.core.methods import find_methods
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.objects.placing import FoundTracks
from macd_studio.core.objects.reading import OWN_MACHINE, PUBLIC_SERVER, TrackLimits, read_tracks
from macd_studio.core.options import VideoOptions
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.text.question import clean_question
from macd_studio.core.types import Clip, Trace
from macd_studio.macd_ui import sentences, zerogpu
from macd_studio.macd_ui.clips import file_stamp, read_beside
from macd_studio.macd_ui.estimate import STAGES, Work, work_of, work_of_spec, work_of_trace
from macd_studio.macd_ui.forms import PARTNER_METHOD, RunRequest, form_values, run_options
from macd_studio.macd_ui.jobs import Jobs
from macd_studio.macd_ui.queues import Ticket
from macd_studio.macd_ui.random_clips import RandomClip, draw_clip, fresh_seed
from macd_studio.macd_ui.session import DeviceTurn, Form, Session
from macd_studio.macd_ui.session_view import (
    NO_FILMSTRIP,
    NO_PARTNER,
    NO_TRACKS,
    Updates,
    joined,
    partner_of,
    plot,
    running,
    saving,
    settings_in,
    tally_of,
)
from macd_studio.macd_ui.settings import check_limits
from macd_studio.macd_ui.traces import StoredTrace
from macd_studio.viewer import status
from macd_studio.viewer.payload import can_compare

if TYPE_CHECKING:
    from macd_studio.core.run.state import Event

SHORT_S, OFTEN_S = 2.0, 0.15
"""A run with less than that many seconds left is shown at most that often."""
AUTOMATIC_S = 2.0
"""Controls that take at most this long are compared without being asked for."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A run as the form asks for it, checked as far as can be without video and models.

    All is as it was when the run was asked for: the form may change while it waits.
    """

    video: str
    spec: RunSpec
    truth: str = ""
    """The right answer where it is known."""
    tracks: str | None = None
    """A file with the clip's objects, which takes the detector's place."""
    upload: str | None = None
    """The clip's file; None of an example."""
    counterpart: str | None = None
    """Another clip of the same scene, which the answer is contrasted with, too."""

    def form(self, clip: Clip) -> Form:
        """What the form held when the run was asked for, with the title of its clip."""
        return Form(None, self.upload, self.spec.question, clip.title, self.spec.backbone)

    def request(self, clip: Clip) -> RunRequest:
        """What the page shows while the job runs."""
        methods = tuple(m for m in self.spec.methods if m != PARTNER_METHOD)
        spec = replace(self.named, methods=methods)
        return RunRequest(clip.name, clip.sha256, spec, partner=partner_of(self.counterpart))

    @property
    def named(self) -> RunSpec:
        """What is asked for, as a note names it: with the file that takes the detector's place."""
        return replace(self.spec, detector=Path(self.tracks).name) if self.tracks else self.spec


class Runs:
    """Runs of the form; each waits, computes, streams its results, and ends."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs, self.store, self.view = jobs, jobs.store, jobs.view

    def run(self, values: Mapping[str, Any], key: str) -> Iterator[Updates]:
        """Runs the pipeline and streams its results; one job per session.

        Until the job computes, what is shown stays; a run that fails gives it back.
        """
        yield from self._alone(key, lambda session: self._run_form(session, values))

    def draw(self, values: Mapping[str, Any], key: str) -> Iterator[Updates]:
        """Draws a clip that nobody chose, and runs it with the form's settings."""
        yield from self._alone(key, lambda session: self._draw_any(session, values))

    def typical(self, values: Mapping[str, Any], key: str) -> Iterator[Updates]:
        """Draws one of the clips that MACD repairs, and runs it with the settings of the search."""
        yield from self._alone(key, lambda session: self._draw_typical(session, values))

    def _alone(self, key: str, work: Callable[[Session], Iterator[Updates]]) -> Iterator[Updates]:
        session = self.store.sessions.open(key)
        before = session.current

        def ended() -> None:
            self.store.rebalance(session, _without(session, before))

        restore = self.view.restore_after_run
        return self.jobs.alone(session, work(session), restore, "run", "form", ended)

    def _run_form(self, session: Session, values: Mapping[str, Any]) -> Iterator[Updates]:
        self._take_form(session, values)
        yield from self._run(session, self._job(session, values))

    def _draw_any(self, session: Session, values: Mapping[str, Any]) -> Iterator[Updates]:
        yield from self._draw(session, values, partial(draw_clip, fresh_seed()), {})
        if (clip := session.random_clip) is not None:
            yield {"tally": tally_of(session.trace, clip)}

    def _draw_typical(self, session: Session, values: Mapping[str, Any]) -> Iterator[Updates]:
        search = self.view.search
        if search is None:
            raise OptionError("no search was saved with the examples", "Draw a random clip")
        models = {"methods": [], "backbone": AUTO, "detector": AUTO}
        yield from self._draw(session, values, search.draw, form_values() | models)

    def _draw(
        self,
        session: Session,
        values: Mapping[str, Any],
        drawn: Callable[[Path], RandomClip],
        settings: Mapping[str, Any],
    ) -> Iterator[Updates]:
        start = status("video", 0, sentences.RANDOM_CLIP, running=True)
        yield self.view.show_state(session, start) | running(True)
        slot = self.store.readers.slot(session.visitor, session.stop.is_set)
        with self.store.quota.job(session.visitor), slot:
            clip = drawn(self.store.uploads.folder)
        session.random_clip = clip
        methods = list(dict.fromkeys((*(values["methods"] or ()), *clip.methods)))
        form: Updates = {
            "example": None, "video": clip.video, "question": clip.question, "methods": methods,
        } | dict(settings)  # fmt: skip
        values = {**values, **form, "sampling": {}, "tracks": None, "counterpart": None}
        self.store.drop_video(session)
        self._take_form(session, values)
        session.form.title = DRAWN
        yield joined(form, NO_FILMSTRIP, NO_TRACKS, NO_PARTNER, self.view.about_model(session))
        yield from self._run(session, self._job(session, values))

    def _take_form(self, session: Session, values: Mapping[str, Any]) -> None:
        video = values["video"] and str(values["video"])
        title = session.form.title if video == session.form.video else ""
        backbone = (values["backbone"] or AUTO).strip()
        example = self.view.example_index(values["example"])
        question, settings = values["question"] or "", settings_in(values)
        session.form = Form(example, video or None, question, title, backbone, settings)
        if video:
            self.store.uploads.hold(video, session.key)
        for name in ("tracks", "counterpart"):
            if values.get(name):
                self.store.uploads.hold(str(values[name]), session.key)

    def _job(self, session: Session, values: Mapping[str, Any]) -> Job:
        if (counterpart := values.get("counterpart")) and not Path(counterpart).is_file():
            raise VideoNotFound(*sentences.PARTNER_GONE)
        methods = [m.name for m in find_methods(values["methods"] or ())]
        job = Job(
            video=self.video_of(values),
            spec=RunSpec(
                clean_question(values["question"] or ""),
                run_options(values),
                (*methods, *((PARTNER_METHOD,) if counterpart else ())),
                (values["backbone"] or AUTO).strip(),
                (values["detector"] or AUTO).strip(),
            ),
            truth=self._truth(session, values),
            tracks=self.tracks_of(values),
            upload=str(values["video"]) if values["video"] else None,
            counterpart=str(counterpart) if counterpart else None,
        )
        settings = self.store.settings
        settings.check_models(job.spec.backbone, job.spec.detector)
        if settings.shared:
            check_limits(job.spec.options)
        return job

    def video_of(self, values: Mapping[str, Any]) -> str:
        """The file of the form's clip. Raises VideoNotFound."""
        if video := values["video"]:
            if not Path(video).is_file():
                raise VideoNotFound("the server no longer has this clip", "Upload it again")
            return str(video)
        if (index := self.view.example_index(values["example"])) is not None:
            return str(self.view.examples[index].video)
        raise VideoNotFound("no video was chosen", "Choose an example or upload a clip")

    def tracks_of(self, values: Mapping[str, Any]) -> str | None:
        """The form's file of objects, if any. Raises TracksError where it is gone."""
        if (tracks := values.get("tracks")) and not Path(tracks).is_file():
            raise TracksError("the server no longer has the file of objects", "Upload it again")
        return str(tracks) if tracks else None

    def _truth(self, session: Session, values: Mapping[str, Any]) -> str:
        """The right answer of a random clip or of an example, as long as its question is asked."""
        question, clip = (values["question"] or "").strip(), session.random_clip
        if values["video"]:
            same = clip is not None and values["video"] == clip.video
            return clip.truth if clip and same and question == clip.question else ""
        index = self.view.example_index(values["example"])
        example = None if index is None else self.view.examples[index]
        return example.answer if example and question == example.question.strip() else ""

    def _run(self, session: Session, job: Job) -> Iterator[Updates]:
        start = status("video", 0, sentences.READING, running=True)
        yield self.view.show_state(session, start) | running(True)
        with self.store.quota.job(session.visitor):
            yield from self._run_within_quota(session, job)

    def _run_within_quota(self, session: Session, job: Job) -> Iterator[Updates]:
        estimator = self.store.estimator
        # holds no place in the line: what untrusted files hold may take long
        placed, times = yield from self._place_tracks(session, job)
        with ExitStack() as stack:
            planned = work_of_spec(job.spec.for_clip(self.view.title_of(session.form)))
            place = stack.enter_context(self.store.admission_queue.enter(estimator.total(planned)))
            yield from self.jobs.wait(session, place)
            # needs neither model nor device, so a bad file is reported before the device is free
            clip = self._read(session, job)
            form = job.form(clip)
            job = replace(job, spec=job.spec.for_clip(clip.title))
            if chosen := self._tell_form(session, form):
                state = status("video", 1, sentences.READING, running=True)
                yield chosen | self.view.show_state(session, state)
            if placed is not None and not np.array_equal(clip.times, times):
                placed = self._read_tracks(
                    session, job, ClipFacts.of(clip)
                )  # other frames were decoded this time
            partner = None
            if job.counterpart is not None:
                partner = self._read_partner(session, job.counterpart, job.spec, clip)
            work = work_of(clip, job.spec)
            ticket = stack.enter_context(self.store.device_queue.enter(estimator.total(work)))
            yield from self.jobs.wait(session, ticket, ("video",))
            turn = stack.enter_context(self.store.device_turn(session))
            on_device = zerogpu.RunJob(clip, job.spec, tracks=placed, counterpart=partner)
            if zerogpu.borrows(job.spec.backbone):
                message = sentences.waiting_for_gpu(zerogpu.seconds_of_run(on_device))
                yield self.view.show_state(session, status(message=message, running=True))
            events = zerogpu.run_events(self.store.models, on_device, turn.is_over, session.cache)
            yield from self._stream(session, job, clip, work, turn, (place, ticket), events)

    def _tell_form(self, session: Session, asked: Form) -> Updates:
        """What the page's form learns of the clip that was read, unless it holds another by now."""
        if session.form.video != asked.video:
            return {}
        if asked.video is not None:
            session.form.title = asked.title
        return self.view.about_model(session)

    def _stream(
        self,
        session: Session,
        job: Job,
        clip: Clip,
        work: Work,
        turn: DeviceTurn,
        tickets: tuple[Ticket, ...],
        events: Iterator[Event],
    ) -> Iterator[Updates]:
        """Shows the progress of a run, and its end."""
        frames, sent = None, 0.0  # frames: those the viewer has already
        for event in events:
            if event.trace is None:
                continue
            trace = replace(event.trace, truth=job.truth)
            if event.stage == "done":
                self.store.estimator.learn(work, trace)
                yield self._finished(session, trace, turn, job.named)
                yield from self._compare(session, job, turn)
                return
            left = self.store.estimator.left(work, event.stage, event.fraction, trace)
            for ticket in tickets:
                ticket.update(left)
            now = time.monotonic()
            if left is not None and left < SHORT_S and now - sent < OFTEN_S:
                continue  # drawing every step of a short run would make it a longer one
            if self.store.is_behind(session):
                continue
            sent = now
            state = status(
                event.stage,
                event.fraction,
                sentences.with_time(event.message, left, turn.seconds),
                done=STAGES[: STAGES.index(event.stage)],
                running=True,
            )
            new_frames = trace.frames is not frames
            out: Updates = {"viewer": self.view.viewer(session, trace, state, frames=new_frames)}
            if session.pending is None:  # from now on the page shows this run
                session.pending = job.request(clip)
                out |= self.view.note(session) | saving(False) | plot(session, trace)
            elif event.stage == "ascent":
                out |= plot(session, trace)
            frames = trace.frames
            yield out

    def _read(self, session: Session, job: Job) -> Clip:
        """The clip of a run; frames of others are forgotten, its partner's too."""
        return self._read_file(session, job.video, job.spec.options.video)

    def _read_partner(self, session: Session, path: str, spec: RunSpec, clip: Clip) -> Clip:
        """The partner of a clip, in which nothing is tracked. VideoErrors name it then."""
        video = replace(spec.options.video, dense_fps=0.0)
        try:
            partner = self._read_file(session, path, video, clip)
        except VideoError as error:
            raise type(error)(sentences.of_partner(error.cause), error.remedy) from error
        check_partner(clip, partner)
        return partner

    def _read_file(
        self, session: Session, path: str, options: VideoOptions, beside: Clip | None = None
    ) -> Clip:
        """A clip, read beside this thread, so that Stop is answered at once.

        beside: the run's own clip, for its partner: the one whose frames stay in memory with it.
        """
        from macd_studio.core.run.cache import StageCache

        session.cache = session.cache or StageCache()
        key = ("clip", path, file_stamp(path), options)
        clip: Clip | None = session.cache.get(key)
        if clip is None:
            stopped, limits = session.stop.is_set, self.store.read_limits
            slot = self.store.readers.slot(session.visitor, stopped)
            session.cache.forget_frames(beside)  # those of the run before
            clip = read_beside(path, options, stopped, slot, limits)
            session.cache.put(key, clip)
        return clip

    def _place_tracks(
        self, session: Session, job: Job
    ) -> Generator[Updates, None, tuple[FoundTracks | None, NDArray[np.float64]]]:
        """The file's objects on the clip's frames, whose times come with them."""
        if job.tracks is None:
            return None, np.zeros(0)
        state = status("video", 0, sentences.READING_TRACKS, running=True)
        yield self.view.show_state(session, state)
        facts = ClipFacts.of(self._read(session, job))
        if self.store.settings.shared and session.cache is not None:
            session.cache.forget_frames()  # only those near the device hold theirs
        try:
            return self._read_tracks(session, job, facts), facts.times
        except SeveralVideos as error:
            chosen = job.spec.options.track.file_source
            value = chosen if chosen in error.names else None
            yield {"tracks_source": gr.update(choices=list(error.names), value=value)}
            raise

    def _read_tracks(self, session: Session, job: Job, clip: ClipFacts) -> FoundTracks:
        """Reads and places the objects beside this process; its time is charged to the visitor."""
        assert job.tracks is not None
        stopped = session.stop.is_set
        with self.store.readers.slot(session.visitor, stopped):
            return read_tracks(job.tracks, clip, job.spec.options.track, stopped, self.track_limits)

    @property
    def track_limits(self) -> TrackLimits:
        """What reading a visitor's file of objects may take."""
        return PUBLIC_SERVER if self.store.settings.shared else OWN_MACHINE

    def _finished(
        self, session: Session, trace: Trace, turn: DeviceTurn, asked: RunSpec
    ) -> Updates:
        done = trace.status == "complete"
        limit_s = turn.limit_s if turn.out_of_time else None
        message = sentences.run_ended(trace.status, limit_s, self.store.sessions.closing)
        self.store.stats.count_end("complete" if done else "stopped", trace)
        session.answered = True
        session.show(trace, models=(asked.backbone, asked.detector))
        state = status("done", 1.0, message, done=STAGES if done else ())
        return joined(self.view.show_trace(session, state), running(False))

    def _compare(self, session: Session, job: Job, turn: DeviceTurn) -> Iterator[Updates]:
        """Compares the masks with controls after the answer was shown, where that is quick.

        Where it is slow or fails, the page offers it by a button.
        """
        trace = session.trace
        borrowed = zerogpu.borrows(job.spec.backbone)
        if trace is None or not can_compare(trace) or turn.is_over() or borrowed:
            return  # on a shared GPU it would take more of the visitor's quota
        estimator, work, views = self.store.estimator, work_of_trace(trace), RANDOM_MASKS + 3
        expected = estimator.measured(work, "controls", views)
        if expected is None and "views" in trace.timings_ms:
            expected = views * trace.timings_ms["views"] / 1000
        if expected is None or expected > AUTOMATIC_S or any(t.outlines for t in trace.tracks):
            return  # random places for outlines take longer than reading the views
        try:
            compared = self.jobs.bench(session, trace, job.spec.backbone).measure_controls()
            assert compared.controls is not None
            seconds = compared.controls.milliseconds / 1000
            estimator.learn_action(work, "controls", views, seconds)
        except Exception as error:
            log.warning("controls were not compared", exc_info=error)
            return
        if session.trace is trace:  # else the visitor has gone on to another one
            session.trace = compared
            state = status("done", 1.0, done=STAGES)
            yield {"viewer": self.view.viewer(session, compared, state, frames=False)}


def _without(session: Session, before: StoredTrace | None) -> tuple[str, ...]:
    """What a session drops from memory after a run: frames of one that did not end by itself.

    before: what was shown before it.
    """
    current = session.current
    if current is None or current is before:  # the run gave no trace
        return ("clip",)
    return () if current.status == "complete" else ("clip", "traces")
