"""Figures of pairs as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from macd_studio.core.pages.blocks import as_markdown
from macd_studio.core.text.words import count
from macd_studio.evals.pairs.read import MASK, PARTNER
from macd_studio.evals.printing.figures import as_cell, change, logits, percent, table

TITLES = {
    PARTNER: "Partner clip (a replacement)",
    MASK: "The removed object masked",
    "macd": "MACD",
    "random-place": "Random places, same area",
}


def markdown(figures: dict[str, Any]) -> str:
    """The whole page."""
    return as_markdown(_blocks(figures))


def _blocks(figures: dict[str, Any]) -> Iterator[str]:
    yield f"# {as_cell(figures['name'])}: {count(figures['pairs'], 'pair')}"
    yield (
        f"{figures['replaced']} of them show something else in the place of what is gone, and are"
        f" no mere removals. {count(figures['nothing_to_mask'], 'pair')} without an object to mask."
    )
    if figures["left_out"]:
        reasons = "; ".join(f"{n}: {why}" for why, n in figures["left_out"].items())
        yield f"Questions that could not be used: {reasons}."
    if figures["failed"]:
        first = figures["failed"][0]
        yield as_cell(f"{count(len(figures['failed']), 'pair')} failed, such as {first['id']}:"
                      f" {first['error']}")  # fmt: skip
    yield "## What a patch itself tells"
    rows = []
    for name, key in (("all pairs", "meter"), ("mere removals", "meter_of_removals")):
        part = figures[key]
        if part["n"]:
            rows.append(
                [
                    name,
                    part["n"],
                    logits(part["mask"]),
                    logits(part["clip"]),
                    percent(part["answers_as_partner"]),
                ]
            )
    yield table(
        ["", "n", "mask over partner, logits", "clip over partner, logits", "answers as partner %"],
        rows,
    )
    yield (
        "Margins of yes over no. 0 for the mask: it does to the answer what the partner does; above"
        " it, the mask itself says yes."
    )
    part = figures["headroom"]
    yield "## What a true removal is worth"
    if part["n"]:
        yield table(
            ["second view", "n", "right %, change"],
            [["–", part["n"], percent(part["baseline"])],
             *([TITLES.get(n, n), part["n"], change(g)] for n, g in part["gains"].items())],
        )  # fmt: skip
    yield f"At α {figures['alpha']:g} and β {figures['beta']:g}; intervals of 95 % over pairs."
