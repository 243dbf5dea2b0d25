"""In how many questions a method could mask nothing, because the clip had no objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from macd_studio.core.methods import find_method
from macd_studio.core.words import count

if TYPE_CHECKING:
    from macd_studio.evals.rows import Row  # it needs torch, and a report is shown without

Report = dict[str, Any]


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
