"""The page's public endpoints, for `gradio_client`: /trace, /rescore and /open. Nothing else is.

from gradio_client import Client, handle_file
client = Client("http://127.0.0.1:7860")
summary, file = client.predict(
    handle_file("clip.mp4"), "Is there a dog?", {}, api_name="/trace")
tokens = client.predict(handle_file(file), 2.0, 0.1, api_name="/rescore")
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from core.bundle import load, save
from core.contrast import score
from core.errors import Cancelled, MacdError, OptionError, TraceError
from core.options import ContrastOptions, RunOptions, options_from
from core.question import clean_question
from core.summary import as_json
from core.types import Trace
from macd_ui.estimate import work_of
from macd_ui.reading import read_beside
from macd_ui.session import Session, Store

CALLS = 8
LIMITS = {
    "frames": 32,
    "dense_limit": 400,
    "steps": 20,
    "max_tokens": 256,
    "beams": 8,
    "samples": 16,
}
"""What a caller may ask of a page that others use too; CALLS: how many may be under way at once."""

if TYPE_CHECKING:
    from macd_ui.handlers import Handlers


def add_api(handlers: Handlers) -> None:
    """Adds the three endpoints to the page being built; their inputs are validated as files are."""

    store = handlers.store

    def trace(
        video: str, question: str, options: dict[str, Any], request: gr.Request
    ) -> tuple[dict[str, Any], str]:
        """Runs MACD with the embedded models. options: as in a trace, by stage; {} for defaults.

        Returns the summary (docs/json-schema.md) and the trace as a .macd file.
        """
        chosen = options_from(_object(options))
        _bounded(chosen)
        clean_question(question or "")
        session = store.session(str(request.session_hash))
        with session.busy:  # the calls of one caller take turns: each has one place in the line
            if session.gone:
                raise Cancelled("the connection was closed", "Call again")
            session.stop.clear()
            store.uploads.hold(video or "", session.key)
            try:
                found = _trace(store, session, video or "", question or "", chosen)
            finally:
                store.uploads.release(session.key, video or "")
        # among the uploads, where it is deleted after some minutes
        folder = Path(tempfile.mkdtemp(dir=store.uploads.folder))
        return as_json(found), str(save(found, folder / "trace.macd"))

    def rescore(file: str, alpha: float, beta: float) -> list[dict[str, Any]]:
        """The token each step of the MACD answer would choose under another α and β.

        Exact on stored logits up to the first token that differs, where the path diverges.
        """
        contrast = ContrastOptions(alpha, beta)
        answer = load(file or "").answers.get("macd")
        if answer is None:
            raise TraceError("the trace holds no MACD answer", "Give the trace of a finished run")
        rows = []
        for step in answer.tokens:
            counter = step.base if step.counter is None else step.counter
            s = score(step.base, counter, contrast.alpha, contrast.beta, answer.head)  # type: ignore[arg-type]
            best = int(s.argmax())
            rows.append(
                {
                    "index": step.index,
                    "was": step.text,
                    "token": int(step.candidates[best]),
                    "text": step.texts[best],
                    "changed": int(step.candidates[best]) != step.token,
                }
            )
        return rows

    def open_(file: str) -> dict[str, Any]:
        """The summary of a saved trace (docs/json-schema.md); needs no model."""
        return as_json(load(file or ""))

    with gr.Group(visible=False):
        video = gr.File(type="filepath", label="video")
        file = gr.File(type="filepath", label="trace", file_types=[".macd"])
        question = gr.Textbox(label="question")
        options = gr.JSON(label="options")
        alpha, beta = gr.Number(1.0, label="alpha"), gr.Number(0.1, label="beta")
        out, made = gr.JSON(label="summary"), gr.File(label="trace")
        button = gr.Button()
    button.click(_told(trace), [video, question, options], [out, made], api_name="trace",
                 concurrency_id="trace", concurrency_limit=CALLS)  # fmt: skip
    button.click(_told(rescore), [file, alpha, beta], out, api_name="rescore")
    button.click(_told(open_), file, out, api_name="open")


def _trace(store: Store, session: Session, video: str, question: str, options: RunOptions) -> Trace:
    """A run that waits for the device like those of the page, and ends when the caller leaves."""
    from core.pipeline import run

    stopped = session.stop.is_set
    clip = read_beside(video, options.video, stopped, store.readers, store.read_limits)
    work = work_of(clip, options, "toyworld", "toyworld")
    with store.line.enter(store.estimator.total(work)) as ticket:
        while not ticket.wait(1.0, stopped):
            if stopped():
                raise Cancelled("stopped while waiting", "Call again")
        for event in run(
            lambda: clip,
            question,
            lambda: store.backbone("toyworld"),
            lambda: store.detector("toyworld"),
            options,
            cancelled=stopped,
        ):
            trace = event.trace
            ticket.tell(
                0.0
                if event.stage == "done"
                else store.estimator.left(work, event.stage, event.fraction, trace)
            )
    assert trace is not None
    if trace.status != "complete":
        raise Cancelled(f"the run was {trace.status}", "Call again")
    store.estimator.learn(work, trace)
    return trace


def _bounded(options: RunOptions) -> None:
    """Raises OptionError for what would hold the device for too long."""
    asked = {
        "frames": options.video.frames,
        "dense_limit": options.video.dense_limit,
        "steps": options.ascent.steps,
        "max_tokens": options.decode.max_tokens,
        "beams": options.decode.beams,
        "samples": options.decode.samples,
    }
    for name, most in LIMITS.items():
        if asked[name] > most:
            raise OptionError(
                f"{name} is {asked[name]}", f"Choose at most {most} here, or run it on your own"
            )


def _object(value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise OptionError("options are no object", 'Give {} or, say, {"ascent": {"steps": 3}}')
    return value


def _told(function: Callable[..., Any]) -> Callable[..., Any]:
    """What can be explained reaches the caller as the error's own words."""

    @wraps(function)
    def answer(*given: Any) -> Any:
        try:
            return function(*given)
        except MacdError as error:
            raise gr.Error(str(error), print_exception=False) from error

    answer.__name__ = function.__name__.strip("_")
    return answer
