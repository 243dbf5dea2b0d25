"""Scores and reports of video files → Markdown. Prints what is there; computes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from macd_studio.core.pages.blocks import Paragraph, as_markdown
from macd_studio.core.text.numbers import number, with_interval
from macd_studio.core.text.words import count
from macd_studio.evals.printing.figures import (
    as_cell,
    certified_section,
    clamped_section,
    open_row,
    open_section,
    own_title,
    table,
)
from macd_studio.evals.running.output import failures_line
from macd_studio.evals.scoring.score import WORDS, questions_of
from macd_studio.evals.statistics.stats import MIN_DIFFERING

Scores = dict[str, Any]
SHOWN_FLIPS = 10
MIN_CLUSTERS = 2
"""An interval over fewer would say that anything may be."""


def scores_markdown(scores: Scores) -> str:
    """A table by split, the rules' own figures, and the first questions that flip."""
    return as_markdown(_score_blocks(scores))


def _score_blocks(scores: Scores) -> Iterator[str]:
    yield f"# {scores['benchmark']}: {_p(scores['accuracy'])} % of {scores['n']} questions"
    yield from _judged(scores)
    yield split_table(scores)
    yield from _official(scores)
    yield from scores["notes"]
    rows = (
        [_rule(name, f), _p(f["accuracy"]), f["n"], f["left_out"], f["source"]]
        for name, f in scores["rules"].items()
    )
    yield table(["rule", "%", "questions", "left out", "source"], rows)
    yield from _label_tables(scores)
    if several_rules(scores):
        yield "\n".join(_flip_lines(scores["flips"], scores["flipped"]))


def _judged(scores: Scores) -> Iterator[str]:
    """One sentence for each kind of question; reports of earlier versions hold one rule."""
    if "judged" not in scores:
        yield f"Rule: {scores['rule']} ({scores['source']})."
        return
    lines = [
        f"- {questions_of(z['n'], z['kind'])}: {z['rule']}, {z['source']}."
        for z in scores["judged"]
    ]
    yield "\n".join(lines)
    yield f"Accuracy is over {WORDS[scores['over']]}."


def _official(scores: Scores) -> Iterator[str]:
    """Figures as the benchmark's authors report them."""
    if rows := scores.get("official"):
        yield table(
            ["as the authors report", "%", "n"],
            [[as_cell(r["name"]), _p(r["accuracy"]), r["n"]] for r in rows],
        )


def several_rules(scores: Scores) -> bool:
    """Whether any kind of question is judged by more than one rule."""
    kinds = len(scores.get("judged", ())) or 1
    return len(scores["rules"]) > kinds


def _rule(name: str, figures: Scores) -> str:
    """A rule's name with the version of its program; reports of earlier versions hold none."""
    return f"{name} {figures.get('version', '')}".rstrip()


def _label_tables(scores: Scores) -> Iterator[str]:
    for dimension, values in scores["labels"].items():
        rows = ([as_cell(value), f["n"], _p(f["accuracy"])] for value, f in values.items())
        yield table([as_cell(dimension), "n", "%"], rows)


def split_table(scores: Scores) -> str:
    """Accuracy with its interval and bias, a row a split and one for all."""
    rows = {"all": scores, **scores["splits"]}
    yes_no = {_kind(f) for f in rows.values()} == {"yes-no"}
    heads = YES_NO_HEADS if yes_no else ANY_HEADS
    cells = _yes_no if yes_no else _any
    together = any("groups" in f for f in rows.values())
    lines = (
        [as_cell(z), f["n"], _with_interval(f), *([_groups(f)] if together else []), *cells(f)]
        for z, f in rows.items()
    )
    grouped = [GROUPS] if together else []
    return table(["split", "n", "accuracy [95 %]", *grouped, *heads], lines)


GROUPS = "groups all right [95 %]"


def _groups(figures: Scores) -> str:
    """The share of groups all of whose questions are right, and their number."""
    groups = figures.get("groups")
    return "–" if groups is None else f"{_with_interval(groups)} of {groups['n']}"


ANY_HEADS = ("unmatched", "best constant", "balanced", "answered")
YES_NO_HEADS = (
    "yes-rate", "unmatched", "always yes", "always no", "balanced", "d′", "criterion", "precision",
    "recall", "F1",
)  # fmt: skip


def _kind(figures: Scores) -> str:
    bias = figures["bias"]
    return "words" if bias is None else "yes-no" if "yes_rate" in bias else "choice"


def _any(figures: Scores) -> list[str]:
    """What every kind of question has; "–" for open ones, which have no constant answer."""
    bias, kind = figures["bias"], _kind(figures)
    if kind == "words":
        return ["–"] * 4
    constants = bias["constants"]
    best = max(constants, key=lambda z: (constants[z], z))
    rates = bias["rates"] if kind == "choice" else {"yes": bias["yes_rate"]}
    return [
        str(bias["unmatched"]),
        f"{best} {_p(constants[best])}",
        _p(bias["balanced"]),
        ", ".join(f"{z} {_p(r)}" for z, r in rates.items()),
    ]


def _flip_lines(flips: list[Scores], total: int) -> Iterator[str]:
    """How many questions the rules judge differently, and the first of them."""
    are = "is" if total == 1 else "are"
    yield f"{count(total, 'question')} {are} judged differently by these rules."
    for flip in flips[:SHOWN_FLIPS]:
        words = {True: "right", False: "wrong", None: "left out"}
        judged = ", ".join(f"{name} {words[right]}" for name, right in flip["right"].items())
        answer = "nothing" if flip["prediction"] is None else repr(flip["prediction"][:80])
        yield f"- {flip['id']}: {answer} for {flip['truth']}: {judged}"


