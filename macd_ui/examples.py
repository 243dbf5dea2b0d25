"""The shipped examples, and those in the folder MACD_EXAMPLES_DIR names.

An example is a clip with a question and, beside it, the trace computed from them.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from macd_studio.core.errors import TraceError
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Trace
from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.chosen import Search, search_of

log = logging.getLogger(__name__)
SHIPPED = assets() / "examples"
OF_CAMERA = assets() / "everyday" / "examples"
OF_COURSE = assets() / "everyday" / "lessons"
"""Folders of the drawn examples, of those of a camera, and of those that were chosen for the course
by their answers."""


@dataclass(frozen=True)
class Example:
    """title: one line of what to look at; truth: what is really in the clip, in a sentence.

    answer: the true answer as a model would give it; "" where it is not known.
    tries: how many clips were drawn until this one showed what was looked for; 0 where nobody did.
    search: the search that it was chosen in; None where it is the first clip that fitted.
    """

    title: str
    question: str
    truth: str
    video: Path
    trace: Path | None
    answer: str = ""
    tries: int = 0
    search: Search | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether it is one of the drawn ones that ship."""
        return self.video.parent == SHIPPED

    @property
    def message(self) -> str:
        """What the page says when it is opened, with how it was chosen."""
        return sentences.example_message(self.title, self.truth, 0 if self.search else self.tries)

    @property
    def name(self) -> str:
        """What a link calls it: the file's name without its ending."""
        return self.video.stem

    def load_trace(self) -> Trace:
        """Its saved trace, which then knows the right answer. Raises TraceError."""
        if self.trace is None:
            raise TraceError("the example has no saved trace", "Run it")
        changed = self.trace.stat().st_mtime_ns if self.trace.is_file() else 0
        trace = _loaded(self.trace, changed)
        return replace(trace, truth=trace.truth or self.answer)

    @property
    def link(self) -> str:
        """Its address on the page."""
        return f"?example={quote(self.name)}"


@lru_cache(maxsize=32)
def _loaded(path: Path, _changed: int) -> Trace:
    """Every tab opens with the first example, and a trace is never changed in place."""
    return load(path)


def examples() -> list[Example]:
    """Shipped ones first; a folder without a readable index adds nothing."""
    extra = os.environ.get("MACD_EXAMPLES_DIR")
    folders = [SHIPPED, OF_CAMERA, OF_COURSE, *([Path(extra)] if extra else [])]
    return [e for folder in folders for e in examples_in(folder)]


def load_first(examples: list[Example]) -> tuple[Example, Trace] | None:
    """The first example with a readable trace, and the trace."""
    for example in examples:
        if example.trace is not None:
            try:
                return example, example.load_trace()
            except TraceError as error:  # one bad example must not keep the page from starting
                log.warning("example %s: %s", example.trace.name, error)
    return None


def examples_in(folder: Path) -> list[Example]:
    """Those that the `index.json` of a folder lists and whose clip is there."""
    return [e for e in _listed(folder) if e.video.is_file()]


def described(trace: Path) -> Example | None:
    """What the `index.json` beside a trace file says about it; the clip may be missing."""
    return next((e for e in _listed(trace.parent) if e.trace == trace), None)


def _listed(folder: Path) -> list[Example]:
    """The rows of the folder's index; one that is not as it should be is left out and logged."""
    index = folder / "index.json"
    if not index.is_file():
        return []
    try:
        rows = json.loads(index.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    found = []
    for row in rows if isinstance(rows, list) else []:
        texts = _texts(row)
        if texts is None:
            log.warning("%s: a row without video, title or question is left out", index)
            continue
        video = folder / texts["video"]
        trace = video.with_suffix(".macd")
        found.append(
            Example(
                title=texts["title"],
                question=texts["question"],
                truth=texts["truth"],
                video=video,
                trace=trace if trace.is_file() else None,
                answer=texts["answer"],
                tries=_count(row, "tries"),
                search=search_of(row, folder),
            )
        )
    return found


def _count(row: dict[str, Any], name: str) -> int:
    """A count of clips; 0 where it is missing or not a count."""
    count = row.get(name, 0)
    return count if type(count) is int and 0 < count < 10**9 else 0


def _texts(row: Any) -> dict[str, str] | None:
    """The texts of a row, "" for those that it may leave out; None where one is not a text."""
    if not isinstance(row, dict):
        return None
    names = ("video", "title", "question", "truth", "answer")
    texts = {name: row.get(name, "") for name in names}
    needed = ("video", "title", "question")
    sound = all(isinstance(t, str) for t in texts.values()) and all(texts[n] for n in needed)
    return texts if sound and Path(texts["video"]).name else None
