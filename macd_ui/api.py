"""The page's public endpoints, for `gradio_client`: /trace, /rescore and /open. Nothing else is.

from gradio_client import Client, handle_file
client = Client("http://127.0.0.1:7860")
summary, file = client.predict(
    handle_file("clip.mp4"), "Is there a dog?", {}, api_name="/trace")
tokens = client.predict(handle_file(file), 2.0, 0.1, api_name="/rescore")
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from core.bundle import load, save
from core.contrast import score
from core.errors import MacdError, OptionError, TraceError
from core.options import ContrastOptions, RunOptions, options_from
from core.summary import as_json

KEPT = 32
LIMITS = {
    "frames": 32,
    "dense_limit": 400,
    "steps": 20,
    "max_tokens": 256,
    "beams": 8,
    "samples": 16,
}
"""What a caller may ask of a page that others use too; KEPT: how many results stay on disk."""

if TYPE_CHECKING:
    from macd_ui.handlers import Handlers


def add_api(handlers: Handlers) -> None:
    """Adds the three endpoints to the page being built; their inputs are validated as files are."""

    given: deque[Path] = deque()

    def trace(video: str, question: str, options: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Runs MACD with the embedded models. options: as in a trace, by stage; {} for defaults.

        Returns the summary (docs/json-schema.md) and the trace as a .macd file.
        """
        from core.pipeline import run

        chosen = options_from(_object(options))
        _bounded(chosen)
        store, last = handlers.store, None
        with store.device_lock:
            for last in run(  # noqa: B007  (the last event is the result)
                video or "",
                question or "",
                lambda: store.backbone("toyworld"),
                lambda: store.detector("toyworld"),
                chosen,
            ):
                pass
        assert last is not None
        assert last.trace is not None
        folder = Path(tempfile.mkdtemp(dir=store.root))
        given.append(folder)
        while len(given) > KEPT:
            shutil.rmtree(given.popleft(), ignore_errors=True)
        return as_json(last.trace), str(save(last.trace, folder / "trace.macd"))

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
    one_at_a_time = {"concurrency_id": "gpu", "concurrency_limit": 1}
    button.click(_told(trace), [video, question, options], [out, made], api_name="trace",
                 **one_at_a_time)  # fmt: skip
    button.click(_told(rescore), [file, alpha, beta], out, api_name="rescore")
    button.click(_told(open_), file, out, api_name="open")


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

    def answer(*given: Any) -> Any:
        try:
            return function(*given)
        except MacdError as error:
            raise gr.Error(str(error), print_exception=False) from error

    answer.__name__, answer.__doc__ = function.__name__.strip("_"), function.__doc__
    return answer
