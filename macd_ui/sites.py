"""What the served sub-sites share: files, links, routes, folders of a static export, commands.

Each of gallery, learn, results and documents names its files by their path and makes one when it is
asked for; here they become routes of the app, or a folder that opens from disk.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from macd_studio.commands import pipe_closed
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.pages.frame import document, template
from macd_studio.core.text.words import visible
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.viewer.export import COMPUTING, LINKED

INDEX = "index.html"
HOME = "../"
"""From the index of a site to the page."""
TEXT_ALONE = "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; base-uri 'none'"
"""Policy of pages of text and pictures."""


@dataclass(frozen=True)
class File:
    """A file of a site. note: what its maker should know, "" for nothing."""

    content: bytes
    media_type: str
    note: str = ""


def text_file(text: str, kind: str) -> File:
    """A file of text. kind: "html", "javascript", "css" or "csv"."""
    return File(text.encode("utf-8", "replace"), f"text/{kind}; charset=utf-8")


def titled(title: str) -> str:
    """What the tab of a page of this program is called."""
    return f"{title} · MACD Studio"


def link_home(address: str) -> Markup:
    """A link to the page; "" without an address."""
    return Markup('<a href="{}">To the page</a>').format(address) if address else Markup("")


def page_headers(settings: ServerSettings, policy: str = LINKED) -> dict[str, str]:
    """Headers of a page with a policy of its own.

    Unlike Gradio's page, such pages need no inline scripts and no evaluation.
    """
    ancestors = "'self' https://huggingface.co" if settings.space else "'self'"
    served = policy.replace(" file:", "")
    shared = {  # so that a worker may use threads
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Embedder-Policy": "require-corp",
    }
    return (shared if policy == COMPUTING else {}) | {
        "Content-Security-Policy": f"{served}; frame-ancestors {ancestors}; base-uri 'none'",
        "Cache-Control": "no-cache",
        "X-Content-Type-Options": "nosniff",
    }


_MISSING = template("""\
<h1>There is nothing here</h1><p>{{ words }}</p><ul>
{%- for name, where in links.items() %}<li><a href="{{ where }}">{{ name }}</a></li>{% endfor %}
</ul>""")


def missing_page(words: str, path: str) -> Response:
    """What is answered where there is nothing: why, and links to what there is.

    path: below a site's name, "" for the site itself; a server may lie below a prefix.
    """
    up = "../" * (path.count("/") + 1)
    links = {"The page": up, "Course": f"{up}learn/", "Gallery": f"{up}gallery/"}
    links |= {"Documentation": f"{up}docs/"}
    page = document(titled("Nothing here"), _MISSING(words=words, links=links), "46rem")
    headers = {"Content-Security-Policy": TEXT_ALONE, "X-Content-Type-Options": "nosniff"}
    return Response(page, 404, headers, "text/html")


def site_routes(
    name: str,
    find: Callable[[str], File | Response | None],
    unknown: str,
    headers: Callable[[str], dict[str, str]],
) -> list[Route]:
    """The routes of a site at /NAME/, for `launch(app_kwargs={"routes": ...})`.

    find: path → file; None: there is none, which is answered with `unknown`. headers: of a path.
    """

    def answer(request: Request) -> Response:
        path = request.path_params.get("path") or INDEX
        try:
            found = find(path)
        except MacdError as error:
            return missing_page(str(error), request.path_params.get("path", ""))
        if found is None:
            return missing_page(unknown, request.path_params.get("path", ""))
        if isinstance(found, Response):
            return found
        return Response(found.content, media_type=found.media_type, headers=headers(path))

    def into(request: Request) -> Response:
        return RedirectResponse(f"{name}/", 307)

    return [
        Route(f"/{name}", into, methods=["GET"]),
        Route(f"/{name}/{{path:path}}", answer, methods=["GET"]),
    ]


def check_folder(folder: Path, marks: Iterable[str], what: str) -> None:
    """Raises OptionError for a folder that holds something else than such a site.

    marks: files and folders by which one is known. what: the site, such as "a gallery".
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise OptionError(f"{visible(str(folder))} is not a folder", "Name a folder to be written")
    if any(folder.iterdir()) and not all((folder / mark).exists() for mark in marks):
        raise OptionError(
            f"{visible(str(folder))} holds something that is not {what}",
            f"Name a new folder, or one that {what} was written to",
        )


def write_files(files: dict[str, File], folder: Path) -> int:
    """Writes the files of a site by their path; gives their size in bytes."""
    for path, file in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(file.content)
    return sum(len(file.content) for file in files.values())


def exit_code(work: Callable[[], int | None], what: str) -> int:
    """What a command exits with: 2 after an error, which it tells; else what `work` gives, or 0.

    what: the thing that is written, such as "the gallery".
    """
    try:
        code = work() or 0
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return pipe_closed()
    except MacdError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
    except OSError as error:
        why = OptionError(f"{what} cannot be written ({error.strerror})", "Choose another folder")
        print(f"error: {why}", file=sys.stderr)
    return 2
