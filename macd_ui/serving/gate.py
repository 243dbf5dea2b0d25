"""The outermost layer of the server: what is refused before Gradio sees it.

Gradio answers any host, gives CORS headers to any origin that is not local, follows file paths and
addresses in events, and knows a visitor by a hash that their browser made up. Here

- only known hosts and the page's own origin are answered, and only the routes the page uses;
- every session hash is replaced by a key that needs the browser's cookie (see identity.py);
- files in events are those that were uploaded; anything else is taken out;
- bodies, uploads and requests are bounded; every answer carries security headers;
- where a study is served, everything but its own pages is the organiser's: the traces would tell a
  rater which mask is which.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from macd_ui.api import VISITOR
from macd_ui.quota import QuotaError
from macd_ui.serving.identity import (
    MAX_HASH,
    address,
    new_cookie,
    read_cookie,
    session_key,
    set_cookie,
)
from macd_ui.session import Store
from ratings.web import CSP as STUDY_CSP
from ratings.web import is_study_path

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_JSON = 2**20
MAX_UPLOAD = 101 * 10**6
"""A file of 100 MB and what wraps it."""
KEPT_FREE = 500 * 10**6
"""Bytes of disk that uploads leave free."""
API = "/gradio_api"
HEALTH = "/healthz"
RATE = "/rate"
STARTUP = f"{API}/startup-events"
"""Gradio asks itself for it, without a cookie, before it takes visitors."""
GET = re.compile(
    r"/|/(assets|static|svelte|files)/.+|/(gallery|results|learn)(/.*)?|/t/[0-9a-f]{16,64}/?"
    r"|/docs/[\w.-]+|/source\.zip"
    r"|/(config|login|logout|theme\.css|favicon\.ico|robots\.txt"
    r"|manifest\.json|pwa_icon(/\d+)?)/?"
    rf"|{API}/(info|openapi\.json|user|login_check|app_id|theme\.css|startup-events|queue/data"
    r"|queue/status|upload_progress|heartbeat/[^/]+|call/(v2/)?[^/]+/[^/]+|file[=/].+)/?"
)
POST = re.compile(
    rf"/login/?|{API}/(upload|cancel|reset|queue/join|(run|api|call|call/v2)/[^/]+)/?"
)
STUDY_GET = re.compile(
    r"/(rate|organise)|/rate/static/[\w.-]+|/rate/api/(session|item/\w+|media/\w+/\w+)"
    r"|/rate/hub/(login|callback|code)|/organise/api/(state|report|export)"
)
STUDY_POST = re.compile(r"/rate/api/events|/organise/api/(enter|control|invite|revoke)")
HEARTBEAT = re.compile(rf"{API}/heartbeat/([^/]+)/?")
STREAMS = re.compile(rf"{API}/(heartbeat/[^/]+|queue/data)/?")
MCP = re.compile(rf"{API}/mcp(/http)?/?")
"""Where MCP clients ask, if the server was started for them."""
UPLOAD = re.compile(rf"{API}/upload/?")
CSP = "; ".join((
    "default-src 'self'",
    # Gradio compiles the templates and scripts of its HTML components in the browser
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "media-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self' data: blob:",
    "worker-src 'self' blob:",
    "object-src 'none'",
    "base-uri 'self'",
    "form-action 'self'",
))  # fmt: skip


class _Refused(Exception):
    """The request is answered with these words, or sent elsewhere."""

    def __init__(self, status: int, words: str, elsewhere: str = "") -> None:
        self.status, self.words, self.elsewhere = status, words, elsewhere
        super().__init__(words)


class Gate:
    """ASGI middleware around the whole app; see the module. store: its settings say what holds."""

    def __init__(self, app: App, store: Store) -> None:
        self.app, self.store, self.settings = app, store, store.settings
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
        started = False
        cookie: str | None = None
        streams = MCP.fullmatch(scope["path"]) is not None  # tells a client how far a call is
        held: list[Message] | None = [] if scope["method"] == "POST" and not streams else None

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(raw=list(message.get("headers", ())))
                study = is_study_path(scope["path"])
                for name, value in (self._study_headers if study else self._headers).items():
                    headers.setdefault(name, value)
                if cookie is not None:
                    headers.append("set-cookie", set_cookie(cookie, self.settings.space))
                message["headers"] = headers.raw
            await send(message)

        async def hold(message: Message) -> None:
            # an error inside is answered with 500 before it gets here; only then is it explained
            assert held is not None
            held.append(message)

        inner = answer if held is None else hold
        try:
            path = scope["path"]
            if path.rstrip("/") == HEALTH:
                await self.app(scope, receive, answer)
                return
            headers = Headers(scope=scope)
            self._check_source(scope, headers)
            known = read_cookie(headers.get("cookie"))
            if known is None and path == "/" and scope["method"] == "GET":
                cookie = new_cookie()
            await self._pass_on(scope, receive, inner, headers, known)
        except Exception as error:
            refused = _explained(error)
            if refused is not None and not started:
                await _response(scope, refused)(scope, receive, answer)
                return
            for message in held or ():
                await answer(message)
            raise
        for message in held or ():
            await answer(message)

    def _check_source(self, scope: Scope, headers: Headers) -> None:
        host = headers.get("host", "")
        name = host_name(host)
        if not self.settings.allows_host(name):
            raise _Refused(
                421,
                f"This server does not answer for the host {name[:80]!r}."
                " Whoever runs it can allow a name: --allow-host NAME.",
            )
        origin = headers.get("origin")
        if origin is not None and not self._own_origin(origin, host):
            raise _Refused(403, "Another site's page may not use this server. Open its own page.")
        method, path = scope["method"], scope["path"]
        if self.settings.mcp and MCP.fullmatch(path) and method in ("GET", "POST", "DELETE"):
            return
        allowed = POST if method == "POST" else GET
        site = self.store.site
        if site is not None and is_study_path(path):
            allowed = STUDY_POST if method == "POST" else STUDY_GET
        elif site is not None and path != STARTUP:
            if not site.knows_organiser(headers.get("cookie")):
                elsewhere = RATE if path == "/" else ""
                raise _Refused(404, "There is nothing here. Raters start at /rate.", elsewhere)
        if method not in ("GET", "HEAD", "POST") or not allowed.fullmatch(path):
            raise _Refused(404, "There is nothing here. The page is at /.")

    def _own_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin is ours: the host it is asked for by, or an allowed one."""
        place = urlsplit(origin)
        if place.netloc.lower() == host.lower():
            return True
        name = host_name(place.netloc)
        return place.scheme == "https" and name in self.settings.hosts

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, cookie: str | None
    ) -> None:
        peer = (scope.get("client") or ("unknown", 0))[0]
        visitor = address(peer, headers, self.settings.space)
        # only the gate may set it
        raw = [(k, v) for k, v in scope["headers"] if k.lower() != VISITOR.encode()]
        scope["headers"] = [*raw, (VISITOR.encode(), visitor.encode("latin-1", "replace"))]
        path = scope["path"]
        if scope["method"] == "POST":
            if not self.store.quota.allows_request(visitor):
                raise _Refused(429, "Too many requests from your address. Wait a few seconds.")
            if path.rstrip("/") == "/login" and not self.store.logins.allows_request(visitor):
                raise _Refused(429, "Too many attempts to log in. Wait some minutes.")
            if UPLOAD.fullmatch(path):
                receive = self._bounded_upload(receive, headers, visitor)
            elif is_study_path(path):
                pass  # its own routes bound and check what they read
            elif headers.get("content-type", "").split(";")[0].strip() == "application/json":
                body = await _read(receive, MAX_JSON)
                if not MCP.fullmatch(path):
                    body = self._checked_body(body, cookie)
                _set_header(scope, b"content-length", str(len(body)).encode())
                receive = _replayed(body, receive)
        if not STREAMS.fullmatch(path):
            _rekey(scope, cookie)
            await self.app(scope, receive, send)
            return
        key = _rekey(scope, cookie)
        if key is None:
            raise _Refused(400, "The request names no session. Reload the page.")
        self.store.connect(key)
        try:
            await self.app(scope, receive, send)
        finally:
            self.store.disconnect(key)

    def _checked_body(self, body: bytes, cookie: str | None) -> bytes:
        try:
            content = json.loads(body)
            if not isinstance(content, dict):
                raise ValueError
            if "session_hash" in content and content["session_hash"] is not None:
                content["session_hash"] = session_key(_hash(content["session_hash"]), cookie)
            if "data" in content:
                content["data"] = self._uploads_only(content["data"])
            else:  # a call by named parameters
                content = {k: self._uploads_only(v) for k, v in content.items()}
            # as the answer will be written, in which Gradio repeats what it was given
            return json.dumps(content, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise _Refused(400, "The text holds half a character. Type it again.") from None
        except (ValueError, RecursionError):
            raise _Refused(400, "The request holds no JSON object. Reload the page.") from None

    def _uploads_only(self, value: Any) -> Any:
        """The same with each file that was not uploaded here replaced by None."""
        if isinstance(value, list):
            return [self._uploads_only(v) for v in value]
        if not isinstance(value, dict):
            return value
        if "path" in value or "meta" in value:
            path = value.get("path")
            if not isinstance(path, str) or not self._uploaded(path):
                return None
            return {k: v for k, v in value.items() if k != "url"}
        return {k: self._uploads_only(v) for k, v in value.items()}

    def _uploaded(self, path: str) -> bool:
        try:
            resolved = Path(path).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return False
        return resolved.is_relative_to(self.store.uploads.folder) and resolved.is_file()

    def _bounded_upload(self, receive: Receive, headers: Headers, visitor: str) -> Receive:
        too_large = _Refused(
            413, "The file is larger than 100 MB. Cut the clip, or save it with a lower bitrate."
        )
        claimed = headers.get("content-length", "0")
        claimed_bytes = int(claimed) if claimed.isdigit() else 0
        if claimed_bytes > MAX_UPLOAD:
            raise too_large
        if shutil.disk_usage(self.store.uploads.folder).free < claimed_bytes + KEPT_FREE:
            raise _full_disk()
        taken = 0

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            size = len(message.get("body", b""))
            taken += size
            if taken > MAX_UPLOAD:
                raise too_large
            self.store.quota.add_upload(visitor, size)
            return message

        return bounded


def security_headers(space: bool, policy: str = CSP) -> dict[str, str]:
    """Headers of every answer. space: pages of huggingface.co may hold this one as a frame."""
    ancestors = "'self' https://huggingface.co" if space else "'self'"
    headers = {
        "content-security-policy": f"{policy}; frame-ancestors {ancestors}",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
        "cross-origin-resource-policy": "same-origin",
    }
    if not space:
        headers |= {"x-frame-options": "SAMEORIGIN", "cross-origin-opener-policy": "same-origin"}
    return headers


def host_name(host: str) -> str:
    """The name of a Host header, without the port, in lower case."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](:\d*)?", host)
    return (bracketed[1] if bracketed else host.rsplit(":", 1)[0]).lower().rstrip(".")


def _rekey(scope: Scope, cookie: str | None) -> str | None:
    """Replaces the session hash in path or query; gives the key, None if there is no hash."""
    key = None
    if beat := HEARTBEAT.fullmatch(scope["path"]):
        key = session_key(_hash(beat[1]), cookie)
        scope["path"] = f"{API}/heartbeat/{key}"
        scope["raw_path"] = scope["path"].encode()
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    if any(name == "session_hash" for name, _ in query):
        keyed = [(n, session_key(_hash(v), cookie) if n == "session_hash" else v) for n, v in query]
        key = key or next(v for n, v in keyed if n == "session_hash")
        scope["query_string"] = urlencode(keyed).encode()
    return key


def _hash(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_HASH:
        raise _Refused(400, "The session of the request is not one. Reload the page.")
    return value


async def _read(receive: Receive, most: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(400, "The connection was closed.")
        body += message.get("body", b"")
        if len(body) > most:
            raise _Refused(413, f"The request is larger than {most // 2**20} MB.")
        if not message.get("more_body"):
            return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _set_header(scope: Scope, name: bytes, value: bytes) -> None:
    scope["headers"] = [(k, v) for k, v in scope["headers"] if k.lower() != name] + [(name, value)]


def _full_disk() -> _Refused:
    return _Refused(507, "The server's disk is full. Try again later, or inform its operator.")


def _explained(error: BaseException) -> _Refused | None:
    if isinstance(error, _Refused):
        return error
    if isinstance(error, QuotaError):
        return _Refused(429, str(error))
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full_disk()
    return None


def _response(scope: Scope, refused: _Refused) -> Response:
    """Text for people and uploads; for events an object, as Gradio's own refusals are."""
    if refused.elsewhere:
        return RedirectResponse(refused.elsewhere, 303)
    if scope["path"].startswith(API) and not UPLOAD.fullmatch(scope["path"]):
        body = {"error": refused.words, "detail": refused.words}
        return JSONResponse(body, refused.status)
    return PlainTextResponse(refused.words, refused.status)
