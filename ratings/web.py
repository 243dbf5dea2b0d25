"""The study over HTTP: /rate for raters and /organise for the organiser, as routes of Starlette.

A code travels in the header X-Study-Code, never in an address. A rater's answers hold opaque ids,
pictures of equal size, and nothing of an arm; the organiser's routes take only the organiser's.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import astuple
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.pages.frame import page
from macd_studio.core.system.shipped import look
from macd_studio.core.text.words import writable
from macd_studio.core.validation import Number
from macd_studio.ratings.errors import Refused, StudyBusy
from macd_studio.ratings.events import MAX_EVENTS, read_event
from macd_studio.ratings.export import content_of
from macd_studio.ratings.mirror import Mirror
from macd_studio.ratings.render import html_page, markdown
from macd_studio.ratings.report import figures, progress
from macd_studio.ratings.roster import CLOSED, OPEN, PAUSED, STATES, Rater
from macd_studio.ratings.screening import FAILED
from macd_studio.ratings.store import Outcome, Study

PAGE = Path(__file__).parent / "page"
CODE_HEADER = "x-study-code"
ORGANISER_COOKIE = "macd_organiser"
SESSIONS = 100
MAX_BODY = 2**20
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css"}
HEADERS = {"cache-control": "no-cache", "x-robots-tag": "noindex"}
"""Of the pages and their files."""
_HEAD = Markup('<script type="module" src="rate/static/{}.js"></script>')
NOT_STORED = {"cache-control": "no-store", "x-robots-tag": "noindex"}
CSP = "; ".join((
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
))  # fmt: skip
"""Of the pages under /rate and /organise, which run no inline script; frame-ancestors is added."""
UNFORESEEN = "Something went wrong on the server. What you rated is kept here and sent again."
log = logging.getLogger(__name__)
Answer = Callable[[Request, Any], Response]


def is_study_path(path: str) -> bool:
    """Whether an address belongs to the study's pages."""
    return path.split("/", 2)[1] in ("rate", "organise") if path.startswith("/") else False


