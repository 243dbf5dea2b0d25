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
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from macd_studio.core.errors import BenchmarkError, MacdError, TraceError
from macd_studio.core.types import Trace
from macd_studio.evals.benchmarks.layout import read_json
from macd_studio.evals.scoring.pages import QUESTIONS, questions_page
from macd_studio.evals.scoring.report import TRACES, plots, questions_csv, report_page
from macd_studio.macd_ui.gallery.routes import page_headers
from macd_studio.macd_ui.gallery.site import File, Run, read_run, run_page, shared_file
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.viewer.export import LINKED

Report = dict[str, Any]
INDEX = "index.html"
KEY = re.compile(r"[0-9a-f]{20}")
MOST_MB = 100
"""Of a report that is opened."""
KEPT = 32
"""Pages of traces that are kept made."""
JUDGED = 10_000
"""Traces of which it is remembered whether they are sound."""
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
        self._made: OrderedDict[tuple[str, int, int], File] = OrderedDict()
        self._judged: OrderedDict[tuple[str, int, int], tuple[str, str] | None] = OrderedDict()

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
        if (cause := self._judged.get(stamp)) is not None:  # it would fail again
            raise TraceError(*cause)
        if kind == "macd" and stamp in self._judged:
            return File(path.read_bytes(), "application/octet-stream")
        made = f"{path.stem}.{kind}", *stamp[1:]
        if made not in self._made:
            run, trace = self._read(path, stamp)
            if kind == "macd":  # a file that is not a sound trace is not given away either
                return File(path.read_bytes(), "application/octet-stream")
            self._made[made] = run_page(run, trace, back=("../" + INDEX, "The report"))
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(made)
        return self._made[made]

    def _read(self, path: Path, stamp: tuple[str, int, int]) -> tuple[Run, Trace]:
        """A trace; whether it is sound is remembered until its file changes."""
        while len(self._judged) >= JUDGED:
            self._judged.popitem(last=False)
        try:
            read = read_run(path)
        except MacdError as error:
            self._judged[stamp] = error.cause, error.remedy
            raise
        self._judged[stamp] = None
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
            if about.st_size > MOST_MB * 10**6:
                raise BenchmarkError(f"the report is larger than {MOST_MB} MB", REMEDY)
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
    def links(key: str) -> list[tuple[str, str]]:
        if not KEY.fullmatch(key) or not (folder / TRACES / f"{key}.macd").is_file():
            return []
        return [("view", f"t/{key}.html"), ("file", f"{TRACES}/{key}.macd")]

    keys = frozenset(a["key"] for q in report["questions"] for a in q["answers"].values())
    shown = report_page(report, plots(report))
    questions = questions_page(report, folder.name, links)
    back = f'<p><a href="../">To the page</a> · <a href="{QUESTIONS}">Questions</a></p>'
    downloads = '<p><a href="report.json">report.json</a> · <a href="questions.csv">csv</a></p>'
    setting = report.get("setting")
    if isinstance(setting, dict):  # where the data lie on this machine is nobody's business
        setting = setting | {"data": Path(setting["data"]).name}
    public = report | ({"setting": setting} if setting else {})
    return Opened(
        keys,
        {
            INDEX: _html(_with_links(shown, back + downloads)),
            "report.html": _html(_with_links(shown, back + downloads)),
            QUESTIONS: _html(questions),
            "report.json": File(
                json.dumps(public, ensure_ascii=False).encode(), "application/json"
            ),
            "questions.csv": File(questions_csv(report).encode("utf-8", "replace"), "text/csv"),
        },
    )


def _drawn_report(report: Report, folder: Path) -> Opened:
    """A report over drawn clips, which keeps no questions."""
    from macd_studio.evals.figures import page
    from macd_studio.evals.report import markdown, pictures

    shown = page(str(report["benchmark"]), markdown(report), list(pictures(report).values()))
    back = '<p><a href="../">To the page</a></p>'
    return Opened(frozenset(), {INDEX: _html(_with_links(shown, back))})


def _with_links(page: str, links: str) -> str:
    return page.replace("<body>\n", f"<body>\n{links}\n", 1)


def _html(text: str) -> File:
    return File(text.encode("utf-8", "replace"), "text/html; charset=utf-8")


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
