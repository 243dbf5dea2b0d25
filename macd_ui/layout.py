"""The page: places every panel, then wires the table of its events."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gradio as gr

from macd_studio.core.errors import OptionError, VideoNotFound
from macd_studio.core.system.shipped import assets
from macd_studio.macd_ui import documents, sentences
from macd_studio.macd_ui.api import NO_FILE, add_api, visitor_of
from macd_studio.macd_ui.confirm import show_tracks
from macd_studio.macd_ui.examples import examples as find_examples
from macd_studio.macd_ui.files import health_route, routes
from macd_studio.macd_ui.files_and_bars import FilePanel, download, page_bar, page_foot
from macd_studio.macd_ui.gallery.routes import GALLERY, site_of
from macd_studio.macd_ui.gallery.routes import routes as gallery_routes
from macd_studio.macd_ui.handlers import Handlers, make_handlers
from macd_studio.macd_ui.learn.site import LEARN
from macd_studio.macd_ui.learn.site import routes as learn_routes
from macd_studio.macd_ui.panels import AskPanel, QuestionsPanel, ViewPanel, error_line
from macd_studio.macd_ui.programs import add_tools
from macd_studio.macd_ui.questions import ask_several, run_with_detector
from macd_studio.macd_ui.queues import MAX_WAITING
from macd_studio.macd_ui.quota import QuotaError
from macd_studio.macd_ui.results import RESULTS
from macd_studio.macd_ui.results import routes as results_routes
from macd_studio.macd_ui.serving import upstream
from macd_studio.macd_ui.serving.gate import Gate
from macd_studio.macd_ui.serving.identity import browser_key, is_tab, read_cookie
from macd_studio.macd_ui.serving.passwords import checker
from macd_studio.macd_ui.serving.study import study_routes
from macd_studio.macd_ui.session_view import Updates
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.source import source_route
from macd_studio.macd_ui.store import Store
from macd_studio.viewer import style

CSS = assets() / "page.css"
FONT = ["system-ui", "sans-serif"]
MONO = ["ui-monospace", "monospace"]
JOBS = MAX_WAITING + 32
"""Jobs that Gradio lets in at once; those for whom the queue is too long must get an answer."""
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


class Page(upstream.ChangedBlocks):
    """Every event that fails says why, which Gradio itself answers by null.

    shared: whether others than the person who started the server use it.
    """

    shared = False

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
            message = sentences.of_error(error)
            if message is None:
                log.error("an event failed", exc_info=error)
            message = message or sentences.unforeseen(self.shared)
            raise gr.Error(message, print_exception=False) from error


FORM, DATA = "the form's values by name", "the event's data"
"""What a handler can be given, beside the values of single widgets."""


@dataclass(frozen=True)
class Event:
    """Something that happens on the page, and what answers it."""

    name: str
    """Name of the event inside Gradio."""
    on: Sequence[Any]
    """Triggers, each with an event of its own; those in a tuple share one."""
    handler: Callable[..., Any] | None = None
    """Gives updates by name of widget; None where a script answers."""
    takes: tuple[Any, ...] = ()
    """FORM, DATA and widgets, which the handler gets before the key of the tab."""
    outputs: Any = None
    """What may change; None: every widget."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of Gradio's event."""
    known: bool = True
    """Whether the tab must have a session."""


PRIVATE: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
AT_ONCE = PRIVATE | {"queue": False}
LATEST = AT_ONCE | {"trigger_mode": "always_last"}
AFTER_EACH_OTHER = {"trigger_mode": "multiple"}
"""The viewer sends one action at a time, the next as soon as it has seen the end of the last."""


def _limited(name: str) -> dict[str, Any]:
    """Jobs wait in the queue for the device, not in Gradio's, which shows no place."""
    return PRIVATE | {"concurrency_id": name, "concurrency_limit": JOBS}


UPDATED_FIRST = (
    "viewer", "plot", "run", "stop", "note", "cost", "save", "export", "answers", "question",
    "video", "example", "draw", "strip", "sampling", "knows", "real", "tally", "sheet",
)  # fmt: skip


@dataclass(frozen=True)
class Panels:
    """The widgets of the page."""

    ask: AskPanel
    questions: QuestionsPanel
    files: FilePanel
    view: ViewPanel

    def by_name(self) -> dict[str, Any]:
        """Every widget that a handler can update, in the order in which they are updated."""
        found = vars(self.view) | vars(self.files) | vars(self.ask) | self.ask.fields
        return {name: found[name] for name in (*UPDATED_FIRST, *self.ask.fields)}