class StudySite:
    """The routes of one study. cookie_flags: of the organiser's cookie."""

    def __init__(self, study: Study, cookie_flags: str = "Path=/; SameSite=Lax") -> None:
        self.study, self.cookie_flags = study, cookie_flags
        self._sessions: OrderedDict[str, str] = OrderedDict()
        self._progress: tuple[tuple[int, int, int], dict[str, Any]] | None = None
        self._lock = threading.Lock()
        self.mirror: Mirror | None = None

    def close(self) -> None:
        """Uploads what is left to a mirror, if there is one, and closes the study."""
        if self.mirror is not None:
            self.mirror.close()
        self.study.close()

    def routes(self) -> list[Route]:
        """All of them; nothing else of the study is served."""
        get, post = ["GET"], ["POST"]
        return [
            Route("/rate", _page("rate", "Rate masks"), methods=get),
            Route("/organise", _page("organise", "Organise a rating study"), methods=get),
            Route("/rate/static/{name}", _static, methods=get),
            Route("/rate/api/session", self._answer(self._session), methods=get),
            Route("/rate/api/item/{task}", self._answer(self._item), methods=get),
            Route("/rate/api/media/{task}/{which}", self._answer(self._media), methods=get),
            Route("/rate/api/participant", self._answer(self._participant), methods=post),
            Route("/rate/api/events", self._answer(self._events), methods=post),
            Route("/organise/api/enter", self._answer(self._enter), methods=post),
            Route("/organise/api/state", self._answer(self._state), methods=get),
            Route("/organise/api/control", self._answer(self._control), methods=post),
            Route("/organise/api/invite", self._answer(self._invite), methods=post),
            Route("/organise/api/revoke", self._answer(self._revoke), methods=post),
            Route("/organise/api/erase", self._answer(self._erase), methods=post),
            Route("/organise/api/proposed", self._answer(self._proposed), methods=get),
            Route(
                "/organise/api/proposed/{item}/{which}",
                self._answer(self._proposed_media),
                methods=get,
            ),
            Route("/organise/api/confirm", self._answer(self._confirm), methods=post),
            Route("/organise/api/report", self._answer(self._report), methods=get),
            Route("/organise/api/export", self._answer(self._export), methods=get),
        ]

    def knows_organiser(self, cookie_header: str | None) -> bool:
        """Whether a browser has shown the organiser's code: the cookie of `/organise/api/enter`."""
        try:
            cookie = SimpleCookie(cookie_header or "").get(ORGANISER_COOKIE)
        except CookieError:
            return False
        with self._lock:
            code = None if cookie is None else self._sessions.get(cookie.value)
        return code is not None and self.study.is_organiser(code)

    # ---- plumbing

    def _answer(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """The route's function: reads the body, answers in a thread, explains what goes wrong."""

        async def respond(request: Request) -> Response:
            try:
                body = await _body(request) if request.method == "POST" else None
                return await run_in_threadpool(answer, request, body)
            except Refused as error:
                return _error(error.status, str(error))
            except StudyBusy as error:
                log.error("an event could not be written", exc_info=error)
                return _error(507, str(error))
            except MacdError as error:
                return _error(400, str(error))
            except ClientDisconnect:
                return _error(400, "The connection was closed.")
            except Exception as error:
                log.error("a request for the study failed", exc_info=error)
                return _error(500, UNFORESEEN)

        return respond

    @staticmethod
    def _code(request: Request) -> str:
        return request.headers.get(CODE_HEADER, "").strip().upper()

    def _rater(self, request: Request) -> Rater:
        rater = self.study.rater_of(self._code(request))
        if rater is None:
            raise Refused(
                "this link opens no study", "Ask whoever invited you for another one", 401
            )
        if rater.revoked:
            raise Refused("this link no longer holds", "Ask whoever invited you", 403)
        return rater

    def _check_organiser(self, request: Request) -> str:
        code = self._code(request)
        if not self.study.is_organiser(code):
            raise Refused(
                "this is not the organiser's link",
                "Make a new one: python -m ratings invite STUDY.db --organiser",
                401,
            )
        return code

    # ---- raters

    def _session(self, request: Request, _: Any) -> Response:
        rater = self._rater(request)
        consent = self.study.row(
            "SELECT 1 FROM events WHERE rater = ? AND kind = 'consent'", rater.id
        )
        return _json({
            "study": self.study.id,
            "rater": rater.name,
            "state": self.study.state,
            "instructions": self.study.instructions,
            "scale": self.study.scale,
            "consented": consent is not None,
            "screening": self._screening(rater),
            "finished": (finished := self.study.finished(rater)),
            # by which a participant is paid: nobody has it who is not at the end
            "completion": self.study.completion if finished else None,
            "tasks": self.study.tasks(rater),
        })  # fmt: skip

    def _screening(self, rater: Rater) -> dict[str, Any] | None:
        """The question, where the rater is with it, and after a wrong answer what is shown."""
        state, asked = self.study.screened(rater), self.study.screening
        if asked is None or not state:
            return None
        completion = self.study.screened_out if state == FAILED else None
        question = {name: asked[name] for name in ("question", "options")}
        return question | {"state": state, "completion": completion}

    def _participant(self, request: Request, body: Any) -> Response:
        name = body.get("participant")
        if not isinstance(name, str):
            raise Refused("the request names no participant", "Open the whole link")
        return _json({"code": self.study.admit_participant(self._code(request), name)})

    def _item(self, request: Request, _: Any) -> Response:
        rater, task = self._rater(request), request.path_params["task"]
        self._check_open()
        self.study.check_screened(rater)
        return _json(self.study.describe(rater, task))

    def _media(self, request: Request, _: Any) -> Response:
        rater = self._rater(request)
        self._check_open()
        self.study.check_screened(rater)
        content = self.study.media(rater, request.path_params["task"], request.path_params["which"])
        return Response(content, media_type="application/octet-stream", headers=NOT_STORED)

    def _check_open(self) -> None:
        if self.study.state == CLOSED:
            raise Refused(
                "the study is closed and takes no more ratings",
                "What was saved before counts; you can close this page",
                410,
            )
        if self.study.state != OPEN:
            raise Refused(f"the study is {self.study.state}", "Come back later", 409)

    def _events(self, request: Request, body: Any) -> Response:
        rater = self._rater(request)
        raw = body.get("events")
        if not isinstance(raw, list) or not 1 <= len(raw) <= MAX_EVENTS:
            raise Refused("the request holds no events", f"Send 1 to {MAX_EVENTS}")
        events, refused = [], []
        for one in raw:
            try:
                events.append(read_event(one))
            except Refused as error:
                uuid = one.get("uuid") if isinstance(one, dict) else None
                refused.append(Outcome(writable(str(uuid)[:40]), False, str(error)))
        outcomes = self.study.append(rater, events) + refused
        committed = {o.uuid for o in outcomes if o.committed}
        tasks = {e.task for e in events if e.task and e.uuid in committed}
        return _json({
            "outcomes": [_plain(o) for o in outcomes],
            "state": self.study.state,
            "screening": self._screening(rater),
            "tasks": [t for t in self.study.tasks(rater) if t["id"] in tasks],
            "feedback": {
                t: f for t in tasks if (f := self.study.feedback(rater, t)) is not None
            },
        })  # fmt: skip

    # ---- the organiser

    def _enter(self, request: Request, _: Any) -> Response:
        code, session = self._check_organiser(request), secrets.token_urlsafe(32)
        with self._lock:
            self._sessions[session] = code
            while len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)
        answer = _json({"study": self.study.id})
        answer.headers.append(
            "set-cookie", f"{ORGANISER_COOKIE}={session}; HttpOnly; {self.cookie_flags}"
        )
        return answer

    def _state(self, request: Request, _: Any) -> Response:
        self._check_organiser(request)
        # controls may be deleted, but their numbers only rise
        counts = self.study.rows(
            "SELECT (SELECT count(*) FROM events), (SELECT max(id) FROM controls),"
            " (SELECT count(*) FROM raters)"
        )[0]
        key = counts[0], counts[1], counts[2]
        cached = self._progress
        if cached is None or cached[0] != key:
            self._progress = cached = key, progress(self.study)
        return _json(cached[1])

    def _control(self, request: Request, body: Any) -> Response:
        self._check_organiser(request)
        if body.get("state") not in STATES:
            raise Refused("there is no such state", f"Choose {OPEN}, {PAUSED} or {CLOSED}")
        self.study.control(body["state"])
        return _json({"state": self.study.state})

    def _invite(self, request: Request, body: Any) -> Response:
        self._check_organiser(request)
        count = int(Number(1, 100, whole=True).read(body.get("count"), "count") or 1)
        return _json({"codes": self.study.invite(count)})

    def _revoke(self, request: Request, body: Any) -> Response:
        self._check_organiser(request)
        name, restore = body.get("rater"), body.get("restore", False)
        if not isinstance(name, str) or not isinstance(restore, bool):
            raise Refused("the request names no rater", "Reload the page")
        self.study.revoke(name, restore=restore)
        return _json({"rater": name})

    def _erase(self, request: Request, body: Any) -> Response:
        self._check_organiser(request)
        if not isinstance(name := body.get("rater"), str):
            raise Refused("the request names no rater", "Reload the page")
        try:
            return _json({"rater": name, "events": self.study.erase(name)})
        finally:
            self._progress = None  # which holds notes of raters

    def _proposed(self, request: Request, _: Any) -> Response:
        self._check_organiser(request)
        return _json({"items": self.study.proposals()})

    def _proposed_media(self, request: Request, _: Any) -> Response:
        self._check_organiser(request)
        number, which = request.path_params["item"], request.path_params["which"]
        content = self.study.proposed_media(number, which)
        return Response(content, media_type="application/octet-stream", headers=NOT_STORED)

    def _confirm(self, request: Request, body: Any) -> Response:
        self._check_organiser(request)
        item = int(Number(1, 10**6, whole=True).read(body.get("item"), "item") or 0)
        role = body.get("role")
        self.study.confirm(item, role if isinstance(role, str) else "")
        return _json({"items": self.study.proposals()})

    def _report(self, request: Request, _: Any) -> Response:
        self._check_organiser(request)
        result, kind = figures(self.study), request.query_params.get("format", "md")
        if kind == "json":
            return _file_of(json.dumps(result, ensure_ascii=False, indent=1), "report.json")
        if kind not in ("md", "html"):
            raise OptionError("there is no such format", "Choose md, html or json")
        return _file_of(markdown(result) if kind == "md" else html_page(result), f"report.{kind}")

    def _export(self, request: Request, _: Any) -> Response:
        self._check_organiser(request)
        kind = request.query_params.get("format", "csv")
        return _file_of(content_of(self.study, kind), f"events.{kind}")


