"""The pages of one report folder, by their path below /results; each is made from checked data.

index.html        the report, whose cells lead to questions
questions.html    the questions with all answers
report.json, questions.csv   for programs
t/KEY.html        the trace of an answer in the viewer; KEY is that of its row
traces/KEY.macd   its file
viewer.js, viewer.css   what the traces' pages share

No HTML of the folder is served: pages are written anew from report.json, whose text is only shown.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from macd_studio.core.errors import BenchmarkError, MacdError, TraceError
from macd_studio.core.pages.frame import template
from macd_studio.core.system.recent import Recent
from macd_studio.core.types import Trace
from macd_studio.evals.benchmarks.layout import read_json
from macd_studio.evals.scoring import TRACES
from macd_studio.macd_ui.gallery.runs import Run, read_run
from macd_studio.macd_ui.gallery.site import run_page, shared_file
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.sites import (
    HOME,
    INDEX,
    File,
    link_home,
    page_headers,
    site_routes,
    text_file,
)
from macd_studio.viewer.export import LINKED

Report = dict[str, Any]
RESULTS = "results"
UNKNOWN = "There is no such page of the results. /results shows the report."
NO_RESULTS = (
    "This server shows no results. `python -m evals run … --out FOLDER` makes a report, and"
    " `python app.py --results FOLDER` shows it here."
)
PLAIN = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Policy of the report's own pages, which hold tables and drawings only."""
KEY = re.compile(r"[0-9a-f]{20}")
MAX_MB = 100
"""Of a report that is opened."""
MAX_MADE = 32
"""Pages of traces that are held in memory."""
MAX_JUDGED = 10_000
"""Traces of which it is remembered whether they are sound."""
SOUND = ("", "")
_ABOVE = template("""\
<nav>{{ home }}{% if questions %} · <a href="{{ questions }}">Questions</a>{% endif %}</nav>
{%- if questions %}
<p><a href="report.json">report.json</a> · <a href="questions.csv">csv</a></p>
{%- endif %}""")
"""Links above a report; questions: address of its questions, "" where it keeps none."""
"""What is remembered of a trace that can be read."""
REMEDY = "Give the --out folder of `python -m evals run`"


@dataclass(frozen=True)
class Opened:
    """A report as it was read. keys: of its answers' rows; files: its pages and downloads."""

    keys: frozenset[str]
    files: dict[str, File]


