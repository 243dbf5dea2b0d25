"""The figures of a study as Markdown and as one HTML page; both from the same blocks."""

from __future__ import annotations

from typing import Any

from macd_studio.core.masking.controls import ELSEWHERE
from macd_studio.core.pages.blocks import BOLD, Heading, Paragraph, Table, as_html, as_markdown
from macd_studio.core.pages.frame import document
from macd_studio.core.text.numbers import DASH, number
from macd_studio.core.text.words import count
from macd_studio.ratings.adjudication_blocks import adjudication_blocks
from macd_studio.ratings.control_blocks import (
    control_blocks,
    left_out_line,
    outcome_name,
    outcome_text,
    preference_blocks,
    too_wide,
)
from macd_studio.ratings.events import HIGH, MOST_LOW, REASONS
from macd_studio.ratings.numbers import percent, share_text, with_interval
from macd_studio.ratings.plan import PAIRS, RATINGS
from macd_studio.ratings.preregistration import TARGETS
from macd_studio.ratings.stats import GOOD, least_sd


def markdown(report: dict[str, Any]) -> str:
    """The report as Markdown; texts from outside cannot become markup."""
    return as_markdown(blocks(report))


def html_page(report: dict[str, Any]) -> str:
    """The report as a page of its own, without scripts and without other files."""
    return document("Rating study", as_html(blocks(report)), "56rem")


def blocks(report: dict[str, Any]) -> list[str]:
    """Everything the report says, in order. report: as `ratings.report.figures` gives it."""
    study = report["study"]
    out: list[str] = [
        Heading("Rating study", 1),
        *_head(report),
        Heading("How the masks are rated", 2),
    ]
    if report.get("preferences"):
        out += preference_blocks(report)
    else:
        out += [_arm_table(report), Paragraph(_paper_line(report))]
    out += _differences(report)
    if report.get("controls"):
        out += [Heading("What the masks share", 2), *control_blocks(report)]
    if any(row["low"] > row["without"] for row in report.get("reasons", {}).values()):
        out += [Heading("Why masks were rated low", 2), *_reasons(report)]
    out += [Heading("Agreement", 2), *_agreement(report)]
    if (report.get("adjudication") or {}).get("rated"):
        out += [Heading("Disputed items", 2), *adjudication_blocks(report)]
    out += [Heading("What raters say about the gradient", 2), *_gradient(report)]
    out += [Heading("Raters", 2), *_raters(report)]
    out += [Heading("How this was planned", 2), _plan_table(study)]
    return out


def _head(report: dict[str, Any]) -> list[str]:
    study = report["study"]
    out: list[str] = []
    if study["simulated_raters"]:
        out.append(
            Paragraph(
                f"{BOLD}SIMULATED.{BOLD} {study['simulated_raters']} of"
                f" {count(study['raters_invited'], 'rater')} are programs (python -m ratings"
                " simulate). These figures say nothing about any mask; they show what the report"
                " looks like.",
            )
        )
    out.append(
        Paragraph(
            f"{count(study['items'], 'item')}, {study['design']} design, arms"
            f" {', '.join(study['arms'])}; {rated_line(study)},"
            f" {study['raters_planned']} planned; {count(study['ratings'], unit_of(study))}; the"
            f" study is {study['state']}. Preregistration sha256 {study['sha256']}.",
        )
    )
    if study["left_out"]:
        lines = ", ".join(f"{x['clip']} ({x['reason']})" for x in study["left_out"])
        sizes = left_out_line(report.get("left_out_sizes", {}))
        out.append(Paragraph(f"Left out: {lines}.{sizes}"))
    if study.get("changed"):
        changed = ", ".join(study["changed"])
        out.append(
            Paragraph(
                "This version of the program analyses otherwise than was preregistered:"
                f" {changed}. The version that made the study gives the preregistered figures.",
            )
        )
    if any((known := study.get("known") or {}).values()):
        out.append(Paragraph(_known_line(known)))
    for fork in report.get("forks", ()):
        out.append(Paragraph(f"{fork['text'][0].upper()}{fork['text'][1:]}."))
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


def _arm_table(report: dict[str, Any]) -> Table:
    heads = ("mask", "ratings", "mean", "SD", "P(rating ≥ 4)", "1 2 3 4 5")
    rows: list[tuple[str, ...]] = []
    for arm, a in report["arms"].items():
        rows.append((
            arm, str(a["ratings"]), with_interval(a["mean"]), with_interval(a["sd"]),
            share_text(a["at_least_4"]), " ".join(map(str, a["counts"])),
        ))  # fmt: skip
    for arm, p in (report["paper"] or {"arms": {}})["arms"].items():
        good = f"{p['at_least_4']:.0%}"
        rows.append((f"{arm}, the paper's", DASH, f"{p['mean']:.2f}", f"{p['sd']:.2f}", good, DASH))
    return Table(heads, rows)


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


