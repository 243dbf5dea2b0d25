"""What a session shows, as updates of the page's widgets by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gradio as gr

from macd_studio.core.errors import MacdError, TraceError
from macd_studio.core.figures.strengths import has_ascent
from macd_studio.core.methods import METHODS
from macd_studio.core.truth import is_right
from macd_studio.core.types import Trace
from macd_studio.macd_ui.actions import known_costs
from macd_studio.macd_ui.draws import COUNTED_TOO, Drawn
from macd_studio.macd_ui.examples import Example, load_first
from macd_studio.macd_ui.files import addresses
from macd_studio.macd_ui.forms import (
    ALWAYS,
    SETTINGS,
    Asked,
    asked_of,
    asked_with,
    difference,
    form_values,
    run_options,
)
from macd_studio.macd_ui.models import offered
from macd_studio.macd_ui.reading import digest
from macd_studio.macd_ui.session import Form, Session, Store
from macd_studio.macd_ui.settings import EMBEDDED
from macd_studio.viewer import payload

Updates = dict[str, Any]
RUN, MASKS_ONLY = "Run", "Detect and mask only"
"""What the first button says."""
DRAWN_TITLE = "toy world"
"""The title of the clips that the embedded backbone was trained on, `toyworld.clips.TITLE`."""


@dataclass(frozen=True)
class Showing:
    """What the page shows of a session, and where the form differs from it."""

    store: Store
    examples: list[Example]

    def _shown(self, session: Session, state: dict[str, Any]) -> Updates:
        """The session's trace with its plot and its files; only the state of one that is gone."""
        try:
            trace, link = session.trace, session.link
            former = session.former[-1].get() if session.former else None
        except TraceError:
            return joined({"viewer": self._view(session, None, state)}, self._note(session))
        if trace is None and self.first is not None:
            trace, link = self.first[1], self.first[0].link
        view = self._view(session, trace, state, former=former, link=link)
        shown = {"viewer": view} | plot(session, trace)
        return joined(shown, self._note(session), self._buttons(session), saving(True))

    def _given_back(self, session: Session, state: dict[str, Any]) -> Updates:
        """After a run without a result: what was shown before it, and the reason."""
        replaced, session.pending = session.pending is not None, None
        if replaced:
            return joined(self._shown(session, state), running(False))
        view = {"viewer": self._view(session, None, state)}
        return joined(view, self._buttons(session), running(False), self._note(session))

    def _view(
        self,
        session: Session,
        trace: Trace | None,
        state: dict[str, Any],
        frames: bool = True,
        former: Trace | None = None,
        link: str = "",
    ) -> dict[str, Any]:
        files = addresses(session, self.first and self.first[0])
        costs = None if trace is None else known_costs(self.store.estimator, trace)
        return payload(trace, state, frames, former, link, files, bool(session.undone), costs)

    def _note(self, session: Session) -> Updates:
        """Where the form would run something else than what is shown."""
        shown = session.pending
        if shown is None and session.shown is not None:
            shown = asked_with(session.shown.asked, session.models)
        if shown is None and self.first is not None:
            shown = asked_of(self.first[1])
        try:
            text = difference(shown, self._wanted(session.form))
        except MacdError as error:
            text = f"The form cannot be run: {error}"
        return {"note": {"text": text}}

    def _outside(self, form: Form) -> bool:
        """Whether the embedded backbone would be asked about a clip of another kind than its own.

        An example is its operator's choice; what it shows is marked all the same.
        """
        return form.video is not None and form.backbone == EMBEDDED and form.title != DRAWN_TITLE

    def _buttons(self, session: Session) -> Updates:
        """What Run would do, said on the button; whether an answer can be asked for anyway."""
        outside, shown = self._outside(session.form), session.shown
        masked = shown is not None and outside and shown.asked.masks_only
        same = masked and shown and digest(str(session.form.video)) == shown.asked.sha256
        models = offered(self.store.settings) if outside else None
        guard = {
            "outside": outside,
            "title": models.title if models else "",
            "facts": models.facts if models else "",
        }
        return {
            "run": gr.update(value=MASKS_ONLY if outside else RUN),
            "answer": gr.update(visible=bool(same)),
            "guard": guard,
            "real": gr.update(
                visible=models is not None, value=f"Use {models.title}" if models else ""
            ),
        }

    def _wanted(self, form: Form) -> Asked | None:
        """What Run would compute; None without a clip. Raises OptionError for a setting."""
        video = form.video
        if video is None and form.example is not None:
            video = str(self.examples[form.example].video)
        if video is None or not Path(video).is_file():
            return None
        values = self._opening_values() | form.values
        return Asked(
            Path(video).name,
            digest(video),
            form.question,
            run_options(values),
            tuple(m for m in values["methods"] or () if m in METHODS),
            form.backbone,
            (values["detector"] or EMBEDDED).strip(),
        )

    def _settings_in(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the form's settings hold, without clip and question."""
        return {name: values[name] for name in (*KEPT, *SETTINGS) if name in values}

    def _opening_values(self) -> dict[str, Any]:
        """The settings as the page opens: those of its first example."""
        opening = {"methods": [], "detector": EMBEDDED, "sampling": {}}
        return opening | (settings_of(self.first[1]) if self.first else form_values())

    def _kept(self, session: Session, state: dict[str, Any]) -> Updates:
        """What was there before a change that failed."""
        session.bench = None
        return joined(self._shown(session, state), running(False))

    @cached_property
    def first(self) -> tuple[Example, Trace] | None:
        """The example that the page opens on, with its trace."""
        return load_first(self.examples)


KEPT = ("methods", "detector", "sampling")
"""Inputs of the form that are settings too, and no option."""


def settings_of(trace: Trace) -> dict[str, Any]:
    """The form's settings that ask for a trace's run, without its models."""
    methods = [m for m in trace.answers if m in METHODS and m not in ALWAYS]
    return form_values(trace.options) | {"methods": methods}


def joined(*parts: Updates) -> Updates:
    """Updates of several sources; those of one widget are made one."""
    out: Updates = {}
    for name, update in ((n, u) for part in parts for n, u in part.items()):
        former = out.get(name)
        both = isinstance(update, dict) and isinstance(former, dict) and "__type__" in update
        out[name] = former | update if both and former is not None else update
    return out


def plot(session: Session, trace: Trace | None) -> Updates:
    """The strength plot as far as it is on show: its library is large, and comes with it."""
    if not session.plot_open:
        return {}
    return {"plot": trace.figure("strengths") if trace is not None and has_ascent(trace) else None}


def running(now: bool) -> Updates:
    """Which of the buttons Run and Stop can be pressed."""
    return {
        "run": gr.update(interactive=not now),
        "answer": gr.update(interactive=not now),
        "draw": gr.update(interactive=not now),
        "stop": gr.update(interactive=now),
    }


NO_STRIP: Updates = {"strip": {}, "sampling": {}}
"""The form holds no clip whose frames could be chosen."""


def tally_of(trace: Trace | None, drawn: Drawn) -> dict[str, Any]:
    """Who was right about a random draw; {} where its run did not end."""
    if trace is None or trace.status != "complete" or trace.clip.name != Path(drawn.video).name:
        return {}
    right = {name: is_right(a.text, drawn.truth) for name, a in trace.answers.items()}
    titles = {name: METHODS[name].title for name in right if name in METHODS}
    if COUNTED_TOO in titles:
        titles[COUNTED_TOO] = f"{titles[COUNTED_TOO]} (+{trace.options.rules.delta:g})"
    return {"seed": drawn.seed, "truth": drawn.truth, "right": right, "titles": titles}


def saving(now: bool) -> Updates:
    """Whether the shown trace can be saved."""
    return {"save": gr.update(interactive=now), "export": gr.update(interactive=now)}