def build_page(store: Store) -> gr.Blocks:
    """The whole page over one store of sessions and models.

    Points GRADIO_TEMP_DIR into the store's folder: uploads go when their visitor goes.
    """
    os.environ["GRADIO_TEMP_DIR"] = str(store.uploads.folder)
    upstream.repair(store.settings.proxies)
    examples = find_examples()
    handlers = make_handlers(store, examples)
    first = handlers.view.first
    with Page(title=sentences.TITLE, analytics_enabled=False, fill_width=True) as page:
        page.shared = store.settings.shared
        with gr.Row(elem_id="top"):
            page_bar(_links(store.settings))
            files = FilePanel(first is not None)
        with gr.Row(elem_id="columns"):
            with gr.Column(scale=1, min_width=280, elem_id="ask"):
                ask = AskPanel(examples, first, store.settings)
                questions = QuestionsPanel()
            with gr.Column(scale=4, min_width=320, elem_id="run-shown"):
                error_line("open-error")
                files.place_answers()
                view = ViewPanel(handlers.view.first_paint())
        page_foot({"Paper": documents.PAPER, "Source": "source.zip"})
        panels = Panels(ask, questions, files, view)
        for event in events_of(page, panels, handlers):
            _wire(event, panels, handlers)
        if store.settings.mcp:  # first: an MCP tool is known by its function's name
            add_tools(store)
        add_api(store)

        def leave(request: gr.Request) -> None:
            store.sessions.leave(str(request.session_hash))

        page.unload(leave)
    built: gr.Blocks = page
    return built


def _links(settings: ServerSettings) -> dict[str, str]:
    """What the bar leads on to: words → address."""
    links = {"Learn": f"{LEARN}/", "Gallery": f"{GALLERY}/"}
    if settings.results:
        links["Results"] = f"{RESULTS}/"
    return links | ({"Docs": f"docs/{documents.FIRST}"} if documents.has_docs() else {})


def events_of(page: gr.Blocks, panels: Panels, handlers: Handlers) -> list[Event]:
    """Every event of the page, in the order in which Gradio numbers them."""
    ask, questions, files, view = panels.ask, panels.questions, panels.files, panels.view
    runs, changes, form = handlers.runs, handlers.changes, handlers.form
    jobs, strips, opening = map(_limited, ("jobs", "strips", "opening"))
    fields: dict[str, Any] = ask.fields
    backbone, strengths = fields["backbone"], view.strengths
    # one event for the whole form: choosing an example changes most of it at once
    changed = tuple(field.change for name, field in fields.items() if name != "video")
    told = tuple(field.change for name, field in fields.items() 
                 if name == "video" or name.startswith("tracks"))  # fmt: skip
    source = fields["tracks_source"]
    several = partial(ask_several, runs)
    with_detector = partial(run_with_detector, runs)
    cost = [Event("cost", [(page.load, *changed)], form.cost, (FORM,), ask.cost, LATEST, False)]
    quiet = {"show_progress": "hidden"}
    return [
        Event("run", [ask.run.click, ask.question.submit], runs.run, (FORM,), options=jobs),
        Event("draw", [ask.draw.click], runs.draw, (FORM,), options=jobs),
        Event("typical", [ask.typical.click], runs.typical, (FORM,), options=jobs),
        Event("stop", [ask.stop.click], form.stop, options=AT_ONCE, known=False),
        Event("choose", [ask.examples.input], form.choose, (ask.examples,), options=PRIVATE),
        Event("upload", [ask.video.upload], form.upload, (ask.video, fields["detector"]),
              options=strips),
        Event("strip", [ask.strip.submit], form.choose_range, (DATA,), options=strips),
        Event("rate", [fields["frame_rate"].change], form.set_rate, (fields["frame_rate"],),
              options=strips),
        Event("choose_model", [backbone.change], form.choose_model, (backbone,), options=AT_ONCE),
        Event("confirm", [told], partial(show_tracks, runs), (FORM,), [ask.sheet, source],
              strips | {"trigger_mode": "always_last"}),
        Event("words", [(ask.question.change, fields["detector"].change)], form.words,
              (ask.question, fields["detector"], ask.words), ask.words, LATEST),
        Event("use_real", [ask.real.click], form.use_real, options=AT_ONCE),
        Event("reset", [ask.reset.click], form.reset, options=PRIVATE),
        Event("take_away", [ask.video.clear, ask.video.delete], partial(form.upload, None, None),
              options=PRIVATE),
        Event("change", [changed], form.edit_form, (FORM,), ask.note, LATEST),
        Event("reopen", [files.open.upload], form.open_trace, (files.open,), options=opening),
        Event("act", [view.viewer.submit], changes.act, (DATA, backbone, ask.segmenter),
              options=jobs | AFTER_EACH_OTHER),
        Event("redetect", [view.viewer.edit], with_detector, (DATA, FORM), options=jobs),
        Event("ask_all", [questions.ask.click], several, (FORM, questions.list), options=jobs),
        *(cost if handlers.store.settings.gpu_quota else ()),
        *(Event("", [button.click], takes=(view.viewer, ask.note), outputs=ask.note,
                options=quiet | {"js": download(kind)})
          for kind, button in (("trace", files.save), ("page", files.export))),
        Event("unfold", [strengths.expand], partial(form.unfold_plot, True), options=AT_ONCE),
        Event("fold", [strengths.collapse], partial(form.unfold_plot, False), options=AT_ONCE),
        *(Event("", [button.click], options={
            "js": f"() => window.macdSavePlot && window.macdSavePlot('{kind}')"})
          for kind, button in view.save_plot.items()),
        # most visitors name no example: their page opens without an event, so any number may come
        Event("", [page.load], outputs=ask.wanted, options=PRIVATE | {"js": WANTED}),
        Event("visit", [ask.wanted.change], form.visit, (ask.wanted,), options=AT_ONCE),
    ]  # fmt: skip


