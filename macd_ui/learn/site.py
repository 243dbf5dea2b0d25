"""The files of the course, by their path in it. They need no server and no model.

index.html, worksheet.html    the page, and a sheet to print
learn.js, learn.css           the script, which holds the viewer, and the styles of both
data/course.js                chapters, strings and figures
data/part-ROLE.js             an example's trace for the viewer, see `roles`
data/lesson-NAME.js           what a widget shows, see `toyworld.make_lessons` and `quiz`
data/run-ROLE.json, engine/   the embedded model, where it is built, see `macd_ui.engine`

Data are scripts that call `macdLearn(name, …)`: a page opened from disk may fetch nothing.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.routing import Route

from macd_studio.core.errors import OptionError
from macd_studio.core.objects.truth import is_right
from macd_studio.core.pages.frame import page, template
from macd_studio.core.text.words import visible
from macd_studio.core.types import Trace
from macd_studio.core.whatif.verdict import asked_objects
from macd_studio.macd_ui.engine import Engine, built, run_file
from macd_studio.macd_ui.examples import SHIPPED
from macd_studio.macd_ui.learn.chapters import (
    HERE,
    LIGHTS,
    Chapter,
    languages,
    read_chapters,
    read_glossary,
    read_strings,
)
from macd_studio.macd_ui.learn.collect import Question, Task
from macd_studio.macd_ui.learn.figures import figures
from macd_studio.macd_ui.learn.lessons import all_values, lesson, options_of, quiz, right_of
from macd_studio.macd_ui.learn.roles import ROLES, RoleExample, examples_by_role, lean_of
from macd_studio.macd_ui.learn.worksheet import worksheet
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.sites import (
    HOME,
    INDEX,
    File,
    check_folder,
    page_headers,
    site_routes,
    text_file,
    titled,
    write_files,
)
from macd_studio.viewer import payload, status, style
from macd_studio.viewer.bundle import bundle
from macd_studio.viewer.export import COMPUTING, LINKED
from macd_studio.viewer.shrink import as_text, shrink

SCRIPT, STYLE = HERE / "js" / "learn.js", HERE / "learn.css"
LESSONS = ("frames", "fade", "caption", "quiz")
LEARN = "learn"
UNKNOWN = "There is no such page in the course. /learn is its beginning."
FOR_TEACHERS = ("misconceptions", "shown_by")
"""Fields of a chapter that the page does not get."""
MAX_KB = 150
"""Of an example's trace: the pictures are compressed to fit."""

_INDEX = template("""\
<header class="ln-head"><p><b>{{ strings.site }}</b>
{%- if home %} <a href="{{ home }}" id="home">{{ strings.home }}</a> ·{% endif %}
 <a href="worksheet.html">{{ strings.worksheet }}</a></p><p class="ln-lead">{{ lead }}</p></header>
<div class="ln-page">
<nav id="chapters" aria-label="{{ strings.chapters }}"></nav>
<main id="chapter"><noscript><p>{{ strings.noscript }}</p><ol>
{%- for chapter in chapters %}<li>{{ chapter.title }}</li>{% endfor %}</ol></noscript></main>
</div>
<script src="{{ script }}"></script>""")