class ResultsSite:
    """The pages of a folder; read again when its report changes. Safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._opened: tuple[tuple[int, ...], Opened] | None = None
        self._made: Recent[tuple[str, int, int], File] = Recent(MAX_MADE)
        self._judged: Recent[tuple[str, int, int], tuple[str, str]] = Recent(MAX_JUDGED)

    def file(self, path: str) -> File | None:
        """A file by its path, None where there is none. Raises MacdError for a damaged one."""
        if (shared := shared_file(path)) is not None:
            return shared
        with self._lock:  # one at a time, whoever asks: pages of large reports are slow to make
            opened = self._open()
            if path in opened.files:
                return opened.files[path]
            folder, _, name = path.partition("/")
            key, _, kind = name.partition(".")
            if not KEY.fullmatch(key) or key not in opened.keys:
                return None
            trace = self.folder / TRACES / f"{key}.macd"
            if (folder, kind) not in (("t", "html"), (TRACES, "macd")) or not trace.is_file():
                return None
            return self._of_trace(trace, kind)

    def _of_trace(self, path: Path, kind: str) -> File:
        about = path.stat()
        stamp = path.stem, about.st_mtime_ns, about.st_size
        judged = self._judged.get(stamp)
        if judged is not None and judged != SOUND:  # it would fail again
            raise TraceError(*judged)
        if kind == "macd" and judged == SOUND:
            return File(path.read_bytes(), "application/octet-stream")
        made = None if kind == "macd" else self._made.get(stamp)
        if made is None:
            run, trace = self._read(path, stamp)
            if kind == "macd":  # a file that is not a sound trace is not given away either
                return File(path.read_bytes(), "application/octet-stream")
            made = run_page(run, trace, back=("../" + INDEX, "The report"))
            self._made.put(stamp, made)
        return made

    def _read(self, path: Path, stamp: tuple[str, int, int]) -> tuple[Run, Trace]:
        """A trace; whether it is sound is remembered until its file changes."""
        try:
            read = read_run(path)
        except MacdError as error:
            self._judged.put(stamp, (error.cause, error.remedy))
            raise
        self._judged.put(stamp, SOUND)
        return read

    def _open(self) -> Opened:
        """The report, with the traces that are there now. Raises MacdError."""
        path = self.folder / "report.json"
        try:
            about = path.stat()
            traces = self.folder / TRACES
            stamp = (about.st_mtime_ns, about.st_size,
                     traces.stat().st_mtime_ns if traces.is_dir() else 0)  # fmt: skip
        except OSError:
            raise BenchmarkError("the folder of the results holds no report.json", REMEDY) from None
        if self._opened is None or self._opened[0] != stamp:
            if about.st_size > MAX_MB * 10**6:
                raise BenchmarkError(f"the report is larger than {MAX_MB} MB", REMEDY)
            try:
                report = read_json(path, REMEDY)
            except BenchmarkError:  # which names the path; a visitor needs no path of this machine
                raise BenchmarkError("report.json is not JSON that can be read", REMEDY) from None
            self._opened = stamp, open_report(report, self.folder)
        return self._opened[1]


def open_report(report: Any, folder: Path) -> Opened:
    """Makes the pages of a report. Raises BenchmarkError where it is not one of this project.

    Every value that a page shows is read here, so that a damaged report shows nothing at all.
    """
    try:
        make = _files_report if report.get("kind") == "files" else _drawn_report
        return make(report, folder)
    except MacdError as error:
        raise BenchmarkError(f"the report is damaged ({error.cause})", REMEDY) from None
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        kind = type(error).__name__
        raise BenchmarkError(f"the report is damaged ({kind})", REMEDY) from None


def _files_report(report: Report, folder: Path) -> Opened:
    # at first use: they import SciPy, which the page does not need
    from macd_studio.evals.scoring.pages import QUESTIONS, questions_page
    from macd_studio.evals.scoring.report import plots, questions_csv, report_page

    def links(key: str) -> list[tuple[str, str]]:
        if not KEY.fullmatch(key) or not (folder / TRACES / f"{key}.macd").is_file():
            return []
        return [("view", f"t/{key}.html"), ("file", f"{TRACES}/{key}.macd")]

    keys = frozenset(a["key"] for q in report["questions"] for a in q["answers"].values())
    above = _ABOVE(home=link_home(HOME), questions=QUESTIONS)
    shown = text_file(report_page(report, plots(report), above), "html")
    questions = questions_page(report, folder.name, links)
    setting = report.get("setting")
    if isinstance(setting, dict):  # where the data lie on this machine is nobody's business
        setting = setting | {"data": Path(setting["data"]).name}
    public = report | ({"setting": setting} if setting else {})
    return Opened(
        keys,
        {
            INDEX: shown,
            "report.html": shown,
            QUESTIONS: text_file(questions, "html"),
            "report.json": File(
                json.dumps(public, ensure_ascii=False).encode(), "application/json"
            ),
            "questions.csv": text_file(questions_csv(report), "csv"),
        },
    )


def _drawn_report(report: Report, folder: Path) -> Opened:
    """A report over drawn clips, which keeps no questions."""
    from macd_studio.evals.printing.figures import page
    from macd_studio.evals.printing.report import pictures, sections

    above = _ABOVE(home=link_home(HOME), questions="")
    drawn = list(pictures(report).values())
    shown = page(str(report["benchmark"]), sections(report), drawn, above=above)
    return Opened(frozenset(), {INDEX: text_file(shown, "html")})


def routes(settings: ServerSettings) -> list[Route]:
    """The routes; without a folder of results they say how to get some."""
    if settings.results is None:
        return site_routes(RESULTS, lambda path: None, NO_RESULTS, lambda path: {})
    site = ResultsSite(Path(settings.results))
    plain, viewer = (page_headers(settings, policy) for policy in (PLAIN, LINKED))

    def find(path: str) -> File | Response | None:
        if re.fullmatch(r"t/[0-9a-f]{20}", path):
            return RedirectResponse(f"{path.removeprefix('t/')}.html", 307)
        return site.file(path)

    return site_routes(
        RESULTS, find, UNKNOWN, lambda path: viewer if path.startswith("t/") else plain
    )
