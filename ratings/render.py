"""The figures of a study as Markdown and as one HTML page; both from the same blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from macd_studio.core.masking.controls import ELSEWHERE
from macd_studio.core.pages.blocks import BOLD, Heading, Paragraph, Table, as_html, as_markdown
from macd_studio.core.pages.frame import document
from macd_studio.core.statistics import least_sd
from macd_studio.core.text import numbers
from macd_studio.core.text.numbers import DASH, number
from macd_studio.core.text.words import count
from macd_studio.ratings.events import HIGH, MAX_LOW, REASONS
from macd_studio.ratings.inference import NEARLY_ALL, RANGES
from macd_studio.ratings.plan import PAIRS, RATINGS
from macd_studio.ratings.preregistration import TARGETS
from macd_studio.ratings.stats import GOOD

EstimateFields = dict[str, float | None]
"""An estimate of the report: its value, and the low and high end of its interval."""


def with_interval(estimate: EstimateFields, sign: bool = False) -> str:
    """A value with its interval; sign: with + where it is positive."""
    return numbers.with_interval(_ends(estimate), "+.2f" if sign else ".2f", 1)


def share_text(estimate: EstimateFields) -> str:
    """A share with its interval, in percent."""
    return numbers.with_interval(_ends(estimate), ".0%", 1)


def percent(value: float | None) -> str:
    """A share in percent, halves up as on the organiser's page; a dash where there is none.

    >>> percent(1 / 8), percent(None)
    ('13%', '–')
    """
    return numbers.number(None if value is None else math.floor(100 * value + 0.5) / 100, ".0%")


def _ends(estimate: EstimateFields) -> list[float | None]:
    return [estimate[key] for key in ("value", "low", "high")]


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
    out += [
        Heading("How this was planned", 2),
        Table(("what", "as preregistered"), study["plan"].items()),
    ]
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
            f"{count(study['items'], 'item')} about {count(study['clips'], 'clip')},"
            f" {study['design']} design, arms {', '.join(study['arms'])}; {rated_line(study)},"
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
        ("mask", f"ratings of {MAX_LOW} or lower", *REASONS.values(), "no reason given")
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
        pairs = report["study"].get("scale") == PAIRS
        won = "was preferred" if pairs else "got the higher rating"
        out.append(
            Paragraph(
                f"The left mask {won} on {share_text(sides['left'])} of"
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
        who = f"{q['rater']} ({q['simulated']})" if q["simulated"] else str(q["rater"])
        rows.append((
            who, f"{q['done']:.0%}", str(q["ratings"]), percent(q["gold"]),
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
    told = f"{begun} of {raters} {'has' if begun == 1 else 'have'} rated"
    if failed := study.get("screened_out"):
        told += f", {failed} failed the screening question and rated nothing"
    if erased := study.get("raters_erased"):
        told += f", {count(erased, 'other')} {'was' if erased == 1 else 'were'} erased on request"
    return told


def unit_of(study: dict[str, Any]) -> str:
    """What raters of the study give, in the singular."""
    return "preference" if study.get("scale") == PAIRS else "rating"


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
    head = (
        "item",
        "clip",
        "question",
        f"{first} hides",
        *(f"{other} shares" for other in controls),
    )
    body = (
        (str(item), row["clip"], row["question"], f"{row['hidden']:.1%}",
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
