"""The outermost layer of the server: what is refused before Gradio sees it.

Gradio answers any host, gives CORS headers to any origin that is not local, follows file paths and
addresses in events, fetches addresses for whoever asks, and knows a visitor by a hash that their
browser made up. Here

- only known hosts and the page's own origin are answered, and only the routes of routes.py;
- who has to log in has done so before anything of a request is read;
- every session hash is replaced by a key that needs the browser's cookie (see identity.py);
- bodies are of the one type that their route takes, and bounded (see bodies.py);
- files in events are those that were uploaded; anything else is taken out;
- requests, answers and open streams are bounded; every answer carries security headers;
- where only a study is served, everything but its own pages is the organiser's: the traces would
  tell a rater which mask is which.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

from macd_studio.macd_ui.api import VISITOR
from macd_studio.macd_ui.limits import VisitorLimits
from macd_studio.macd_ui.sentences import unforeseen
from macd_studio.macd_ui.serving.bodies import (
    ANSWERS_HELD,
    ANSWERS_SHARE,
    HELD,
    NOT_OURS,
    SHARE,
    BadFraming,
    Compressor,
    Held,
    Message,
    Receive,
    Refusal,
    Send,
    bounded_upload,
    check_framing,
    check_path,
    check_type,
    checked,
    in_pieces,
    parsed,
    read,
    replayed,
    session_hash,
)
from macd_studio.macd_ui.serving.claims import Scope, believed, host_name, peer_of
from macd_studio.macd_ui.serving.connections import request_of
from macd_studio.macd_ui.serving.identity import (
    address,
    browser_key,
    is_proxy,
    new_cookie,
    read_cookie,
    session_key,
    set_cookie,
)
from macd_studio.macd_ui.serving.passwords import SENDER
from macd_studio.macd_ui.serving.replies import explained, reply_to, security_headers
from macd_studio.macd_ui.serving.routes import (
    API,
    HEALTH,
    JSON,
    LOGIN,
    NOTHING,
    STARTUP,
    UPLOAD,
    Door,
    Doors,
)
from macd_studio.macd_ui.serving.upstream import NO_SESSION, Framework, status_of
from macd_studio.macd_ui.store import Store
from macd_studio.ratings.web import CSP as STUDY_CSP
from macd_studio.ratings.web import is_study_path

App = Callable[[Scope, Receive, Send], Awaitable[None]]

RATE, ORGANISE = "/rate", "/organise"
FILE = f"{API}/file="
PROGRESS = f"{API}/upload_progress"
LOGOUT = "/logout"
HEARTBEAT = re.compile(rf"{API}/heartbeat/([^/]+)/?")
STREAMS = re.compile(rf"{API}/(heartbeat/[^/]+|queue/data)/?")
CALL = re.compile(rf"{API}/call/(?:v2/)?[^/]+/([^/]+)/?")
FUNCTION = re.compile(rf"{API}/(run|api|call|call/v2|queue)/([^/]+)/?")
MCP = re.compile(rf"{API}/mcp(/http)?/?")
UPLOAD_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
WRONG_FIELDS = (
    "The request lacks a field that this address needs, or a field has a wrong type."
    " /gradio_api/openapi.json describes them."
)
NOTHING_HERE = (
    "There is nothing here. The page is at /. Where a proxy shows this server below a path, whoever"
    " runs it can name its address: --root-path ADDRESS."
)
log = logging.getLogger(__name__)


class Gate:
    """ASGI middleware around the whole app; see the module. store: its settings say what holds.

    framework: what Gradio knows about users, sessions and functions; None where there is no Gradio.
    """

    def __init__(self, app: App, store: Store, framework: Framework | None = None) -> None:
        self.app, self.store, self.settings = app, store, store.settings
        self.framework = framework
        self._doors = Doors(self.settings.mcp, store.site is not None)
        people = self.settings.people
        self._bodies = Held(
            people * SHARE, HELD, "The server reads too much at this moment. Try again."
        )
        self._answers = Held(
            people * ANSWERS_SHARE,
            ANSWERS_HELD,
            "Too many answers are on their way to you. Wait until they have arrived.",
        )
        self._compressor = Compressor()
        self._headers = security_headers(self.settings.space)
        self._study_headers = security_headers(self.settings.space, STUDY_CSP)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers an HTTP request; there are no websockets here."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = closing = False
        cookie: str | None = None

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                if closing:
                    headers["connection"] = "close"
                study = is_study_path(scope["path"])
                for name, value in (self._study_headers if study else self._headers).items():
                    headers.setdefault(name, value)
                if cookie is not None:
                    headers.append("set-cookie", self._cookie(cookie))
                message["headers"] = headers.raw
            await send(message)

        try:
            headers = believed(scope, self.settings)
            self._enter(scope)
            door = self._open(scope, headers)
            known = read_cookie(headers.get("cookie"))
            if known is None and scope["path"] == "/" and scope["method"] == "GET":
                cookie = new_cookie()
            await self._pass_on(scope, receive, answer, headers, known, door)
        except Exception as error:
            refused = explained(error)
            closing = isinstance(error, BadFraming)
            if refused is None:
                log.error("a request failed", exc_info=error)
            if not started:  # else the connection is closed, as nothing else can be said
                refused = refused or Refusal(500, unforeseen(self.settings.shared))
                await reply_to(scope, refused)(scope, receive, answer)

    def _cookie(self, value: str) -> str:
        return set_cookie(value, self.settings.space, self.settings.place.path)

    def _enter(self, scope: Scope) -> None:
        """Takes the path of the page's place off the request's, whether the proxy did so or not."""
        place = self.settings.place
        path = place.below(scope["path"])
        scope["root_path"] = ""  # of the page's address alone the app knows
        if path is None:
            raise Refusal(308, "The page is one step below.", f"{place.path}/")
        if path in (f"{RATE}/", f"{ORGANISE}/"):  # whose own addresses are relative
            raise Refusal(308, "The page is one step above.", f"{place.path}{path[:-1]}")
        if path != scope["path"]:
            scope["path"], scope["raw_path"] = path, quote(path).encode()

    def _open(self, scope: Scope, headers: Headers) -> Door:
        """The route of a request that may be answered: of a known host, to whom it is open."""
        host = headers.get("host", "")
        name = host_name(host)
        if not self.settings.allows_host(name):
            raise Refusal(
                421,
                f"This server does not answer for the host {name[:80]!r}."
                " Whoever runs it can allow a name: --allow-host NAME.",
            )
        origin = headers.get("origin")
        if origin is not None and not self._own_origin(origin, host):
            raise Refusal(403, "Another site's page may not use this server. Open its own page.")
        check_framing(headers)
        path = scope["path"]
        check_path(path)
        if path.rstrip("/") == LOGOUT and headers.get("sec-fetch-site") in (
            "cross-site",
            "same-site",
        ):
            raise Refusal(403, "Another site's page may not log you out. Use the page's own link.")
        site = self.store.site
        if site and self.settings.only_study and path.rstrip("/") not in (HEALTH, STARTUP):
            if not is_study_path(path) and not site.knows_organiser(headers.get("cookie")):
                elsewhere = f"{self.settings.place.path}{RATE}" if path == "/" else ""
                raise Refusal(404, "There is nothing here. Raters start at /rate.", elsewhere)
        door = self._doors.find(scope["method"], path)
        if door is None:
            raise Refusal(404, NOTHING_HERE)
        return door

    def _own_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin is ours: the host it is asked for by, or an allowed one."""
        place, own = urlsplit(origin), self.settings.place.origin
        if place.netloc.lower() == host.lower() or (own and origin.lower() == own):
            return True
        name = host_name(place.netloc)
        return place.scheme == "https" and name in self.settings.hosts

    async def _pass_on(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: Headers,
        cookie: str | None,
        door: Door,
    ) -> None:
        user = None
        if self.settings.auth and self.framework is not None:
            user = self.framework.user(headers.get("cookie"))
            if door.login and user is None:
                raise Refusal(401, "Log in on the page first: this server is for its users.")
        peer = peer_of(scope)
        sender = address(peer, headers.getlist("x-forwarded-for"), self.settings.proxies)
        SENDER.set(sender)
        # only the gate may set it
        _set_header(scope, VISITOR.encode(), sender.encode("latin-1", "replace"))
        visitor = scope[Framework.VISITOR] = user or sender
        # people behind one address have a browser each; a program may have none
        who = user or (cookie and browser_key(cookie)) or sender
        path, quota = scope["path"], self.store.quota
        whose = self.settings.whose
        too_many = f"Too many requests {whose.words}. {whose.remedy('Wait a few seconds')}."
        with ExitStack() as stack:
            if is_proxy(peer, self.settings.proxies) and not stack.enter_context(
                request_of(visitor)
            ):
                raise Refusal(503, too_many)
            if path.rstrip("/") == LOGIN:
                pass  # a right password is never refused; wrong ones wait, see delays.py
            elif scope["method"] == "POST":
                if not quota.allows_request(visitor):
                    raise Refusal(429, too_many)
            elif not quota.allows_answer(visitor, door.ms):
                raise Refusal(429, too_many)
            largest_mb = self.settings.largest_mb
            check_type(door, headers, largest_mb)
            if door.stream:
                stack.enter_context(quota.stream(visitor, door.stream))
            if door.body == UPLOAD:
                _check_upload_id(scope, needed=False)
                receive = bounded_upload(
                    receive, headers, door, visitor, quota, self.store.uploads.folder, largest_mb
                )
            elif door.body != NOTHING:
                take = stack.enter_context(self._bodies.share(visitor))
                body = await read(receive, door, take)
                if door.body == JSON and not MCP.fullmatch(path) and not is_study_path(path):
                    body = self._checked(path, body, cookie, visitor, partial(self._may_read, who))
                    _set_header(scope, b"content-type", b"application/json")
                _set_header(scope, b"content-length", str(len(body)).encode())
                receive = replayed(body, receive)
            if door.stream:
                await self._answer(scope, receive, send, cookie, who)
                return
            take_answer = stack.enter_context(self._answers.share(visitor))
            send = in_pieces(send, take_answer)
            if door.packed:
                send = self._compressor.compressed(send, headers, take_answer)
            if scope["method"] != "POST" or MCP.fullmatch(path):  # which tells how far a call is
                await self._answer(scope, receive, send, cookie, who)
                return
            # an error inside is answered with 500 before it gets here; only then is it explained
            held: list[Message] = []
            await self._answer(scope, receive, _into(held), cookie, who)
            if door.body == UPLOAD:
                self._keep_upload(held, who)
            if held and held[0].get("status") == 422:  # which says nothing to a person
                raise Refusal(422, WRONG_FIELDS)
            if held:
                held[0]["status"] = status_of(held, unforeseen(self.settings.shared))
            for message in held:
                await send(message)

    def _may_read(self, who: str, path: str) -> bool:
        return self.store.uploads.may_read(path, who)

    def _keep_upload(self, held: list[Message], who: str) -> None:
        """Notes whose the files are that an upload's answer names."""
        if held and held[0].get("status") == 200:
            content = b"".join(message.get("body", b"") for message in held)
            with suppress(ValueError):
                named = json.loads(content)
                for path in named if isinstance(named, list) else ():
                    self.store.uploads.bring(str(path), who)

    def _checked(
        self, path: str, body: bytes, cookie: str | None, visitor: str,
        may_read: Callable[[str], bool],
    ) -> bytes:  # fmt: skip
        """The body of an event as Gradio may have it. Raises Refusal."""
        content = parsed(body)
        index, given = (
            content.get("fn_index"),
            {k: v for k, v in content.items() if k not in NOT_OURS},
        )
        is_call = not path.endswith(("/cancel", "/reset"))
        body = checked(content, cookie, may_read, is_call)
        called = FUNCTION.fullmatch(path)
        if called and self.framework is not None:
            kind, name = ("", "") if called[1] == "queue" else called.groups()
            known = (
                self.framework.lists_function(name)
                if kind == "call/v2"
                else self.framework.knows_function(name, index)
            )
            if not known:
                raise Refusal(404, "There is no such function here. /gradio_api/info lists them.")
            if wrong := self.framework.wrong_inputs(kind, name, index, given):
                raise Refusal(400, wrong)
            limits = self.store.quota.limits
            if limits:
                self._check_waiting(limits, visitor, content.get("session_hash"))
        return body

    def _check_waiting(self, limits: VisitorLimits, visitor: str, tab: Any) -> None:
        """Raises Refusal where too much of a visitor waits for a thread, or to be read."""
        framework, whose = self.framework, self.settings.whose
        assert framework is not None
        if framework.unread_of_tab(str(tab)) >= limits.unread_of_tab:
            raise Refusal(429, "This page does not read its answers. Reload it.")
        for number, most, what, own in (
            (framework.waiting_of(visitor), limits.events, "calls", "Try again later"),
            (framework.unread_of(visitor), limits.unread, "answers",
             "Reload pages that hang, or try again later"),
        ):  # fmt: skip
            if number >= most:
                waits = "wait already" if what == "calls" else "wait to be read"
                raise Refusal(429, f"{most} {what} {whose.words} {waits}. {whose.remedy(own)}.")

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, cookie: str | None, who: str
    ) -> None:
        path, framework = scope["path"], self.framework
        key = _rekey(scope, cookie)
        if path.startswith(FILE) and not self._may_read(who, path[len(FILE) :]):
            raise Refusal(403, "Only files that you uploaded here, or made here, can be had.")
        if path.rstrip("/") == PROGRESS:
            _check_upload_id(scope, needed=True)
        call = CALL.fullmatch(path) if scope["method"] != "POST" else None
        visitor = scope[Framework.VISITOR]
        if call and framework is not None and not framework.knows_call(call[1], visitor):
            raise Refusal(404, "There is no such call, or its answer was fetched already.")
        if not STREAMS.fullmatch(path):
            await self.app(scope, receive, send)
            return
        if key is None:
            raise Refusal(400, "The request names no session. Reload the page.")
        if not HEARTBEAT.fullmatch(path) and framework and not framework.knows_stream(key):
            response = PlainTextResponse(NO_SESSION, media_type="text/event-stream")
            await response(scope, receive, send)
            return
        self.store.sessions.connect(key)
        try:
            await self.app(scope, receive, send)
        finally:
            self.store.sessions.disconnect(key)


