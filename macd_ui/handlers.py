"""Events → pipeline → what the widgets show. No layout here, no maths."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from core.bundle import load, save
from core.errors import MacdError, OptionError, TraceError, VideoNotFound
from core.types import Progress
from macd_ui.examples import Example
from macd_ui.figures.strengths import strengths_figure
from macd_ui.forms import run_options
from macd_ui.session import Session, Store
from macd_ui.viewer import identity, payload, standalone, status

if TYPE_CHECKING:
    from core.pipeline import Event
    from core.types import Trace
    from core.whatif import Workbench

STAGES = ("video", "detect", "track", "load", "ascent", "views", "decode")
log = logging.getLogger(__name__)

Updates = dict[str, Any]


@dataclass(frozen=True)
class Handlers:
    """Each method answers one event with updates by widget name; layout.py maps the names."""

    store: Store
    examples: list[Example]

    def run(self, values: Mapping[str, Any], key: str) -> Iterator[Updates]:
        """Runs the pipeline and streams what there is; one job a session."""
        session = self.store.session(key)
        if not session.busy.acquire(blocking=False):
            yield {"viewer": payload(None, status(message="A run is already going on."))}
            return
        try:
            session.stop.clear()
            yield from self._run(session, values)
        except MacdError as error:
            yield self._failed(str(error))
        except Exception:
            log.exception("a run failed")
            yield self._failed("Something unforeseen went wrong; the server's log has the details.")
        finally:
            session.busy.release()

    def _run(self, session: Session, values: Mapping[str, Any]) -> Iterator[Updates]:
        options = run_options(values)
        video = self._video(values)
        # the video's stage needs no model, so a bad file is told before anything is loaded
        start = status("video", 0, "Reading the video", running=True)
        yield {"viewer": payload(None, start), "plot": None} | _running(True)
        from core.pipeline import StageCache, run

        session.cache = session.cache or StageCache()
        frames = None  # those the viewer has already
        loading = Progress()
        with self.store.device_lock:
            for event in run(
                video,
                values["question"] or "",
                lambda: self.store.backbone((values["backbone"] or "toyworld").strip(), loading),
                lambda: self.store.detector((values["detector"] or "toyworld").strip()),
                options,
                methods=values["methods"] or (),
                cache=session.cache,
                cancelled=session.stop.is_set,
                loading=loading,
            ):
                if event.trace is not None:
                    session.show(event.trace)
                if event.stage == "done":
                    yield self._finished(session, event)
                    return
                state = status(
                    event.stage,
                    event.fraction,
                    event.message + self._left(event),
                    done=STAGES[: STAGES.index(event.stage)],
                    running=True,
                )
                now = event.trace.frames if event.trace is not None else None
                out: Updates = {"viewer": payload(event.trace, state, frames=now is not frames)}
                frames = now
                if event.stage == "ascent":
                    out["plot"] = strengths_figure(event.trace)
                yield out

    def _left(self, event: Event) -> str:
        rest = STAGES[STAGES.index(event.stage) :]
        seconds = self.store.pace.left(rest, event.fraction)
        return "" if seconds is None else f" · about {max(1, round(seconds))} s left"

    def _finished(self, session: Session, event: Event) -> Updates:
        trace = event.trace
        assert trace is not None
        if trace.status == "complete":
            self.store.pace.learn(trace.timings_ms)
        done = trace.status == "complete"
        said = "" if done else f"This run was {trace.status}. What was computed is shown."
        state = status("done", 1.0, said, done=STAGES if done else ())
        shown: Updates = {"viewer": payload(trace, state), "plot": strengths_figure(trace)}
        return shown | self._offer(session, trace) | _running(False)

    def _failed(self, message: str) -> Updates:
        return {"viewer": payload(None, status(error=message))} | _running(False)

    def _offer(self, session: Session, trace: Trace) -> Updates:
        """The trace as files to download, named after the clip."""
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", Path(str(trace.clip["name"])).stem)[:60] or "trace"
        page = session.folder / f"{stem}.html"
        page.write_text(standalone(trace), encoding="utf-8")
        files = {"save": save(trace, session.folder / f"{stem}.macd"), "export": page}
        return {name: gr.update(value=str(f), interactive=True) for name, f in files.items()}

    def _video(self, values: Mapping[str, Any]) -> str:
        if values["video"]:
            return str(values["video"])
        if values["example"] is not None:
            return str(self.examples[int(values["example"])].video)
        raise VideoNotFound("no video was chosen", "Choose an example or upload a clip")

    def act(self, action: Any, backbone: str, key: str) -> Iterator[Updates]:
        """A commit of the viewer: a change by hand, undo, decoding on, or measuring."""
        session = self.store.session(key)
        if not session.busy.acquire(blocking=False):
            yield {"viewer": payload(None, status(message="A run is already going on."))}
            return
        try:
            yield from self._act(session, action, backbone)
        except MacdError as error:
            yield self._kept(session, str(error))
        except Exception:
            log.exception("a change failed")
            said = "Something unforeseen went wrong; the server's log has the details."
            yield self._kept(session, said)
        finally:
            session.busy.release()

    def _act(self, session: Session, action: Any, backbone: str) -> Iterator[Updates]:
        if not isinstance(action, Mapping):
            raise OptionError("this is no change that can be made", "Reload the page")
        what = action.get("do")
        if session.trace is None:  # the page was just opened: its first example is on show
            first = next((e for e in self.examples if e.trace is not None), None)
            if first is None or first.trace is None:
                raise TraceError("there is nothing to change yet", "Run a clip first")
            session.show(load(first.trace), first.link)
        trace = session.trace
        assert trace is not None
        if action.get("run") != identity(trace):
            raise TraceError(
                "the server no longer keeps the run on this page",
                "Open its saved file, or run the clip again",
            )
        if what == "undo":
            if session.former:
                session.trace, session.bench = session.former.pop(), None
            yield self._changed(session)
            return
        with self.store.device_lock:
            bench = self._bench(session, trace, backbone)
            if what == "edit":
                from core.whatif import read_edit

                for event in bench.change(read_edit(action.get("edit"), trace)):
                    if event.stage != "done":
                        state = status(event.stage, event.fraction, event.message, running=True)
                        yield {"viewer": payload(event.trace, state, False, trace, session.link)}
            elif what == "redecode":
                bench.redecode(_finite(action.get("alpha")), _finite(action.get("beta")))
            elif what == "ledger":
                bench.ledger()
            else:
                raise OptionError("this is no change that can be made", "Reload the page")
        if what != "ledger":
            session.former = [*session.former[-20:], trace]
        session.trace = bench.trace
        yield self._changed(session)

    def _kept(self, session: Session, error: str) -> Updates:
        """What was there before a change that failed."""
        session.bench = None
        former = session.former[-1] if session.former else None
        shown = payload(session.trace, status(error=error), former=former, link=session.link)
        return {"viewer": shown}

    def _bench(self, session: Session, trace: Trace, backbone: str) -> Workbench:
        """The trace on a bench with its model; a file may not name a model to be loaded."""
        if session.bench is None or session.bench.trace is not trace:
            from core.whatif import Workbench

            made_by = str(trace.backbone.get("name", ""))
            if made_by not in ("toyworld", backbone):
                raise OptionError(
                    f"this trace was made by {made_by!r}", "Choose that backbone in the settings"
                )
            session.bench = Workbench(trace, self.store.backbone(made_by))
        return session.bench

    def _changed(self, session: Session) -> Updates:
        trace = session.trace
        assert trace is not None
        former = session.former[-1] if session.former else None
        shown = payload(trace, status(done=STAGES), former=former, link=session.link)
        return {"viewer": shown, "plot": strengths_figure(trace)} | self._offer(session, trace)

    def stop(self, key: str) -> Updates:
        """Asks the running job to stop; it ends with what it has."""
        self.store.session(key).stop.set()
        return {"stop": gr.update(interactive=False)}

    def choose(self, index: int | None, key: str) -> Updates:
        """An example was chosen: shows its saved trace and takes its question."""
        if index is None:
            return {}
        example = self.examples[int(index)]
        out: Updates = {"question": example.question, "video": None}
        if example.trace is None:
            return out
        said = f"{example.title}. {example.truth}"
        return out | self.open(str(example.trace), key, said, example.link)

    def visit(self, name: str | None, key: str) -> Updates:
        """A link to an example was opened: `?example=NAME`."""
        for i, example in enumerate(self.examples):
            if name and example.name == name:
                return {"example": i} | self.choose(i, key)
        return {}

    def open(self, path: str | None, key: str, said: str = "", link: str = "") -> Updates:
        """Shows a saved trace; needs no model."""
        if not path:
            return {}
        try:
            trace = load(path)
        except TraceError as error:
            return {"viewer": payload(None, status(error=str(error)))}
        session = self.store.session(key)
        session.show(trace, link)
        return {
            "viewer": payload(trace, status(message=said, done=STAGES), link=link),
            "plot": strengths_figure(trace),
        } | self._offer(session, trace)


def _running(now: bool) -> Updates:
    return {"run": gr.update(interactive=not now), "stop": gr.update(interactive=now)}


def first_paint(examples: list[Example]) -> tuple[dict[str, Any] | None, Any]:
    """Viewer value and plot of the first example that has a trace, or nothing."""
    for example in examples:
        if example.trace is not None:
            try:
                trace = load(example.trace)
            except TraceError as error:  # one bad example must not keep the page from starting
                log.warning("example %s: %s", example.trace.name, error)
                continue
            said = status(message=f"{example.title}. {example.truth}", done=STAGES)
            return payload(trace, said, link=example.link), strengths_figure(trace)
    return None, None


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"{value!r} is no number", "Move the sliders of α and β")
    return float(value)
