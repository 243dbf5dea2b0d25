"""The course as part of the app, at `/learn/`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from macd_studio.core.errors import MacdError
from macd_studio.macd_ui.learn.site import Site
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.viewer.export import LINKED

LEARN = "learn"
UNKNOWN = "There is no such page in the course. /learn is its beginning."


def routes(settings: ServerSettings) -> list[Route]:
    """The routes, for `launch(app_kwargs={"routes": ...})`. Nothing is read before it is asked."""
    site = Site(home="../")
    ancestors = "'self' https://huggingface.co" if settings.space else "'self'"
    # its own policy, as the gallery's: no inline scripts, no evaluation, nothing to connect to
    policy = f"{LINKED.replace(' file:', '')}; frame-ancestors {ancestors}; base-uri 'none'"
    headers = {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-cache",
        "X-Content-Type-Options": "nosniff",
    }

    def answer(request: Request) -> Response:
        try:
            file = site.file(request.path_params.get("path") or "index.html")
        except MacdError as error:
            return PlainTextResponse(str(error), 404)
        if file is None:
            return PlainTextResponse(UNKNOWN, 404)
        return Response(file.content, media_type=file.media_type, headers=headers)

    def into(request: Request) -> Response:
        return RedirectResponse(f"{LEARN}/", 307)

    return [
        Route(f"/{LEARN}", into, methods=["GET"]),
        Route(f"/{LEARN}/{{path:path}}", answer, methods=["GET"]),
    ]
