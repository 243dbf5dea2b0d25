"""What the page links to about itself: its documentation, and its source as one archive.

/docs/NAME shows a file of docs/, /source.zip holds the source of this very server, as its licence
asks of whoever lets others use it over a network.
"""

from __future__ import annotations

import io
import zipfile
from functools import lru_cache
from html import escape
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

import core

PAPER = "https://arxiv.org/abs/2602.01740"
ROOT = Path(core.__file__).parents[1]
DOCS = ROOT / "docs"
FIRST = "page.md"
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
PICTURES = {".png": "image/png", ".svg": "image/svg+xml"}
UNKNOWN = "There is no such document. /docs/page.md is about the page."
POLICY = "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; base-uri 'none'"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>TITLE</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; }
body { max-width: 46rem; margin: 0 auto; padding: 24px 16px 80px; }
body { font: 16px/1.6 system-ui, sans-serif; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border: 1px solid #8888; padding: 4px 8px; text-align: left; vertical-align: top; }
pre { overflow-x: auto; padding: 8px; border: 1px solid #8888; }
</style></head><body><nav><a href="../">MACD Studio</a> LIST</nav><main>
BODY
</main></body></html>
"""


def has_docs() -> bool:
    """Whether this is a checkout; an installed package has no docs/."""
    return (DOCS / FIRST).is_file()


def routes() -> list[Route]:
    """The routes, for `launch(app_kwargs={"routes": ...})`."""

    def document(request: Request) -> Response:
        file = _documents().get(request.path_params["name"])
        if file is None:
            return PlainTextResponse(UNKNOWN, 404)
        headers = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        if file.suffix in PICTURES:
            return Response(file.read_bytes(), media_type=PICTURES[file.suffix], headers=headers)
        return Response(_rendered(file), media_type="text/html", headers=headers)

    def source(request: Request) -> Response:
        headers = {"Content-Disposition": 'attachment; filename="macd-studio-source.zip"'}
        return Response(source_archive(), media_type="application/zip", headers=headers)

    return [
        Route("/docs/{name}", document, methods=["GET"]),
        Route("/source.zip", source, methods=["GET"]),
    ]


def _documents() -> dict[str, Path]:
    """Every file that is shown, by its name; no path of a visitor is ever opened."""
    kinds = (".md", *PICTURES)
    return {f.name: f for f in sorted(DOCS.glob("*")) if f.suffix in kinds and f.is_file()}


def _rendered(file: Path) -> str:
    from markdown_it import MarkdownIt  # comes with Gradio, whose command line prints Markdown

    names = [name for name in _documents() if name.endswith(".md")]
    links = " · ".join(f'<a href="{escape(n)}">{escape(n.removesuffix(".md"))}</a>' for n in names)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(
        file.read_text(encoding="utf-8")
    )  # fmt: skip
    page = _PAGE.replace("TITLE", escape(file.stem)).replace("LIST", f"· {links}")
    return page.replace("BODY", body)


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
