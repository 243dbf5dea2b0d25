"""The report's section on what the other arms share with the first one's masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from macd_studio.core.words import count
from macd_studio.ratings.blocks import Block, with_interval


def control_blocks(report: dict[str, Any]) -> list[Block]:
    """Overlap of every item, and the difference by thirds of it."""
    first = report["study"]["arms"][0]
    out = []
    for other, c in report["controls"].items():
        shares = [row["overlap"] for row in c["items"]]
        what = f" ({c['what']})" if c["what"] else ""
        text = (
            f"{other}{what} also hides {np.median(shares):.0%} of what {first} hides, at the median"
            f" of {count(len(shares), 'item')}; {min(shares):.0%} to {max(shares):.0%}. Where two"
            " masks share much, their ratings differ less."
        )
        out.append(Block("p", text))
        if c["thirds"]:
            head = ("overlap", "items", "pairs", f"{first} less {other}")
            body = (
                (f"{t['low']:.0%} to {t['high']:.0%}", str(t["items"]), str(t["pairs"]),
                 with_interval(t["difference"], sign=True))
                for t in c["thirds"]
            )  # fmt: skip
            out.append(Block("table", rows=(head, *body)))
    out.append(Block("table", rows=_items(report["controls"], first)))
    return out


def _items(controls: Mapping[str, Any], first: str) -> tuple[tuple[str, ...], ...]:
    """A row for every item: what the first arm hides of it, and what each other one shares."""
    found: dict[int, dict[str, Any]] = {}
    for other, c in controls.items():
        for row in c["items"]:
            found.setdefault(row["item"], dict(row))[other] = row["overlap"]
    head = ("item", "clip", f"{first} hides", *(f"{other} shares" for other in controls))
    body = (
        (str(item), row["clip"], f"{row['hidden']:.1%}",
         *(f"{row[other]:.0%}" if other in row else "–" for other in controls))
        for item, row in sorted(found.items())
    )  # fmt: skip
    return (head, *body)


def left_out_line(sizes: Mapping[str, Sequence[float]]) -> str:
    """How much MACD hides in items that were left out, by the reason; begins with a space."""
    parts = [
        f" {count(len(z), 'item')} left out ({reason}): MACD hides {np.median(z):.1%} of the pixels"
        f" at the median, {min(z):.1%} to {max(z):.1%}."
        for reason, z in sizes.items()
    ]
    return "".join(parts)
