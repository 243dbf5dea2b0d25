"""What is shown, what would be run, and the line that states where they differ. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from macd_studio.core.methods import METHODS
from macd_studio.core.options import RunOptions
from macd_studio.core.types import Trace
from macd_studio.macd_ui.forms import differing

LONGEST = 80


MOST = 4
"""Differing settings that are named."""
ALWAYS = ("baseline", "macd")
"""Methods that every run has."""


@dataclass(frozen=True)
class Asked:
    """A clip and a question, as shown or as they would be run. sha256: of the clip's file.

    options, methods, backbone, detector: how; None where that is not compared. methods: beside
    baseline and MACD. edited: whether it was changed by hand.
    """

    clip: str
    sha256: str
    question: str
    options: RunOptions | None = None
    methods: tuple[str, ...] | None = None
    backbone: str | None = None
    detector: str | None = None
    edited: bool = False

    @property
    def masks_only(self) -> bool:
        """Whether no answer is asked for."""
        return self.options is not None and self.options.masks_only

    def same_as(self, other: Asked) -> bool:
        """Whether clip and question are the same, whatever the file is called."""
        return (self.sha256, self.question.strip()) == (other.sha256, other.question.strip())


def asked_of(trace: Trace) -> Asked:
    """What a trace shows."""
    complete = trace.status == "complete" and bool(trace.answers)
    return Asked(
        trace.clip.name,
        trace.clip.sha256,
        trace.question,
        trace.options,
        tuple(m for m in trace.answers if m in METHODS and m not in ALWAYS) if complete else None,
        trace.backbone.name,
        trace.detector.name,
        bool(trace.edits),
    )


def asked_with(asked: Asked, models: tuple[str, str] | None) -> Asked:
    """The same with backbone and detector as they were asked for, where that is known."""
    return asked if models is None else replace(asked, backbone=models[0], detector=models[1])


def difference(shown: Asked | None, requested: Asked | None) -> str:
    """A sentence for the page where a run would compute something else than what is shown.

    requested: None where the form holds no clip. Empty where both agree or nothing is shown.
    """
    if shown is None:
        return ""
    if requested is None:
        return f"Shown: {_named(shown)}. To run, choose an example or a clip."
    if not shown.same_as(requested):
        return f"Shown: {_named(shown)}. Run would analyse {_named(requested)}."
    found = other_settings(shown, requested)
    more = f", and {len(found) - MOST} more" if len(found) > MOST else ""
    parts = [f"use {', '.join(found[:MOST])}{more}"] if found else []
    if shown.edited:
        parts.append("leave out the changes made by hand")
    return f"The form differs from what is shown: Run would {' and '.join(parts)}." if parts else ""


def other_settings(shown: Asked, requested: Asked) -> list[str]:
    """Models, methods and options of a run that are not those of what is shown, each in words."""
    found = []
    for kind in ("backbone", "detector"):
        before, after = getattr(shown, kind), getattr(requested, kind)
        # a trace knows a file by its name alone
        if None not in (before, after) and Path(before).name != Path(after).name:
            found.append(f"{kind} {after} instead of {before}")
    if shown.methods is not None and requested.methods is not None:
        before, after = set(shown.methods), set(requested.methods)
        found += [f"also {METHODS[name].title}" for name in requested.methods if name not in before]
        found += [f"not {METHODS[name].title}" for name in shown.methods if name not in after]
    if shown.options is not None and requested.options is not None:
        found += differing(shown.options, requested.options)
    return found


def _named(asked: Asked) -> str:
    question = " ".join(asked.question.split())
    if len(question) > LONGEST:
        question = question[: LONGEST - 1] + "…"
    return f"{asked.clip} · {f'“{question}”' if question else 'no question'}"
