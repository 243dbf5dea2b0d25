"""How reports are printed: figures with their intervals, names of methods, Markdown tables.

A report is a sequence of blocks, each a heading, a paragraph or a table; `document` joins them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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


def interval_text(ends: Sequence[float] | None, form: str = ".1f", scale: float = 100) -> str:
    """An estimate with its interval, each times `scale`; the estimate alone has the form's sign.

    >>> interval_text((-0.051, -0.07, 0.02), "+.1f")
    '−5.1 [−7.0, 2.0]'
    """
    if ends is None:
        return "–"
    middle, low, high = (scale * x for x in ends)
    plain = form.removeprefix("+")
    return f"{middle:{form}} [{low:{plain}}, {high:{plain}}]".replace("-", "−")


def as_cell(text: str) -> str:
    """A name as a cell of a Markdown table holds it.

    >>> as_cell("a|b *c*")
    'a/b ∗c∗'
    """
    return " ".join(text.replace("|", "/").replace("*", "∗").split())


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table as one block.

    >>> table(["a", "b"], [[1, ""]]).splitlines()
    ['| a | b |', '|---|---|', '| 1 | |']
    """
    lines = ("".join(f" {z} |" if z != "" else " |" for z in row) for row in (heads, *rows))
    first, *rest = (f"|{line}" for line in lines)
    return "\n".join([first, "|" + "---|" * len(heads), *rest])


def document(blocks: Iterable[str]) -> str:
    """Blocks with an empty line between them, as the text of a file."""
    return "\n\n".join(blocks) + "\n"
