"""Changes by hand as flags of `python -m core edit`: read from them, and written as them.

Reads plain values; `core.whatif.edits` checks them against a trace. Imports no torch.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.types import Edit
from macd_studio.core.validation import shown

FORMS = {
    "--level": ("ID=LEVEL", "how far an object is hidden, 0 to 1; ID as `show` prints it"),
    "--frames": ("GROUP=LEVEL", "the same for a frame group, counted from 0 as in `groups`"),
    "--drop": ("ID", "takes an object out"),
    "--edit": ("JSON", "one change as the trace stores it: brush, add, merge, label"),
}
"""How each change is written, and what it does."""

_EXAMPLES = {
    "--level": "2=0.5",
    "--frames": "0=1",
    "--drop": "2",
    "--edit": '\'{"kind": "label", "track": 1, "label": "dog"}\'',
}


def add_edit_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags; the parsed `edits` are pairs of flag and text in the order they came in."""
    for flag, (form, text) in FORMS.items():
        parser.add_argument(
            flag,
            dest="edits",
            action="append",
            type=partial(_pair, flag),
            metavar=form,
            default=[],
            help=text,
        )


def _pair(flag: str, text: str) -> tuple[str, str]:
    return flag, text


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
        name, _, level = text.partition("=")
        return {"kind": flag.lstrip("-"), "track": int(name), "level": float(level)}
    except (ValueError, RecursionError):
        raise OptionError(
            f"{flag} {shown(text)} is not of the form {FORMS[flag][0]}",
            f"Write, say, {flag} {_EXAMPLES[flag]}",
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
