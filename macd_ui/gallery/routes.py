"""The gallery as part of the app: `/gallery/` shows a folder, `/t/HASH` is a run's permalink."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from macd_studio.core.errors import MacdError
from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.gallery.site import HASH_CHARACTERS, Site
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.viewer.export import LINKED

UNKNOWN = "There is no such run here. /gallery lists those that are."
GALLERY = "gallery"


def site_of(settings: ServerSettings) -> Site:
    """The gallery of the folder that the server was started with; else of the shipped examples."""
    place = Path(settings.gallery) if settings.gallery else SHIPPED
    return Site([place], home="../")


def routes(site: Site, settings: ServerSettings) -> list[Route]:
    """The routes, for `launch(app_kwargs={"routes": ...})`. The folder is the host's own."""
    headers = page_headers(settings)

    def answer(request: Request) -> Response:
        path = request.path_params.get("path") or "index.html"
        try:
            if path == "index.html" or site.find(Path(path).stem) is None:
                site.refresh()
            file = site.file(path)
        except MacdError as error:
            return PlainTextResponse(str(error), 404)
        if file is None:
            return PlainTextResponse(UNKNOWN, 404)
        return Response(file.content, media_type=file.media_type, headers=headers)

    def permalink(request: Request) -> Response:
        # any longer piece of the hash will do, as `sha256sum` prints all of it
        name = request.path_params["hash"][:HASH_CHARACTERS]
        if not re.fullmatch(r"[0-9a-f]{16,64}", request.path_params["hash"]):
            return PlainTextResponse(UNKNOWN, 404)
        return RedirectResponse(f"../{GALLERY}/t/{name}.html", 307)

    def into(request: Request) -> Response:
        return RedirectResponse(f"{GALLERY}/", 307)

    return [
        Route(f"/{GALLERY}", into, methods=["GET"]),
        Route(f"/{GALLERY}/{{path:path}}", answer, methods=["GET"]),
        Route("/t/{hash}", permalink, methods=["GET"]),
    ]


def page_headers(settings: ServerSettings, policy: str = LINKED) -> dict[str, str]:
    """Headers of a page with a policy of its own.

    Unlike Gradio's page, such pages need no inline scripts and no evaluation.
    """
    ancestors = "'self' https://huggingface.co" if settings.space else "'self'"
    served = policy.replace(" file:", "")
    return {
        "Content-Security-Policy": f"{served}; frame-ancestors {ancestors}; base-uri 'none'",
        "Cache-Control": "no-cache",
        "X-Content-Type-Options": "nosniff",
    }