async def _body(request: Request) -> dict[str, Any]:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BODY:
            raise Refused("the request is too large", "Reload the page", 413)
    try:
        body = json.loads(bytes(content) or b"{}")
    except (ValueError, RecursionError):
        raise Refused("the request holds no JSON", "Reload the page") from None
    if not isinstance(body, dict):
        raise Refused("the request holds no JSON object", "Reload the page")
    return body


def _plain(outcome: Outcome) -> dict[str, Any]:
    uuid, committed, reason = astuple(outcome)
    return {"uuid": uuid, "committed": committed} | ({"reason": reason} if reason else {})


def _json(content: Any) -> JSONResponse:
    return JSONResponse(content, headers=NOT_STORED)


def _error(status: int, words: str) -> JSONResponse:
    return JSONResponse({"error": words}, status, headers=NOT_STORED)


def _file_of(content: str | bytes, name: str) -> Response:
    headers = NOT_STORED | {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _page(name: str, title: str) -> Callable[[Request], Response]:
    """A page whose body and script bear a name."""
    body = Markup((PAGE / f"{name}.html").read_text(encoding="utf-8").rstrip())
    styles = "rate/static/study.css"
    made = page(title, body, stylesheet=styles, head=_HEAD.format(name))
    return lambda request: Response(made, media_type="text/html", headers=HEADERS)


def _static(request: Request) -> Response:
    """A file of the pages; one in no folder but that, of a known kind."""
    path = PAGE / request.path_params["name"]
    if path.parent != PAGE or path.suffix not in MEDIA_TYPES or not path.is_file():
        return _error(404, "There is nothing here.")
    content = path.read_bytes()
    if path.suffix == ".css":
        content = look().encode() + content
    return Response(content, media_type=MEDIA_TYPES[path.suffix], headers=HEADERS)
