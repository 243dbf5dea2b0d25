"""What the page links to about itself: the paper, and its source as one archive.

/source.zip holds the source of this very server, as its licence asks of whoever lets others use it
over a network.
"""

from __future__ import annotations

import io
import zipfile
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from macd_studio.macd_ui.documents import DOCS, ROOT, has_docs

PAPER = "https://arxiv.org/abs/2602.01740"
PACKAGES = ("core", "evals", "macd_ui", "ratings", "toyworld", "viewer")
BESIDE = (
    "app.py", "assets/page.css", "setup.py", "pyproject.toml", "requirements.txt",
    "requirements-dev.txt", "constraints.txt", "Makefile", "README.md", "CHANGELOG.md",
    "CONTRIBUTING.md", "LICENSE", "THIRD_PARTY_NOTICES.md",
)  # fmt: skip
"""Files of a checkout that belong to the source; weights and examples are data beside it."""
SUFFIXES = (".py", ".js", ".ts", ".css", ".toml", ".json", ".md", ".html", ".typed")
LARGEST = 2_000_000
"""Bytes of a file that is still source; what is larger holds figures or pictures."""


def routes() -> list[Route]:
    """The route of the archive, for `launch(app_kwargs={"routes": ...})`."""

    def source(request: Request) -> Response:
        headers = {"Content-Disposition": 'attachment; filename="macd-studio-source.zip"'}
        return Response(source_archive(), media_type="application/zip", headers=headers)

    return [Route("/source.zip", source, methods=["GET"])]


@lru_cache(maxsize=1)
def source_archive() -> bytes:
    """The source as a zip file, made once."""
    files = [f for name in PACKAGES for f in sorted((ROOT / name).rglob("*"))]
    if has_docs():
        files += [ROOT / name for name in BESIDE] + sorted(DOCS.glob("*.md"))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            part = file.relative_to(ROOT)
            plain = file.suffix in SUFFIXES or str(part) in BESIDE
            hidden = any(p.startswith((".", "__pycache__", "node_modules")) for p in part.parts)
            if plain and not hidden and file.is_file() and file.stat().st_size <= LARGEST:
                archive.write(file, str(part))
    return out.getvalue()
