"""The report's section on what the other arms share with the first one's masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from macd_studio.core.pages.blocks import Paragraph, Table
from macd_studio.core.text.words import count
from macd_studio.ratings.inference import NEARLY_ALL, RANGES
from macd_studio.ratings.numbers import share_text, with_interval
from macd_studio.ratings.plan import PAIRS, RATINGS


def outcome_name(report: dict[str, Any], other: str) -> str:
    """What the primary outcome against another arm is called."""
    first = report["study"]["arms"][0]
    if report["study"].get("scale") == PAIRS:
        return f"{first} preferred to {other}"
    return f"{first} less {other}, paired"


def outcome_text(report: dict[str, Any], estimate: dict[str, float | None]) -> str:
    """A value of the primary outcome with its interval: points, or a share."""
    if report["study"].get("scale") == PAIRS:
        return share_text(estimate)
    return with_interval(estimate, sign=True)


def too_wide(report: dict[str, Any], estimates: Iterable[dict[str, Any]]) -> list[str]:
    """A sentence where an interval covers nearly all that is possible; else nothing."""
    least, most = RANGES[report["study"].get("scale", RATINGS)]
    widths = [e["high"] - e["low"] for e in estimates if None not in (e["low"], e["high"])]
    if max(widths, default=0.0) < NEARLY_ALL * (most - least):
        return []
    possible = "0% to 100%" if (least, most) == (0, 1) else f"−{most:g} to +{most:g}"
    return [
        Paragraph(
            "So few raters or pairs bound nothing where an interval covers all that is possible,"
            f" {possible}, or nearly all of it."
        )
    ]


def preference_blocks(report: dict[str, Any]) -> list[str]:
    """How often each arm was preferred, and with three arms or more the Bradley-Terry scale."""
    first, p = report["study"]["arms"][0], report["preferences"]
    head = ("pair", f"{first} preferred", "no difference", "the other preferred")
    body = (
        (f"{first}, {other}", str(c["first"]), str(c["same"]), str(c["other"]))
        for other, c in p["counts"].items()
    )
    cannot = max((c["cannot"] for c in p["counts"].values()), default=0)
    text = (
        f"{count(cannot, 'screen')} could not be judged. Shares count no difference as half; their"
        " 95 % intervals are over raters and clips (docs/rating.md)."
    )
    out: list[str] = [Table(head, body), Paragraph(text)]
    if p["scale"]:
        title = ("mask", f"log odds of being preferred to {first} (Bradley-Terry)")
        scale = ((arm, with_interval(e)) for arm, e in p["scale"].items())
        out.append(Table(title, scale))
    return out


def control_blocks(report: dict[str, Any]) -> list[str]:
    """Overlap of every item, and the difference by thirds of it."""
    first = report["study"]["arms"][0]
    out: list[str] = []
    for other, c in report["controls"].items():
        shares = [row["overlap"] for row in c["items"]]
        what = f" ({c['what']})" if c["what"] else ""
        text = (
            f"{other}{what} also hides {np.median(shares):.0%} of what {first} hides, at the median"
            f" of {count(len(shares), 'item')}; {min(shares):.0%} to {max(shares):.0%}. Where two"
            " masks share much, their ratings differ less."
        )
        out.append(Paragraph(text))
        if c["thirds"]:
            head = ("overlap", "items", "pairs", outcome_name(report, other))
            body = (
                (f"{t['low']:.0%} to {t['high']:.0%}", str(t["items"]), str(t["pairs"]),
                 outcome_text(report, t["difference"]))
                for t in c["thirds"]
            )  # fmt: skip
            out.append(Table(head, body))
            out += too_wide(report, (t["difference"] for t in c["thirds"]))
    out.append(_items(report["controls"], first))
    return out


def _items(controls: Mapping[str, Any], first: str) -> Table:
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
    return Table(head, body)


def left_out_line(sizes: Mapping[str, Sequence[float]]) -> str:
    """How much MACD hides in items that were left out, by the reason; begins with a space."""
    parts = [
        f" {count(len(z), 'item')} left out ({reason}): MACD hides {np.median(z):.1%} of the pixels"
        f" at the median, {min(z):.1%} to {max(z):.1%}."
        for reason, z in sizes.items()
    ]
    return "".join(parts)
