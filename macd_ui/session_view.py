"""What a session shows, as updates of the page's widgets by name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gradio as gr

from macd_studio.core.embedded import (
    AUTO,
    DRAWN,
    EMBEDDED,
    EVERYDAY,
    backbone_for,
    detector_for,
)
from macd_studio.core.errors import MacdError, TraceError
from macd_studio.core.figures.strengths import has_ascent
from macd_studio.core.methods import METHODS, clamped_share, in_8_bits
from macd_studio.core.objects.truth import is_right
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.types import Trace
from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.actions import known_costs
from macd_studio.macd_ui.chosen import Search, shown
from macd_studio.macd_ui.clips import digest
from macd_studio.macd_ui.estimate import STAGES
from macd_studio.macd_ui.examples import Example, load_first
from macd_studio.macd_ui.files import addresses
from macd_studio.macd_ui.forms import (
    SETTINGS,
    STANDARD_METHODS,
    RunRequest,
    difference,
    form_values,
    request_of_trace,
    run_options,
    with_models,
)
from macd_studio.macd_ui.gallery.routes import site_of
from macd_studio.macd_ui.gallery.site import Site
from macd_studio.macd_ui.models import offered
from macd_studio.macd_ui.random_clips import COUNTED_TOO, RandomClip
from macd_studio.macd_ui.session import Form, Session
from macd_studio.macd_ui.store import Store
from macd_studio.viewer import payload, status

Updates = dict[str, Any]
OTHER_FIELDS = ("methods", "detector", "tracks", "counterpart", "words", "sampling")
"""Inputs of the form that are settings too, and no option."""
NO_FILMSTRIP: Updates = {"strip": {}, "sampling": {}}
"""The form holds no clip whose frames could be chosen."""
NO_TRACKS: Updates = {"tracks": None}
"""Nor a file with the objects of a clip."""
NO_PARTNER: Updates = {"counterpart": None}
"""Nor another clip of its scene."""


@dataclass(frozen=True)
class SessionView:
    """Renders a session: its trace, the buttons, and where the form differs from what is shown."""

    store: Store
    examples: list[Example]

    @cached_property
    def first(self) -> tuple[Example, Trace] | None:
        """The example that the page opens on, with its trace."""
        return load_first(self.examples)

    @cached_property
    def gallery(self) -> Site:
        """The operator's gallery, with what was read of it."""
        return site_of(self.store.settings)

    def example_index(self, value: Any) -> int | None:
        """The index of an example in a widget's value; None for what is none."""
        return None if value is None or not 0 <= int(value) < len(self.examples) else int(value)

    def show_trace(self, session: Session, state: dict[str, Any]) -> Updates:
        """The session's trace with its plot and its files; only the state of one that is gone."""
        try:
            trace, link = session.trace, session.link
            before = session.undo_stack[-1].get() if session.undo_stack else None
        except TraceError:
            viewer = self.viewer(session, None, state) | {"lost": True}
            return joined({"viewer": viewer}, self.note(session))
        if trace is None and session.lost:
            return joined(self.show_state(session, state), self.note(session))
        if trace is None and self.first is not None:
            trace, link = self.first[1], self.first[0].link
        viewer = self.viewer(session, trace, state, before=before, link=link)
        shown = {"viewer": viewer} | plot(session, trace)
        return joined(shown, self.note(session), self.about_model(session), saving(True))

    def show_again(self, session: Session, state: dict[str, Any]) -> Updates:
        """Shows the session's trace when its turn comes, which costs what opening one does.

        The state alone where the visitor has no turn, or it takes too long.
        """
        try:
            with self.store.open_in_turn(session.visitor, lambda: session.gone):
                return self.show_trace(session, state)
        except MacdError:
            return self.show_state(session, state)

    def restore_after_run(self, session: Session, state: dict[str, Any]) -> Updates:
        """After a run without a result: what was shown before it, and the reason."""
        replaced, session.pending = session.pending is not None, None
        if replaced:
            return joined(self.show_again(session, state), running(False))
        viewer = self.show_state(session, state)
        return joined(viewer, self.about_model(session), running(False), self.note(session))

    def restore_after_change(self, session: Session, state: dict[str, Any]) -> Updates:
        """What was there before a change that failed."""
        session.bench = None
        return joined(self.show_again(session, state), running(False))

    def show_state(self, session: Session, state: dict[str, Any]) -> Updates:
        """The trace on the page as it is, with another state."""
        return {"viewer": self.viewer(session, None, state)}

    def show_error(self, session: Session, error: MacdError, where: str) -> Updates:
        """The trace on the page as it is, with the error at that part of the page."""
        return self.show_state(session, status(error=sentences.of_error(error) or "", where=where))

    def first_paint(self) -> dict[str, Any] | None:
        """The viewer's value for the example that the page opens on; None without one."""
        if self.first is None:
            return None
        example, trace = self.first
        state = status(message=example.message, done=STAGES)
        return self.viewer(Session(), trace, state, link=example.link)

    def viewer(
        self,
        session: Session,
        trace: Trace | None,
        state: dict[str, Any],
        frames: bool = True,
        before: Trace | None = None,
        link: str = "",
    ) -> dict[str, Any]:
        """The viewer's value, see `viewer.payload`. before: the trace before a change by hand.

        "lost" in it: what the page shows is not on the server any more. Raises TraceError where a
        shared server would take too long, and Cancelled where the tab is closed.
        """
        files = addresses(session, self.first and self.first[0])
        costs = None if trace is None else known_costs(self.store.estimator, trace)
        redo = bool(session.redo_stack)
        check = self.store.showing(session)
        value = payload(trace, state, frames, before, link, files, redo, costs, check)
        if trace is not None and (how := self._how_chosen(session, trace, link)):
            value["trace"]["chosen"] = how
        return value | ({"lost": True} if trace is None and session.lost else {})

    @cached_property
    def search(self) -> Search | None:
        """The search that the first example with one was chosen in."""
        return next((e.search for e in self.examples if e.search), None)

    def _how_chosen(self, session: Session, trace: Trace, link: str) -> dict[str, str] | None:
        """How the clip on show was chosen, where its counts are known; see `chosen.Search`."""
        clip = session.random_clip
        if clip is not None and clip.about and trace.clip.name == Path(clip.video).name:
            return shown(sentences.CHOSEN_AT_RANDOM, clip.about)
        search = next((e.search for e in self.examples if link and e.link == link), None)
        return search.payload() if search else None

    def note(self, session: Session) -> Updates:
        """Where the form would run something else than what is shown."""
        shown = session.pending
        if shown is None and session.current is not None:
            shown = with_models(session.current.request, session.models)
        if shown is None and self.first is not None and not session.lost:
            shown = request_of_trace(self.first[1])
        try:
            asked = self.requested_run(session.form)
            text = difference(shown, asked)
        except MacdError as error:
            return {"note": {"text": sentences.form_refused(error)}}
        other = [shown.clip, asked.clip] if shown and asked and shown.sha256 != asked.sha256 else []
        video = session.form.video
        if video is not None and video == session.form.unreadable:  # its error stands beside it
            text, other = "", []
        return {"note": {"text": text, "other": other}}

    def title_of(self, form: Form) -> str:
        """The title of the form's clip, as far as it is known: what AUTO follows."""
        if form.video is not None:
            return form.title
        if form.example is None:
            return DRAWN  # the page opens with an example
        with suppress(TraceError):
            return self.examples[form.example].load_trace().clip.title
        return ""

    def about_model(self, session: Session) -> Updates:
        """Which models the form takes and why, what they know, and larger ones instead."""
        form, title = session.form, self.title_of(session.form)
        empty = form.video is None and form.example is None
        if empty or form.video == form.unreadable:  # there is nothing to fit them to
            return {"knows": {}, "real": gr.update(visible=False)}
        backbone = backbone_for(form.backbone, title)
        chosen = (form.values.get("detector") or AUTO).strip()
        warning = sentences.KNOWS_DRAWINGS_ONLY if backbone == EMBEDDED and title != DRAWN else ""
        own = form.video is not None and backbone in (EMBEDDED, EVERYDAY) and title != DRAWN
        models = offered(self.store.settings) if own else None
        facts = {"title": models.title, "facts": models.facts} if models else {}
        return {
            "knows": {
                "models": sentences.models_of_run(
                    backbone, detector_for(chosen, title), form.backbone == AUTO == chosen
                ),
                "warning": warning,
                "text": sentences.KNOWS.get(backbone, ""),
            }
            | facts,
            "real": gr.update(
                visible=models is not None,
                value=sentences.use_models(models.title) if models else "",
            ),
        }

    def requested_run(self, form: Form) -> RunRequest | None:
        """What Run would compute; None without a clip. Raises OptionError for a setting."""
        video = form.video
        if video is None and form.example is not None:
            video = str(self.examples[form.example].video)
        if video is None or not Path(video).is_file():
            return None
        values = self.opening_values() | form.values
        detector = (values["detector"] or AUTO).strip()
        spec = RunSpec(
            form.question,
            run_options(values),
            tuple(m for m in values["methods"] or () if m in METHODS),
            form.backbone,
            Path(values["tracks"]).name if values["tracks"] else detector,
        ).for_clip(self.title_of(form))
        return RunRequest(
            Path(video).name, digest(video), spec, partner=partner_of(values["counterpart"])
        )

    def opening_values(self) -> dict[str, Any]:
        """The settings as the page opens: those of its first example."""
        opening: dict[str, Any] = {
            "methods": [],
            "detector": AUTO,
            "sampling": {},
            "tracks": None,
            "counterpart": None,
            "words": [],
        }
        return opening | (settings_of(self.first[1]) if self.first else form_values())


