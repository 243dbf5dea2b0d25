"""The documentation as part of the app.

/docs/PATH shows a file of docs/, and what those link to. Only files that are known from the start
are opened, never a path of a visitor. Links are resolved against the files that are there: an
installation without one of them shows the words of the link as text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.routing import Route

from macd_studio.core.pages.frame import document, template
from macd_studio.macd_ui.sites import (
    HOME,
    INDEX,
    TEXT_ALONE,
    File,
    link_home,
    site_routes,
    text_file,
    titled,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FIRST = "page.md"
BESIDE = "source/"
"""What the paths of linked files outside docs/ begin with."""
KINDS = {".png": "image/png", ".svg": "image/svg+xml", ".json": "application/json",
         ".gz": "application/gzip"}  # fmt: skip
"""Media types of files that are no pages; others are plain text."""
UNKNOWN = "There is no such document here. A checkout has its documentation at /docs/."
_COMMENT = re.compile(r"(?P<code>^```.*?^```|`[^`\n]+`)|<!--.*?-->", re.S | re.M)
_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.S)
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
STYLE = "nav ul { columns: 15rem; padding-left: 20px; }\n"


def has_docs() -> bool:
    """Whether this is a checkout; an installed package has no docs/."""
    return (DOCS / FIRST).is_file()


def routes() -> list[Route]:
    """The routes, for `launch(app_kwargs={"routes": ...})`; /docs/ lists what there is."""
    headers = {"Content-Security-Policy": TEXT_ALONE, "X-Content-Type-Options": "nosniff"}

    def find(path: str) -> File | None:
        file = documents().get(path)
        if path == INDEX and has_docs():
            return text_file(_index(), "html")
        if file is None or not file.is_file():
            return None
        if file.suffix == ".md":
            return text_file(_page(path, file.stat().st_mtime_ns), "html")
        return File(file.read_bytes(), KINDS.get(file.suffix, "text/plain"))

    return site_routes("docs", find, UNKNOWN, lambda path: headers)


@lru_cache(maxsize=1)
def documents() -> dict[str, Path]:
    """Every file that is shown, by its path below /docs.

    These are the texts and pictures of docs/, and the files of the project that the texts link to.
    """
    texts = [file for file in sorted(DOCS.rglob("*.md")) if file.is_file()]
    found = {*texts, *DOCS.rglob("*.png"), *DOCS.rglob("*.svg")}
    for text in texts:
        for link in _LINK.findall(text.read_text(encoding="utf-8")):
            target = (text.parent / link).resolve()
            if target.is_file() and target.is_relative_to(ROOT):
                found.add(target)
    return {_path(file): file for file in sorted(found)}


def _path(file: Path) -> str:
    if file.is_relative_to(DOCS):
        return file.relative_to(DOCS).as_posix()
    return BESIDE + file.relative_to(ROOT).as_posix()


def title_of(file: Path) -> str:
    """The first heading of a text, without its markup; the file's name where it has none."""
    heading = re.search(r"^# (.+)$", file.read_text(encoding="utf-8"), re.M)
    return heading[1].replace("`", "").replace("*", "") if heading else file.stem


def _items(path: str) -> list[tuple[str, str, bool]]:
    """The texts of docs/ itself, which link to what is deeper: title, address, whether shown.

    path: of the page that lists them.
    """
    texts = [(title_of(f), p) for p, f in documents().items() if f.suffix == ".md" and "/" not in p]
    return [(title, _relative(p, path), p == path) for title, p in sorted(texts)]


_LIST = template("""\
<ul>
{% for title, address, shown in items %}
<li><a href="{{ address }}"{% if shown %} aria-current="page"{% endif %}>{{ title }}</a></li>
{% endfor %}
</ul>""")


def _index() -> str:
    body = Markup("<h1>Documentation</h1>\n{}").format(_LIST(items=_items(INDEX)))
    above = Markup("<nav>{}</nav>").format(link_home(HOME))
    return document(titled("Documentation"), body, "46rem", above=above)


@lru_cache(maxsize=64)
def _page(path: str, changed_ns: int) -> str:
    """The page of a text. changed_ns: when its file was changed last; a newer one is read again."""
    file = documents()[path]
    parser = _parser()
    environment: dict[str, Any] = {}
    tokens = parser.parse(plain_markdown(file.read_text(encoding="utf-8")), environment)
    slugs: dict[str, int] = {}
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _slug(tokens[at + 1].content, slugs))
        if token.type == "table_open":  # what may scroll is reached by the keyboard too
            token.attrSet("tabindex", "0")
        if token.children:
            token.children = list(_with_known_links(token.children, file, path))
    text = parser.renderer.render(tokens, parser.options, environment)
    text = text.replace("<pre>", '<pre tabindex="0">')
    above = Markup("<nav>{}\n<details><summary>All documents</summary>{}</details></nav>").format(
        link_home(_relative(HOME, path)), _LIST(items=_items(path))
    )
    return document(titled(title_of(file)), Markup(text), "46rem", STYLE, above)


def plain_markdown(text: str) -> str:
    r"""A text without its front matter and, outside code, without its HTML comments.

    >>> plain_markdown("<!-- figures:a -->92.3<!-- /figures --> %, `<!-- a -->` is code\n")
    '92.3 %, `<!-- a -->` is code\n'
    """
    return _COMMENT.sub(lambda found: found["code"] or "", _FRONT_MATTER.sub("", text))


def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # comes with Gradio, whose command line prints Markdown

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")

    def html(self: Any, tokens: list[Token], at: int, options: Any, environment: Any) -> str:
        content = tokens[at].content
        return content if content == "<br>" else escape(content)  # the only tag that texts use

    parser.add_render_rule("html_inline", html)
    parser.add_render_rule("html_block", html)
    return parser


def _slug(heading: str, taken: dict[str, int]) -> str:
    """The id of a heading, as GitHub makes it; taken: how often each was made before."""
    slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    before = taken.get(slug, 0)
    taken[slug] = before + 1
    return f"{slug}-{before}" if before else slug


def _with_known_links(tokens: list[Token], file: Path, path: str) -> Iterator[Token]:
    """The inline tokens of a text, with links to what is shown here, and without the others."""
    dropped = False
    for token in tokens:
        if token.type == "link_open":
            address = _address(str(token.attrGet("href")), file, path)
            dropped = address is None
            token.attrSet("href", address or "")
        elif token.type == "image":
            token.attrSet("src", _address(str(token.attrGet("src")), file, path) or "")
        if not (dropped and token.type in ("link_open", "link_close")):
            yield token


def _address(link: str, file: Path, path: str) -> str | None:
    """Where a link of a text leads here; None: to something that is not shown."""
    if re.match(r"https?:|#", link):
        return link
    name, mark, fragment = link.partition("#")
    target = _path_if_known((file.parent / name).resolve())
    return None if target is None else _relative(target, path) + mark + fragment


def _path_if_known(file: Path) -> str | None:
    if not file.is_relative_to(ROOT):
        return None
    path = _path(file)
    return path if path in documents() else None


def _relative(to: str, path: str) -> str:
    """A relative address below /docs, from the page at `path`: servers may lie below a prefix.

    >>> _relative("toyworld-results/report.md", "why.md"), _relative("why.md", "training/a.md")
    ('toyworld-results/report.md', '../why.md')
    """
    if to == HOME:
        return "../" * (path.count("/") + 1)
    return posixpath.relpath(to, posixpath.dirname(path) or ".")


PAPER = "https://arxiv.org/abs/2602.01740"
