"""The page: renders every panel, then wires every event."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import gradio as gr

from macd_studio.core.errors import OptionError, VideoNotFound
from macd_studio.core.shipped import assets
from macd_studio.macd_ui import documents
from macd_studio.macd_ui.api import NO_FILE, add_api, visitor_of
from macd_studio.macd_ui.examples import examples as find_examples
from macd_studio.macd_ui.files import health_route, routes
from macd_studio.macd_ui.gallery.routes import GALLERY, site_of
from macd_studio.macd_ui.gallery.routes import routes as gallery_routes
from macd_studio.macd_ui.handlers import Handlers
from macd_studio.macd_ui.learn.routes import LEARN
from macd_studio.macd_ui.learn.routes import routes as learn_routes
from macd_studio.macd_ui.line import MAX_WAITING
from macd_studio.macd_ui.panels import AskPanel, FilePanel, QuestionsPanel, ViewPanel, download
from macd_studio.macd_ui.programs import add_tools
from macd_studio.macd_ui.questions import ask_several, run_with_detector
from macd_studio.macd_ui.quota import QuotaError
from macd_studio.macd_ui.results import RESULTS
from macd_studio.macd_ui.results import routes as results_routes
from macd_studio.macd_ui.serving import upstream
from macd_studio.macd_ui.serving.gate import Gate
from macd_studio.macd_ui.serving.identity import browser_key, is_tab, read_cookie
from macd_studio.macd_ui.serving.passwords import checker
from macd_studio.macd_ui.serving.study import study_routes
from macd_studio.macd_ui.session import Store
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.wording import UNFORESEEN, explained
from macd_studio.viewer import style

TITLE = "MACD Studio"
LEAD = (
    "An AI that answers questions about a video sometimes names things that are not in it. MACD"
    " covers what the question is about, asks again, and keeps only the answer that the uncovered"
    " video supports. This page shows every step: what was covered, what that changed, and whether"
    " covering something else would have changed as much."
)
CSS = assets() / "page.css"
FONT = ["system-ui", "sans-serif"]
MONO = ["ui-monospace", "monospace"]
JOBS = MAX_WAITING + 32
"""Jobs that Gradio lets in at once; those for whom the line is too long must get an answer."""
THREADS = JOBS + 32
"""A job that waits holds a thread."""
QUEUE = 1000
"""Events of every kind that may wait inside Gradio."""
WANTED = "() => new URLSearchParams(location.search).get('example') || ''"
"""The example that the page's address names."""
WRONG_INPUT = (
    "an input of this request has a type or a value that the form does not allow",
    "Reload the page; a program finds the types in /gradio_api/info and gives files by handle_file",
)
NO_COOKIE = (
    "this page needs its cookie to distinguish visitors",
    "Allow cookies for this site, or open the page in a tab of its own, and reload it",
)
log = logging.getLogger(__name__)


class Page(gr.Blocks):
    """Every event that fails says why, which Gradio itself answers by null."""

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *more: Any) -> Any:
        """See gr.Blocks; raises OptionError for values that are not what the inputs hold."""
        try:
            return await super().preprocess_data(block_fn, inputs, *more)
        except Exception as error:
            kinds = zip(block_fn.inputs, inputs, strict=False)
            if any(isinstance(b, gr.File) and isinstance(v, str) for b, v in kinds):
                raise VideoNotFound(*NO_FILE) from error
            raise OptionError(*WRONG_INPUT) from error

    async def process_api(self, *positional: Any, **named: Any) -> Any:
        """See gr.Blocks; raises gr.Error with words for the visitor, and logs what has none."""
        try:
            return await super().process_api(*positional, **named)
        except gr.Error:
            raise
        except Exception as error:
            message = explained(error)
            if message is None:
                log.error("an event failed", exc_info=error)
            raise gr.Error(message or UNFORESEEN, print_exception=False) from error