def partner_of(path: str | None) -> tuple[str, str]:
    """Name and hash of a file that is a clip's partner, as a request holds them."""
    return (Path(path).name, digest(str(path))) if path else ("", "")


def settings_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the form's settings hold, without clip and question."""
    return {name: values[name] for name in (*OTHER_FIELDS, *SETTINGS) if name in values}


def settings_of(trace: Trace) -> dict[str, Any]:
    """The form's settings that ask for a trace's run, without its models."""
    methods = [m for m in trace.answers if m in METHODS and m not in STANDARD_METHODS]
    return form_values(trace.options) | {"methods": methods}


def joined(*parts: Updates) -> Updates:
    """Updates of several sources; those of one widget are made one."""
    out: Updates = {}
    for name, update in ((n, u) for part in parts for n, u in part.items()):
        earlier = out.get(name)
        both = isinstance(update, dict) and isinstance(earlier, dict) and "__type__" in update
        out[name] = earlier | update if both and earlier is not None else update
    return out


MAX_LINES, MAX_POINTS = 100, 20_000
"""Objects of the strength plot, as many as a run has at most, and its points: twice those of the
longest ascent with that many objects. An untrusted file may hold more: 1,000 objects take
minutes to draw, and millions of points stop the browser."""


def plot(session: Session, trace: Trace | None) -> Updates:
    """The strength plot as far as it is on show: its library is large, and comes with it."""
    if not session.plot_open:
        return {}
    if trace is None or len(trace.tracks) > MAX_LINES:
        return {"plot": None}
    if len(trace.steps) * (len(trace.tracks) + len(trace.groups)) > MAX_POINTS:
        return {"plot": None}
    return {"plot": trace.figure("strengths") if has_ascent(trace) else None}


def running(now: bool) -> Updates:
    """Which of the buttons that start and stop a job can be pressed."""
    idle = {name: gr.update(interactive=not now) for name in ("run", "draw")}
    return idle | {"stop": gr.update(interactive=now)}


def saving(now: bool) -> Updates:
    """Whether the shown trace can be saved."""
    return {"save": gr.update(interactive=now), "export": gr.update(interactive=now)}


def tally_of(trace: Trace | None, clip: RandomClip) -> dict[str, Any]:
    """Who was right about a random clip; {} where its run did not end."""
    if trace is None or trace.status != "complete" or trace.clip.name != Path(clip.video).name:
        return {}
    right = {name: is_right(a.text, clip.truth) for name, a in trace.answers.items()}
    titles = {
        name: in_8_bits(METHODS[name].title, clamped_share(answer))
        for name, answer in trace.answers.items()
        if name in METHODS
    }
    if COUNTED_TOO in titles:
        titles[COUNTED_TOO] = f"{titles[COUNTED_TOO]} (+{trace.options.rules.delta:g})"
    return {"seed": clip.seed, "truth": clip.truth, "right": right, "titles": titles}
