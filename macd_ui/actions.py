"""What the viewer asks of the server: its actions, where they are made, how they are checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import OptionError

PLACES = {
    "edit": "whatif",
    "undo": "whatif",
    "redo": "whatif",
    "redecode": "tokens",
    "occlusion": "occlusion",
    "controls": "controls",
}
"""Action → the part of the page where it is made, and where its error is shown."""
NO_CHANGE = OptionError("this is not a change that can be made", "Reload the page")


def plain_action(action: Mapping[str, Any]) -> dict[str, Any]:
    """The action with what it needs and nothing else; raises OptionError for what is no number."""
    what = str(action["do"])
    if what == "redecode":
        return {"do": what} | {name: _finite(action.get(name)) for name in ("alpha", "beta")}
    return {"do": what, "edit": action["edit"]} if what == "edit" else {"do": what}


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionError(f"{value!r} is not a number", "Move the sliders of α and β")
    return float(value)
