"""The rating study of a server, opened before the page; signing in with an account of the hub.

Raters who sign in need no invitation. Only a hash of the account with the study's key is stored, as
the rater's code. The routes stand under /rate/hub and have a session cookie of their own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from macd_studio.core.errors import MacdError, OptionError
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.ratings.mirror import mirror_to_hub
from macd_studio.ratings.store import Study
from macd_studio.ratings.web import StudySite


def open_site(settings: ServerSettings) -> StudySite | None:
    """The study's routes; None where none is served. Raises a MacdError for what is no study."""
    if settings.study is None:
        return None
    flags = "SameSite=None; Secure; Partitioned" if settings.space else "SameSite=Lax"
    study = Study(settings.study)
    site = StudySite(study, f"Path={settings.place.path or '/'}; {flags}")
    if settings.study_dataset is not None:
        folder = Path(tempfile.mkdtemp(prefix="macd-study-"))
        site.mirror = mirror_to_hub(study, settings.study_dataset, folder)
    return site


def study_routes(site: StudySite | None, settings: ServerSettings) -> list[BaseRoute]:
    """The study's routes, and with `study_login` those of signing in; none without a study."""
    if site is None:
        return []
    return [*(login_routes(site.study) if settings.study_login else ()), *site.routes()]


NEEDED = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")
PACKAGES = ("authlib", "itsdangerous")
DAY_S = 24 * 3600
HUB_UNREACHABLE = (
    "The hub cannot be reached. Go back and try again in a minute; if it stays so, tell the"
    " organiser of the study."
)
log = logging.getLogger(__name__)


def check_login(environment: Mapping[str, str]) -> None:
    """Raises OptionError where a login cannot work: what a Space with `hf_oauth: true` sets."""
    missing = [name for name in NEEDED if not environment.get(name)]
    if missing:
        raise OptionError(
            f"signing in needs {', '.join(missing)}",
            "Set hf_oauth: true in the Space's README, or leave out --study-login",
        )
    absent = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if absent:
        raise OptionError(
            f"signing in needs {' and '.join(absent)}", f"Run pip install {' '.join(absent)}"
        )


def login_routes(study: Study, environment: Mapping[str, str] | None = None) -> list[Mount]:
    """/rate/hub/login, /rate/hub/callback and /rate/hub/code of a study.

    Raises OptionError where the environment holds no client (`check_login`).
    """
    env = os.environ if environment is None else environment
    check_login(env)
    # both need packages that only a server with such a login has
    from authlib.integrations.starlette_client import OAuth, OAuthError
    from starlette.middleware.sessions import SessionMiddleware

    hub: Any = OAuth().register(
        name="hub",
        client_id=env["OAUTH_CLIENT_ID"],
        client_secret=env["OAUTH_CLIENT_SECRET"],
        client_kwargs={"scope": env["OAUTH_SCOPES"]},
        server_metadata_url=f"{env['OPENID_PROVIDER_URL']}/.well-known/openid-configuration",
    )
    host = env.get("SPACE_HOST", "").split(",")[0].strip()

    def unreachable(error: Exception) -> Response:
        log.warning("the hub did not answer a login", exc_info=error)
        return PlainTextResponse(HUB_UNREACHABLE, 502)

    async def login(request: Request) -> Response:
        # behind a Space's proxy the request itself says http
        back = f"https://{host}/rate/hub/callback" if host else str(request.url_for("callback"))
        try:
            answer: Response = await hub.authorize_redirect(request, back)
        except Exception as error:  # whichever client authlib takes: its own errors
            return unreachable(error)
        return answer

    async def callback(request: Request) -> Response:
        try:
            token = await hub.authorize_access_token(request)
        except OAuthError as error:  # refused, or an address that was opened twice
            log.warning("a login failed: %s", error.error)
            return RedirectResponse("/rate", 303)  # which offers it again
        except Exception as error:
            return unreachable(error)
        request.session.clear()
        request.session["subject"] = str(token["userinfo"]["sub"])
        return RedirectResponse("/rate", 303)

    async def code(request: Request) -> Response:
        subject = request.session.get("subject")
        if subject is None:
            return JSONResponse(
                {"error": "You are not signed in. Open /rate and sign in there."}, 401
            )
        try:
            own = await run_in_threadpool(study.admit, subject)
        except MacdError as error:
            return JSONResponse({"error": str(error)}, 403)
        return JSONResponse({"code": own}, headers={"cache-control": "no-store"})

    secret = hashlib.sha256(f"study {env['OAUTH_CLIENT_SECRET']}".encode()).hexdigest()
    session = Middleware(
        SessionMiddleware,
        secret_key=secret,
        session_cookie="macd_hub",
        max_age=DAY_S,
        path="/rate/hub",
        same_site="none" if host else "lax",
        https_only=bool(host),
    )
    routes = [
        Route("/login", login, methods=["GET"]),
        Route("/callback", callback, methods=["GET"], name="callback"),
        Route("/code", code, methods=["GET"]),
    ]
    return [Mount("/rate/hub", Starlette(routes=routes, middleware=[session]))]
