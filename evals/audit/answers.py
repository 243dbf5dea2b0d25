"""Two figures with answers → what both said to the same questions, a kind of question at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.text.words import count
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.protocol.figure import Figure

Array = NDArray[Any]
Said = str | None
"""What an answer is read as: "yes" or "no", a letter, or words; None where nothing is read."""
Scores = dict[str, float]
MOST = 50_000
"""Questions of an audit: the exact tests take time with the square of them."""
KINDS = ("yes-no", "choice")
"""Kinds of questions that have controls; others are compared with the baseline alone."""


@dataclass(frozen=True, eq=False)
class Answers:
    """N questions of one kind, with the answers of the baseline and of a method.

    truth: N right answers; options: of each question, () where it has none; before, after: what
    the baseline and the method said; right_before, right_after: (N,) bool; clusters: N keys;
    scores: of the baseline's first tokens, {} where they are not known; words: mean number of words
    of an answer, of both; notes: what one should know.
    """

    kind: str
    truth: Sequence[str]
    options: Sequence[tuple[str, ...]]
    before: Sequence[Said]
    after: Sequence[Said]
    right_before: Array
    right_after: Array
    clusters: Sequence[str]
    scores: Sequence[Scores]
    words: tuple[float, float] = (0.0, 0.0)
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> Array:
        """(N,) −1, 0 or 1: right by the method less right by the baseline."""
        return np.subtract(self.right_after, self.right_before, dtype=int)

    def share_of(self, said: str) -> tuple[float, float]:
        """How often the baseline and the method say something, shares in [0, 1]."""
        n = len(self.truth)
        return self.before.count(said) / n, self.after.count(said) / n


def pair(baseline: Figure, method: Figure) -> list[Answers]:
    """The questions that both answer, by kind, in the order of the baseline.

    Raises OptionError where they have none in common or more than MOST, or a printed figure has no
    answers.
    """
    for figure in (baseline, method):
        if not figure.has_answers:
            raise OptionError(
                f"{figure.title} is a printed figure without single answers",
                "Give files of answers; python -m evals doctor checks printed figures",
            )
    names = [n for n in baseline.items if n in method.items]
    if not names:
        raise OptionError(
            f"{baseline.title} and {method.title} have no question in common",
            "Compare answers to the same benchmark, with the same ids",
        )
    if len(names) > MOST:
        raise OptionError(
            f"both answer {len(names):,} questions, more than {MOST:,}", "Give --split"
        )
    kinds = dict.fromkeys(baseline.items[n].kind for n in names)
    return [
        _of_kind(kind, [n for n in names if baseline.items[n].kind == kind], baseline, method)
        for kind in kinds
    ]


def _of_kind(kind: str, names: Sequence[str], baseline: Figure, method: Figure) -> Answers:
    items = [baseline.items[n] for n in names]
    sides = []
    for figure in (baseline, method):
        # the right answer is the baseline's in both; verdicts that came with answers stay
        right = [_right(figure, n, i) for n, i in zip(names, items, strict=True)]
        said = [figure.parser.read(figure.texts.get(n), i)
                for n, i in zip(names, items, strict=True)]  # fmt: skip
        length = np.mean([len((figure.texts.get(n) or "").split()) for n in names])
        sides.append((said, np.array(right, bool), float(length)))
    (before, right_before, first), (after, right_after, second) = sides
    unread = tuple(
        f"None of the answers of {figure.title} can be read, so that all of them count as wrong."
        for figure, side in zip((baseline, method), sides, strict=True)
        if not any(side[0])
    )
    both = {**method.clusters, **baseline.clusters}
    return Answers(
        kind, [i.truth for i in items], [i.options for i in items], before, after, right_before,
        right_after, [both.get(n) or n for n in names],
        [baseline.scores.get(n, {}) for n in names], (first, second),
        (*unread, *_notes(names, items, baseline, method)),
    )  # fmt: skip


def _right(figure: Figure, name: str, item: Item) -> bool:
    return figure.verdict(figure.texts.get(name), item)[0]


def _notes(names: Sequence[str], items: Sequence[Item], baseline: Figure, method: Figure) -> Any:
    left = [len(f.items) - len(set(f.items) & set(o.items))
            for f, o in ((baseline, method), (method, baseline))]  # fmt: skip
    if any(left):
        yield (
            f"Left out, because only one of the two answers them: {count(left[0], 'question')} of"
            f" the baseline, {left[1]} of the method."
        )
    other = sum(method.items[n].truth != i.truth for n, i in zip(names, items, strict=True))
    if other:
        verb = "has" if other == 1 else "have"
        yield (
            f"{count(other, 'question')} {verb} another right answer in the method's file; the"
            " baseline's counts, but for verdicts that came with the answers."
        )
    if baseline.parser.name != method.parser.name:
        yield (
            f"The two are judged by different rules: {baseline.parser.name}, {method.parser.name}."
        )
    if not any(n in baseline.clusters or n in method.clusters for n in names):
        yield (
            "No file says which questions share a clip, so that each stands for itself: intervals"
            " are too narrow where some do."
        )
