"""Events of the form and of links → what the widgets show; and all handlers of the page.

No layout here, no maths. Runs are in `runs`, changes by hand in `changes`: here is what needs no
device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gradio as gr

from macd_studio.core.backbones.remote_address import is_remote
from macd_studio.core.embedded import AUTO, backbone_for, detector_for
from macd_studio.core.errors import Cancelled, MacdError, TraceError
from macd_studio.core.objects.registry import reads_words
from macd_studio.core.options import VideoOptions
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.text.phrases import noun_phrases
from macd_studio.core.text.question import MAX_LENGTH
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Trace
from macd_studio.macd_ui import sentences, zerogpu
from macd_studio.macd_ui.changes import Changes
from macd_studio.macd_ui.clips import FILMSTRIP, digest, filmstrip_value, read_filmstrip
from macd_studio.macd_ui.estimate import STAGES, work_of_spec
from macd_studio.macd_ui.examples import Example
from macd_studio.macd_ui.forms import SETTINGS, form_values, run_options
from macd_studio.macd_ui.jobs import NEAR_S, Jobs
from macd_studio.macd_ui.models import offered
from macd_studio.macd_ui.runs import Runs
from macd_studio.macd_ui.session import Form, Session
from macd_studio.macd_ui.session_view import (
    NO_FILMSTRIP,
    NO_PARTNER,
    NO_TRACKS,
    SessionView,
    Updates,
    joined,
    plot,
    settings_in,
    settings_of,
)
from macd_studio.macd_ui.store import Store
from macd_studio.viewer import identity, status

RUN_LINK, STOPPED, UNASKED, FORGOTTEN = "run:", "stopped:", "unasked:", "forgotten:"
"""What stands before the name of a run, and before the question of one that a reload stopped or of
a form that a restarted server does not know, where the name of an example could stand too. Behind
each stands a blank and how often the page asked."""


@dataclass(frozen=True)
class Handlers:
    """The handlers of all events of a page; each answers with updates by widget name."""

    store: Store
    view: SessionView
    runs: Runs
    changes: Changes
    form: FormEvents


def make_handlers(store: Store, examples: list[Example]) -> Handlers:
    """The handlers of a page with these examples."""
    view = SessionView(store, examples)
    jobs = Jobs(store, view)
    return Handlers(store, view, Runs(jobs), Changes(jobs), FormEvents(store, view))


@dataclass(frozen=True)
class FormEvents:
    """Events that need no device: the form, links, opened files, the plot."""

    store: Store
    view: SessionView

    def cost(self, values: Mapping[str, Any], key: str) -> Updates:
        """What a run of this form would take of its visitor's quota, where there is one."""
        try:
            models = values["backbone"] or AUTO, values["detector"] or AUTO
            methods = tuple(values["methods"] or ())
            spec = RunSpec("", run_options(values), methods, *models)
            session = self.store.sessions.find(key)  # the page asks before it is known whose it is
            title = self.view.title_of(session.form if session else self.first_form())
            work = work_of_spec(spec.for_clip(title))
        except MacdError:  # the run will say so
            return {"cost": {"text": ""}}
        if is_remote(models[0]):
            return {"cost": {"text": ""}}
        seconds = zerogpu.declared(work, self.store.estimator.total(work))
        return {"cost": {"text": sentences.cost_of_run(seconds)}}

    def stop(self, key: str) -> Updates:
        """Asks the running job to stop: it ends with what it has, or leaves the line."""
        session = self.store.sessions.find(key)
        if session is not None:
            self.store.stop(session)
        return {"stop": gr.update(interactive=False)}

    def choose(self, index: int | None, key: str) -> Updates:
        """An example was chosen: shows its saved trace, and the form asks for just that."""
        session = self.store.sessions.open(key)
        session.form.example = self.view.example_index(index)
        if session.form.example is None:
            return self.view.note(session)
        example = self.view.examples[session.form.example]
        self.store.drop_video(session)
        session.form.question = example.question
        out: Updates = {"question": example.question, "video": None} | NO_FILMSTRIP
        out |= NO_TRACKS | NO_PARTNER
        if example.trace is None:
            out |= self._take_settings(session, form_values() | {"methods": []})
            return joined(out, self.view.note(session), self.view.about_model(session))
        try:
            trace = example.load_trace()
        except TraceError as error:
            return out | self.view.show_error(session, error, "form")
        session.show(trace, example.link)
        out |= self._take_settings(session, settings_of(trace) | self._models_of(trace))
        shown = self.view.show_trace(session, status(message=example.message, done=STAGES))
        self.store.rebalance(session)
        return joined(out, shown)

    def _take_settings(self, session: Session, settings: dict[str, Any]) -> Updates:
        """Puts settings into the form, where nothing is left of what it held before."""
        session.form.values = settings_in(settings | {"sampling": {}})
        session.form.values.setdefault("detector", AUTO)
        session.form.backbone = settings.get("backbone", AUTO)
        models = {"backbone": session.form.backbone, "detector": session.form.values["detector"]}
        return settings | models

    def _models_of(self, trace: Trace) -> dict[str, str]:
        """The models of an example's trace, as far as this page can choose them."""
        allowed, models = self.store.settings, {}
        for kind, name, listed in (
            ("backbone", trace.backbone.name, allowed.backbones),
            ("detector", trace.detector.name, allowed.detectors),
        ):
            usual = {"backbone": backbone_for, "detector": detector_for}[kind]
            if name == usual(AUTO, trace.clip.title):
                models[kind] = AUTO
            elif name in listed or (kind == "backbone" and not allowed.public):
                models[kind] = name
        return models

    def visit(self, name: str | None, key: str) -> Updates:
        """The page was opened by a link: to an example, `?example=NAME`, or to a run, `#run=HASH`.

        name: of the example, "run:HASH", "stopped:QUESTION" of a run that a reload stopped, or
        "unasked:QUESTION" and "forgotten:QUESTION" of a form that a restarted server does not know,
        the latter with a clip of its own; all but the first end in a blank and a count.
        """
        session = self.store.sessions.open(key)
        asked = (name or "").rpartition(" ")[0]
        if asked.startswith(STOPPED):
            return self._come_back(session, asked.removeprefix(STOPPED))
        if asked.startswith(UNASKED):
            return {"question": asked.removeprefix(UNASKED)} | self.view.note(session)
        if asked.startswith(FORGOTTEN):
            error = TraceError(*sentences.FORM_FORGOTTEN)
            question = {"question": asked.removeprefix(FORGOTTEN)}
            return self.view.show_error(session, error, "form") | question
        if asked.startswith(RUN_LINK):
            name = self.runs_of_examples.get(asked.removeprefix(RUN_LINK))
            if name is None:
                error = TraceError(*sentences.NO_RUN_OF_LINK)
                return self.view.show_error(session, error, "open")
        elif session.current is not None:  # a reloaded tab has already opened what it showed
            return self.view.note(session)
        else:
            session.form = self.first_form()
        for i, example in enumerate(self.view.examples):
            if name and example.name == name:
                return {"example": i} | self.choose(i, key)
        if name:
            state = status(message=sentences.no_such_example(name))
            return self.view.show_state(session, state)
        return self.view.note(session)

    def _come_back(self, session: Session, question: str) -> Updates:
        """Says that a reload stopped a run; the form holds again what it asked, as far as known.

        It is known as long as the session of the tab before its reload.
        """
        error = TraceError(*sentences.stopped_by_reload(question))
        left = [
            other
            for other in self.store.sessions.all()
            if other.left_at is not None and other.browser == session.browser != ""
            and other.form.question.strip().startswith(question.strip())
        ]  # fmt: skip
        form = max(left, key=lambda other: other.left_at or 0.0).form if left else None
        if form is None or (form.video is not None and not Path(form.video).is_file()):
            return self.view.show_error(session, error, "form") | {"question": question}
        values = self.view.opening_values() | form.values
        values |= {"sampling": {}, "tracks": None, "counterpart": None}
        session.form = Form(form.example, form.video, form.question, form.title)
        models = {"backbone": form.backbone, "detector": values["detector"] or AUTO}
        out: Updates = {"example": form.example, "video": form.video, "question": form.question}
        out |= NO_FILMSTRIP | NO_TRACKS | NO_PARTNER
        if form.video is not None:
            self.store.uploads.hold(form.video, session.key)
            out["strip"] = {"reading": Path(form.video).name, "wanted": True}
        settings = {
            n: v for n, v in values.items() if n in SETTINGS or n in ("methods", "detector")
        }
        out |= self._take_settings(session, settings | models)
        error_shown = self.view.show_error(session, error, "form")
        return joined(out, error_shown, self.view.note(session), self.view.about_model(session))

    @cached_property
    def runs_of_examples(self) -> dict[str, str]:
        """The run that each example's trace holds, as links name it → the example's name."""
        runs: dict[str, str] = {}
        for example in self.view.examples:
            with suppress(TraceError):
                runs.setdefault(identity(example.load_trace()), example.name)
        return runs

    def upload(self, path: str | None, detector: str | None, key: str) -> Iterator[Updates]:
        """A clip was uploaded: it takes the example's place. None: it was taken away again.

        Its filmstrip follows as soon as it is read. detector: what the form names, which may have
        been typed a moment before.
        """
        session = self.store.sessions.open(key)
        if detector:
            session.form.values["detector"] = detector
        self.store.drop_video(session)
        if not path:
            yield joined(
                NO_FILMSTRIP,
                NO_PARTNER,
                self.view.note(session),
                self.view.about_model(session),
            )
            return
        self.store.uploads.hold(path, key)
        forgotten = self._question_of_example(session)
        out = {"example": None} | self._own_beginning(session)
        session.form.video, session.form.example = str(path), None
        out = joined(
            out, NO_FILMSTRIP, NO_PARTNER, self.view.note(session), self.view.about_model(session)
        )
        yield out | {"strip": {"reading": Path(path).name} | forgotten}
        for shown in self._show_filmstrip(session, str(path), {}):  # the page may miss the first
            yield shown | {"strip": shown["strip"] | forgotten}

    def _own_beginning(self, session: Session) -> Updates:
        """The settings that a clip of the visitor's own begins with: none of an example's.

        The models stay, and so does whatever was chosen by hand.
        """
        form = session.form
        if form.example is None:
            return {}
        example = self.view.examples[form.example]
        usual = form_values() | {"methods": []}
        own = usual
        if example.trace is not None:
            with suppress(TraceError):
                own = settings_in(settings_of(example.load_trace()))
        if any(form.values.get(name, value) != value for name, value in own.items()):
            return {}  # something was chosen by hand
        models = {"backbone": form.backbone, "detector": form.values.get("detector", AUTO)}
        self._take_settings(session, usual | models)
        # what stays is not sent: it may just have been changed on the page
        return {name: value for name, value in usual.items() if own[name] != value}

    def _question_of_example(self, session: Session) -> dict[str, str]:
        """The question that the page takes away with the example, as long as it stands there still.

        The page compares: what is typed while a clip is sent must not be lost.
        """
        at = session.form.example
        return {} if at is None else {"forget": self.view.examples[at].question}

    def choose_range(self, chosen: Any, key: str) -> Iterator[Updates]:
        """The pictures of a shorter range of the uploaded clip, closer together."""
        session = self.store.sessions.open(key)
        if session.form.video is not None and isinstance(chosen, Mapping):
            yield from self._show_filmstrip(session, session.form.video, chosen)

    def set_rate(self, rate: Any, key: str) -> Iterator[Updates]:
        """The strip anew, with other times, where the clip is an archive of pictures."""
        session = self.store.sessions.open(key)
        session.form.values["frame_rate"] = rate
        if (video := session.form.video or "").lower().endswith(".zip"):
            yield from self._show_filmstrip(session, video, {})

    def _show_filmstrip(
        self, session: Session, video: str, chosen: Mapping[str, Any]
    ) -> Iterator[Updates]:
        """Reads and shows the strip, unless the clip was replaced meanwhile."""
        store = self.store

        def stopped() -> bool:
            return session.gone or session.form.video != video

        try:
            slot = store.readers.slot(session.visitor, stopped)
            rate = session.form.values.get("frame_rate", FILMSTRIP.frame_rate)
            clip = read_filmstrip(video, chosen, stopped, slot, store.read_limits, rate)
        except Cancelled:
            return
        except MacdError as error:
            if not stopped():
                if not chosen:
                    session.form.unreadable = video
                shown = self.view.show_error(session, error, "clip") | {"strip": {}}
                yield joined(shown, self.view.note(session), self.view.about_model(session))
            return
        if stopped():
            return
        session.form.title = clip.title
        longest = VideoOptions().max_seconds
        strip = {"strip": filmstrip_value(clip, longest)}
        yield joined(strip, self.view.about_model(session))

    def reset(self, key: str) -> Updates:
        """Every option as it is by default; the clip, its frames, question and files stay."""
        session = self.store.sessions.open(key)
        settings: dict[str, Any] = form_values() | {"methods": [], "detector": AUTO}
        session.form.values |= settings
        session.form.backbone = AUTO
        settings["backbone"] = AUTO
        return settings | joined(self.view.note(session), self.view.about_model(session))

    def choose_model(self, backbone: str | None, key: str) -> Updates:
        """Another backbone was chosen: it knows other things."""
        session = self.store.sessions.open(key)
        session.form.backbone = (backbone or AUTO).strip()
        return self.view.about_model(session)

    def words(
        self, question: str | None, detector: str | None, words: list[str] | None, key: str
    ) -> Updates:
        """Another question or detector: what it names, unless the visitor has chosen words."""
        session = self.store.sessions.open(key)
        phrases = list(noun_phrases((question or "")[:MAX_LENGTH]))
        untouched = not words or list(words) == session.form.phrases
        session.form.phrases = phrases
        return {
            "words": gr.update(
                choices=phrases,
                value=phrases if untouched else words,
                visible=reads_words((detector or AUTO).strip()),
            )
        }

    def use_real(self, key: str) -> Updates:
        """Chooses the real models that fit this machine."""
        session = self.store.sessions.open(key)
        models = offered(self.store.settings)
        if models is None:
            return {}
        session.form.backbone = models.backbone
        chosen = {"backbone": models.backbone, "detector": models.detector}
        return joined(chosen, self.view.about_model(session))

    def edit_form(self, values: Mapping[str, Any], key: str) -> Updates:
        """Something in the form changed, by hand or by us."""
        session = self.store.sessions.open(key)
        session.form.example = self.view.example_index(values["example"])
        session.form.question = values["question"] or ""
        session.form.backbone = (values["backbone"] or AUTO).strip()
        self.store.keep_partner(session, values.get("counterpart"))
        session.form.values = settings_in(values)
        return self.view.note(session)

    def open_trace(self, path: str | None, key: str) -> Iterator[Updates]:
        """Shows a saved trace; needs no model. The form then asks for the same.

        Files are opened in turn, as each may take much memory while it is read.
        """
        if not path:
            return
        session = self.store.sessions.open(key)
        self.store.uploads.hold(path, key)
        try:
            with self.store.place_to_open(session.visitor) as ticket:
                while not ticket.wait(NEAR_S, lambda: session.gone):
                    if session.gone:
                        return
                    expected = (ticket.wait_s or 0.0) / ticket.capacity
                    waiting = status(
                        message=sentences.place_to_open(ticket.ahead, expected), running=True
                    )
                    yield self.view.show_state(session, waiting)
                opened = self._opened(session, load(path))
                self.store.rebalance(session)
            yield opened
        except MacdError as error:
            yield self.view.show_error(session, error, "open")
            return
        finally:  # the session has what is in the file now
            self.store.let_go(session, path)
        if session.form.video is not None:
            yield from self._show_filmstrip(session, session.form.video, {})

    def _opened(self, session: Session, trace: Trace) -> Updates:
        example, link = self._example_of(trace)
        upload = None if example is not None else self._upload_of(session, trace)
        if upload is None or upload.video != session.form.video:
            self.store.drop_video(session)
        # a file names no model that is loaded for it: those of the form stay
        values = self.view.opening_values() | session.form.values
        models = {"backbone": session.form.backbone, "detector": values["detector"]}
        session.form = Form(example, None, trace.question)
        if upload is not None and upload.video is not None:
            session.form.video, session.form.title = upload.video, upload.title
            self.store.uploads.hold(upload.video, session.key)
        session.show(trace, link)
        form: Updates = {
            "example": example,
            "question": trace.question,
            "video": session.form.video,
        } | NO_FILMSTRIP
        form |= NO_TRACKS | NO_PARTNER
        form |= self._take_settings(session, settings_of(trace) | models)
        try:
            return form | self.view.show_trace(session, status(done=STAGES))
        except MacdError:
            session.current, session.lost = None, True
            raise

    def _example_of(self, trace: Trace) -> tuple[int | None, str]:
        """The example with the trace's clip, by its content; its link if the question is its own.

        Where several have the clip, the one with the trace's question counts.
        """
        same = [
            i
            for i, example in enumerate(self.view.examples)
            if digest(str(example.video)) == trace.clip.sha256
        ]
        for i in same:
            if self.view.examples[i].question.strip() == trace.question.strip():
                return i, self.view.examples[i].link
        return (same[0] if same else None), ""

    def _upload_of(self, session: Session, trace: Trace) -> Form | None:
        """The form of this browser that holds the trace's clip, as a tab does until its reload."""
        for other in self.store.sessions.all():
            theirs = other is session or (other.browser == session.browser != "")
            if theirs and (video := other.form.video) and digest(video) == trace.clip.sha256:
                return other.form
        return None

    def first_form(self) -> Form:
        """What the form holds when the page is opened."""
        if self.view.first is None:
            return Form()
        return Form(self.view.examples.index(self.view.first[0]), None, self.view.first[0].question)

    def unfold_plot(self, unfolded: bool, key: str) -> Updates:
        """The strength plot was opened or folded away; only an open one is drawn and sent."""
        session = self.store.sessions.open(key)
        session.plot_open = unfolded
        if session.lost:  # nobody knows the plot of what is shown
            return {}
        if session.current is None or not unfolded:
            return plot(session, self.view.first[1] if self.view.first else None)
        try:
            with self.store.open_in_turn(session.visitor, lambda: session.gone):
                updates = plot(session, session.trace)
                self.store.rebalance(session)
        except MacdError:  # the trace is gone; what is done with it next says so
            return {}
        return updates
