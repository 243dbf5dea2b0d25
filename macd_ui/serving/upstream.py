"""What Gradio leaves unbounded, worked around in this one place, and what the gate asks of it.

Written against gradio 6.31. Each work-around names the code below SOURCE that should change there;
tests/security/test_upstream.py shows each fault, and that it is gone.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import gradio.blocks
import gradio.networking
import gradio.queueing
import gradio.route_utils
import gradio.routes
import jinja2
from gradio.server_messages import UnexpectedErrorMessage
from python_multipart.exceptions import FormParserError
from starlette.formparsers import MultiPartException
from starlette.requests import cookie_parser

from macd_studio.core.text.words import count
from macd_studio.macd_ui.place import CHECK
from macd_studio.macd_ui.sentences import FULL_DISK, NO_MEMORY
from macd_studio.macd_ui.serving.connections import bound_connections
from macd_studio.macd_ui.settings import Network

SOURCE = "https://github.com/gradio-app/gradio/blob/gradio%406.31.0/gradio"
MAX_FILES = 1
"""Files of one upload; the page and gradio_client send each file by itself."""
POLL_S = 0.02
"""How often a server without visitors looks for events, seconds."""
MAX_FIELDS = 8
MAX_FIELD_BYTES = 2**10
"""Of a part of an upload that is no file; the page sends none."""
UPLOADS_WATCHED = 1000
"""Uploads under way whose progress somebody may ask for."""
MAX_UNREAD = 128
"""Messages that wait for one tab; each may hold a picture of every frame."""
UNREAD = "This page did not read what was computed for it. Reload it, and run the clip again."
LISTED = "/gradio_api/info lists the inputs of every function."
NO_SESSION = (
    'data: {"msg":"unexpected_error","message":"404: Not Found","success":false,'
    '"session_not_found":true,"event_id":null}\n\n'
)
"""What Gradio sends to a tab whose session it does not know, before it raises an error."""


class OneFileParser(gradio.route_utils.GradioMultiPartParser):
    """An upload holds one file; whatever ends it early leaves none behind. Other parts are short.

    SOURCE/route_utils.py, `upload_fn`: takes 1,000 files, each with a folder of its own, in one
    request; `GradioMultiPartParser.parse` deletes its temporary files only after its own errors;
    `upload_fn` leaves the file where its name is none, such as "..";
    `on_part_data` keeps a part that is no file in memory, whatever its size, and raises
    AttributeError for one whose progress is asked for.
    """

    def __init__(self, headers: Any, stream: Any, **named: Any) -> None:
        super().__init__(headers, stream, **named | {"max_files": MAX_FILES})
        self.max_fields = MAX_FIELDS

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        """See GradioMultiPartParser."""
        part = self._current_part
        if part.file is not None:
            super().on_part_data(data, start, end)
        elif len(part.data) + end - start > MAX_FIELD_BYTES:
            raise MultiPartException("A part of the upload is no file.")
        else:
            part.data += data[start:end]

    async def parse(self) -> Any:
        """See GradioMultiPartParser."""
        try:
            form = await super().parse()
            for _, value in form.multi_items():
                if not isinstance(value, str) and _is_no_name(value.filename):
                    raise MultiPartException("The file has no name.")
            return form
        except BaseException as error:
            for file in self._files_to_close_on_error:
                file.close()
                Path(file.name).unlink(missing_ok=True)
            if isinstance(error, FormParserError):
                raise MultiPartException("The upload is no form.") from error
            raise


def _is_no_name(name: str | None) -> bool:
    """Whether a name of an upload names no file in its folder."""
    return PurePosixPath((name or "").replace("\\", "/")).name.strip(" .") == ""


class _Signals(defaultdict[str, asyncio.Event]):
    def __missing__(self, key: str) -> asyncio.Event:
        made = super().__missing__(key)
        while len(self) > UPLOADS_WATCHED:
            del self[next(iter(self))]
        return made


class BoundedProgress(gradio.route_utils.FileUploadProgress):
    """Forgets uploads: those that ended, and the oldest where there are too many.

    SOURCE/route_utils.py, `FileUploadProgress`: keeps an event for each id that anybody ever named,
    and the state of each upload that nobody asked about.
    """

    def __init__(self) -> None:
        super().__init__()
        self._signals = _Signals(asyncio.Event)

    def track(self, upload_id: str) -> None:
        """See FileUploadProgress."""
        super().track(upload_id)
        while len(self._statuses) > UPLOADS_WATCHED:
            self.stop_tracking(next(iter(self._statuses)))

    def stop_tracking(self, upload_id: str) -> None:
        """See FileUploadProgress."""
        super().stop_tracking(upload_id)
        self._signals.pop(upload_id, None)


class BoundedQueue(gradio.queueing.Queue):
    """Keeps no more than MAX_UNREAD messages for a tab that reads none.

    SOURCE/queueing.py, `Queue.send_message`: keeps every message, of up to megabytes, until it is
    read or the tab's session ends. Looks for events every POLL_S instead of every millisecond
    (`Queue.start_processing`), which takes 6 % of a core at rest.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        """See Queue."""
        super().__init__(*given, **named)
        self.sleep_when_free, self.progress_update_sleep_when_free = POLL_S, 5 * POLL_S

    def send_message(self, event: Any, event_message: Any) -> None:
        """See Queue. What is too much is thrown away, and the tab is told to reload the page."""
        messages: Any = self.pending_messages_per_session.get(event.session_hash)
        if messages is None or not event.alive:
            return
        messages.visitor = event.request.scope.get(Framework.VISITOR)
        if messages.qsize() >= MAX_UNREAD:
            while not messages.empty():
                messages.get_nowait()
            event.alive = False
            event_message = UnexpectedErrorMessage(message=UNREAD, event_id=event._id)
            messages.put_nowait(event_message)
            return
        super().send_message(event, event_message)


