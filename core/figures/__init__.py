"""Trace → figures by name, drawn by plotly for a screen or by matplotlib for a paper.

A figure is a module of its own name in this package, with `measure(trace, …)`, which takes the
numbers out of a trace, and `plotly(numbers)` and `matplotlib(numbers)`, which draw them; adding the
file is all that registers it. Only the library that is asked for is imported, when it draws.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, get_args

from macd_studio.core.errors import OptionError
from macd_studio.core.figures.style import Backend

if TYPE_CHECKING:
    from macd_studio.core.types import Trace

NO_FIGURES = ("pictures", "style")
"""Modules of this package that hold no figure."""


@cache
def figure_names() -> tuple[str, ...]:
    """Every figure, in alphabetical order."""
    names = (m.name for m in iter_modules(__path__))
    return tuple(sorted(n.replace("_", "-") for n in names if n not in NO_FIGURES))


def draw(trace: Trace, name: str, backend: Backend = "plotly", **which: Any) -> Any:
    """A plotly.graph_objects.Figure, or a matplotlib.figure.Figure.

    which: what of the trace, as the figure's `measure` takes it. Raises OptionError for a name, a
    backend or a choice that there is none of, and for a trace that does not hold what is drawn.
    """
    for kind, value, choices in (
        ("figure", name, figure_names()),
        ("backend", backend, get_args(Backend)),
    ):
        if value not in choices:
            raise OptionError(
                f"there is no {kind} {value!r}", f"Choose one of {', '.join(choices)}"
            )
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    parameters = tuple(signature(module.measure).parameters)[1:]
    for parameter in which:
        if parameter not in parameters:
            raise OptionError(
                f"the figure {name!r} takes no {parameter!r}",
                f"Choose one of {', '.join(parameters)}" if parameters else "Leave it out",
            )
    return getattr(module, backend)(module.measure(trace, **which))
