"""What a run lacks: answers that could not be computed, and clips without objects to mask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from macd_studio.core.methods import find_method
from macd_studio.core.text.words import count

if TYPE_CHECKING:
    from macd_studio.evals.running.rows import Row  # it needs torch, and a report is shown without


Report = dict[str, Any]
MOST_REASONS = 3
EXIT = 1
"""What a command exits with whose report is written but lacks answers."""


def count_failures(rows: Iterable[Row]) -> Report:
    """failed: answers with an error, of `asked`; reasons: the commonest of them, by message."""
    errors = [row.error for row in rows]
    reasons = Counter(e for e in errors if e)
    return {
        "failed": sum(reasons.values()),
        "asked": len(errors),
        "reasons": dict(reasons.most_common(MOST_REASONS)),
    }


def failures_line(failures: Report | None) -> str:
    """The counts in a sentence; empty where no answer failed, and for reports without the counts.

    >>> failures_line({"failed": 2, "asked": 9, "reasons": {"no file.": 2}})
    '2 of 9 answers failed and count as wrong: no file (2).'
    """
    if not failures or not failures["failed"]:
        return ""
    reasons = "; ".join(f"{why.rstrip('.')} ({n})" for why, n in failures["reasons"].items())
    of = f"{failures['failed']} of {count(failures['asked'], 'answer')}"
    return f"{of} failed and count as wrong: {reasons}."


def count_objects(rows: Iterable[Row]) -> Report:
    """Questions whose objects were looked for, and those of them whose clip had none.

    Rows of earlier versions, which did not say, count as not looked for.
    """
    found: dict[str, int] = {}
    for row in rows:
        if row.objects is not None and row.objects >= 0:
            found[row.item] = row.objects
    return {"looked": len(found), "none": sum(not n for n in found.values())}


def objects_note(objects: Report, methods: Iterable[str]) -> str:
    """What the count means for the methods that mask objects; empty where each clip had some."""
    titles = [m.title for m in map(find_method, methods) if m.needs_objects]
    if not objects["none"] or not titles:
        return ""
    return (
        f"No objects were found for {objects['none']} of {count(objects['looked'], 'question')}:"
        f" {', '.join(titles)} had no object to mask there, at most the frame mask."
    )