def _into(held: list[Message]) -> Send:
    async def hold(message: Message) -> None:
        held.append(message)

    return hold


def _rekey(scope: Scope, cookie: str | None) -> str | None:
    """Replaces the session hash in path or query; gives the key, None if there is no hash."""
    key = None
    if beat := HEARTBEAT.fullmatch(scope["path"]):
        key = session_key(session_hash(beat[1]), cookie)
        scope["path"] = f"{API}/heartbeat/{key}"
        scope["raw_path"] = scope["path"].encode()
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if any(name == "session_hash" for name, _ in query):
        keyed = [
            (n, session_key(session_hash(v), cookie) if n == "session_hash" else v)
            for n, v in query
        ]
        key = key or next(v for n, v in keyed if n == "session_hash")
        scope["query_string"] = urlencode(keyed).encode()
    return key


def _check_upload_id(scope: Scope, needed: bool) -> None:
    """Raises Refusal where the id of an upload is not one that the page's script makes up."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    ids = [value for name, value in query if name == "upload_id"]
    if len(ids) > 1 or (needed and not ids) or not all(map(UPLOAD_ID.fullmatch, ids)):
        raise Refusal(400, "The request names no upload. Upload the file again.")


def _set_header(scope: Scope, name: bytes, value: bytes) -> None:
    scope["headers"] = [(k, v) for k, v in scope["headers"] if k.lower() != name] + [(name, value)]
