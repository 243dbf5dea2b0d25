"""What the viewer asks of the server: its actions, where they are made, how they are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.options import read_evidence_options

PLACES = {
    "edit": "whatif",
    "undo": "whatif",
    "redo": "whatif",
    "redecode": "tokens",
    "occlusion": "occlusion",
    "controls": "controls",
    "evidence": "evidence",
}
"""Action → the part of the page where it is made, and where its error is shown."""
NO_CHANGE = OptionError("this is not a change that can be made", "Reload the page")


def plain_action(action: Mapping[str, Any]) -> dict[str, Any]:
    """The action with what it needs and nothing else; raises OptionError for what is no number.

    Also for evidence that cannot be asked for; an edit is read where it meets its trace.
    """
    what = str(action["do"])
    if what == "evidence":
        return {"do": what, "evidence": evidence_of(action)}
    if what == "redecode":
        values = {name: _finite(action.get(name)) for name in ("alpha", "beta")}
        return {"do": what, "method": _name(action.get("method", "macd"))} | values
    return {"do": what, "edit": action["edit"]} if what == "edit" else {"do": what}


EVIDENCE = (
    "token", "answer", "against", "kinds", "layers", "patches", "knock_out", "boxes",
    "knock_out_layers", "maps", "lens",
)  # fmt: skip
"""Options of evidence that the page sets; the others stay as they are."""


def evidence_of(action: Mapping[str, Any]) -> dict[str, Any]:
    """The options of evidence in an action. Raises OptionError where they cannot be read."""
    raw = action.get("evidence")
    if not isinstance(raw, Mapping):
        raise NO_CHANGE
    chosen = {name: raw[name] for name in EVIDENCE if name in raw}
    read_evidence_options(chosen)
    return chosen


def _name(value: Any) -> str:
    """An answer's name, of which nothing else is known."""
    if not isinstance(value, str):
        raise NO_CHANGE
    return value


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"{value!r} is not a number", "Move the sliders of α and β")
    return float(value)