def _wire(event: Event, panels: Panels, handlers: Handlers) -> None:
    """Makes Gradio call the handler of an event."""
    outputs = event.outputs
    if event.handler is not None:
        call = _caller(event, panels, handlers)
        call.__name__ = event.name
        fields = set(panels.ask.fields.values())
        inputs: Any = set[Any]().union(
            *(fields if part is FORM else () if part is DATA else (part,) for part in event.takes)
        )
        outputs = list(panels.by_name().values()) if outputs is None else outputs
    else:
        call, inputs = None, list(event.takes) or None
    for trigger in event.on:
        if isinstance(trigger, tuple):
            gr.on(trigger, call, inputs, outputs, **event.options)
        else:
            trigger(call, inputs, outputs, **event.options)


def _caller(event: Event, panels: Panels, handlers: Handlers) -> Any:
    """The function that Gradio calls: inputs by widget → the handler → updates by widget."""
    widgets, fields, handler = panels.by_name(), panels.ask.fields, event.handler
    assert handler is not None

    def call(given: dict[Any, Any], request: gr.Request, data: Any = None) -> Any:
        form = {name: given[w] for name, w in fields.items()} if FORM in event.takes else {}
        parts = [
            form if part is FORM else data if part is DATA else given[part] for part in event.takes
        ]
        key = tab(request, handlers) if event.known else str(request.session_hash)
        return handler(*parts, key)

    def shown(updates: Updates) -> dict[Any, Any]:
        return {widgets[n]: _wrapped(n, u) for n, u in updates.items()} or {
            panels.ask.run: gr.skip()
        }

    def _wrapped(name: str, update: Any) -> Any:
        """A script's value that is an input too, as an update of the widget.

        Gradio sends what changed since the last message of an event, and its page changes the
        former value itself: an update after a plain value would write its own keys into that.
        """
        is_update = isinstance(update, dict) and "__type__" in update
        plain = isinstance(widgets[name], gr.HTML) and not is_update
        return gr.update(value=update) if plain and name in fields else update

    def reply(given: dict[Any, Any], request: gr.Request) -> dict[Any, Any]:
        return shown(call(given, request))

    def stream(given: dict[Any, Any], request: gr.Request) -> Iterator[dict[Any, Any]]:
        yield from map(shown, call(given, request))

    def stream_data(
        given: dict[Any, Any], data: gr.EventData, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        yield from map(shown, call(given, request, data._data))

    if DATA in event.takes:
        return stream_data
    return stream if inspect.isgeneratorfunction(handler) else reply


def tab(request: gr.Request, handlers: Handlers) -> str:
    """The key of the tab that sends an event; its session is made when it is the first."""
    key, cookie = str(request.session_hash), read_cookie(request.headers.get("cookie"))
    if not is_tab(key) or cookie is None:
        raise QuotaError(*NO_COOKIE)
    sessions = handlers.store.sessions
    new = sessions.find(key) is None
    session = sessions.open(key, visitor_of(request), browser_key(cookie))
    if new:  # the page was opened without an event
        session.form = handlers.form.first_form()
    return key


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
        "root_path": store.settings.place.address,
        "css": CSS.read_text(encoding="utf-8") + style(),
        "auth": checker(auth, store.logins) if auth else None,
        "mcp_server": store.settings.mcp,
        "max_file_size": int(1e6 * store.settings.largest_mb),
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
                source_route(),
                *documents.routes(),
                *results_routes(store.settings),
                *learn_routes(store.settings),
            ],
            "lifespan": lifespan,
        },
    }
