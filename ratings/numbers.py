"""How the figures of a study's report are written."""

from __future__ import annotations

from macd_studio.core.text import numbers

EstimateFields = dict[str, float | None]
"""An estimate of the report: its value, and the low and high end of its interval."""


def with_interval(estimate: EstimateFields, sign: bool = False) -> str:
    """A value with its interval; sign: with + where it is positive."""
    return numbers.with_interval(_ends(estimate), "+.2f" if sign else ".2f", 1)


def share_text(estimate: EstimateFields) -> str:
    """A share with its interval, in percent."""
    return numbers.with_interval(_ends(estimate), ".0%", 1)


def percent(value: float | None) -> str:
    """A share in percent; a dash where there is none."""
    return numbers.number(value, ".0%")


def _ends(estimate: EstimateFields) -> list[float | None]:
    return [estimate[key] for key in ("value", "low", "high")]
