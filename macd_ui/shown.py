"""What is shown, what would be run, and the line that states where they differ. Pure."""

from __future__ import annotations

from pathlib import Path

from core.methods import METHODS
from macd_ui.forms import differing
from macd_ui.session import Asked

LONGEST = 80


MOST = 4
"""Differing settings that are named."""


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