class CheckedPage(jinja2.BaseLoader):
    """Gradio's templates, whose page checks its address before its scripts run.

    SOURCE/templates/frontend/index.html: has no place for a script of the app; what `head` is given
    is added by the scripts, which a proxy with another Host does not get.
    """

    BEFORE = "<script data-gradio-mode>"

    def __init__(self, templates: Any) -> None:
        self._templates = templates

    def get_source(self, environment: Any, template: str) -> Any:
        """See jinja2.BaseLoader."""
        source, *about = self._templates.get_source(environment, template)
        check = CHECK.read_text(encoding="utf-8")
        return source.replace(self.BEFORE, f"<script>\n{check}</script>\n{self.BEFORE}"), *about


SKIPPED = {"__type__": "update"}
"""What Gradio sends for a component that an answer leaves as it is."""


class ChangedBlocks(gradio.blocks.Blocks):
    """Processes the components that an answer changes, and no others.

    SOURCE/blocks.py, `Blocks.postprocess_data`: makes every component of an event again at each of
    its answers, also those that the answer does not name. For the 48 widgets that a run may change
    that takes 27 ms of the one thread of all visitors, and 0.6 ms where the viewer alone changes.
    """

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: Any) -> list[Any]:
        """See gr.Blocks. predictions: also what an event names, by component."""
        by_block = isinstance(predictions, dict) and all(
            isinstance(key, gradio.blocks.Block) for key in predictions
        )
        if not by_block or block_fn.batch:
            made: list[Any] = await super().postprocess_data(block_fn, predictions, state)
            return made
        changed = {b._id: v for b, v in predictions.items() if not _is_skipped(v)}
        unknown = set(changed) - {block._id for block in block_fn.outputs}
        if unknown:
            raise ValueError("an answer changes a component that is no output of its event")
        narrow = copy.copy(block_fn)
        narrow.outputs = [block for block in block_fn.outputs if block._id in changed]
        values = [changed[block._id] for block in narrow.outputs]
        processed = iter(
            await super().postprocess_data(narrow, values[0] if len(values) == 1 else values, state)
        )
        return [
            next(processed) if block._id in changed else dict(SKIPPED) for block in block_fn.outputs
        ]


def _is_skipped(value: Any) -> bool:
    return isinstance(value, dict) and value == SKIPPED


def repair(proxies: Sequence[Network] = ()) -> None:
    """Puts the bounded parts in the place of Gradio's; a second time changes the proxies alone.

    proxies: those that are trusted.

    SOURCE/http_server.py, `start_server`: leaves it to uvicorn to believe X-Forwarded-For, which
    does so for every program of this machine; the gate knows which proxies may say so.
    SOURCE/networking.py, `url_ok`: a page that a busy machine does not send within 3 s ends the
    start, with advice to share it by Gradio's own server.
    """
    vars(gradio.networking)["url_ok"] = lambda url: True
    templates = gradio.routes.templates.env
    if not isinstance(templates.loader, CheckedPage):
        templates.loader = CheckedPage(templates.loader)
    os.environ["FORWARDED_ALLOW_IPS"] = ""
    vars(gradio.route_utils)["GradioMultiPartParser"] = OneFileParser
    vars(gradio.queueing)["Queue"] = BoundedQueue
    if not isinstance(gradio.routes.file_upload_statuses, BoundedProgress):
        gradio.routes.file_upload_statuses = BoundedProgress()
    bound_connections(proxies)


def status_of(answer: Sequence[Mapping[str, Any]], unforeseen: str) -> int:
    """The status of an answer: not 500 where an event failed with words for its visitor.

    answer: its messages. unforeseen: the words of an error that nobody expected. SOURCE/routes.py,
    `predict`: answers 500 to every event that fails, whatever is wrong with its inputs.
    """
    status = int(answer[0]["status"])
    if status != 500:
        return status
    try:
        told = json.loads(b"".join(message.get("body", b"") for message in answer))
    except ValueError:
        return status
    words = told.get("error") if isinstance(told, dict) else None
    if not isinstance(words, str):
        return status
    return {unforeseen: status, FULL_DISK: 507, NO_MEMORY: 503}.get(words, 400)


