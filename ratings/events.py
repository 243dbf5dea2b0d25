"""What a rater's browser sends, checked wholly before any of it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from macd_studio.core.validation import Number, Text, shown
from macd_studio.ratings.errors import Refused
from macd_studio.ratings.screening import MOST_OPTIONS

Kind = Literal[
    "consent", "screening", "shown", "rate", "prefer", "undo", "skip", "flag", "next", "reason",
    "finish",
]  # fmt: skip
KINDS: tuple[Kind, ...] = get_args(Kind)
WITHOUT_TASK = ("consent", "screening", "finish")
NO_DIFFERENCE, LEFT, RIGHT = 0, 1, 2
"""What a preference can be."""
REASONS = {
    "missed": "missed the object",
    "spilled": "hides more than the object",
    "lost": "misses it at times",
    "wrong": "wrong object",
}
"""Why a mask was rated low, by the word that is stored; a rater may give any of them, or none."""
MAX_LOW = 2
"""The highest rating that reasons can be given for."""
LOW, HIGH = 1, 5
MAX_EVENTS = 50
NOTE_CHARACTERS = 1000
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TASK = re.compile(r"[0-9a-f]{32}")
_TAB = re.compile(r"[0-9a-zA-Z-]{1,40}")
_NOTE = Text(NOTE_CHARACTERS)
_MOMENT = Number(-8.64e15, 8.64e15)
_COUNT = Number(0, 10**12, whole=True)
CONTENT = ("kind", "task", "side", "new", "note")
"""What of an event is the same however often it is sent."""
REMEDY = "Reload the page"
KEYS = {"uuid", "kind", "task", "side", "old", "new", "note", "tab", "count", "time", "elapsed"}


@dataclass(frozen=True)
class Event:
    """One keystroke or click.

    A preference is NO_DIFFERENCE, LEFT or RIGHT, or None where it is taken back. A reason's word is
    its note, and `new` is 1, or None where it is taken back. Of `screening` it is the number of the
    chosen option, from 1. After `finish` nothing changes.
    """

    uuid: str
    """An id that the browser made; the same event sent twice counts once."""
    kind: Kind
    tab: str
    count: int
    """`tab` and `count`: the tab that sent it, and its number among the tab's events."""
    client_time: float
    """Milliseconds since 1970 by the browser's clock, which may be wrong."""
    task: str | None = None
    side: int | None = None
    """0 left, 1 right."""
    old: int | None = None
    new: int | None = None
    """`old` and `new`: ratings before and after, None where there was none."""
    note: str | None = None
    elapsed_ms: float | None = None
    """Milliseconds since the item appeared, by a clock that never jumps."""


def refused_again(event: Event, rater: int, stored: Iterable[Mapping[str, Any]]) -> str:
    """Why an event whose uuid is there already is not committed; empty where it is the same.

    stored: rows of `events` with its uuid.
    """
    own = [row for row in stored if row["rater"] == rater]
    if not own:
        return "this event is somebody else's"
    what = tuple(getattr(event, name) for name in CONTENT)
    if any(what == tuple(row[name] for name in CONTENT) for row in own):
        return ""
    return "another event of yours has this uuid"


def read_event(raw: Any) -> Event:
    """An Event from untrusted plain values; raises Refused."""
    if not isinstance(raw, dict):
        raise Refused(f"an event is {shown(raw)}, not an object", REMEDY)
    unknown = set(raw) - KEYS
    if unknown:
        raise Refused(f"an event has an unknown key {shown(min(map(str, unknown)))}", REMEDY)
    kind = raw.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise Refused(f"there is no event {shown(kind)}", REMEDY)
    has_side = kind in ("rate", "undo", "reason")
    try:
        side = _chosen(raw.get("side"), (0, 1), "side", "Choose 0 or 1") if has_side else None
        old, new = _before_and_after(raw, kind)
        return Event(
            uuid=_match(_UUID, raw.get("uuid"), "uuid"),
            kind=kind,
            tab=_match(_TAB, raw.get("tab"), "tab"),
            count=int(_COUNT.read(raw.get("count"), "count") or 0),
            client_time=float(_MOMENT.read(raw.get("time"), "time") or 0.0),
            task=None if kind in WITHOUT_TASK else _match(_TASK, raw.get("task"), "task"),
            side=side,
            old=old,
            new=new,
            note=_note(raw, kind),
            elapsed_ms=_elapsed(raw.get("elapsed")),
        )
    except ValueError as error:  # what core.validation raises
        raise Refused(str(error).rstrip("."), REMEDY) from None


def _match(pattern: re.Pattern[str], value: Any, name: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise Refused(f"{name} is {shown(value)}", REMEDY)
    return value


def _chosen(value: Any, choices: Sequence[int | None], name: str, remedy: str) -> int | None:
    if value is None and None in choices:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value not in choices:
        raise Refused(f"{name} is {shown(value)}", remedy)
    return value


def _before_and_after(raw: dict[str, Any], kind: str) -> tuple[int | None, int | None]:
    old, new = raw.get("old"), raw.get("new")
    if kind == "reason":
        remedy = "Choose 1, or null to take it back"
        return None, _chosen(new, (1, None), "a reason", remedy)
    if kind == "screening":
        options = range(1, MOST_OPTIONS + 1)
        return None, _chosen(new, options, "an option", f"Choose 1 to {MOST_OPTIONS}")
    if kind == "prefer":
        remedy = f"Choose {LEFT} for left, {RIGHT} for right, {NO_DIFFERENCE} for no difference"
        known = (NO_DIFFERENCE, LEFT, RIGHT, None)
        before = _chosen(old, known, "a preference", remedy)
        return before, _chosen(new, known, "a preference", remedy)
    if kind not in ("rate", "undo"):
        return None, None
    remedy = f"Choose {LOW} to {HIGH}"
    if kind == "rate" and new is None:
        raise Refused("a rating has no value", remedy)
    ratings = (*range(LOW, HIGH + 1), None)
    return _chosen(old, ratings, "old", remedy), _chosen(new, ratings, "new", remedy)


def _note(raw: dict[str, Any], kind: str) -> str | None:
    """A flag's note, or the word of a reason."""
    note = raw.get("note")
    if kind == "reason":
        if not isinstance(note, str) or note not in REASONS:
            remedy = f"Choose one of {', '.join(REASONS)}"
            raise Refused(f"there is no reason {shown(note)}", remedy)
        return note
    return str(_NOTE.read(note, "note")) if kind == "flag" else None


def _elapsed(value: Any) -> float | None:
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e10 else None  # which nan is not
