"""The shipped examples, and those in the folder MACD_EXAMPLES_DIR names.

An example is a clip with a question and, beside it, the trace computed from them.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from core.errors import TraceError
from core.shipped import assets
from core.traces.bundle import load
from core.types import Trace

log = logging.getLogger(__name__)
SHIPPED = assets() / "examples"


@dataclass(frozen=True)
class Example:
    """title: one line of what to look at; truth: what is really in the clip.

    answer: the right one, as short as the model gives it; empty where nobody knows it.
    """

    title: str
    question: str
    answer: str
    truth: str
    video: Path
    trace: Path | None

    @property
    def name(self) -> str:
        """What a link calls it: the file's name without its ending."""
        return self.video.stem

    def load_trace(self) -> Trace:
        """Its saved trace, which then knows the right answer. Raises TraceError."""
        if self.trace is None:
            raise TraceError("the example has no saved trace", "Run it")
        trace = load(self.trace)
        return replace(trace, truth=trace.truth or self.answer)

    @property
    def link(self) -> str:
        """Its address on the page."""
        return f"?example={quote(self.name)}"


def examples() -> list[Example]:
    """Shipped ones first; a folder without a readable index adds nothing."""
    extra = os.environ.get("MACD_EXAMPLES_DIR")
    folders = [SHIPPED, *([Path(extra)] if extra else [])]
    return [e for folder in folders for e in _in(folder)]


def load_first(examples: list[Example]) -> tuple[Example, Trace] | None:
    """The first example with a readable trace, and the trace."""
    for example in examples:
        if example.trace is not None:
            try:
                return example, example.load_trace()
            except TraceError as error:  # one bad example must not keep the page from starting
                log.warning("example %s: %s", example.trace.name, error)
    return None


def _in(folder: Path) -> list[Example]:
    index = folder / "index.json"
    if not index.is_file():
        return []
    entries = []
    try:
        rows = json.loads(index.read_text(encoding="utf-8"))
    except ValueError:
        return []
    for row in rows:
        video = folder / row["video"]
        trace = video.with_suffix(".macd")
        if video.is_file():
            entries.append(
                Example(
                    title=row["title"],
                    question=row["question"],
                    answer=row.get("answer", ""),
                    truth=row.get("truth", ""),
                    video=video,
                    trace=trace if trace.is_file() else None,
                )
            )
    return entries
