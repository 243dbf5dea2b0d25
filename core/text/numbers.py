"""How figures and their confidence intervals read in reports and on pages."""

from __future__ import annotations

import math
from collections.abc import Sequence

DASH = "–"
"""Stands where a figure is not known."""


def number(x: float | None, form: str = ".2f", scale: float = 1) -> str:
    """`scale` times a figure in a format of Python's; a dash where it is None, NaN or infinite.

    A figure below 0 keeps its sign where it rounds to 0, so that an end of an interval tells on
    which side of 0 it lies.

    >>> number(-0.0004, "+.1f", 100), number(-0.0), number(None)
    ('−0.0', '0.00', '–')
    """
    if x is None or not math.isfinite(x):
        return DASH
    return f"{scale * x + 0.0:{form}}".replace("-", "−")


def with_interval(
    ends: Sequence[float | None] | None,
    form: str = ".1f",
    scale: float = 100,
    *,
    strong: bool = False,
    unit: str = "",
) -> str:
    """An estimate with its interval; the estimate alone where it has none, a dash for None.

    ends: estimate, lower and upper end. form, scale: see `number`; the ends have no plus sign.
    strong: the estimate in bold, as Markdown. unit: after the estimate.

    >>> with_interval((-0.051, -0.07, 0.02), "+.1f", strong=True)
    '**−5.1** [−7.0, 2.0]'
    >>> with_interval((0.5, 0.25, 0.75), ".0f", unit=" %"), with_interval((0.5, None, None))
    ('50 % [25, 75]', '50.0')
    """
    if ends is None:
        return DASH
    middle, low, high = (number(x, form, scale) for x in ends)
    if middle == DASH:
        return DASH
    shown = f"**{middle}**{unit}" if strong else f"{middle}{unit}"
    if DASH in (low, high):
        return shown
    return f"{shown} [{low.removeprefix('+')}, {high.removeprefix('+')}]"