class Site:
    """The course in one language; safe to share between threads. Files are made when asked for.

    home: address of the main page, "" where there is none. folders: of examples, see
    `examples_by_role`. engine: computes changes of examples in the browser.
    """

    def __init__(
        self,
        language: str = "en",
        home: str = "",
        folders: list[Path] | None = None,
        engine: Engine | None = None,
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
        self.language, self.home, self.folders, self.engine = language, home, folders, engine
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
        pages = [INDEX, "worksheet.html", SCRIPT.name, STYLE.name]
        engine = self.engine.paths() if self.engine else []
        runs = [f"data/run-{role}.json" for role in ROLES if self.engine]
        return [*pages, *(f"data/{name}.js" for name in data), *engine, *runs]

    def file(self, path: str) -> File | None:
        """A file by its path, None where there is none. Raises MacdError."""
        if path not in self.paths():
            return None
        with self._lock:
            if self.engine and (part := self.engine.file(path)) is not None:
                return part
            if path not in self._made and path.endswith(".json"):
                self._made[path] = run_file(self.examples[Path(path).stem.partition("-")[2]].trace)
            elif path not in self._made:
                kind = path.rpartition(".")[2].replace("js", "javascript")
                self._made[path] = text_file(self._text(path), kind)
            return self._made[path]

    def _text(self, path: str) -> str:
        name = Path(path).stem
        makers: dict[str, Callable[[], str]] = {
            INDEX: self._index,
            "worksheet.html": lambda: worksheet(
                self.chapters(), self.language, model=self.engine is not None
            ),
            SCRIPT.name: lambda: f"{bundle(SCRIPT)}.start();",
            STYLE.name: lambda: f"{style()}\n{STYLE.read_text(encoding='utf-8')}",
        }
        if path in makers:
            return makers[path]()
        kind, _, which = name.partition("-")
        data: dict[str, Callable[[], dict[str, Any]]] = {
            "course": self.course,
            "part": lambda: self._example(which),
            "lesson": lambda: quiz() if which == "quiz" else lesson(which),
        }
        content = data[kind]()
        return f'macdLearn("{name}",{as_text(content)});\n'

    def _index(self) -> str:
        strings, chapters = read_strings(self.language), self.chapters()
        minutes = 5 * round(sum(chapter.minutes for chapter in chapters) / 5)  # an estimate
        body = _INDEX(
            strings=strings,
            lead=strings["lead"].replace("{minutes}", str(minutes)),
            home=self.home,
            chapters=chapters,
            script=SCRIPT.name,
        )
        return page(
            titled(strings["site"]),
            body,
            language=self.language,
            policy=COMPUTING if self.engine else LINKED,
            stylesheet=STYLE.name,
        )

    def course(self) -> dict[str, Any]:
        """What data/course.js holds; `Course` in js/types.d.ts says what each is."""
        content: dict[str, Any] = {
            "strings": read_strings(self.language),
            "glossary": read_glossary(self.language),
            "chapters": [
                {k: v for k, v in asdict(c).items() if k not in FOR_TEACHERS}
                for c in self.chapters()
            ],
            "lights": LIGHTS,
            "parts": {role: self._about(example) for role, example in self.examples.items()},
            "home": self.home,
            "table": figures()["table"],
            "changes": figures()["changes"],
            "paired": figures()["paired"],
        }
        return content | {"edition": self._edition(content["chapters"])}

    def edition(self) -> str:
        """By what answers to these questions are known."""
        return str(self.course()["edition"])

    def _edition(self, chapters: list[dict[str, Any]]) -> str:
        return hashlib.sha256(as_text({"": [chapters, quiz()]}).encode()).hexdigest()[:16]

    def questions(self) -> dict[str, Question]:
        """What is asked, by the id that a saved answer has: chapters by name, then the quizzes."""
        asked = ((c.name, c.prediction) for c in self.chapters())
        own = {name: Question(len(p.options), p.answer) for name, p in asked if p is not None}
        clips = {f"{name}/{i}": Question(options_of(item), right_of(item))
                 for name, items in quiz().items() for i, item in enumerate(items)}  # fmt: skip
        return own | clips

    def tasks(self) -> dict[str, Task]:
        """The tasks in which objects are chosen, by their place in the course."""
        return {
            f"{chapter.name}/{i}": task_of(self.examples[step.settings["roles"][0]].trace)
            for chapter in self.chapters()
            for i, step in enumerate(chapter.steps)
            if step.widget == "subsets"
        }

    def _about(self, shown: RoleExample) -> dict[str, str]:
        # the main page lists shipped examples and those of MACD_EXAMPLES_DIR
        return {
            "question": shown.trace.question,
            "truth": shown.example.answer,
            "debug": f"{self.home}{shown.example.link}" if self.home else "",
        }

    def _example(self, role: str) -> dict[str, Any]:
        shown = self.examples[role]
        data, _ = shrink(payload(shown.trace, status()), 1000 * MAX_KB)
        data["constants"]["glossary"] = read_glossary(self.language)
        if self.engine:
            data["engine"] = self.engine.about(shown.trace, f"data/run-{role}.json")
        return {"payload": data, "lean": lean_of(shown.trace)}


def task_of(trace: Trace) -> Task:
    """What is known of a choice of objects on the choice map of a trace, which has one."""
    found = trace.choice_map
    assert found is not None
    plain = trace.answers["baseline"].text
    right = (s for s in found.layer(found.own.frames) if is_right(s.answer or plain, trace.truth))
    labels = {t.id: t.label for t in trace.tracks if t.id in found.objects}
    return Task(labels, frozenset(tuple(sorted(s.objects)) for s in right), asked_objects(trace))


def write_site(site: Site, folder: Path) -> int:
    """Writes the course and gives its size in bytes. Raises OptionError for another folder."""
    check_folder(folder, ("data/course.js",), "a course")
    files = {path: file for path in site.paths() if (file := site.file(path))}  # all, then written
    return write_files(files, folder)


def routes(settings: ServerSettings) -> list[Route]:
    """The routes at /learn. Nothing is read before it is asked."""
    engine = built()
    headers = page_headers(settings, *([COMPUTING] if engine else []))
    return site_routes(LEARN, Site(home=HOME, engine=engine).file, UNKNOWN, lambda path: headers)


def example_folders(names: Sequence[str]) -> list[Path] | None:
    """Folders of a teacher's examples, before the shipped ones; None for none."""
    return [*map(Path, names), SHIPPED] if names else None
