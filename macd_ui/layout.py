"""The page: renders every panel, then wires every event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from macd_ui.api import add_api
from macd_ui.examples import Example
from macd_ui.examples import examples as find_examples
from macd_ui.handlers import Handlers, first_paint
from macd_ui.panels.ask import AskPanel
from macd_ui.panels.view import FilePanel, ViewPanel
from macd_ui.session import Store
from macd_ui.viewer.component import style

TITLE = "MACD Studio"
LEAD = "See which objects a video language model leans on, and what it says without them."
CSS = Path(__file__).parents[1] / "assets" / "page.css"
FONT = ["system-ui", "sans-serif"]
MONO = ["ui-monospace", "monospace"]


def build_page(store: Store) -> gr.Blocks:
    """The whole page over one store of sessions and models."""
    found = find_examples()
    handlers = Handlers(store, found)
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.Markdown(f"# {TITLE}\n{LEAD}", elem_id="lead")
        with gr.Row(elem_id="columns"):
            with gr.Column(scale=1, min_width=280, elem_id="ask"):
                ask = AskPanel(found)
                files = FilePanel(_first_trace(found))
            with gr.Column(scale=4, min_width=320):
                view = ViewPanel(*first_paint(found))
        _wire(page, handlers, ask, view, files)
    return page


def _first_trace(found: list[Example]) -> str | None:
    return next((str(e.trace) for e in found if e.trace), None)


def _wire(
    page: gr.Blocks, handlers: Handlers, ask: AskPanel, view: ViewPanel, files: FilePanel
) -> None:
    widgets: dict[str, Any] = {
        "viewer": view.viewer,
        "plot": view.plot,
        "run": ask.run,
        "stop": ask.stop,
        "save": files.save,
        "export": files.export,
        "question": ask.question,
        "video": ask.video,
        "example": ask.examples,
    }
    outputs = list(widgets.values())

    def shown(updates: dict[str, Any]) -> dict[Any, Any]:
        return {widgets[n]: u for n, u in updates.items()} or {ask.run: gr.skip()}

    def run(given: dict[Any, Any], request: gr.Request) -> Iterator[dict[Any, Any]]:
        values = {name: given[widget] for name, widget in ask.fields.items()}
        for updates in handlers.run(values, str(request.session_hash)):
            yield shown(updates)

    def stop(request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.stop(str(request.session_hash)))

    def choose(index: int | None, request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.choose(index, str(request.session_hash)))

    def reopen(path: str | None, request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.open(path, str(request.session_hash)))

    def act(
        given: dict[Any, Any], event: gr.EventData, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        backbone = (given[ask.fields["backbone"]] or "").strip()
        for updates in handlers.act(event._data, backbone, str(request.session_hash)):
            yield shown(updates)

    def visit(request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.visit(request.query_params.get("example"), str(request.session_hash)))

    def leave(request: gr.Request) -> None:
        handlers.store.forget(str(request.session_hash))

    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    inputs = set(ask.fields.values())
    for trigger in (ask.run.click, ask.question.submit):
        trigger(run, inputs, outputs, concurrency_id="gpu", concurrency_limit=1, **private)
    ask.stop.click(stop, None, outputs, queue=False, **private)
    ask.examples.input(choose, ask.examples, outputs, **private)
    files.open.upload(reopen, files.open, outputs, **private)
    view.viewer.submit(
        act,
        {ask.fields["backbone"]},
        outputs,
        concurrency_id="gpu",
        concurrency_limit=1,
        **private,
    )
    for kind, button in view.keep.items():
        button.click(None, js=f"() => window.macdSavePlot && window.macdSavePlot('{kind}')")
    page.load(visit, None, outputs, **private)
    add_api(handlers)
    page.unload(leave)


def launch_options() -> dict[str, Any]:
    """Theme and limits, as for a public Space."""
    theme = gr.themes.Base(primary_hue="blue", neutral_hue="slate", font=FONT, font_mono=MONO)
    return {
        "theme": theme,
        "css": CSS.read_text(encoding="utf-8") + style(),
        "max_file_size": "100mb",
        "show_error": False,
        "strict_cors": True,
        "state_session_capacity": 200,
        "run_history": False,
        "footer_links": [],
    }
