"""The report as part of the app: `/results/` shows the folder of --results."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from macd_studio.core.errors import MacdError
from macd_studio.macd_ui.gallery.routes import page_headers
from macd_studio.macd_ui.results.site import INDEX, ResultsSite
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.viewer.export import LINKED

RESULTS = "results"
UNKNOWN = "There is no such page of the results. /results shows the report."
PLAIN = "default-src 'none'; style-src 'unsafe-inline'"
"""Policy of the report's own pages, which hold tables and drawings only."""


def routes(settings: ServerSettings) -> list[Route]:
    """The routes; none where the server was started without a folder of results."""
    if settings.results is None:
        return []
    site = ResultsSite(Path(settings.results))
    plain, viewer = (page_headers(settings, policy) for policy in (PLAIN, LINKED))

    def answer(request: Request) -> Response:
        path = request.path_params.get("path") or INDEX
        if re.fullmatch(r"t/[0-9a-f]{20}", path):
            return RedirectResponse(f"{path.removeprefix('t/')}.html", 307)
        try:
            file = site.file(path)
        except MacdError as error:
            return PlainTextResponse(str(error), 404)
        if file is None:
            return PlainTextResponse(UNKNOWN, 404)
        headers = viewer if path.startswith("t/") else plain
        return Response(file.content, media_type=file.media_type, headers=headers)

    def into(request: Request) -> Response:
        return RedirectResponse(f"{RESULTS}/", 307)

    return [
        Route(f"/{RESULTS}", into, methods=["GET"]),
        Route(f"/{RESULTS}/{{path:path}}", answer, methods=["GET"]),
    ]
