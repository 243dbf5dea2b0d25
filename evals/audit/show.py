"""An audit as plain data, as a page in Markdown, and as a row to paste in a paper."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.core.pages.blocks import as_markdown
from macd_studio.core.statistics import Interval
from macd_studio.core.text.numbers import number
from macd_studio.core.text.words import count
from macd_studio.evals.audit.answers import Answers
from macd_studio.evals.audit.controls import ENOUGH_SCORED, margins_of
from macd_studio.evals.audit.findings import (
    Finding,
    Lead,
    cause,
    power,
    power_of_lead,
    verdict,
)
from macd_studio.evals.printing.figures import as_cell, change, percent, table
from macd_studio.evals.protocol.figure import Figure
from macd_studio.evals.running.output import finite, write_json
from macd_studio.evals.scoring.score import questions_of
from macd_studio.evals.statistics.metrics import one_answer_note

Plain = dict[str, Any]
NAMES = "audit.json", "audit.md", "audit.tex"
DISAGREE = 0.05
"""The share of answers that the scores contradict from which this is told."""


def plain(baseline: Figure, method: Figure, found: Sequence[Finding]) -> Plain:
    """Everything as JSON values: shares and leads in percent and points."""
    sides = {
        role: {"title": f.title, "rule": f.parser.name, "method": f.method}
        for role, f in (("baseline", baseline), ("method", method))
    }
    notes = [*baseline.notes, *method.notes]
    report = {
        "kind": "audit", **sides, "benchmark": baseline.benchmark,
        "parts": [_part(z) for z in found], "notes": list(dict.fromkeys(notes)),
    }  # fmt: skip
    return finite(report)  # type: ignore[no-any-return]


def _part(found: Finding) -> Plain:
    given = found.given
    could = power(given.difference, given.clusters)
    before, after = given.share_of("yes") if given.kind == "yes-no" else (None, None)
    shown = [power_of_lead(z, given) for z in found.leads]
    return {
        "kind": given.kind,
        "n": len(given.truth),
        "clips": len(set(given.clusters)),
        "verdict": verdict(found, could),
        "survives": found.survives,
        "cause": cause(found),
        "says_yes_more_or_less_often_and_no_more_is_shown": found.shifted,
        "baseline": _points(found.baseline),
        "method": _points(found.method),
        "gain": _points(found.gain),
        "p": found.p,
        "p_questions": found.p_questions,
        "repaired": int((given.difference > 0).sum()),
        "spoiled": int((given.difference < 0).sum()),
        "yes": None if found.yes is None else {
            "baseline": 100 * (before or 0.0), "method": 100 * (after or 0.0),
            "truth": 100 * list(given.truth).count("yes") / len(given.truth),
            "change": _points(found.yes), "p": found.p_yes,
            "to_yes": _moves(given, "yes"), "from_yes": _moves(given, None, "yes"),
        },
        "unread": [sum(z is None for z in said) for said in (given.before, given.after)],
        "words": list(given.words),
        "scores": sum(bool(s) for s in given.scores),
        "controls": [_control(z) for z in shown],
        "power": {
            "power": 0.8, "shows": None if could.shows is None else 100 * could.shows,
            "discordance": 100 * could.discordance, "design_effect": could.effect,
            "needed": could.needed,
        },
        "notes": [*given.notes, *_notes(given)],
    }  # fmt: skip


def _moves(given: Answers, to: str | None, out_of: str | None = None) -> int:
    """Answers that became `to`, or that were `out_of` and are not."""
    return sum(
        a != b and (b == to if out_of is None else a == out_of)
        for a, b in zip(given.before, given.after, strict=True)
    )


def _control(lead: Lead) -> Plain:
    control = lead.control
    return {
        "name": control.name, "about": control.about, "rule": control.rule,
        "accuracy": 100 * float(np.mean(control.outcome)), "lead": _points(lead.interval),
        "p": lead.p, "shows": None if lead.shows is None else 100 * lead.shows,
        "bound": control.bound, "survives": lead.survives,
    }  # fmt: skip


def _points(interval: Interval) -> list[float]:
    return [100 * float(z) for z in interval]


def _notes(given: Answers) -> Iterator[str]:
    scored = sum(bool(s) for s in given.scores)
    if given.kind == "yes-no":
        if note := one_answer_note({"this set": given.truth}):
            yield note
        margins = margins_of(given)
        if margins is None and scored:
            yield (
                f"{scored} of {len(given.truth)} questions have scores of yes and no; they are used"
                f" from {100 * ENOUGH_SCORED:.0f} % on."
            )
        if margins is not None:
            said = [z == "yes" for z in given.before]
            known = np.isfinite(margins)
            other = int((((margins > 0) != said) & known).sum())
            if other > DISAGREE * known.sum():
                yield (
                    f"The scores name another answer than the baseline gives in {other} of"
                    f" {count(int(known.sum()), 'question')}: are they those of its first token?"
                )
    if any(z is None for said in (given.before, given.after) for z in said):
        yield "Answers that cannot be read count as wrong, and as neither yes nor no."


LEGEND = (
    "*Method less control*: points with a 95 % interval over clips. *p*: two-sided; exact over"
    " clips where the control's outcomes are 0 and 1, of random tables for changes at random, by"
    " the jackknife over clips for thresholds. *Shown from*: the smallest lead that these questions"
    " show with a power of .80. A gain survives a control where the interval lies above 0 and p"
    " is below .05. ≤: the most that such a rule can get."
)
TITLES = {"yes-no": "Questions on yes and no", "choice": "Questions with options"}


def markdown(report: Plain) -> str:
    """The page. report: as `plain` gives it."""
    return as_markdown(_blocks(report))


def _blocks(report: Plain) -> Iterator[str]:
    names = [as_cell(report[z]["title"]) for z in ("baseline", "method")]
    yield f"# {names[1]} against {names[0]}"
    for part in report["parts"]:
        if len(report["parts"]) > 1:
            yield f"## {TITLES.get(part['kind']) or 'Questions of the kind ' + part['kind']}"
        yield f"**{as_cell(part['verdict'])}**"
        yield from _figures(report, part)
        if part["controls"]:
            yield "### What trivial rules get on the same questions"
            yield table(
                ["control", "what it does", "right %", "method less control", "p", "shown from",
                 "survives"],
                [_line(z) for z in part["controls"]],
            )  # fmt: skip
            yield LEGEND
        yield from _power(part)
        yield from map(as_cell, part["notes"])
    for note in report["notes"]:
        yield as_cell(note)
    yield "## To paste in a paper"
    yield table(HEADS, [_row(report, part) for part in report["parts"]])


def _figures(report: Plain, part: Plain) -> Iterator[str]:
    rules = [report[z]["rule"] for z in ("baseline", "method")]
    yield (
        f"{questions_of(part['n'], part['kind'])} about {count(part['clips'], 'clip')}, judged by"
        f" {as_cell(' and '.join(dict.fromkeys(rules)))}."
    )
    rows = [
        ["right %", *(percent(_shares(part[z])) for z in ("baseline", "method")),
         change(_shares(part["gain"])), _p(part["p"])],
    ]  # fmt: skip
    if yes := part["yes"]:
        rows.append(
            [f'"yes" % (right for {yes["truth"]:.1f} %)', f"{yes['baseline']:.1f}",
             f"{yes['method']:.1f}", change(_shares(yes["change"])), _p(yes["p"])]
        )  # fmt: skip
    rows.append(["answers that cannot be read", *map(str, part["unread"]), "", ""])
    rows.append(["words of an answer", *(f"{z:.1f}" for z in part["words"]), "", ""])
    yield table(["", "baseline", "method", "change", "p"], rows)
    moved = ""
    if yes:
        moved = (
            f' Answers that became "yes": {yes["to_yes"]}; that no longer are: {yes["from_yes"]}.'
        )
    yield (
        f"Right only by the method: {part['repaired']}; only by the baseline: {part['spoiled']};"
        " McNemar's exact test, every question for itself: p"
        f" {_relation(part['p_questions'])}.{moved}"
    )


def _line(control: Plain) -> list[str]:
    return [
        as_cell(control["name"]), as_cell(control["rule"]), _right(control),
        change(_shares(control["lead"])), _p(control["p"]), _number(control["shows"]),
        "yes" if control["survives"] else "**no**",
    ]  # fmt: skip


def _right(control: Plain) -> str:
    return f"{'≤ ' if control['bound'] else ''}{control['accuracy']:.1f}"


def _power(part: Plain) -> Iterator[str]:
    could = part["power"]
    if not could["discordance"]:
        yield "*Power*: no question is right by one of the two alone, so nothing tells them apart."
        return
    shows = _number(could["shows"])
    needed = could["needed"]
    more = "" if needed is None else (
        f" The difference that was found would take {needed:,} questions of this kind."
    )  # fmt: skip
    yield (
        f"*Power*: {could['discordance']:.1f} % of the questions are right by one of the two alone,"
        f" and clips enlarge the variance by {could['design_effect']:.2f}; so these questions show"
        f" a difference from {shows} points on with a power of .80.{more}"
    )


def _shares(points: Any) -> Any:
    return [z / 100 for z in points]


def _number(value: float | None) -> str:
    return "–" if value is None else number(value, ".1f")


def _p(value: float | None) -> str:
    """
    >>> _p(0.0001), _p(0.0312), _p(None)
    ('<.001', '.031', '–')
    """
    if value is None:
        return "–"
    return "<.001" if value < 0.001 else f"{value:.3f}".removeprefix("0")


def _relation(value: float) -> str:
    """
    >>> _relation(0.0001), _relation(0.0312)
    ('< .001', '= .031')
    """
    text = _p(value)
    return f"< {text[1:]}" if text.startswith("<") else f"= {text}"


HEADS = ("method", "n (clips)", "greedy %", "method %", "gain [95 %], p", '"yes" %',
         "strongest control %", "lead over it [95 %], p", "shown from, power .80")  # fmt: skip


def _row(report: Plain, part: Plain) -> list[str]:
    """One line: the figures, and the control over which least is left."""
    yes = part["yes"]
    best = min(part["controls"], key=lambda z: z["lead"][0], default=None)
    control = "–" if best is None else f"{as_cell(best['name'])} {_right(best)}"
    lead = "–" if best is None else f"{change(_shares(best['lead']))}, {_p(best['p'])}"
    return [
        as_cell(report["method"]["title"]), f"{part['n']} ({part['clips']})",
        f"{part['baseline'][0]:.1f}", f"{part['method'][0]:.1f}",
        f"{change(_shares(part['gain']))}, {_p(part['p'])}",
        "–" if yes is None else f"{yes['baseline']:.1f} → {yes['method']:.1f}",
        control, lead, _number(part["power"]["shows"]),
    ]  # fmt: skip


_LATEX = {"−": "$-$", "→": r"$\to$", "–": "--", "≤": r"$\leq$", "\\": r"\textbackslash{}"}


def latex(report: Plain) -> str:
    """The rows for a tabular, the heads as a comment before them."""
    lines = ["% " + " & ".join(HEADS)]
    for part in report["parts"]:
        lines.append(" & ".join(map(_as_latex, _row(report, part))) + r" \\")
    return "\n".join(lines) + "\n"


def _as_latex(text: str) -> str:
    """
    >>> print(_as_latex("a_b 5 % −1"))
    a\\_b 5 \\% $-$1
    """
    signs = re.sub(r"[−→–≤\\]", lambda m: _LATEX[m[0]], text)
    signs = re.sub(r"(?<!\\)([%&#_])", r"\\\1", signs)
    return signs.replace("<", "$<$").replace("^", r"\^{}").replace("~", r"\~{}")


def write(report: Plain, out: Path) -> None:
    """audit.json, .md and .tex in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / NAMES[0], report)
    (out / NAMES[1]).write_text(markdown(report), encoding="utf-8")
    (out / NAMES[2]).write_text(latex(report), encoding="utf-8")


def as_json(report: Plain) -> str:
    """The plain data as one text."""
    return json.dumps(report, ensure_ascii=False, allow_nan=False)
