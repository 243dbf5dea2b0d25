"""The figures of a study as Markdown and as one HTML page; both from the same blocks."""

from __future__ import annotations

import html
from typing import Any

from macd_studio.core.masking.controls import ELSEWHERE
from macd_studio.core.system.shipped import document_style
from macd_studio.core.text.words import count, visible
from macd_studio.ratings.adjudication_blocks import adjudication_blocks
from macd_studio.ratings.blocks import (
    BOLD,
    DASH,
    Block,
    number,
    percent,
    share_text,
    signed,
    with_interval,
)
from macd_studio.ratings.control_blocks import (
    control_blocks,
    left_out_line,
    outcome_name,
    outcome_text,
    preference_blocks,
)
from macd_studio.ratings.events import HIGH, MOST_LOW, REASONS
from macd_studio.ratings.plan import PAIRS, RATINGS
from macd_studio.ratings.preregistration import TARGETS
from macd_studio.ratings.stats import GOOD, least_sd


def markdown(report: dict[str, Any]) -> str:
    """The report as Markdown; texts from outside cannot become markup."""
    return "\n\n".join(_markdown(b) for b in blocks(report)) + "\n"


def html_page(report: dict[str, Any]) -> str:
    """The report as a page of its own, without scripts and without other files."""
    body = "\n".join(_html(b) for b in blocks(report))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Rating study</title><style>{document_style('56rem')}</style></head>\n"
        f"<body><main>\n{body}\n</main></body></html>\n"
    )


def blocks(report: dict[str, Any]) -> list[Block]:
    """Everything the report says, in order. report: as `ratings.report.figures` gives it."""
    study = report["study"]
    out = [Block("h1", "Rating study"), *_head(report), Block("h2", "How the masks are rated")]
    if report.get("preferences"):
        out += preference_blocks(report)
    else:
        out += [Block("table", rows=_arm_table(report)), Block("p", _paper_line(report))]
    out += _differences(report)
    if report.get("controls"):
        out += [Block("h2", "What the masks share"), *control_blocks(report)]
    if any(row["low"] > row["without"] for row in report.get("reasons", {}).values()):
        out += [Block("h2", "Why masks were rated low"), *_reasons(report)]
    out += [Block("h2", "Agreement"), *_agreement(report)]
    if (report.get("adjudication") or {}).get("rated"):
        out += [Block("h2", "Disputed items"), *adjudication_blocks(report)]
    out += [Block("h2", "What raters say about the gradient"), *_gradient(report)]
    out += [Block("h2", "Raters"), *_raters(report)]
    out += [Block("h2", "How this was planned"), Block("table", rows=_plan_table(study))]
    return out


def _head(report: dict[str, Any]) -> list[Block]:
    study = report["study"]
    out = []
    if study["simulated_raters"]:
        out.append(
            Block(
                "p",
                f"{BOLD}SIMULATED.{BOLD} {study['simulated_raters']} of"
                f" {count(study['raters_invited'], 'rater')} are programs (python -m ratings"
                " simulate). These figures say nothing about any mask; they show what the report"
                " looks like.",
            )
        )
    out.append(
        Block(
            "p",
            f"{count(study['items'], 'item')}, {study['design']} design, arms"
            f" {', '.join(study['arms'])}; {count(study['raters_begun'], 'rater')} of"
            f" {study['raters_planned']} planned, {count(study['ratings'], _unit(study))}; the"
            f" study is {study['state']}. Preregistration sha256 {study['sha256']}.",
        )
    )
    if study["left_out"]:
        lines = ", ".join(f"{x['clip']} ({x['reason']})" for x in study["left_out"])
        sizes = left_out_line(report.get("left_out_sizes", {}))
        out.append(Block("p", f"Left out: {lines}.{sizes}"))
    if study.get("changed"):
        changed = ", ".join(study["changed"])
        out.append(
            Block(
                "p",
                "This version of the program analyses otherwise than was preregistered:"
                f" {changed}. The version that made the study gives the preregistered figures.",
            )
        )
    if any((known := study.get("known") or {}).values()):
        out.append(Block("p", _known_line(known)))
    for fork in report.get("forks", ()):
        out.append(Block("p", f"{fork['text'][0].upper()}{fork['text'][1:]}."))
    return out


def _known_line(known: dict[str, int]) -> str:
    """Which items of known rating raters are shown, and what became of proposed ones."""
    text = (
        f"Items of known rating: {known['training']} for training, {known['hidden']} hidden among"
        " the others."
    )
    if known["refused"] or known["undecided"]:
        text += (
            f" Of the proposed ones the organiser left out {known['refused']}, and has not decided"
            f" on {known['undecided']}."
        )
    return text


