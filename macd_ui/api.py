"""The page's public endpoints, for `gradio_client`: /trace, /rescore and /open. Nothing else is.

from gradio_client import Client, handle_file
client = Client("http://127.0.0.1:7860")
summary, file = client.predict(
    handle_file("clip.mp4"), "Is there a dog?", {}, api_name="/trace")
tokens = client.predict(handle_file(file), 2.0, 0.1, api_name="/rescore")
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gradio as gr

from macd_studio.core.decoding.contrast import score
from macd_studio.core.errors import Cancelled, TraceError, VideoNotFound
from macd_studio.core.options import ContrastOptions, RunOptions, options_from
from macd_studio.core.repeats import penalised
from macd_studio.core.report.summary import as_json
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.text.question import clean_question
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.types import Trace
from macd_studio.macd_ui import sentences, zerogpu
from macd_studio.macd_ui.clips import read_beside
from macd_studio.macd_ui.estimate import work_of, work_of_spec
from macd_studio.macd_ui.queues import Ticket
from macd_studio.macd_ui.session import Session
from macd_studio.macd_ui.settings import check_limits
from macd_studio.macd_ui.store import Store

VISITOR = "x-macd-visitor"
"""Header with the address of a request, set by the server's outermost layer."""
CALLS = 8
"""How many may be under way at once."""
NO_FILE = (
    "no file was uploaded",
    "Upload it with the call, as handle_file(PATH) does: addresses, and paths on the server, are"
    " not opened",
)


def add_api(store: Store) -> None:
    """Adds the three endpoints to the page being built; their inputs are validated as files are."""

    def trace(
        video: str | None, question: str, options: dict[str, Any], request: gr.Request
    ) -> tuple[dict[str, Any], str]:
        """Runs MACD with the embedded models. options: as in a trace, by stage; {} for defaults.

        Returns the summary (docs/json-schema.md) and the trace as a .macd file.
        """
        chosen = options_from({} if options is None else options)
        check_limits(chosen)
        cleaned = clean_question(question or "")
        clip = _uploaded(video)
        caller = str(request.session_hash)
        with store.sessions.call(caller, visitor_of(request)) as session:
            store.uploads.hold(clip, session.key)
            result = run_call(store, session, clip, cleaned, chosen)
        # among the uploads, where it is deleted after some minutes
        folder = Path(tempfile.mkdtemp(dir=store.uploads.folder))
        return as_json(result), str(save(result, folder / "trace.macd"))

    def rescore(
        file: str | None, alpha: float, beta: float, request: gr.Request
    ) -> list[dict[str, Any]]:
        """The token each step of the MACD answer would choose under another α and β.

        Exact on stored logits up to the first token that differs, where the path diverges.
        """
        with store.open_in_turn(visitor_of(request)):
            return rescored(load(_uploaded(file)), alpha, beta)

    def open_(file: str | None, request: gr.Request) -> dict[str, Any]:
        """The summary of a saved trace (docs/json-schema.md); needs no model."""
        with store.open_in_turn(visitor_of(request)):
            return as_json(load(_uploaded(file)))

    for endpoint in (trace, rescore, open_):  # MCP clients have tools that take paths instead
        vars(endpoint)["_mcp_type"] = "endpoint"
    with gr.Group(visible=False):
        video = gr.File(type="filepath", label="video")
        file = gr.File(type="filepath", label="trace", file_types=[".macd"])
        question = gr.Textbox(label="question")
        options = gr.JSON(label="options")
        alpha, beta = gr.Number(1.0, label="alpha"), gr.Number(0.1, label="beta")
        out, made = gr.JSON(label="summary"), gr.File(label="trace")
        button = gr.Button()
    button.click(trace, [video, question, options], [out, made], api_name="trace",
                 concurrency_id="trace", concurrency_limit=CALLS)  # fmt: skip
    button.click(rescore, [file, alpha, beta], out, api_name="rescore")
    button.click(open_, file, out, api_name="open")


def rescored(trace: Trace, alpha: float, beta: float) -> list[dict[str, Any]]:
    """The token that each step of the MACD answer would choose. Raises OptionError, TraceError."""
    contrast = ContrastOptions(alpha, beta)
    answer = trace.answers.get("macd")
    if answer is None:
        raise TraceError("the trace holds no MACD answer", "Give the trace of a finished run")
    rows = []
    for step in answer.tokens:
        counter = next(iter(step.others), step.base)
        s = score(step.base, counter, contrast.alpha, contrast.beta, answer.head)  # type: ignore[arg-type]
        s = penalised(s, step.repeats)
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


def visitor_of(request: gr.Request) -> str:
    """The visitor whose limits a request counts for: the user who logged in, else the address."""
    return request.username or request.headers.get(VISITOR, "")


def _uploaded(file: str | None) -> str:
    if not file:
        raise VideoNotFound(*NO_FILE)
    return file


def run_call(
    store: Store,
    session: Session,
    video: str,
    question: str,
    options: RunOptions,
    methods: tuple[str, ...] = (),
) -> Trace:
    """A run that waits for the device like those of the page, and ends when the caller leaves."""
    stopped = session.stop.is_set
    with ExitStack() as stack:
        stack.enter_context(store.quota.job(session.visitor))
        spec = RunSpec(question, options, methods)
        planned = work_of_spec(spec.for_clip(""))
        _wait(
            stack.enter_context(store.admission_queue.enter(store.estimator.total(planned))),
            stopped,
        )
        reader = store.readers.slot(session.visitor, stopped)
        clip = read_beside(video, options.video, stopped, reader, store.read_limits)
        spec = spec.for_clip(clip.title)
        work = work_of(clip, spec)
        ticket = stack.enter_context(store.device_queue.enter(store.estimator.total(work)))
        _wait(ticket, stopped)
        turn = stack.enter_context(store.device_turn(session))
        for event in zerogpu.run_events(store.models, zerogpu.RunJob(clip, spec), turn.is_over):
            trace = event.trace
            ticket.update(
                0.0
                if event.stage == "done"
                else store.estimator.left(work, event.stage, event.fraction, trace)
            )
    assert trace is not None
    complete = trace.status == "complete"
    store.stats.count_end("complete" if complete else "stopped", trace)
    if not complete:
        late = turn.out_of_time
        raise Cancelled(
            sentences.out_of_time(turn.limit_s or 0) if late else f"the run was {trace.status}",
            "Ask for less" if late else "Call again",
        )
    store.estimator.learn(work, trace)
    return trace


def _wait(ticket: Ticket, stopped: Callable[[], bool]) -> None:
    while not ticket.wait(1.0, stopped):
        if stopped():
            raise Cancelled("stopped while waiting", "Call again")
