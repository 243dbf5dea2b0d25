"""The report's section on disputed items: the result without and with adjudicated values."""

from __future__ import annotations

from typing import Any

from macd_studio.core.pages.blocks import Paragraph, Table
from macd_studio.core.text.words import count
from macd_studio.ratings.control_blocks import outcome_name, outcome_text, too_wide
from macd_studio.ratings.plan import PAIRS


def adjudication_blocks(report: dict[str, Any]) -> list[str]:
    """Which items are disputed, who adjudicated, and both results side by side."""
    a = report["adjudication"]
    pairs = report["study"].get("scale") == PAIRS
    why = (
        "of raters who were not named one prefers one mask and another one the other of both"
        if pairs
        else f"raters who were not named are {a['threshold']} points or more apart on a mask"
    )
    text = (
        f"{count(len(a['disputed']), 'item')} of {a['rated']} rated ones"
        f" {'is' if len(a['disputed']) == 1 else 'are'} disputed: {why}."
    )
    out: list[str] = [Paragraph(text)]
    if a["disputed"] and pairs:
        body = (
            (str(d["item"]), f"{d['arm']}, {d['beside']}", str(d["raters"])) for d in a["disputed"]
        )
        out.append(Table(("item", "masks", "preferences"), body))
    elif a["disputed"]:
        rated = (
            (str(d["item"]), d["arm"], str(d["apart"]), str(d["raters"])) for d in a["disputed"]
        )
        out.append(Table(("item", "mask", "points apart", "ratings"), rated))
    if a["revoked"]:
        verb = "was" if len(a["revoked"]) == 1 else "were"
        text = f"Nothing here is of {', '.join(a['revoked'])}, who {verb} revoked."
        out.append(Paragraph(text))
    if not a["adjudicators"]:
        return out
    text = (
        f"{', '.join(a['adjudicators'])} {'compared' if pairs else 'rated'} all masks of"
        f" {len(a['adjudicated'])} of {count(len(a['given']), 'item')} that were disputed when they"
        f" were asked, without seeing any other {'preference' if pairs else 'rating'}."
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
                f"On the right the adjudicator's {'preferences' if pairs else 'ratings'} stand for"
                " those of all raters on these items, and for no other. Raters cannot differ there"
                " any more. The interval may be narrower or wider than the primary one, and does"
                " not tell how sure the result is.",
            )
        )
    return out
