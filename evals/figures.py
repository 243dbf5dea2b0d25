"""How figures are printed: shares, changes, and the names of methods."""

from __future__ import annotations

import math
from typing import Any

from macd_studio.core.methods import find_method

Report = dict[str, Any]


def percent(interval: list[float]) -> str:
    """A share with its interval: "83.1 [80.2, 85.6]"."""
    return f"{points(interval[0])} [{points(interval[1])}, {points(interval[2])}]"


def change(interval: list[float], strong: bool = False) -> str:
    """A difference in points, bold on request: "**+4.6** [2.1, 7.5]"."""
    d, low, high = interval
    if not math.isfinite(d):
        return "–"
    shown = f"{100 * d:+.1f}".replace("-", "−")
    return f"{f'**{shown}**' if strong else shown} [{points(low)}, {points(high)}]"


SIGNIFICANT = 0.05


def survives(figures: dict[str, Any]) -> bool:
    """Whether a comparison is significant after Holm's correction over its table."""
    return bool(figures.get("holm", 1.0) < SIGNIFICANT)


def title(method: str) -> str:
    """How tables name a method."""
    return TITLES.get(method) or find_method(method).title


TITLES = {"yes-bias": "Tuned constant"}


def cell(figures: dict[str, Any]) -> str:
    """The baseline in percent, another method as its change; a dash where it does not apply."""
    if not figures.get("n", 1):
        return "–"
    if "delta" in figures:
        return change(figures["delta"], survives(figures))
    return percent(figures["right"])


def points(x: float) -> str:
    """A share or a difference in hundredths, one decimal; a dash where it is not known."""
    return f"{100 * x:.1f}".replace("-", "−") if math.isfinite(x) else "–"


def area(interval: list[float]) -> str:
    """An AUC with its interval: "0.68 [0.64, 0.71]"."""
    a, low, high = interval
    return f"{a:.2f} [{low:.2f}, {high:.2f}]"


def number(x: float) -> str:
    """Three decimals; a dash where it is not known."""
    return f"{x:.3f}".replace("-", "−") if math.isfinite(x) else "–"
