"""A run of the gallery as its file holds it, and what came of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from macd_studio.core.methods import clamped_share
from macd_studio.core.objects.truth import is_right, normalized
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Trace
from macd_studio.macd_ui.examples import Example, described

DIFFER, AGREE = "answers differ", "answers agree"
UNFINISHED, OTHER = "stopped early", "no pair of answers"
HASH_CHARACTERS = 16
"""Of the SHA-256 in an address: 64 bits, enough to tell the runs of one gallery apart."""


OUTCOMES = {
    (False, True): "MACD repairs it",
    (False, False): "MACD does not help",
    (True, False): "MACD spoils it",
    (True, True): "both are right",
}
"""By whether baseline and MACD gave the true answer."""
SPOILED = OUTCOMES[True, False]


@dataclass(frozen=True)
class Run:
    """One trace file."""

    file: Path
    sha256: str
    """Of the file, in hexadecimal digits."""
    title: str
    """Title of its example, if it is one."""
    clip: str
    question: str
    truth: str
    """What is really in the clip, as far as is known."""
    outcome: str
    backbone: str
    detector: str
    """Name of the detector; "" where objects came from a file."""
    answers: dict[str, str]
    """Method → answer."""
    clamped: dict[str, float | None] = field(default_factory=dict)
    """Method → see `core.methods.clamped_share`."""

    @property
    def name(self) -> str:
        """The run in an address."""
        return self.sha256[:HASH_CHARACTERS]


def content_hash(content: bytes) -> str:
    """SHA-256 of a trace file, as `sha256sum` prints it; equal traces are equal files."""
    return hashlib.sha256(content).hexdigest()


def read_run(file: Path) -> tuple[Run, Trace]:
    """A trace file and what the index says about it. Raises TraceError.

    Title and truth come from the `index.json` beside the file, where there is one.
    """
    trace = load(file)
    about = described(file)
    clip = trace.clip.name
    return Run(
        file=file,
        sha256=content_hash(file.read_bytes()),
        title=about.title if about else clip,
        clip=clip,
        question=trace.question,
        truth=about.truth if about else "",
        outcome=outcome_of(trace, about),
        backbone=trace.backbone.name,
        detector=trace.detector.name,
        answers={name: answer.text for name, answer in trace.answers.items()},
        clamped={name: clamped_share(answer) for name, answer in trace.answers.items()},
    ), trace


def outcome_of(trace: Trace, about: Example | None = None) -> str:
    """What became of the run: against the true answer where it is known, else both answers."""
    if trace.status != "complete":
        return UNFINISHED
    if not {"baseline", "macd"} <= set(trace.answers):
        return OTHER
    baseline, macd = (trace.answers[m].text for m in ("baseline", "macd"))
    if about is not None and about.answer:
        return OUTCOMES[bool(is_right(baseline, about.answer)), bool(is_right(macd, about.answer))]
    return AGREE if _read(baseline) == _read(macd) else DIFFER


def _read(text: str) -> str:
    """What an answer says: yes or no where it begins so, else all of it, as `is_right` reads it."""
    return next((word for word in ("yes", "no") if is_right(text, word)), normalized(text))