def _yes_no(figures: Scores) -> list[str]:
    bias = figures["bias"]
    names = ("balanced", "d_prime", "criterion", "precision", "recall", "f1")
    return [
        _p(bias["yes_rate"]),
        str(bias["unmatched"]),
        _p(bias["constants"]["yes"]),
        _p(bias["constants"]["no"]),
        *(_p(bias[n]) for n in names),
    ]


def _with_interval(figures: Scores) -> str:
    """Without an interval where one question, or one cluster, tells nothing of others."""
    if figures["interval"] is None or figures["clusters"] < MIN_CLUSTERS:
        return _p(figures["accuracy"])
    return with_interval((figures["accuracy"], *figures["interval"]), ".2f", 1)


def _p(x: float | None) -> str:
    return number(x)


def markdown(report: Scores) -> str:
    """The whole report of a run."""
    return as_markdown(report_blocks(report))


def report_blocks(report: Scores) -> Iterator[str]:
    """Every block of the report of a run."""
    yield f"# {report['benchmark']}: {report['n']} questions, {report['backbone']}"
    if failed := failures_line(report.get("failures")):
        yield f"**{as_cell(failed)}**"
    fps, side = report["sampling"]["fps"], report["sampling"]["size"]
    frames = f"{fps:g} frames a second" if fps else f"{report['sampling']['frames']} frames"
    yield (
        f"Accuracy in %; 95 % intervals over clusters. {frames}"
        f"{f' of {side} × {side}' if side else ''}, fit"
        f" {report['sampling'].get('fit', 'pad')}; prompts {report['prompts']}; α and β:"
        f" {report['how_chosen']}. {report.get('machine', '')}"
    )
    yield from _judged(report)
    yield from report_notes(report)
    yield f"## {AGAINST}"
    yield from _compared(report)
    for method in report["methods"]:
        scores = report["scores"][method]
        yield f"## {own_title(method, report)}"
        yield split_table(scores)
        yield from _official(scores)
        rules = ", ".join(
            f"{_rule(name, f)} {_p(f['accuracy'])} %{' of ' + str(f['n']) if f['left_out'] else ''}"
            for name, f in scores["rules"].items()
        )
        if several_rules(report | {"rules": scores["rules"]}):
            flips = count(scores["flips"], "question")
            yield f"The same answers by each rule: {rules}; {flips} judged differently by them."
        if scores["errors"]:
            yield f"{count(scores['errors'], 'answer')} failed, which counts as wrong."
        if scores.get("left_out"):
            yield (
                f"The method does not apply to {count(scores['left_out'], 'question')}, which"
                " counts as wrong."
            )
        yield from _label_tables(scores)
    parts = {m: s["open"] for m, s in report["scores"].items() if "open" in s}
    yield from open_section(
        [open_row(own_title(m, report), [z], f"{z['reads']:.2f}") for m, z in parts.items()]
    )
    scores = report["scores"].items()
    yield from certified_section(
        {own_title(m, report): [s["certified"]] for m, s in scores if "certified" in s}
    )
    yield from clamped_section(report)


def report_notes(report: Scores) -> Iterator[str]:
    """What must be known of the figures; names of clips in it are anybody's."""
    yield from map(Paragraph, report["notes"])


AGAINST = "Against the baseline"
"""The heading of the table whose rows are methods."""


def _compared(report: Scores) -> Iterator[str]:
    first = next(iter(report["scores"].values()))
    names, rows = ["all", *first["splits"]], []
    for method in report["methods"]:
        scores, pair = report["scores"][method], report["contrasts"].get(method)
        row = [own_title(method, report), f"{pair[0]:g}, {pair[1]:g}" if pair else "–"]
        changes = report.get("compared", {}).get(method)
        if changes is None:
            row += [_p(s["accuracy"]) for s in (scores, *scores["splits"].values())]
            row += ["–", "–"]
        else:
            every = changes["all"]
            row += [_change(changes[n]) for n in names]
            tested = every["p"] is not None
            row += [f"{every['repaired']} / {every['spoiled']}",
                    f"{every['p']:.2g} ({every['p_holm']:.2g})" if tested else "–"]  # fmt: skip
        rows.append(row)
    heads = ["method", "α, β", *map(as_cell, names), "repaired / spoiled", "p (Holm)"]
    yield table(heads, rows)
    yield (
        "p: exact sign-flip test over clips, all questions; in brackets by Holm over the tests of"
        f" all methods and splits. –: fewer than {MIN_DIFFERING} clips differ, too few for a test."
    )
    constants = [(m, f["all"]["like_constant"]) for m, f in report.get("compared", {}).items()
                 if f["all"]["like_constant"]]  # fmt: skip
    if not constants:
        return
    yield "\n".join(
        [
            "Would a constant on yes do the same? Added to the baseline's margin:",
            *(f"- {own_title(method, report)}: {_constant(like)}" for method, like in constants),
        ]
    )


def _constant(like: Scores) -> str:
    """What the best constant on yes gets, and what remains of the method's gain beyond it."""
    beyond = f"beyond it remain {like['beyond']:+.2f} points"
    best = f"the best constant gets {_p(like['best'])} %, {beyond}"
    if like["delta"] is None:
        return f"no constant gets as much; {best}"
    return f"δ = {like['delta']:+.2f} gets as much or more; {best}"


def _change(figures: Scores) -> str:
    if figures.get("clusters", MIN_CLUSTERS) < MIN_CLUSTERS:
        return number(figures["change"], "+.2f")
    low, high = figures["interval"]
    ends = (figures["change"], low, high)
    return with_interval(ends, "+.2f", 1, strong=low > 0 or high < 0)
