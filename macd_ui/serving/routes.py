"""Every route that is open, what it takes, and about how long an answer takes.

The gate has no other list: what is not here is answered with 404. costs.py says of each what it may
cost and what bounds that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

API = "/gradio_api"
HEALTH = "/healthz"
LOGIN = "/login"
STARTUP = f"{API}/startup-events"
"""Gradio asks itself for it, without a cookie, before it takes visitors."""
NOTHING, JSON, FORM, UPLOAD = "nothing", "JSON", "a form", "an upload"
"""What a request's body is."""
TYPES = {
    JSON: ("application/json",),
    FORM: ("application/x-www-form-urlencoded", "multipart/form-data"),
    UPLOAD: ("multipart/form-data",),
}
"""Content types of each kind of body; the server reads no other."""
RATED = "rows of the study"
MOST = {JSON: 2**20, FORM: 2**14, UPLOAD: 101 * 10**6}
"""Bytes of each kind of body. An upload is a file of 100 MB and what wraps it."""


@dataclass(frozen=True)
class Door:
    """An open route."""

    method: str
    path: str
    """Its path as the app names it; a part in braces stands for any text."""
    ms: int = 1
    """Milliseconds of one processor that an answer takes, roughly, counted for reads."""
    body: str = NOTHING
    """What a request brings."""
    login: bool = True
    """Whether users alone may open it, where there are users."""
    stream: int = 0
    """How many of a visitor's places for open streams it takes, 0 for a plain answer."""
    writes: str = ""
    """What it leaves on the disk, in words."""
    log: int = 0
    """Records that it may write to the log."""
    packed: bool = False
    """Whether its text is sent compressed; never where an answer holds both a secret and what a
    request said."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the addresses of this route."""
        parts = re.split(r"\{\w+(:path)?\}", self.path)
        text = "".join(
            re.escape(part or "") if i % 2 == 0 else (".+" if part else "[^/]+")
            for i, part in enumerate(parts)
        )
        return re.compile(text if text.endswith("/") else f"{text}/?")


def _get(path: str, ms: int, login: bool = True, stream: int = 0, packed: bool = False) -> Door:
    return Door("GET", path, ms, NOTHING, login, stream, packed=packed)


def _post(
    path: str, body: str = JSON, login: bool = True, ms: int = 1, writes: str = "", log: int = 0
) -> Door:
    return Door("POST", path, ms, body, login, writes=writes, log=log)


def _event(path: str) -> Door:
    return _post(f"{API}/{path}", log=1)


PAGE = (
    _get("/", 40, login=False, packed=True),
    _get("/config", 40),
    _get("/assets/{path:path}", 2, login=False),
    _get("/static/{path:path}", 2, login=False),
    _get("/svelte/{path:path}", 2, login=False),
    _get("/theme.css", 2, login=False),
    _get("/favicon.ico", 2, login=False),
    _get("/manifest.json", 1, login=False),
    _get("/robots.txt", 1, login=False),
    _get(HEALTH, 1, login=False),
    _get("/logout", 1, login=False),
    _post(LOGIN, FORM, login=False, ms=100),
)
EVENTS = (
    _get(f"{API}/app_id", 1, login=False),
    _get(f"{API}/login_check", 1, login=False),
    _get(f"{API}/user", 1, login=False),
    _get(STARTUP, 1, login=False),
    _get(f"{API}/theme.css", 2, login=False),
    _get(f"{API}/info", 20),
    _get(f"{API}/openapi.json", 20),
    _get(f"{API}/queue/status", 1),
    _get(f"{API}/queue/data", 5, stream=1),
    _get(f"{API}/heartbeat/{{session_hash}}", 5, stream=1),
    _get(f"{API}/call/{{api_name}}/{{event_id}}", 5, stream=1),
    _get(f"{API}/call/v2/{{api_name}}/{{event_id}}", 5, stream=1),
    _get(f"{API}/upload_progress", 50, stream=50),
    _get(f"{API}/file={{path_or_url:path}}", 10),
    _post(f"{API}/upload", UPLOAD, writes="1 file in 1 folder"),
    _post(f"{API}/cancel"),
    _post(f"{API}/reset"),
    _event("queue/join"),
    _event("run/{api_name}"),
    _event("api/{api_name}"),
    _event("call/{api_name}"),
    _event("call/v2/{api_name}"),
)
BESIDE = (
    _get("/files/{token}/{name}", 400),
    _get("/gallery", 1, packed=True),
    _get("/gallery/{path:path}", 20, packed=True),
    _get("/t/{hash}", 1),
    _get("/docs", 1, packed=True),
    _get("/docs/{path:path}", 20, packed=True),
    _get("/source.zip", 20),
    _get("/results", 1, packed=True),
    _get("/results/{path:path}", 20, packed=True),
    _get("/learn", 1, packed=True),
    _get("/learn/{path:path}", 20, packed=True),
)
STUDY = (
    _get("/rate", 1, login=False),
    _get("/organise", 1, login=False),
    _get("/rate/static/{name}", 1, login=False),
    _get("/rate/api/session", 20, login=False),
    _get("/rate/api/item/{task}", 20, login=False),
    _get("/rate/api/media/{task}/{which}", 20, login=False),
    _get("/rate/hub/login", 20, login=False),
    _get("/rate/hub/callback", 20, login=False),
    _get("/rate/hub/code", 20, login=False),
    _get("/organise/api/state", 100, login=False),
    _get("/organise/api/proposed", 20, login=False),
    _get("/organise/api/proposed/{item}/{which}", 20, login=False),
    _get("/organise/api/report", 400, login=False),
    _get("/organise/api/export", 400, login=False),
    _post("/rate/api/participant", login=False, writes=RATED),
    _post("/rate/api/events", login=False, writes=RATED),
    _post("/organise/api/enter", login=False),
    _post("/organise/api/control", login=False, writes=RATED),
    _post("/organise/api/invite", login=False, writes=RATED),
    _post("/organise/api/revoke", login=False, writes=RATED),
    _post("/organise/api/erase", ms=400, login=False, writes=RATED),
    _post("/organise/api/confirm", login=False, writes=RATED),
)
"""Raters have codes of their own; nobody needs to log in for them."""
MCP = (
    _get(f"{API}/mcp", 5, stream=1),
    _get(f"{API}/mcp/http", 5, stream=1),
    _event("mcp"),
    _event("mcp/http"),
    Door("DELETE", f"{API}/mcp", 5),
    Door("DELETE", f"{API}/mcp/http", 5),
)
"""Where MCP clients ask, if the server was started for them."""


class Doors:
    """The routes that a server opens. mcp, study: whether it was started for them."""

    def __init__(self, mcp: bool = False, study: bool = False) -> None:
        doors = [*PAGE, *EVENTS, *BESIDE, *(STUDY if study else ()), *(MCP if mcp else ())]
        self._by_method: dict[str, list[Door]] = {}
        self.all: tuple[Door, ...] = tuple(doors)
        for door in doors:
            self._by_method.setdefault(door.method, []).append(door)

    def find(self, method: str, path: str) -> Door | None:
        """The route of a request; None: it is closed. HEAD is as GET."""
        doors: Iterable[Door] = self._by_method.get("GET" if method == "HEAD" else method, ())
        return next((door for door in doors if door.pattern.fullmatch(path)), None)
