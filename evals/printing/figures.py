"""How reports are printed: figures with their intervals, names of methods, Markdown and HTML.

A report is a sequence of blocks (`core.pages.blocks`): tables, and texts in our own Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from macd_studio.core.methods import find_method, in_8_bits
from macd_studio.core.pages.blocks import Link, Marked, Table, as_html, no_link
from macd_studio.core.pages.frame import document
from macd_studio.core.text.numbers import number, with_interval
from macd_studio.evals.running.contrasts import CONSTANT

Report = dict[str, Any]
Ends = Sequence[float] | None
"""An estimate with the lower and upper end of its interval; None where there is none."""


def percent(interval: Ends) -> str:
    """A share with its interval: "83.1 [80.2, 85.6]"."""
    return with_interval(interval)


def change(interval: Ends, strong: bool = False) -> str:
    """A difference in points, bold on request: "**+4.6** [2.1, 7.5]"."""
    return with_interval(interval, "+.1f", strong=strong)


SIGNIFICANT = 0.05


def survives(figures: dict[str, Any]) -> bool:
    """Whether a comparison is significant after Holm's correction over its table."""
    return bool(figures.get("holm", 1.0) < SIGNIFICANT)


def title(method: str, report: Report | None = None) -> str:
    """How tables name a method. report: tells where a server clamped what it was shown."""
    return TITLES.get(method) or own_title(method, report)


def own_title(method: str, report: Report | None = None) -> str:
    """A method as tables name it, by its own title."""
    return in_8_bits(find_method(method).title, (report or {}).get("clamped", {}).get(method))


TITLES = {
    CONSTANT: "Tuned constant",
    "constant": "Constant for each option, the likeliest",
    "constant-accurate": "Constant for each option, the most accurate",
    "constant-ceiling": "Constant fitted to the very clips it is judged on",
    "random-mask": "Random places, half a size away",
    "oracle": "Oracle: the asked object masked",
    "removed": "Drawn without the asked object",
}


def cell(figures: dict[str, Any]) -> str:
    """The baseline in percent, another method as its change; a dash where it does not apply."""
    if not figures.get("n", 1):
        return "–"
    if "delta" in figures:
        return change(figures["delta"], survives(figures))
    return percent(figures["right"])


def logits(interval: Ends) -> str:
    """A difference of logits with its interval: "+0.08 [0.03, 0.14]"."""
    return with_interval(interval, "+.2f", 1)


def points(x: float) -> str:
    """A share or a difference in hundredths, one decimal; a dash where it is not known."""
    return number(x, ".1f", 100)


def area(interval: Ends) -> str:
    """An AUC with its interval: "0.68 [0.64, 0.71]"."""
    return with_interval(interval, ".2f", 1)


def as_cell(text: str) -> str:
    """A name as a cell of a Markdown table holds it.

    >>> as_cell("a|b *c*")
    'a/b ∗c∗'
    """
    return " ".join(text.replace("|", "/").replace("*", "∗").split())


def table(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> Table:
    """A table of cells in our own Markdown; names from outside come through `as_cell`.

    >>> table(["a", "b"], [[1, ""]]).splitlines()
    ['| a | b |', '|---|---|', '| 1 | |']
    """
    first, *rest = ([Marked(cell) for cell in row] for row in (heads, *rows))
    return Table(first, rest)


def open_row(name: str, parts: Sequence[Mapping[str, float]], reads: str = "–") -> list[str]:
    """A method's row for `open_section`; parts: `evals.statistics.table.open_shares` of each
    group, with n."""
    n = sum(part["n"] for part in parts)
    shares = [sum(p[key] * p["n"] for p in parts) / n for key in ("questions", "tokens")]
    lazy = sum(p["lazy_reads"] * p["n"] for p in parts) / n
    return [name, *(points(share) for share in shares), reads, f"{lazy:.2f}"]


def open_section(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """What a contrast could change. rows: from `open_row`; nothing where there are none."""
    if not rows:
        return
    yield "## What a contrast could change"
    yield table(["method", "questions %", "tokens %", "reads", "reads, lazy"], rows)
    yield (
        "Where one token alone passes the plausibility cut, it is chosen whatever the second view"
        " says. Questions: those with at least one token that a contrast could change. Reads, lazy:"
        " the mean cost in prompts read where second views are computed for those questions alone"
        " (`--lazy`), with the same answers."
    )


def certified_section(methods: Mapping[str, Sequence[Mapping[str, int]]]) -> Iterator[str]:
    """How much of a server's answers its rounding cannot change; nothing where none was asked.

    methods: a method's title → `evals.statistics.metrics.certified_tokens` of each group.
    """
    rows = []
    for name, parts in methods.items():
        n, sure = (sum(part[key] for part in parts) for key in ("tokens", "certified"))
        if n:
            rows.append([name, str(n), points(sure / n)])
    if not rows:
        return
    yield "## Certified tokens"
    yield table(["method", "tokens", "certified %"], rows)
    yield (
        "A server told the log-probabilities. A token is certified where the same one is chosen"
        " for every error of them within the stated bound (docs/remote.md); others may differ from"
        " what exact numbers give."
    )


def clamped_section(report: Report) -> Iterator[str]:
    """What a server did not read of second views that lie outside RGB; nothing where none does."""
    if shares := report.get("clamped"):
        yield "## Values outside RGB"
        rows = [[own_title(m, report), points(share)] for m, share in shares.items()]
        yield table(["method", "clamped %"], rows)
        yield (
            "The server took frames in 8 bits, so that values below black and above white were"
            " clamped. These methods are not those of the same name without “8 bit”, which read"
            " the noise itself (docs/remote.md)."
        )


def page(
    title: str,
    blocks: Iterable[str],
    drawn: Sequence[str] = (),
    link: Link = no_link,
    above: Markup | None = None,
) -> str:
    """A report as one HTML file without a script. drawn: SVG of its pictures, see `as_html`."""
    body = as_html(blocks, link, drawn)
    return document(title, body, "70rem", "th, td { white-space: nowrap; }\n", above)
