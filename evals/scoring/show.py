"""Scores → lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Scores = dict[str, Any]
SHOWN_FLIPS = 10


def lines(scores: Scores) -> Iterator[str]:
    """A table by split, the rules' own figures, and the first questions that flip."""
    yield f"# {scores['benchmark']}: {scores['accuracy']:.2f} % of {scores['n']} questions"
    yield ""
    yield f"Rule: {scores['rule']} ({scores['source']})."
    yield ""
    yield from split_table(scores)
    for note in scores["notes"]:
        yield ""
        yield note
    yield ""
    yield "| rule | % | questions | left out | source |"
    yield "|---|---|---|---|---|"
    for name, f in scores["rules"].items():
        yield f"| {name} | {_p(f['accuracy'])} | {f['n']} | {f['left_out']} | {f['source']} |"
    for dimension, values in scores["labels"].items():
        yield ""
        yield f"| {dimension} | n | % |"
        yield "|---|---|---|"
        for value, f in values.items():
            yield f"| {value} | {f['n']} | {f['accuracy']:.2f} |"
    yield ""
    yield from flip_lines(scores["flips"])


def split_table(scores: Scores) -> Iterator[str]:
    """Accuracy with its interval and bias, a row a split and one for all."""
    rows = {"all": scores, **scores["splits"]}
    kinds = {_kind(f) for f in rows.values()}
    if kinds == {"yes-no"}:
        yield (
            "| split | n | accuracy [95 %] | yes-rate | unmatched | always yes | always no |"
            " balanced | d′ | criterion | precision | recall | F1 |"
        )
        yield "|---|" + "---|" * 12
        for name, f in rows.items():
            yield f"| {name} | {f['n']} | {_with_interval(f)} | " + " | ".join(_yes_no(f)) + " |"
        return
    yield "| split | n | accuracy [95 %] | unmatched | best constant | balanced | answered |"
    yield "|---|" + "---|" * 6
    for name, f in rows.items():
        yield f"| {name} | {f['n']} | {_with_interval(f)} | " + " | ".join(_any(f)) + " |"


def _kind(figures: Scores) -> str:
    bias = figures["bias"]
    return "words" if bias is None else "yes-no" if "yes_rate" in bias else "choice"


def _any(figures: Scores) -> list[str]:
    """What every kind of question has; "–" for open ones, of which no answer is constant."""
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


def flip_lines(flips: list[Scores]) -> Iterator[str]:
    """How many questions the rules judge differently, and the first of them."""
    yield f"{len(flips)} questions are judged differently by these rules."
    for flip in flips[:SHOWN_FLIPS]:
        words = {True: "right", False: "wrong", None: "left out"}
        judged = ", ".join(f"{name} {words[right]}" for name, right in flip["right"].items())
        said = "nothing" if flip["prediction"] is None else repr(flip["prediction"][:80])
        yield f"- {flip['id']}: {said} for {flip['truth']}: {judged}"


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
    low, high = figures["interval"]
    return f"{_p(figures['accuracy'])} [{_p(low)}, {_p(high)}]"


def _p(x: float | None) -> str:
    return "–" if x is None else f"{x:.2f}".replace("-", "−")
