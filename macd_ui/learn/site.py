"""The files of the course, by their path in it. They need no server and no model.

index.html, worksheet.html    the page, and a sheet to print
learn.js, learn.css           the script, which holds the viewer, and the styles of both
data/course.js                chapters, strings and figures
data/part-ROLE.js             an example's trace for the viewer, see `roles`
data/lesson-NAME.js           what a widget shows, see `toyworld.make_lessons`

Data are scripts that call `macdLearn(name, …)`: a page opened from disk may fetch nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.words import visible
from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.gallery.site import File
from macd_studio.macd_ui.learn.chapters import (
    HERE,
    LIGHTS,
    Chapter,
    languages,
    read_chapters,
    read_glossary,
    read_strings,
)
from macd_studio.macd_ui.learn.figures import figures
from macd_studio.macd_ui.learn.roles import (
    ROLES,
    RoleExample,
    all_values,
    examples_by_role,
    lean_of,
    lesson,
)
from macd_studio.macd_ui.learn.worksheet import worksheet
from macd_studio.viewer import payload, status, style
from macd_studio.viewer.bundle import bundle
from macd_studio.viewer.export import LINKED
from macd_studio.viewer.shrink import as_text, shrink

SCRIPT, STYLE = HERE / "js" / "learn.js", HERE / "learn.css"
LESSONS = ("frames", "fade", "caption", "quiz")
MOST_KB = 150
"""Of an example's trace: the pictures are compressed to fit."""
KINDS = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
}
_INDEX = """<!doctype html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title} · MACD Studio</title>
<link rel="stylesheet" href="learn.css">
</head>
<body>
<header class="ln-head"><p><b>{title}</b> {links}</p><p class="ln-lead">{lead}</p></header>
<div class="ln-page">
<nav id="chapters" aria-label="{chapters}"></nav>
<main id="chapter"><noscript><p>{noscript}</p>{list}</noscript></main>
</div>
<script src="learn.js"></script>
</body>
</html>
"""


