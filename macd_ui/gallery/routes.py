"""The gallery as part of the app: `/gallery/` shows a folder, `/t/HASH` is a run's permalink."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from macd_studio.macd_ui.engine import built
from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.gallery.runs import HASH_CHARACTERS
from macd_studio.macd_ui.gallery.site import Site
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.sites import HOME, INDEX, File, page_headers, site_routes
from macd_studio.viewer.export import COMPUTING

UNKNOWN = "There is no such run here. /gallery lists those that are."
GALLERY = "gallery"
REAL = Path(__file__).parents[1] / "real"
"""Saved runs of real pictures, which ship with the project."""


def site_of(settings: ServerSettings) -> Site:
    """The gallery of the folder that the server was started with; else of what ships."""
    places = [Path(settings.gallery)] if settings.gallery else [SHIPPED, REAL]
    return Site(places, home=HOME, engine=built())


def routes(site: Site, settings: ServerSettings) -> list[Route]:
    """The routes, for `launch(app_kwargs={"routes": ...})`. The folder is the host's own."""
    headers = page_headers(settings, *([COMPUTING] if site.engine else []))

    def find(path: str) -> File | None:
        if path == INDEX or site.find(Path(path).stem) is None:
            site.refresh()
        return site.file(path)

    def permalink(request: Request) -> Response:
        # any longer piece of the hash will do, as `sha256sum` prints all of it
        name = request.path_params["hash"][:HASH_CHARACTERS]
        if not re.fullmatch(r"[0-9a-f]{16,64}", request.path_params["hash"]):
            return PlainTextResponse(UNKNOWN, 404)
        return RedirectResponse(f"../{GALLERY}/t/{name}.html", 307)

    return [
        *site_routes(GALLERY, find, UNKNOWN, lambda path: headers),
        Route("/t/{hash}", permalink, methods=["GET"]),
    ]
