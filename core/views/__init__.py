"""Second views by name: what the model is shown instead of the video.

A view is a function `build(context) -> SecondView` in a module of its own name in this package
(`no_video.py` holds "no-video"); adding the file is all that registers it. Importing this package
imports no torch: a view's module is loaded when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from macd_studio.core.errors import OptionError

if TYPE_CHECKING:
    from macd_studio.core.views.base import SecondView
    from macd_studio.core.views.context import MethodContext

NO_VIEWS = ("base", "context", "masked", "noised", "records")
"""Modules of this package that hold no view; nor does one whose name begins with "_"."""

WITHOUT_OBJECTS = frozenset(
    ("blank", "no-video", "noise-frame", "noise-global", "prompt-bias", "sid", "tcd", "vcd",
     "video")
)  # fmt: skip
"""Views that are the same whatever objects were found; a view that is not named needs them."""


@cache
def view_names() -> tuple[str, ...]:
    """Every view, in alphabetical order."""
    modules = (m.name for m in iter_modules(__path__))
    return tuple(sorted(n.replace("_", "-") for n in modules if n not in NO_VIEWS and n[0] != "_"))


def find_view(name: str) -> Callable[[MethodContext], SecondView]:
    """The function that builds the view; its docstring is shown as the view's source.

    Raises OptionError where there is none of that name, and TypeError for a module without one.
    """
    if name not in view_names():
        raise OptionError(f"there is no view {name!r}", f"Choose one of {', '.join(view_names())}")
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    build: Callable[[MethodContext], SecondView] | None = getattr(module, "build", None)
    if build is None or not build.__doc__:
        raise TypeError(f"{module.__name__} must define build(context) with a docstring")
    return build