class Site:
    """The course in one language; safe to share between threads. Files are made when asked for.

    home: address of the main page, "" where there is none. folders: of examples, see
    `examples_by_role`.
    """

    def __init__(
        self, language: str = "en", home: str = "", folders: list[Path] | None = None
    ) -> None:
        if language not in languages():
            raise OptionError(
                f"there is no course in {visible(language)[:40]!r}",
                f"Choose one of {', '.join(languages())}",
            )
        if home and not home.startswith(("http://", "https://", "../")):
            raise OptionError(
                f"{visible(home)[:80]} is not the address of a page",
                "Give one that begins with https://",
            )
        self.language, self.home, self.folders = language, home, folders
        self._lock = threading.RLock()
        self._made: dict[str, File] = {}
        self._examples: dict[str, RoleExample] | None = None

    @property
    def examples(self) -> dict[str, RoleExample]:
        """The examples of the course, read once. Raises TraceError."""
        with self._lock:
            if self._examples is None:
                self._examples = examples_by_role(self.folders)
            return self._examples

    def chapters(self) -> list[Chapter]:
        """The chapters, with the current figures and examples. Raises OptionError, TraceError."""
        return read_chapters(self.language, all_values(self.examples))

    def paths(self) -> list[str]:
        """Every file of the course."""
        data = ["course", *(f"part-{r}" for r in ROLES), *(f"lesson-{n}" for n in LESSONS)]
        pages = ["index.html", "worksheet.html", SCRIPT.name, STYLE.name]
        return [*pages, *(f"data/{name}.js" for name in data)]

    def file(self, path: str) -> File | None:
        """A file by its path, None where there is none. Raises MacdError."""
        if path not in self.paths():
            return None
        with self._lock:
            if path not in self._made:
                text = self._text(path)
                self._made[path] = File(text.encode(), KINDS[path.rpartition(".")[2]])
            return self._made[path]

    def _text(self, path: str) -> str:
        name = Path(path).stem
        makers: dict[str, Callable[[], str]] = {
            "index.html": self._index,
            "worksheet.html": lambda: worksheet(self.chapters(), self.language),
            SCRIPT.name: lambda: f"{bundle(SCRIPT)}.start();",
            STYLE.name: lambda: f"{style()}\n{STYLE.read_text(encoding='utf-8')}",
        }
        if path in makers:
            return makers[path]()
        kind, _, which = name.partition("-")
        data: dict[str, Callable[[], dict[str, Any]]] = {
            "course": self.course,
            "part": lambda: self._example(which),
            "lesson": lambda: lesson(which),
        }
        content = data[kind]()
        return f'macdLearn("{name}",{as_text(content)});\n'

    def _index(self) -> str:
        strings, chapters = read_strings(self.language), self.chapters()
        links = [(self.home, "home", ' id="home"')] if self.home else []
        minutes = sum(chapter.minutes for chapter in chapters)
        return _INDEX.format(
            language=escape(self.language),
            policy=LINKED,
            title=escape(strings["site"]),
            lead=escape(strings["lead"].replace("{minutes}", str(minutes))),
            links=" · ".join(
                f'<a href="{escape(address)}"{mark}>{escape(strings[name])}</a>'
                for address, name, mark in [*links, ("worksheet.html", "worksheet", "")]
            ),
            chapters=escape(strings["chapters"]),
            noscript=escape(strings["noscript"]),
            list=f"<ol>{''.join(f'<li>{escape(c.title)}</li>' for c in chapters)}</ol>",
        )

    def course(self) -> dict[str, Any]:
        """What data/course.js holds; `Course` in js/types.d.ts says what each is."""
        content: dict[str, Any] = {
            "strings": read_strings(self.language),
            "glossary": read_glossary(self.language),
            "chapters": [
                {k: v for k, v in asdict(c).items() if k != "misconceptions"}
                for c in self.chapters()
            ],
            "lights": LIGHTS,
            "parts": {role: self._about(example) for role, example in self.examples.items()},
            "home": self.home,
            "table": figures()["table"],
            "changes": figures()["changes"],
            "paired": figures()["paired"],
        }
        tests = [content["chapters"], lesson("quiz")]
        edition = hashlib.sha256(as_text({"": tests}).encode()).hexdigest()[:16]
        return content | {"edition": edition}

    def _about(self, shown: RoleExample) -> dict[str, str]:
        # the main page lists shipped examples and those of MACD_EXAMPLES_DIR
        return {
            "question": shown.trace.question,
            "truth": shown.example.answer,
            "debug": f"{self.home}{shown.example.link}" if self.home else "",
        }

    def _example(self, role: str) -> dict[str, Any]:
        shown = self.examples[role]
        data, _ = shrink(payload(shown.trace, status()), 1000 * MOST_KB)
        data["constants"]["glossary"] = read_glossary(self.language)
        return {"payload": data, "lean": lean_of(shown)}


def write_site(site: Site, folder: Path) -> int:
    """Writes the course and gives its size in bytes. Raises OptionError for another folder."""
    if folder.exists() and (not folder.is_dir() or not _is_ours(folder)):
        raise OptionError(
            f"{visible(str(folder))} holds something other than a course",
            "Name a new folder, or one that a course was written to",
        )
    files = {path: site.file(path) for path in site.paths()}  # all, before anything is written
    for path, file in files.items():
        assert file is not None
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(file.content)
    return sum(len(file.content) for file in files.values() if file)


def _is_ours(folder: Path) -> bool:
    return not any(folder.iterdir()) or (folder / "data" / "course.js").is_file()


def example_folders(names: Sequence[str]) -> list[Path] | None:
    """Folders of a teacher's examples, before the shipped ones; None for none."""
    return [*map(Path, names), SHIPPED] if names else None