class Framework:
    """What the gate asks of the app. app: Gradio's, with a page."""

    VISITOR = "macd.visitor"
    """Where a request's scope says whose limits it counts for."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def user(self, cookie_header: str | None) -> str | None:
        """Who has logged in, by the cookie that /login gave; None: nobody."""
        cookies = cookie_parser(cookie_header or "")
        names = (f"access-token{kind}-{self._app.cookie_id}" for kind in ("", "-unsecure"))
        users = (self._app.tokens.get(cookies.get(name)) for name in names)
        return next((user for user in users if user is not None), None)

    def knows_stream(self, key: str) -> bool:
        """Whether messages wait, or will, for this session.

        SOURCE/routes.py, `queue_data_helper`: raises inside an answer that has begun, which the
        server then logs as a fault of its own.
        """
        return key in self._queue.pending_messages_per_session

    def knows_call(self, event_id: str, visitor: str) -> bool:
        """Whether a program of this visitor called this event and has not fetched it yet.

        SOURCE/routes.py, `simple_predict_get`: gives the messages of a tab to whoever names one of
        its events. A call's messages stand under the event's own id.
        """
        queue = self._queue
        event = queue.event_ids_to_events.get(event_id)
        messages = queue.pending_messages_per_session.get(event_id)
        if event is not None:
            owner = event.request.scope.get(self.VISITOR)
            return bool(event.session_hash == event_id and owner == visitor)
        return messages is not None and getattr(messages, "visitor", None) == visitor

    def knows_function(self, name: str, index: Any) -> bool:
        """Whether there is such a function: by its index, where one is given, else by its name.

        SOURCE/route_utils.py, `get_fn`: raises where there is none, which is answered with a bare
        500.
        """
        functions = self._app.get_blocks().fns
        if index is not None:
            return type(index) is int and index in functions
        return any(fn.api_name == name for fn in functions.values())

    def lists_function(self, name: str) -> bool:
        """Whether /gradio_api/info lists the function: those alone can be called by name in v2."""
        return name in self._inputs

    def wrong_inputs(self, kind: str, name: str, index: Any, content: Mapping[str, Any]) -> str:
        """What is wrong with the inputs of a call, as a sentence; empty where there are as many as
        the function takes.

        kind: "call/v2", whose body holds the inputs by name, or another, which holds a list. The
        function is one that `knows_function`. SOURCE/routes.py, `queue_join_helper`: takes any
        number, and raises inside the call; `call/v2` is answered with a bare 500.
        """
        if kind == "call/v2":
            takes = {p["parameter_name"]: p["parameter_has_default"] for p in self._inputs[name]}
            unknown = sorted(set(content) - set(takes))
            missing = [one for one, has_default in takes.items() if not has_default]
            missing = [one for one in missing if one not in content]
            if unknown:
                return f"The function has no input {unknown[0][:40]!r}. {LISTED}"
            return f"The call lacks the input {missing[0]!r}. {LISTED}" if missing else ""
        data = content.get("data")
        if not isinstance(data, list):
            return f"The call brings no list of inputs, data. {LISTED}"
        functions = self._app.get_blocks().fns
        inputs = (
            functions[index]
            if index is not None
            else next(fn for fn in functions.values() if fn.api_name == name)
        ).inputs
        if len(data) in (len(inputs), sum(not block.skip_api for block in inputs)):
            return ""
        return f"The function takes {count(len(inputs), 'input')} and got {len(data)}. {LISTED}"

    @cached_property
    def _inputs(self) -> dict[str, list[dict[str, Any]]]:
        """The inputs of each function that has a name."""
        named = self._app.get_blocks().get_api_info()["named_endpoints"]
        return {name.removeprefix("/"): about["parameters"] for name, about in named.items()}

    def waiting_of(self, visitor: str) -> int:
        """Events of a visitor that no thread has taken yet."""
        queues = list(self._queue.event_queue_per_concurrency_id.values())
        waiting = (event for queue in queues for event in list(queue.queue))
        return sum(e.request.scope.get(self.VISITOR) == visitor for e in waiting)

    def unread_of_tab(self, key: str) -> int:
        """Messages that wait for one tab to read them."""
        messages: Any = self._queue.pending_messages_per_session.get(key)
        return 0 if messages is None else int(messages.qsize())

    def unread_of(self, visitor: str) -> int:
        """Messages that wait for this visitor's tabs and calls to read them."""
        waiting = list(self._queue.pending_messages_per_session.values())
        return sum(m.qsize() for m in waiting if getattr(m, "visitor", None) == visitor)

    @property
    def _queue(self) -> Any:
        return self._app.get_blocks()._queue
