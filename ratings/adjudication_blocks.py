"""The report's section on disputed items: the result without and with adjudicated values."""

from __future__ import annotations

from typing import Any

from macd_studio.core.pages.blocks import Paragraph, Table
from macd_studio.core.text.words import count
from macd_studio.ratings.control_blocks import outcome_name, outcome_text, too_wide


def adjudication_blocks(report: dict[str, Any]) -> list[str]:
    """Which items are disputed, who adjudicated, and both results side by side."""
    a = report["adjudication"]
    text = (
        f"{count(len(a['disputed']), 'item')} of {a['rated']} rated ones"
        f" {'is' if len(a['disputed']) == 1 else 'are'} disputed: raters who were"
        f" not named are {a['threshold']} points or more apart on a mask."
    )
    out: list[str] = [Paragraph(text)]
    if a["disputed"]:
        items: list[tuple[str, ...]] = [("item", "mask", "points apart", "ratings")]
        for d in a["disputed"]:
            mask = f"{d['arm']} beside {d['beside']}" if d["beside"] else d["arm"]
            items.append((str(d["item"]), mask, str(d["apart"]), str(d["raters"])))
        out.append(Table(items[0], items[1:]))
    if a["revoked"]:
        verb = "was" if len(a["revoked"]) == 1 else "were"
        text = f"Nothing here is of {', '.join(a['revoked'])}, who {verb} revoked."
        out.append(Paragraph(text))
    if not a["adjudicators"]:
        return out
    text = (
        f"{', '.join(a['adjudicators'])} rated all masks of {len(a['adjudicated'])} of"
        f" {count(len(a['given']), 'item')} that were disputed when they were asked, without seeing"
        " any other rating."
    )
    if len(a["adjudicators"]) > 1:
        text += " Where several rated an item, the first who was appointed counts."
    if a["cannot"]:
        text += f" {count(len(a['cannot']), 'item')} had a screen that they could not judge."
    out.append(Paragraph(text))
    if a["differences"]:
        rows = [("", "as raters rated (primary)", "with adjudicated values")]
        for other, d in a["differences"].items():
            primary = outcome_text(report, report["differences"][other]["difference"])
            with_them = outcome_text(report, d["difference"])
            rows.append((outcome_name(report, other), primary, with_them))
        out.append(Table(rows[0], rows[1:]))
        out += too_wide(report, (d["difference"] for d in a["differences"].values()))
        out.append(
            Paragraph(
                "On the right the adjudicator's ratings stand for those of all raters on these"
                " items, and for no other. Raters cannot differ there any more. The interval may be"
                " narrower or wider than the primary one, and does not tell how sure the result"
                " is.",
            )
        )
    return out
