"""/source.zip: the source of this very server.

The licence asks that of whoever lets others use the program over a network. It holds every file of
the project as it lies here, weights and tests included: unpacked, it installs and runs.
"""

from __future__ import annotations

import io
import threading
import zipfile
from functools import cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from macd_studio.parts import write_source


def source_route() -> Route:
    """The route of the archive."""
    once = threading.Lock()

    def source(request: Request) -> Response:
        headers = {"Content-Disposition": 'attachment; filename="macd-studio-source.zip"'}
        with once:  # two first visitors do not have it made twice
            archive = source_archive()
        return Response(archive, media_type="application/zip", headers=headers)

    return Route("/source.zip", source, methods=["GET"])


@cache
def source_archive() -> bytes:
    """The source as a zip file of about 30 MB, made once."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        write_source(archive)
    return out.getvalue()