def _differences(report: dict[str, Any]) -> list[str]:
    out: list[str] = []
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
            out.append(Paragraph(text))
            if not title and d["power"]:
                scale = report["study"].get("scale", RATINGS)
                out.append(Paragraph(power_line(d["power"], d["half_width"], scale)))
            elif not title and d["pairs"] and d["too_few_to_stop"]:
                out.append(Paragraph(d["too_few_to_stop"]))
            if not title and len(d["by_rater"]) > 1:
                out += _by_rater(report, other, d)
        out += too_wide(report, (e for d in parts.values() for e in _printed(d, not title)))
    return out


def _by_rater(report: dict[str, Any], other: str, d: dict[str, Any]) -> list[str]:
    """Who is in a mean over raters, with how many pairs, and each one's own."""
    nothing = {"value": None, "low": None, "high": None}
    rows = (
        (name, str(pairs), outcome_text(report, d["own"].get(name, nothing)))
        for name, pairs in d["by_rater"].items()
    )
    head = ("rater", "pairs", f"{outcome_name(report, other)}: over clips")
    text = (
        f"These {len(d['by_rater'])} raters are in the mean, and each counts the same, as"
        " preregistered, however many pairs they rated."
    )
    return [Table(head, rows), Paragraph(text)]


def _printed(d: dict[str, Any], with_own: bool) -> list[dict[str, Any]]:
    """The estimates of a difference that are printed together."""
    return [d["difference"], d["these"], *(d["own"].values() if with_own else ())]


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


def _reasons(report: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("mask", f"ratings of {MOST_LOW} or lower", *REASONS.values(), "no reason given")
    ]
    for arm, row in report["reasons"].items():
        counts = (row["low"], *row["given"].values(), row["without"])
        rows.append((arm, *map(str, counts)))
    text = "Raters may give reasons for a low rating, several or none."
    return [Paragraph(text), Table(rows[0], rows[1:])]


def _agreement(report: dict[str, Any]) -> list[str]:
    a, sides = report["agreement"], report["sides"]
    out: list[str] = [
        Paragraph(
            f"Krippendorff's alpha, ordinal: {BOLD}{with_interval(a['alpha'])}{BOLD} over"
            f" {count(a['masks'], 'mask')} with two {unit_of(report['study'])}s or more.",
        )
    ]
    if a["kappas"]:
        head = ("raters", "masks", "quadratic weighted kappa")
        body = ((" and ".join(k["raters"]), str(k["masks"]), number(k["kappa"]))
                for k in a["kappas"])  # fmt: skip
        out.append(Table(head, body))
    if sides["screens"]:
        out.append(
            Paragraph(
                f"The left mask {_won(report['study'])} on {share_text(sides['left'])} of"
                f" {count(sides['decided'], 'screen')} with a difference; near one half is right.",
            )
        )
    return out


def _gradient(report: dict[str, Any]) -> list[str]:
    g = report["gradient"]
    text = (
        "Rank correlation, over"
        f" {count(len(g['objects']), 'object')}, of the gradient of the query loss with how much"
        " more raters give to masks that hide the object:"
        f" {BOLD}{with_interval(g['correlation'])}{BOLD}."
    )
    out: list[str] = [Paragraph(text)]
    if g["objects"]:
        head = ("item", "object", "gradient", "rating per object hidden")
        body = (
            (str(o["clip"]), f"{o['label']} {o['track']}", number(o["gradient"], "+.4f"),
             number(o["slope"], "+.2f"))
            for o in g["objects"]
        )  # fmt: skip
        out.append(Table(head, body))
    return out


def _raters(report: dict[str, Any]) -> list[str]:
    if not report["raters"]:
        return [Paragraph("Nobody has rated yet.")]
    head = ("rater", "done", "ratings", "known items", "repeats equal", "repeats apart",
            "left higher", "SD", "with others", "seconds", "named because")  # fmt: skip
    rows = [head]
    for q in report["raters"]:
        rows.append((
            _who(q), f"{q['done']:.0%}", str(q["ratings"]), percent(q["gold"]),
            percent(q["repeat_same"]), percent(q.get("repeat_far")), percent(q.get("left")),
            number(q["spread"]), number(q["others"]), number(q["seconds"], ".1f"),
            "; ".join(q["reasons"]) or DASH,
        ))  # fmt: skip
    out: list[str] = [Table(rows[0], rows[1:])]
    if report["conflicts"]:
        out.append(
            Paragraph(
                f"{count(report['conflicts'], 'rating')} changed one of another tab or device."
            )
        )
    return out


def rated_line(study: dict[str, Any]) -> str:
    """How many raters there are, and how many of them have rated."""
    begun, raters = study["raters_begun"], count(study["raters_invited"], "rater")
    return f"{begun} of {raters} {'has' if begun == 1 else 'have'} rated"


def unit_of(study: dict[str, Any]) -> str:
    """What raters of the study give, in the singular."""
    return "preference" if study.get("scale") == PAIRS else "rating"


def _won(study: dict[str, Any]) -> str:
    return "was preferred" if study.get("scale") == PAIRS else "got the higher rating"


def _plan_table(study: dict[str, Any]) -> Table:
    return Table(("what", "as preregistered"), study["plan"].items())


def _who(q: dict[str, Any]) -> str:
    return f"{q['rater']} ({q['simulated']})" if q["simulated"] else str(q["rater"])
