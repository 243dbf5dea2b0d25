"""Downloads: a trace as a file, as a page of its own, or its objects; made when asked for.

/files/TOKEN/NAME.macd, NAME.html, and NAME.tracks-FORMAT or NAME.levels-FORMAT, where TOKEN is that
of a session, or `example` for the shipped traces, which are everybody's. A session's files are
given to its own browser only.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from macd_studio.core.errors import Cancelled, OptionError, TraceError
from macd_studio.core.objects.formats import WRITERS
from macd_studio.core.report.export import What, export_beside, exported
from macd_studio.core.traces.bundle import load
from macd_studio.macd_ui.examples import Example
from macd_studio.macd_ui.queues import QueueFull
from macd_studio.macd_ui.quota import QuotaError
from macd_studio.macd_ui.serving.identity import browser_key, read_cookie
from macd_studio.macd_ui.serving.upstream import Framework
from macd_studio.macd_ui.session import Session
from macd_studio.macd_ui.settings import is_loopback
from macd_studio.macd_ui.store import Store
from macd_studio.macd_ui.traces import StoredTrace
from macd_studio.viewer import standalone
from macd_studio.viewer.exporting import page_beside

EXAMPLE = "example"
GONE = "The server no longer keeps this run. Run the clip again, or open its saved file."
EXPORTS: dict[str, tuple[str, What]] = {
    f"{what}-{format}": (format, what) for what in get_args(What) for format in WRITERS
}
"""Ending of an address → format, and what is in the file."""
STATE = re.compile("[0-9]{1,12}")
"""The number of a trace, see `StoredTrace`."""
UNKNOWN = "There is no such file. Trace files end in .macd, pages in .html."


def addresses(session: Session, first: Example | None) -> dict[str, str]:
    """Where the trace on the page can be had, relative to the page; {} if nothing is shown.

    of: "run" for the session's own trace; "example" for `first`, the example on show as long as the
    session has none. Nothing is at the addresses of a run that was lost.
    """
    if session.lost:
        place = f"files/{session.token}/trace"
        return {"trace": f"{place}.macd", "page": f"{place}.html", "of": "run"}
    if session.current is not None:
        of, place = "run", f"files/{session.token}/{file_stem(session.current.request.clip)}"
        # another run is not given in its place; state: what the page has heard of when it asks
        which = f"?run={session.current.run}&state={session.current.number}"
    elif first is not None:
        of, place, which = "example", f"files/{EXAMPLE}/{quote(first.name)}", ""
    else:
        return {}
    return {"trace": f"{place}.macd{which}", "page": f"{place}.html{which}", "of": of}


def file_stem(clip: str) -> str:
    """A file name after the clip's, without its ending."""
    stem = Path(clip).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "_", stem)[:60].lstrip(".") or "trace"


def routes(store: Store, examples: list[Example]) -> list[Route]:
    """The routes, for `launch(app_kwargs={"routes": ...})`."""

    endings = {kind: f"-{kind}{WRITERS[format].ending}" for kind, (format, _) in EXPORTS.items()}

    def find(token: str, stem: str, cookie: str | None, state: str) -> StoredTrace | None:
        if token != EXAMPLE:
            session = store.sessions.find_by_token(token)
            if session is None or cookie is None or session.browser != browser_key(cookie):
                return None
            if session.current is not None:
                heard = int(state) if STATE.fullmatch(state) else session.current.number
                session.fetched = min(heard, session.current.number)
            return session.current
        example = next((e for e in examples if e.name == stem and e.trace is not None), None)
        return (
            None if example is None or example.trace is None else StoredTrace(load(example.trace))
        )

    def is_over(token: str, kind: str) -> bool:
        """Whether nobody waits for a session's file any more.

        A server that ends makes no more exports; the traces themselves are what it still waits for.
        """
        if store.closing and kind != "macd":
            return True
        return token != EXAMPLE and store.sessions.find_by_token(token) is None

    def answer(request: Request) -> Response:
        stem, dot, kind = request.path_params["name"].rpartition(".")
        if not dot or kind not in ("macd", "html", *EXPORTS):
            return PlainTextResponse(UNKNOWN, 404)
        cookie = read_cookie(request.headers.get("cookie"))
        run, state = (request.query_params.get(name) for name in ("run", "state"))
        visitor = request.scope.get(Framework.VISITOR, "")
        ended = partial(is_over, request.path_params["token"], kind)
        if ended():
            return PlainTextResponse(GONE, 404)
        try:
            with store.open_in_turn(visitor, ended):
                stored = find(request.path_params["token"], stem, cookie, state or "")
                if stored is None or run not in (None, stored.run):
                    return PlainTextResponse(GONE, 404)
                if kind == "macd":
                    content = stored.content()
                elif kind == "html" and store.settings.shared:
                    content = page_beside(stored.content(), ended)
                elif kind == "html":
                    content = standalone(stored.read()).encode("utf-8")
                elif store.settings.shared:
                    content = export_beside(stored.content(), *EXPORTS[kind], ended)
                else:
                    content = exported(stored.read(), *EXPORTS[kind])
        except TraceError:
            return PlainTextResponse(GONE, 404)
        except (OptionError, Cancelled) as error:
            return PlainTextResponse(str(error), 409)
        except (QueueFull, QuotaError) as error:
            return PlainTextResponse(str(error), 429)
        name = file_stem(stored.request.clip)
        headers = {
            "Content-Disposition": f'attachment; filename="{name}{endings.get(kind, f".{kind}")}"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }
        # never as text/html: a file that a visitor opened here must not run as this page's origin
        return Response(content, media_type="application/octet-stream", headers=headers)

    return [Route("/files/{token}/{name}", answer, methods=["GET"])]


def health_route(store: Store) -> Route:
    """/healthz: whether the server takes visitors; to this machine alone also what it has done."""

    def answer(request: Request) -> Response:
        body: dict[str, Any] = {"status": "closing" if store.closing else "ok"}
        forwarded = {"x-forwarded-for", "forwarded"} & set(request.headers)
        if request.client and is_loopback(request.client.host) and not forwarded:
            body |= store.as_dict()
        return JSONResponse(body, 503 if store.closing else 200, {"Cache-Control": "no-store"})

    return Route("/healthz", answer, methods=["GET"])
