"""The tables and the picture of a report of `evals.studies.headroom`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from macd_studio.evals.printing.figures import change, percent, survives, table, title
from macd_studio.evals.statistics.stats import (
    COULD_DIFFER,
)
from macd_studio.evals.studies.first_token import (
    ORACLE,
    REMOVED,
    TRUTHS,
    VIDEO,
)

REFERENCES = ("mask-all", "random-place", "random-mask", "random-objects", "random-average-4")
"""Methods that choose no objects: a choice is worth what it gains over them."""
CONSTANT, ACCURATE, CEILING = CONSTANTS = "constant", "constant-accurate", "constant-ceiling"
"""Constants for the options: the likeliest ones and the most accurate ones of the choose split, and
the most accurate ones of the very clips they are judged on, which no constant can beat by much."""

EQUAL = ((1.0, 0.1), (3.0, 0.1))
"""α and β at which all methods are compared alike, beside those tuned for each."""


def markdown(report: dict[str, Any]) -> str:
    """Tables: right answers by method and regime, in percent and points with 95 % intervals, and
    what the choices and the oracle gain over references that choose nothing.

    report: as `run` writes it; it also has all gains at EQUAL.
    """
    regimes = {name: part["methods"] for name, part in report["regimes"].items()}
    methods = [
        m
        for m in (VIDEO, *CONSTANTS, *report["methods"])
        if any(m in known for known in regimes.values())
    ]
    gains = []
    for method in methods:
        told = [known.get(method) for known in regimes.values()]
        reads = {f"{one['reads']:.1f}" for one in told if one and "reads" in one}
        gains.append([title(method), " or ".join(sorted(reads)) or "–", *map(_right, told)])
    references = [z for z in REFERENCES if z in report["methods"]]
    paired = [
        [regime, title(m), *(gain_text(known[m]["over"].get(z)) for z in references)]
        for regime, known in regimes.items()
        for m in report["methods"]
        if m in known and m not in (*REFERENCES, REMOVED)
    ]
    families = report["families"]
    names = [f"{r} ({p['balance']}), n = {p['n']}" for r, p in report["regimes"].items()]
    return "\n\n".join((
        table(["method", "prompts read", *names], gains),
        "Right answers in %, then changes in points and α, β. "
        + _family(families["gains"], "changes by methods"),
        table(["regime", "method", *(f"over {title(z).lower()}" for z in references)], paired),
        _family(families["choices"], "choices against references"),
    ))  # fmt: skip


def _right(figures: Mapping[str, Any] | None) -> str:
    """The share of right answers, or its change with α and β."""
    if figures is None:
        return "–"
    if "delta" not in figures:
        return percent(figures["right"])
    pair = "; {:g}, {:g}".format(*figures["contrast"]) if "contrast" in figures else ""
    return gain_text(figures) + pair


def search_table(report: dict[str, Any]) -> str:
    """Each rule of choice against each reference that chooses nothing, with p; see `adjust`."""
    rows = []
    for part in report["regimes"].values():
        for rule in (m for m in report["methods"] if m not in (*REFERENCES, *TRUTHS)):
            figures = part["methods"][rule]
            for other, over in figures["over"].items():
                p, adjusted = (f"{over[z]:.3g}" if z in over else "–" for z in ("p", "holm"))
                rows.append(
                    [title(rule), title(other), gain_text(figures), gain_text(over), p, adjusted]
                )
    heads = ["rule", "reference", "over the baseline", "over the reference", "p", "Holm"]
    return table(heads, rows)


def gain_text(figures: Mapping[str, Any] | None) -> str:
    """A gain in points with its interval, bold where it survives Holm's correction; a dash if None.

    figures: with `delta`, and `holm` where `adjust` has tested it.
    """
    return "–" if figures is None else change(figures["delta"], survives(dict(figures)))


def _family(tests: int, what: str) -> str:
    return (
        f"Bold: significant after Holm's correction over the table's {tests} {what} in which at"
        f" least {COULD_DIFFER} clips differ; neither the constants nor what knows the truth is"
        " tested."
    )


def picture(report: dict[str, Any]) -> str:
    """Gains by method as SVG, the oracle's estimate and the random average's interval marked."""
    from macd_studio.evals.printing.plots import forest

    known = report["methods"]
    average = next((m for m in REFERENCES[::-1] if m in known), "")
    return forest(report, ORACLE if ORACLE in known else "", average)
