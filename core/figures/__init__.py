"""Trace → figures by name, drawn by plotly for a screen or by matplotlib for a paper.

A figure is a module of this package with `measure(trace, …)`, which takes the numbers out of a
trace, and `plotly(numbers)` and `matplotlib(numbers)`, which draw them; its name stands in
`FIGURES`. Only the library that is asked for is imported, when it draws.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, get_args

from macd_studio.core.errors import OptionError
from macd_studio.core.figures.style import Backend
from macd_studio.core.validation import check_named

if TYPE_CHECKING:
    from macd_studio.core.types import Trace

FIGURES = ("decision", "evidence", "logits", "overview", "strengths")
"""Every figure, by the name of its module."""


def draw(trace: Trace, name: str, backend: Backend = "plotly", **which: Any) -> Any:
    """A plotly.graph_objects.Figure, or a matplotlib.figure.Figure.

    which: what of the trace, as the figure's `measure` takes it. Raises OptionError for a name, a
    backend or a choice that there is none of, and for a trace that does not hold what is drawn.
    """
    check_named(name, FIGURES, "figure")
    check_named(backend, get_args(Backend), "backend")
    module = import_module(f"{__name__}.{name}")
    parameters = tuple(signature(module.measure).parameters)[1:]
    for parameter in which:
        if parameter not in parameters:
            raise OptionError(
                f"the figure {name!r} takes no {parameter!r}",
                f"Choose one of {', '.join(parameters)}" if parameters else "Leave it out",
            )
    return getattr(module, backend)(module.measure(trace, **which))