def _arm_table(report: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    rows: list[tuple[str, ...]] = [("mask", "ratings", "mean", "SD", "P(rating ≥ 4)", "1 2 3 4 5")]
    for arm, a in report["arms"].items():
        rows.append((
            arm, str(a["ratings"]), with_interval(a["mean"]), with_interval(a["sd"]),
            share_text(a["at_least_4"]), " ".join(map(str, a["counts"])),
        ))  # fmt: skip
    for arm, p in (report["paper"] or {"arms": {}})["arms"].items():
        good = f"{p['at_least_4']:.0%}"
        rows.append((f"{arm}, the paper's", DASH, f"{p['mean']:.2f}", f"{p['sd']:.2f}", good, DASH))
    return tuple(rows)


def _paper_line(report: dict[str, Any]) -> str:
    intervals = "In brackets 95 % intervals over clips and raters (docs/rating.md)."
    if report["paper"] is None:
        if ELSEWHERE not in report["arms"]:
            return intervals
        return (
            f"{intervals} {ELSEWHERE} is chosen to lie beside MACD's masks, so the paper's figures,"
            " which are of masks at random places, are not set beside these."
        )
    lines = [f"{intervals} The paper's rows are theirs, not ours ({report['paper']['what']})."]
    for arm, row in report["paper"]["arms"].items():
        least = least_sd(row["mean"], row["at_least_4"], GOOD, HIGH)
        if row["sd"] < least - 0.005:
            lines.append(
                f"Ratings with the paper's mean and share for {arm} have an SD of at least"
                f" {least:.2f}; theirs is given as {row['sd']:.2f}."
            )
    return " ".join(lines)


def _differences(report: dict[str, Any]) -> list[Block]:
    out = []
    for title, parts in (
        ("", report["differences"]),
        (f"Without {', '.join(report['named'])}", report["differences_without_named"]),
    ):
        for other, d in parts.items():
            area = report["areas"][other]
            text = (
                f"{title + ': ' if title else ''}{outcome_name(report, other)}:"
                f" {BOLD}{outcome_text(report, d['difference'])}{BOLD}"
                f" over {count(d['pairs'], 'pair')}{_whose(report, d)}"
            )
            if not title:
                text += f" {other} hides {area['least']:.3f} to {area['most']:.3f} of the pixels."
            out.append(Block("p", text))
            if not title and d["power"]:
                scale = report["study"].get("scale", RATINGS)
                out.append(Block("p", power_line(d["power"], d["half_width"], scale)))
            elif not title and d["pairs"] and d["too_few_to_stop"]:
                out.append(Block("p", d["too_few_to_stop"]))
            if not title and len(d["own"]) > 1:
                own = ((name, outcome_text(report, e)) for name, e in d["own"].items())
                head = ("rater", f"{outcome_name(report, other)}: over clips")
                out.append(Block("table", rows=(head, *own)))
    return out


def _whose(report: dict[str, Any], d: dict[str, Any]) -> str:
    """Of whom a difference speaks, as the end of a sentence."""
    if d["pairs"] and not d["spread"]:
        return ". Every pair has the same difference, so there is no interval."
    if d["raters"] == 1:
        return ", of this rater alone: the interval is over clips."
    if d["raters"] > 1:
        these = outcome_text(report, d["these"])
        return f", for other raters like these. Of these raters: {these}."
    return "."


def power_line(meter: dict[str, Any], half_width: float | None, scale: str = RATINGS) -> str:
    """How far the interval of the primary outcome is from the planned one, in words."""
    aim = f"± {TARGETS[scale]}"
    now = "" if half_width is None else f"The interval is ± {half_width:.2f}. "
    if meter["more_raters"] == 0:
        return f"{now}No more ratings are needed for {aim}."
    if meter["more_raters"] is not None:
        return (
            f"{now}About {count(meter['more_raters'], 'more rater')}"
            f" ({meter['more_pairs']} pairs of ratings) would make it {aim}."
        )
    if meter["more_clips"] is not None:
        return (
            f"{now}More raters alone cannot make it {aim}: clips differ too much. About"
            f" {count(meter['more_clips'], 'more clip')} would."
        )
    return f"{now}{aim} takes more raters and more clips: neither alone is enough."


def _reasons(report: dict[str, Any]) -> list[Block]:
    rows: list[tuple[str, ...]] = [
        ("mask", f"ratings of {MOST_LOW} or lower", *REASONS.values(), "no reason given")
    ]
    for arm, row in report["reasons"].items():
        counts = (row["low"], *row["given"].values(), row["without"])
        rows.append((arm, *map(str, counts)))
    text = "Raters may give reasons for a low rating, several or none."
    return [Block("p", text), Block("table", rows=tuple(rows))]


def _agreement(report: dict[str, Any]) -> list[Block]:
    a, sides = report["agreement"], report["sides"]
    out = [
        Block(
            "p",
            f"Krippendorff's alpha, ordinal: {BOLD}{with_interval(a['alpha'])}{BOLD} over"
            f" {count(a['masks'], 'mask')} with two ratings or more.",
        )
    ]
    if a["kappas"]:
        head = ("raters", "masks", "quadratic weighted kappa")
        body = ((" and ".join(k["raters"]), str(k["masks"]), number(k["kappa"]))
                for k in a["kappas"])  # fmt: skip
        out.append(Block("table", rows=(head, *body)))
    if sides["screens"]:
        out.append(
            Block(
                "p",
                f"The left mask got the higher rating on {share_text(sides['left'])} of"
                f" {count(sides['decided'], 'screen')} with a difference; near one half is right.",
            )
        )
    return out


def _gradient(report: dict[str, Any]) -> list[Block]:
    g = report["gradient"]
    text = (
        "Rank correlation, over"
        f" {count(len(g['objects']), 'object')}, of the gradient of the query loss with how much"
        " more raters give to masks that hide the object:"
        f" {BOLD}{with_interval(g['correlation'])}{BOLD}."
    )
    out = [Block("p", text)]
    if g["objects"]:
        head = ("item", "object", "gradient", "rating per object hidden")
        body = (
            (str(o["clip"]), f"{o['label']} {o['track']}", signed(o["gradient"], 4),
             signed(o["slope"], 2))
            for o in g["objects"]
        )  # fmt: skip
        out.append(Block("table", rows=(head, *body)))
    return out


def _raters(report: dict[str, Any]) -> list[Block]:
    if not report["raters"]:
        return [Block("p", "Nobody has rated yet.")]
    head = ("rater", "done", "ratings", "known items", "repeats equal", "repeats apart",
            "left higher", "SD", "with others", "seconds", "named because")  # fmt: skip
    rows = [head]
    for q in report["raters"]:
        rows.append((
            _who(q), f"{q['done']:.0%}", str(q["ratings"]), percent(q["gold"]),
            percent(q["repeat_same"]), percent(q.get("repeat_far")), percent(q.get("left")),
            number(q["spread"]), number(q["others"]), number(q["seconds"], 1),
            "; ".join(q["reasons"]) or DASH,
        ))  # fmt: skip
    out = [Block("table", rows=tuple(rows))]
    if report["conflicts"]:
        out.append(
            Block(
                "p", f"{count(report['conflicts'], 'rating')} changed one of another tab or device."
            )
        )
    return out


def _unit(study: dict[str, Any]) -> str:
    return "preference" if study.get("scale") == PAIRS else "rating"


def _plan_table(study: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    return (("what", "as preregistered"), *((k, v) for k, v in study["plan"].items()))


def _escaped(text: str) -> str:
    """A cell or a paragraph as Markdown: no markup of others, no line break."""
    flat = BOLD.join(_parts(text))
    for sign in ("\\", "|", "`", "_", "*"):
        flat = flat.replace(sign, f"\\{sign}")
    return flat.replace("<", "&lt;").replace("](", "]\\(").replace(BOLD, "**")


def _parts(text: str) -> list[str]:
    """The text on one line, cut where bold begins and ends: every second part is bold."""
    return [visible(part) for part in " ".join(text.split()).split(BOLD)]


def _markdown(block: Block) -> str:
    if block.kind == "table":
        head, *body = ([_escaped(c) for c in row] for row in block.rows)
        lines = [head, ["---"] * len(head), *body]
        return "\n".join(f"| {' | '.join(row)} |" for row in lines)
    mark = {"h1": "# ", "h2": "## "}.get(block.kind, "")
    return mark + _escaped(block.text)


def _html(block: Block) -> str:
    if block.kind == "table":
        head, *body = block.rows
        rows = ["<tr>" + "".join(f"<th>{_html_text(c)}</th>" for c in head) + "</tr>"]
        rows += ["<tr>" + "".join(f"<td>{_html_text(c)}</td>" for c in r) + "</tr>" for r in body]
        return '<table tabindex="0">' + "".join(rows) + "</table>"
    return f"<{block.kind}>{_html_text(block.text)}</{block.kind}>"


def _html_text(text: str) -> str:
    parts = map(html.escape, _parts(text))
    return "".join(f"<b>{p}</b>" if i % 2 else p for i, p in enumerate(parts))


def _who(q: dict[str, Any]) -> str:
    return f"{q['rater']} ({q['simulated']})" if q["simulated"] else str(q["rater"])
