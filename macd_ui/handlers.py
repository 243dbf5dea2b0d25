"""Events of the page → what the widgets show. No layout here, no maths.

Runs are `macd_ui.runs`, changes by hand `macd_ui.changes`; here is what needs no device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import gradio as gr

from macd_studio.core.errors import Cancelled, MacdError, TraceError
from macd_studio.core.options import VideoOptions
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Trace
from macd_studio.macd_ui import zerogpu
from macd_studio.macd_ui.changes import Changes
from macd_studio.macd_ui.estimate import STAGES, work_of_options
from macd_studio.macd_ui.forms import form_values, run_options
from macd_studio.macd_ui.jobs import TELL_S
from macd_studio.macd_ui.models import offered
from macd_studio.macd_ui.reading import digest, read_strip, strip_value
from macd_studio.macd_ui.runs import Runs
from macd_studio.macd_ui.session import Form, Session
from macd_studio.macd_ui.settings import EMBEDDED
from macd_studio.macd_ui.showing import NO_STRIP, Updates, joined, plot, settings_of
from macd_studio.macd_ui.wording import opening_in_words
from macd_studio.viewer import identity, status

RUN_LINK = "run:"
"""What the name of a run begins with, where the name of an example could stand too."""


class Handlers(Runs, Changes):
    """Each method answers one event with updates by widget name; layout.py maps the names."""

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
        """An example was chosen: shows its saved trace, and the form asks for just that."""
        session = self.store.session(key)
        session.form.example = self._index(index)
        if session.form.example is None:
            return self._note(session)
        example = self.examples[session.form.example]
        self._drop_video(session)
        session.form.question = example.question
        out: Updates = {"question": example.question, "video": None} | NO_STRIP
        if example.trace is None:
            out |= self._take_settings(session, form_values() | {"methods": []})
            return joined(out, self._note(session), self._buttons(session))
        try:
            trace = example.load_trace()
        except TraceError as error:
            return out | self.refused(session, error, "form")
        session.show(trace, example.link)
        out |= self._take_settings(session, settings_of(trace) | self._models_of(trace))
        shown = self._shown(session, status(message=example.message, done=STAGES))
        self.store.settle(session)
        return joined(out, shown)

    def _take_settings(self, session: Session, settings: dict[str, Any]) -> Updates:
        """Puts settings into the form, where nothing is left of what it held before."""
        session.form.values = self._settings_in(settings | {"sampling": {}})
        session.form.values.setdefault("detector", EMBEDDED)
        session.form.backbone = settings.get("backbone", EMBEDDED)
        models = {"backbone": session.form.backbone, "detector": session.form.values["detector"]}
        return settings | models

    def _models_of(self, trace: Trace) -> dict[str, str]:
        """The models of an example's trace, as far as this page can choose them."""
        offered, found = self.store.settings, {}
        for kind, name, listed in (
            ("backbone", trace.backbone.name, offered.backbones),
            ("detector", trace.detector.name, offered.detectors),
        ):
            if name in listed or (kind == "backbone" and not offered.public):
                found[kind] = name
        return found

    def visit(self, name: str | None, key: str) -> Updates:
        """The page was opened by a link: to an example, `?example=NAME`, or to a run, `#run=HASH`.

        name: of the example, or "run:HASH".
        """
        session = self.store.session(key)
        run = (name or "").removeprefix(RUN_LINK) if (name or "").startswith(RUN_LINK) else None
        if run is not None:
            name = self.runs_of_examples.get(run)
            if name is None:
                error = TraceError(
                    "the run of this link is not here, so another one is shown: runs stay in the"
                    " browser that made them",
                    "Ask whoever sent the link for the saved trace, and open that",
                )
                return self.refused(session, error, "open")
        elif session.shown is not None:  # a reloaded tab has already opened what it showed
            return self._note(session)
        else:
            session.form = self.first_form()
        for i, example in enumerate(self.examples):
            if name and example.name == name:
                return {"example": i} | self.choose(i, key)
        if name:
            state = status(message=f"There is no example {name[:60]!r}; another one is shown.")
            return {"viewer": self._view(session, None, state)}
        return self._note(session)

    @cached_property
    def runs_of_examples(self) -> dict[str, str]:
        """The run that each example's trace holds, as links name it → the example's name."""
        runs: dict[str, str] = {}
        for example in self.examples:
            with suppress(TraceError):
                runs.setdefault(identity(example.load_trace()), example.name)
        return runs

    def upload(self, path: str | None, key: str) -> Iterator[Updates]:
        """A clip was uploaded: it takes the example's place. None: it was taken away again.

        Its filmstrip follows as soon as it is read.
        """
        session = self.store.session(key)
        self._drop_video(session)
        if not path:
            yield joined(NO_STRIP, self._note(session), self._buttons(session))
            return
        self.store.uploads.hold(path, key)
        session.form.video, session.form.example = str(path), None
        out = joined({"example": None}, NO_STRIP, self._note(session), self._buttons(session))
        yield out | {"strip": {"reading": Path(path).name}}
        yield from self._strip(session, str(path), {})

    def strip(self, chosen: Any, key: str) -> Iterator[Updates]:
        """The pictures of a shorter range of the uploaded clip, closer together."""
        session = self.store.session(key)
        if session.form.video is not None and isinstance(chosen, Mapping):
            yield from self._strip(session, session.form.video, chosen)

    def _strip(self, session: Session, video: str, chosen: Mapping[str, Any]) -> Iterator[Updates]:
        """Reads and shows the strip, unless the clip was replaced meanwhile."""
        store = self.store

        def stopped() -> bool:
            return session.gone or session.form.video != video

        try:
            turn = store.readers.turn(session.visitor, stopped)
            clip = read_strip(video, chosen, stopped, turn, store.read_limits)
        except Cancelled:
            return
        except MacdError as error:
            if not stopped():
                yield self.refused(session, error, "clip") | {"strip": {}}
            return
        if stopped():
            return
        session.form.title = clip.title
        longest = VideoOptions().max_seconds
        yield joined({"strip": strip_value(clip, longest)}, self._buttons(session))

    def choose_model(self, backbone: str | None, key: str) -> Updates:
        """Another backbone was chosen: Run may do more, or less."""
        session = self.store.session(key)
        session.form.backbone = (backbone or EMBEDDED).strip()
        return self._buttons(session)

    def use_real(self, key: str) -> Updates:
        """Chooses the real models that fit this machine."""
        session = self.store.session(key)
        models = offered(self.store.settings)
        if models is None:
            return {}
        session.form.backbone = models.backbone
        chosen = {"backbone": models.backbone, "detector": models.detector}
        return joined(chosen, self._buttons(session))

    def ask(self, values: Mapping[str, Any], key: str) -> Updates:
        """Something in the form changed, by hand or by us."""
        session = self.store.session(key)
        session.form.example = self._index(values["example"])
        session.form.question = values["question"] or ""
        session.form.backbone = (values["backbone"] or EMBEDDED).strip()
        session.form.values = self._settings_in(values)
        return self._note(session)

    def open(self, path: str | None, key: str) -> Iterator[Updates]:
        """Shows a saved trace; needs no model. The form then asks for the same.

        Files are opened in turn, as each may take much memory while it is read.
        """
        if not path:
            return
        session = self.store.session(key)
        self.store.uploads.hold(path, key)
        try:
            with self.store.place_to_open(session.visitor) as ticket:
                while not ticket.wait(TELL_S, lambda: session.gone):
                    if session.gone:
                        return
                    waiting = status(message=opening_in_words(ticket), running=True)
                    yield {"viewer": self._view(session, None, waiting)}
                opened = self._opened(session, load(path))
                self.store.settle(session)
            yield opened
        except MacdError as error:
            yield self.refused(session, error, "open")
        finally:  # what is in the file is kept by the session now
            self.store.uploads.release(key, path)

    def _opened(self, session: Session, trace: Trace) -> Updates:
        example = self._example_of(trace)
        self._drop_video(session)
        # a file names no model that is loaded for it: the form keeps its own
        former = self._opening_values() | session.form.values
        kept = {"backbone": session.form.backbone, "detector": former["detector"]}
        session.form = Form(example, None, trace.question)
        session.show(trace, "" if example is None else self.examples[example].link)
        form: Updates = {"example": example, "question": trace.question, "video": None} | NO_STRIP
        form |= self._take_settings(session, settings_of(trace) | kept)
        return form | self._shown(session, status(done=STAGES))

    def refused(self, session: Session, error: MacdError, where: str) -> Updates:
        """The trace on show as it is, with the error at that part of the page."""
        return {"viewer": self._view(session, None, status(error=str(error), where=where))}

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
        if session.shown is None or not unfolded:
            return plot(session, self.first[1] if self.first else None)
        try:
            with self.store.open_in_turn(session.visitor):
                drawn = plot(session, session.trace)
                self.store.settle(session)
        except MacdError:  # the trace is gone; what is done with it next says so
            return {}
        return drawn

    def first_paint(self) -> dict[str, Any] | None:
        """Viewer value of the first example that has a trace, or nothing."""
        if self.first is None:
            return None
        example, trace = self.first
        state = status(message=example.message, done=STAGES)
        return self._view(Session(), trace, state, link=example.link)
