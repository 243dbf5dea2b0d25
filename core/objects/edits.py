"""A change by hand, read from a flag or from untrusted values, whatever trace it is for.

Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.objects.registry import COLOURS, listed
from macd_studio.core.records import EDIT_FIELDS, Edit
from macd_studio.core.validation import Flag, Number, shown

MAX_POINTS, MAX_EDITS, MAX_CLICKS = 400, 200, 8
LABEL_CHARACTERS = 60
LONGEST_NAME = 300
NEW = ("add", "point")
"""Kinds of changes that make an object."""
SMALLEST_SIDE = 0.01
"""Of a box that is drawn, in shares of the frame."""


MAX_ID = 10**9
_LEVEL, _RADIUS = Number(0.0, 1.0), Number(0.005, 0.5)
_NAMED, _COUNTED = Number(0, MAX_ID, whole=True), Number(0, 4096, whole=True)


def validated_edit(raw: Any) -> Edit:
    """An Edit from untrusted plain values, whatever trace it is for; raises OptionError."""
    kind = kind_of(raw)
    fields: dict[str, Any] = {}
    if kind not in NEW:
        fields["track"] = _NAMED.read(raw.get("track"), "track")
    if kind in ("level", "frames"):
        fields["level"] = _LEVEL.read(raw.get("level"), "level")
    elif kind == "merge":
        fields["other"] = _NAMED.read(raw.get("other"), "other")
        if fields["other"] == fields["track"]:
            raise OptionError("an object cannot be merged with itself", "Choose two objects")
    elif kind == "label":
        fields["label"] = _label(raw.get("label"))
    elif kind == "add":
        box = fields["box"] = _shares(raw.get("box"), 4, 0, 1)
        if min(box[2] - box[0], box[3] - box[1]) < SMALLEST_SIDE:
            raise OptionError("the new object has no size", "Draw a larger box")
        fields["label"] = _label(raw.get("label") or "drawn")
    elif kind == "brush":
        fields |= _stroke(raw)
    elif kind == "point":
        fields |= _clicks(raw)
    return Edit(kind, **fields)


def _stroke(raw: Mapping[str, Any]) -> dict[str, Any]:
    points = raw.get("points")
    if not isinstance(points, Sequence) or not 1 <= len(points) <= MAX_POINTS:
        raise OptionError("the stroke has no points, or too many", f"Draw 1 to {MAX_POINTS} points")
    erase = raw.get("erase")
    return {
        "frame": _COUNTED.read(raw.get("frame"), "frame"),
        "points": tuple(_shares(p, 2, -1, 2) for p in points),
        "radius": _RADIUS.read(raw.get("radius"), "radius"),
        "erase": erase is not None and Flag().read(erase, "erase"),
    }


def _clicks(raw: Mapping[str, Any]) -> dict[str, Any]:
    points, name = raw.get("points"), raw.get("segmenter") or COLOURS
    if not isinstance(points, Sequence) or not 1 <= len(points) <= MAX_CLICKS:
        raise OptionError("there is no point, or too many", f"Give 1 to {MAX_CLICKS} points")
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not name.isprintable():
        raise OptionError("this is not the name of a segmenter", f"Choose {listed(True)}")
    try:
        places = tuple(_shares(p, 2, 0, 1) for p in points)
    except OptionError:
        raise OptionError(
            "the point lies outside of the picture", "Give x and y as shares of it, from 0 to 1"
        ) from None
    return {
        "frame": _COUNTED.read(raw.get("frame"), "frame"),
        "points": places,
        "label": _label(raw.get("label") or "object"),
        "segmenter": name,
    }


def kind_of(raw: Any) -> str:
    """The kind of a change; raises OptionError for one that cannot be made."""
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    if not isinstance(kind, str) or kind not in EDIT_FIELDS:
        raise OptionError(
            "this is not a change that can be made", f"Choose one of {', '.join(EDIT_FIELDS)}"
        )
    return kind


def _label(value: Any) -> str:
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > LABEL_CHARACTERS
        or not value.isprintable()
    ):
        raise OptionError(
            "this is not a name for an object", f"Give 1 to {LABEL_CHARACTERS} printable characters"
        )
    return value.strip()


def _shares(value: Any, n: int, low: float, high: float) -> tuple[float, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != n:
        raise OptionError(
            f"a place in the frame is {n} numbers", "Give each as a share of its width or height"
        )
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in value)
    if not numbers or any(not low <= x <= high for x in value):  # NaN is not
        raise OptionError("a place lies outside the frame", "Draw inside the frame")
    return tuple(float(x) for x in value)


FORMS = {
    "--level": ("ID=LEVEL", "how far an object is hidden, 0 to 1; ID as `show` prints it", "2=0.5"),
    "--frames": ("GROUP=LEVEL", "the same for a frame group, counted from 0 as in `groups`", "0=1"),
    "--drop": ("ID", "takes an object out", "2"),
    "--point": (
        "FRAME,X,Y[,NAME]",
        "adds the object at a point, followed through the clip: frames are counted from 0, X and Y"
        " are shares of the picture",
        "3,0.5,0.4,kite",
    ),
    "--edit": (
        "JSON",
        "one change as the trace stores it: brush, add, merge, label, point",
        '\'{"kind": "label", "track": 1, "label": "dog"}\'',
    ),
}
"""How each change is written, what it does, and an example."""


def read_edit_flag(flag: str, text: str) -> Any:
    """Plain values for `core.whatif.edits.read_edit`. Raises OptionError for malformed text.

    >>> read_edit_flag("--level", "2=0.5")
    {'kind': 'level', 'track': 2, 'level': 0.5}
    """
    try:
        if flag == "--edit":
            return json.loads(text)
        if flag == "--drop":
            return {"kind": "drop", "track": int(text)}
        if flag == "--point":
            place, (x, y, *label) = text.partition(",")[0], text.split(",", 3)[1:]
            point = {"kind": "point", "frame": int(place), "points": [[float(x), float(y)]]}
            return point | ({"label": label[0].strip()} if label else {})
        name, _, level = text.partition("=")
        return {"kind": flag.lstrip("-"), "track": int(name), "level": float(level)}
    except (ValueError, RecursionError):
        raise OptionError(
            f"{flag} {shown(text)} is not of the form {FORMS[flag][0]}",
            f"Write, say, {flag} {FORMS[flag][2]}",
        ) from None


def edit_words(edit: Edit) -> tuple[str, str]:
    """The flag that makes a change, and its text.

    >>> edit_words(Edit("frames", track=0, level=1.0))
    ('--frames', '0=1.0')
    """
    if edit.kind in ("level", "frames"):
        return f"--{edit.kind}", f"{edit.track}={edit.level}"
    if edit.kind == "drop":
        return "--drop", str(edit.track)
    return "--edit", json.dumps(edit.as_dict(), ensure_ascii=False)
