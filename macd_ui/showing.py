"""What a session shows, as updates of the page's widgets by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gradio as gr

from core.figures.strengths import has_ascent
from core.types import Trace
from macd_ui.examples import Example, load_first
from macd_ui.files import addresses
from macd_ui.reading import digest
from macd_ui.session import Asked, Form, Session, Store
from macd_ui.shown import difference
from viewer import payload

Updates = dict[str, Any]


@dataclass(frozen=True)
class Showing:
    """What the page shows of a session, and where the form differs from it."""

    store: Store
    examples: list[Example]

    def _shown(self, session: Session, state: dict[str, Any]) -> Updates:
        """The session's trace with its plot and its files."""
        trace, link = session.trace, session.link
        if trace is None and self.first is not None:
            trace, link = self.first[1], self.first[0].link
        former = session.former[-1] if session.former else None
        view = self._view(session, trace, state, former=former, link=link)
        return {"viewer": view} | plot(session, trace) | self._note(session) | saving(True)

    def _given_back(self, session: Session, state: dict[str, Any]) -> Updates:
        """After a run without a result: what was shown before it, and the reason."""
        replaced, session.pending = session.pending is not None, None
        if replaced:
            return self._shown(session, state) | running(False)
        return {"viewer": self._view(session, None, state)} | running(False) | self._note(session)

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
        return payload(trace, state, frames, former, link, files, bool(session.undone))

    def _note(self, session: Session) -> Updates:
        """Where the form would run something else than what is shown."""
        shown, trace = session.pending, session.trace
        if shown is None and trace is None and self.first is not None:
            trace = self.first[1]
        if shown is None and trace is not None:
            shown = Asked(trace.clip.name, trace.clip.sha256, trace.question)
        return {"note": {"text": difference(shown, self._wanted(session.form))}}

    def _wanted(self, form: Form) -> Asked | None:
        video = form.video
        if video is None and form.example is not None:
            video = str(self.examples[form.example].video)
        if video is None or not Path(video).is_file():
            return None
        return Asked(Path(video).name, digest(video), form.question)

    def _kept(self, session: Session, state: dict[str, Any]) -> Updates:
        """What was there before a change that failed."""
        session.bench = None
        return self._shown(session, state) | running(False)

    @cached_property
    def first(self) -> tuple[Example, Trace] | None:
        """The example that the page opens on, with its trace."""
        return load_first(self.examples)


def plot(session: Session, trace: Trace | None) -> Updates:
    """The strength plot as far as it is on show: its library is large, and comes with it."""
    if not session.plot_open:
        return {}
    return {"plot": trace.figure("strengths") if trace is not None and has_ascent(trace) else None}


def running(now: bool) -> Updates:
    """Which of the buttons Run and Stop can be pressed."""
    return {"run": gr.update(interactive=not now), "stop": gr.update(interactive=now)}


def saving(now: bool) -> Updates:
    """Whether the shown trace can be saved."""
    return {"save": gr.update(interactive=now), "export": gr.update(interactive=now)}
