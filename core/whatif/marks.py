"""Other choices of objects beside MACD's, where a trace tells them: points of its choice map.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence

from macd_studio.core.measurements import Enough
from macd_studio.core.objects.truth import normalized
from macd_studio.core.types import Trace

MARKS = ("measured", "enough", "asked")
"""measured: the objects with at least half of the largest measured effect, which `macd-measured`
masks fully. enough: the smallest set of objects whose removal changes the baseline's answer.
asked: the objects that the question names, else those that are the right answer."""


def marks_of(trace: Trace) -> dict[str, tuple[int, ...]]:
    """Name of MARKS → ids of the objects, of what is known and lies on the trace's choice map."""
    found = trace.choice_map
    if found is None:
        return {}
    chosen = {
        "measured": found.measured,
        "enough": _removed(trace.enough, len(trace.groups)),
        "asked": asked_objects(trace),
    }
    return {n: ids for n, ids in chosen.items() if ids and set(ids) <= set(found.objects)}


def asked_objects(trace: Trace) -> tuple[int, ...]:
    """Ids of the objects whose name the question holds; else of those that the truth names.

    None for a question about what is not there, or where nobody knows the truth.
    """
    for text in (trace.question, trace.truth):
        words = f" {normalized(text)} "
        named = [t.id for t in trace.tracks if f" {normalized(t.label)} " in words]
        if named:
            return tuple(named)
    return ()


def _removed(enough: Sequence[Enough], groups: int) -> tuple[int, ...]:
    """Ids of the smallest set, where it holds whole objects for the whole clip and nothing else."""
    for one in enough:
        if one.remove is None or not one.remove.pieces:
            continue
        pieces = [one.pieces[n] for n in one.remove.pieces]
        whole = all(p.groups == (0, groups - 1) for p in pieces)
        ids = tuple(p.track for p in pieces if p.track is not None)
        if whole and len(ids) == len(pieces):
            return ids
    return ()