def build_page(store: Store) -> gr.Blocks:
    """The whole page over one store of sessions and models.

    Points GRADIO_TEMP_DIR into the store's folder: uploads go when their visitor goes.
    """
    os.environ["GRADIO_TEMP_DIR"] = str(store.uploads.folder)
    upstream.repair()
    examples = find_examples()
    handlers = Handlers(store, examples)
    with Page(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        gr.Markdown(f"# {TITLE}\n{LEAD}\n\n{' · '.join(_links(store.settings))}", elem_id="lead")
        with gr.Row(elem_id="columns"):
            with gr.Column(scale=1, min_width=280, elem_id="ask"):
                ask = AskPanel(examples, handlers.first, store.settings)
                questions = QuestionsPanel()
            with gr.Column(scale=4, min_width=320):
                files = FilePanel(handlers.first is not None)
                view = ViewPanel(handlers.first_paint())
        _wire(page, handlers, ask, view, files, questions)
    built: gr.Blocks = page
    return built


def _links(settings: ServerSettings) -> list[str]:
    """What the page leads on to, as Markdown."""
    links = [f"[Paper]({documents.PAPER})"]
    if documents.has_docs():
        links.append(f"[Documentation](docs/{documents.FIRST})")
    links += [f"[Learn]({LEARN}/)", "[Source](source.zip)", f"[Gallery]({GALLERY}/)"]
    return [*links, f"[Results]({RESULTS}/)"] if settings.results else links


def _wire(
    page: gr.Blocks,
    handlers: Handlers,
    ask: AskPanel,
    view: ViewPanel,
    files: FilePanel,
    questions: QuestionsPanel,
) -> None:
    widgets: dict[str, Any] = {
        "viewer": view.viewer,
        "plot": view.plot,
        "run": ask.run,
        "stop": ask.stop,
        "note": ask.note,
        "cost": ask.cost,
        "save": files.save,
        "export": files.export,
        "answers": files.answers,
        "question": ask.question,
        "video": ask.video,
        "example": ask.examples,
        "draw": ask.draw,
        "strip": ask.strip,
        "sampling": ask.sampling,
        "guard": ask.guard,
        "real": ask.real,
        "answer": ask.answer,
        "tally": ask.tally,
    }
    widgets |= {name: field for name, field in ask.fields.items() if name not in widgets}
    outputs = list(widgets.values())

    def shown(updates: dict[str, Any]) -> dict[Any, Any]:
        return {widgets[n]: u for n, u in updates.items()} or {ask.run: gr.skip()}

    def tab(request: gr.Request) -> str:
        """The key of the tab that sends an event; its session is made when it is the first."""
        key, cookie = str(request.session_hash), read_cookie(request.headers.get("cookie"))
        if not is_tab(key) or cookie is None:
            raise QuotaError(*NO_COOKIE)
        new = handlers.store.find(key) is None
        session = handlers.store.session(key, visitor_of(request), browser_key(cookie))
        if new:  # the page was opened without an event
            session.form = handlers.first_form()
        return key

    def named(by_component: dict[Any, Any]) -> dict[str, Any]:
        return {name: by_component[widget] for name, widget in ask.fields.items()}

    def run(by_component: dict[Any, Any], request: gr.Request) -> Iterator[dict[Any, Any]]:
        for updates in handlers.run(named(by_component), tab(request)):
            yield shown(updates)

    def answer(by_component: dict[Any, Any], request: gr.Request) -> Iterator[dict[Any, Any]]:
        for updates in handlers.run(named(by_component), tab(request), anyway=True):
            yield shown(updates)

    def draw(by_component: dict[Any, Any], request: gr.Request) -> Iterator[dict[Any, Any]]:
        for updates in handlers.draw(named(by_component), tab(request)):
            yield shown(updates)

    def stop(request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.stop(str(request.session_hash)))

    def choose(index: int | None, request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.choose(index, tab(request)))

    def upload(path: str | None, request: gr.Request) -> Iterator[dict[Any, Any]]:
        for updates in handlers.upload(path, tab(request)):
            yield shown(updates)

    def take_away(request: gr.Request) -> Iterator[dict[Any, Any]]:
        for updates in handlers.upload(None, tab(request)):
            yield shown(updates)

    def strip(event: gr.EventData, request: gr.Request) -> Iterator[dict[Any, Any]]:
        for updates in handlers.strip(event._data, tab(request)):
            yield shown(updates)

    def choose_model(name: str | None, request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.choose_model(name, tab(request)))

    def use_real(request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.use_real(tab(request)))

    def change(by_component: dict[Any, Any], request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.ask(named(by_component), tab(request)))

    def reopen(path: str | None, request: gr.Request) -> Iterator[dict[Any, Any]]:
        for updates in handlers.open(path, tab(request)):
            yield shown(updates)

    def act(
        by_component: dict[Any, Any], event: gr.EventData, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        backbone = (by_component[ask.fields["backbone"]] or "").strip()
        for updates in handlers.act(event._data, backbone, tab(request)):
            yield shown(updates)

    def ask_all(by_component: dict[Any, Any], request: gr.Request) -> Iterator[dict[Any, Any]]:
        values = {name: by_component[widget] for name, widget in ask.fields.items()}
        for updates in ask_several(handlers, values, by_component[questions.list], tab(request)):
            yield shown(updates)

    def redetect(
        by_component: dict[Any, Any], event: gr.EventData, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        values = {name: by_component[widget] for name, widget in ask.fields.items()}
        for updates in run_with_detector(handlers, event._data, values, tab(request)):
            yield shown(updates)

    def visit(name: str | None, request: gr.Request) -> dict[Any, Any]:
        return shown(handlers.visit(name, tab(request)))

    def unfold(unfolded: bool) -> Any:
        def answer(request: gr.Request) -> dict[Any, Any]:
            return shown(handlers.unfold_plot(unfolded, tab(request)))

        return answer

    def cost(given: dict[Any, Any]) -> dict[Any, Any]:
        return shown(handlers.cost(named(given)))

    def leave(request: gr.Request) -> None:
        handlers.store.leave(str(request.session_hash))

    private: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    # jobs wait in the line for the device, not in Gradio's queue, which shows no place
    jobs: dict[str, Any] = private | {"concurrency_id": "jobs", "concurrency_limit": JOBS}
    inputs: set[Any] = set(ask.fields.values())
    for trigger in (ask.run.click, ask.question.submit):
        trigger(run, inputs, outputs, **jobs)
    ask.answer.click(answer, inputs, outputs, **jobs)
    ask.draw.click(draw, inputs, outputs, **jobs)
    ask.stop.click(stop, None, outputs, queue=False, **private)
    ask.examples.input(choose, ask.examples, outputs, **private)
    strips: dict[str, Any] = private | {"concurrency_id": "strips", "concurrency_limit": JOBS}
    ask.video.upload(upload, ask.video, outputs, **strips)
    ask.strip.submit(strip, None, outputs, **strips)
    backbone: Any = ask.fields["backbone"]
    backbone.change(choose_model, backbone, outputs, queue=False, **private)
    ask.real.click(use_real, None, outputs, queue=False, **private)
    for trigger in (ask.video.clear, ask.video.delete):
        trigger(take_away, None, outputs, **private)
    # one event for the whole form: choosing an example changes most of it at once
    fields: list[Any] = [field for name, field in ask.fields.items() if name != "video"]
    changed = [field.change for field in fields]
    latest: dict[str, Any] = private | {"queue": False, "trigger_mode": "always_last"}
    gr.on(changed, change, inputs, ask.note, **latest)
    opening: dict[str, Any] = private | {"concurrency_id": "opening", "concurrency_limit": JOBS}
    files.open.upload(reopen, files.open, outputs, **opening)
    view.viewer.submit(act, {ask.fields["backbone"]}, outputs, **jobs)
    view.viewer.edit(redetect, inputs, outputs, **jobs)
    questions.ask.click(ask_all, inputs | {questions.list}, outputs, **jobs)
    if handlers.store.settings.gpu_quota:
        gr.on([page.load, *changed], cost, inputs, ask.cost, **latest)
    for kind, button in (("trace", files.save), ("page", files.export)):
        shown_and_note = [view.viewer, ask.note]
        button.click(None, shown_and_note, ask.note, js=download(kind), show_progress="hidden")
    for trigger, unfolded in ((view.strengths.expand, True), (view.strengths.collapse, False)):
        trigger(unfold(unfolded), None, outputs, queue=False, **private)
    for kind, button in view.keep.items():
        button.click(None, js=f"() => window.macdSavePlot && window.macdSavePlot('{kind}')")
    # most visitors name no example: their page opens without an event, so any number may come
    page.load(None, None, ask.wanted, js=WANTED, **private)
    ask.wanted.change(visit, ask.wanted, outputs, queue=False, **private)
    if handlers.store.settings.mcp:  # first: an MCP tool is known by its function's name
        add_tools(handlers.store)
    add_api(handlers)
    page.unload(leave)


def launch_options(store: Store) -> dict[str, Any]:
    """Theme and limits, the routes beside Gradio's, and the gate before everything."""
    theme = gr.themes.Base(primary_hue="blue", neutral_hue="slate", font=FONT, font_mono=MONO)
    auth = store.settings.auth

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        # middleware that is added otherwise stands behind Gradio's, which answers some requests
        app.middleware_stack = Gate(app.middleware_stack, store, upstream.Framework(app))
        yield

    return {
        "theme": theme,
        "css": CSS.read_text(encoding="utf-8") + style(),
        "auth": checker(auth, store.logins) if auth else None,
        "mcp_server": store.settings.mcp,
        "max_file_size": "100mb",
        "max_threads": THREADS,
        "show_error": False,
        "strict_cors": True,
        "state_session_capacity": 200,
        "run_history": False,
        "ssr_mode": False,  # a Space's Node server would answer for the routes of the downloads
        "footer_links": [],
        "app_kwargs": {
            "routes": [
                *routes(store, find_examples()),
                health_route(store),
                *study_routes(store.site, store.settings),
                *gallery_routes(site_of(store.settings), store.settings),
                documents.source_route(),
                *documents.routes(),
                *results_routes(store.settings),
                *learn_routes(store.settings),
            ],
            "lifespan": lifespan,
        },
    }
