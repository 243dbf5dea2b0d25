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

from core.errors import OptionError

if TYPE_CHECKING:
    from core.views.base import SecondView
    from core.views.context import MethodContext

NO_VIEWS = ("base", "context", "masked", "noised", "records")
"""Modules of this package that hold no view."""


@cache
def view_names() -> tuple[str, ...]:
    """Every view, in alphabetical order."""
    modules = (m.name for m in iter_modules(__path__))
    return tuple(sorted(n.replace("_", "-") for n in modules if n not in NO_VIEWS))


def find_view(name: str) -> Callable[[MethodContext], SecondView]:
    """The function that builds the view. Raises OptionError where there is none of that name."""
    if name not in view_names():
        raise OptionError(f"there is no view {name!r}", f"Choose one of {', '.join(view_names())}")
    build: Callable[[MethodContext], SecondView] = import_module(
        f"{__name__}.{name.replace('-', '_')}"
    ).build
    return build
