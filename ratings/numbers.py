"""How figures are written in a report."""

from __future__ import annotations

DASH = "–"


def number(value: float | None, digits: int = 2) -> str:
    """A number with so many digits; a dash where there is none."""
    if value is None:
        return DASH
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("-", "−")


def signed(value: float, digits: int) -> str:
    """A number with its sign."""
    return f"{value:+.{digits}f}".replace("-", "−")


def percent(value: float | None) -> str:
    """A share in percent; a dash where there is none."""
    return DASH if value is None else f"{value:.0%}"


def with_interval(estimate: dict[str, float | None], sign: bool = False) -> str:
    """A value with its interval; sign: with + where it is positive."""
    if estimate["value"] is None:
        return DASH
    value = signed(estimate["value"], 2) if sign else number(estimate["value"])
    if estimate["low"] is None or estimate["high"] is None:
        return value
    return f"{value} [{number(estimate['low'])}, {number(estimate['high'])}]"


def share_text(estimate: dict[str, float | None]) -> str:
    """A share with its interval, in percent."""
    if estimate["value"] is None:
        return DASH
    if estimate["low"] is None or estimate["high"] is None:
        return f"{estimate['value']:.0%}"
    return f"{estimate['value']:.0%} [{estimate['low']:.0%}, {estimate['high']:.0%}]"
