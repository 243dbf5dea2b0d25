"""The difference of two figures → shares of named causes, in points.

Two ways side by side. *Alone*: of the first figure this cause is changed and nothing else. *In
order*: causes are changed one after another, in the order shown, until the second figure stands
there, so that these shares sum to the difference. What the shares alone leave over is interaction.

Answers are exchanged question by question: those of a question belong to what differs in what they
were computed from. Where that is more than one cause, the answers alone cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.statistics import Interval, percentile_interval
from macd_studio.core.text.words import count
from macd_studio.evals.protocol.causes import ANNOTATION, ORDER, Differences, differences
from macd_studio.evals.protocol.figure import Figure, Verdict
from macd_studio.evals.scoring.score import sums
from macd_studio.evals.statistics.intervals import cluster_sums
from macd_studio.evals.statistics.stats import (
    RESAMPLES,
    bootstrap_ratio,
    mean_difference,
    resampled_clusters,
)

ITEMS, PARSER, DENOMINATOR = "items", "parser", "denominator"
NOT_RECORDED = "not recorded"
UNKNOWN = "cannot be told"
STATED_ALONE = (
    "What the answers were computed from is not recorded on both sides: causes are those that both"
    " state, and what neither states may be part of their shares."
)
TINY = 1e-9
MAX_RESAMPLED = 5000
"""Clusters: 4,000 drawings of more would take much memory, and say the same."""
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Share:
    """One cause's part of the difference, in points with its 95 % interval over clusters.

    causes: its names, more than one where they cannot be told apart. detail: what differs. n:
    questions whose verdict it changes. alone, in_order: see the module; None where it is not known.
    """

    causes: tuple[str, ...]
    detail: str
    n: int
    alone: Interval | None
    in_order: Interval | None

    @property
    def title(self) -> str:
        """The names as one."""
        return " + ".join(self.causes)


@dataclass(frozen=True)
class Split:
    """Two figures in percent, their difference in points, and the shares of causes.

    n: questions of each, as counted; common: those that both have. interaction: the difference less
    all shares alone. notes: what one should know.
    """

    first: float
    second: float
    n: tuple[int, int]
    common: int
    difference: Interval
    shares: tuple[Share, ...]
    interaction: float
    notes: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """The causes of all shares."""
        return tuple(dict.fromkeys(c for s in self.shares for c in s.causes))


@dataclass(frozen=True, eq=False)
class _State:
    """Of each choice which figure's it is: 0 the first, 1 the second.

    asked: (U,) bool, the questions that are counted at all. answers: (U,) 0 or 1. truth, parser,
    over: 0 or 1.
    """

    asked: Bools
    answers: NDArray[np.int8]
    truth: int = 0
    parser: int = 0
    over: int = 0


class Comparison:
    """Two figures with answers, question by question.

    names: (U,) all their questions; common: (U,) bool.
    """

    def __init__(self, first: Figure, second: Figure) -> None:
        self.sides = first, second
        self.names = list(dict.fromkeys([*first.items, *second.items]))
        self.of = [np.array([n in f.items for n in self.names], bool) for f in self.sides]
        self.common: Bools = self.of[0] & self.of[1]
        if not self.common.any():
            raise OptionError(
                f"{first.title} and {second.title} have no question in common",
                "Compare answers to the same benchmark",
            )
        self._verdicts: dict[tuple[int, int, int], tuple[Bools, Bools]] = {}

    @cached_property
    def clusters(self) -> list[str]:
        """(U,) what each question was drawn with."""
        both = {**self.sides[1].clusters, **self.sides[0].clusters}
        return [both.get(n, n) for n in self.names]

    @cached_property
    def groups(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """(U,) group of each question by either figure, its own name where it has none."""
        first, second = (
            np.array([f.groups.get(n) or f"\0{n}" for n in self.names]) for f in self.sides
        )
        return first, second

    def verdicts(self, answers: int, truth: int, parser: int) -> tuple[Bools, Bools]:
        """(U,) right and (U,) counted: one figure's answers by a truth and a parser."""
        key = (answers, truth, parser)
        if key not in self._verdicts:
            pairs = [self._verdict(n, *key) for n in self.names]
            self._verdicts[key] = tuple(np.array(z, bool) for z in zip(*pairs, strict=True))  # type: ignore[assignment]
        return self._verdicts[key]

    def _verdict(self, name: str, answers: int, truth: int, parser: int) -> Verdict:
        side = self.sides[answers]
        if name not in side.items:
            return False, True
        text = side.texts.get(name)
        item = self.sides[truth].items.get(name) or side.items[name]
        by = self.sides[parser]
        if by.parser.judge is not None:
            return by.parser.judge(text, item)
        if parser == answers:
            return by.verdicts.get(name, (False, True))
        # verdicts alone are known: they hold for the same words
        if name in by.verdicts and (text or "") == (by.texts.get(name) or ""):
            return by.verdicts[name]
        return side.verdict(text, item)

    def sums(self, state: _State) -> tuple[NDArray[Any], NDArray[Any]]:
        """(U,) top and (U,) bottom of the figure of a state."""
        both = [self.verdicts(k, state.truth, state.parser) for k in (0, 1)]
        right, counted = (np.where(state.answers, both[1][i], both[0][i]) for i in (0, 1))
        top, bottom = np.zeros(len(self.names)), np.zeros(len(self.names))
        at = np.flatnonzero(state.asked)
        groups = self.groups[state.over][at]
        top[at], bottom[at] = sums(right[at], counted[at], groups, self.sides[state.over].over)
        return top, bottom

    def change(self, before: _State, after: _State) -> tuple[Interval, int]:
        """In points with the interval over clusters, and how many questions count otherwise."""
        a, b = self.sums(before), self.sums(after)
        n = int(((a[0] != b[0]) | (a[1] != b[1])).sum())
        if np.array_equal(a[1], b[1]) and set(np.unique(a[1])) <= {0.0, 1.0}:
            at = np.flatnonzero(a[1])
            clusters = [self.clusters[i] for i in at]
            found = mean_difference(a[0][at], b[0][at], clusters)
        elif len(set(self.clusters)) > MAX_RESAMPLED:
            found = by_influence(self.clusters, [(1, *b), (-1, *a)])
        else:
            found = bootstrap_ratio(*b, self.clusters, minus=a)
        if len({c for c, z in zip(self.clusters, a[1] + b[1], strict=True) if z}) < 2:
            found = found[0], float("nan"), float("nan")  # one cluster tells nothing of others
        return _points(found), n

    def value(self, state: _State) -> tuple[float, int]:
        """The figure in percent, and its n."""
        top, bottom = self.sums(state)
        n = int(bottom.sum())
        return (100 * float(top.sum()) / n if n else float("nan")), n


def _points(interval: Interval) -> Interval:
    estimate, low, high = (100 * x for x in interval)
    return estimate, low, high


def split(first: Figure, second: Figure) -> Split:
    """Shares of the difference between two figures with answers.

    Raises OptionError where they have no question in common.
    """
    made = Comparison(first, second)
    both = [n for n, c in zip(made.names, made.common, strict=True) if c]
    found = differences(first, second, both)
    zero: NDArray[np.int8] = np.zeros(len(made.names), np.int8)
    own = _State(made.of[0], zero), _State(made.of[1], zero + np.int8(1), 1, 1, 1)
    start = replace(own[0], asked=made.common)
    shares: list[Share] = []
    state = start

    def step(causes: Sequence[str], detail: str, alone: _State, after: _State) -> None:
        nonlocal state
        apart, _ = made.change(start, alone)
        ordered, n = made.change(state, after)
        shares.append(Share(tuple(causes), detail, n, apart, ordered))
        state = after

    different = _truths_differ(made)
    reworded = _only(made, found, {ANNOTATION})
    annotated = bool(different or reworded.any())
    if annotated:
        detail = found.details.get(ANNOTATION) or f"{different} questions have another right answer"
        answers = np.where(reworded, 1, 0).astype(np.int8)
        switched = replace(start, answers=answers, truth=1)
        step((ANNOTATION,), detail, switched, switched)
    otherwise = _judged_otherwise(made)
    if first.parser.name != second.parser.name or otherwise:
        detail = f"{first.parser.name} → {second.parser.name}"
        if otherwise:
            detail = f"the same words are judged otherwise in {count(otherwise, 'question')}"
        step((PARSER,), detail, replace(start, parser=1), replace(state, parser=1))
    if first.over != second.over:
        detail = f"{first.over} → {second.over}"
        step((DENOMINATOR,), detail, replace(start, over=1), replace(state, over=1))
    for names in _sets(found, annotated):
        at = _only(made, found, set(names)) & (state.answers == 0)
        # what is recorded is a cause without an effect, too; a statement is none
        if (not names or found.unknown) and not _answers_differ(made, at):
            continue
        label = names or ((UNKNOWN,) if found.unknown else (NOT_RECORDED,))
        detail = "; ".join(found.details.get(n, "") for n in names) or _why(found, made.sides)
        step(label, detail, _with(start, at), _with(state, at))
    end = replace(own[1], asked=made.common)
    if not _same(made, state, end):
        step((NOT_RECORDED,), "the same words were judged otherwise", start, end)
    if not made.common.all():
        shares.insert(0, _items_share(made, own, start, end))
    notes = [*_notes(first, second, values := [made.value(z) for z in own])]
    if found.unknown and any(found.causes.values()):
        notes.append(STATED_ALONE)
    total, _ = made.change(own[0], own[1])
    alone = sum(s.alone[0] for s in shares if s.alone is not None)
    return Split(
        values[0][0], values[1][0], (values[0][1], values[1][1]), int(made.common.sum()), total,
        tuple(shares), _clean(total[0] - alone), tuple(notes),
    )  # fmt: skip


def _clean(x: float) -> float:
    return 0.0 if abs(x) < TINY else x


def _with(state: _State, at: Bools) -> _State:
    return replace(state, answers=np.where(at, 1, state.answers).astype(np.int8))


def _same(made: Comparison, a: _State, b: _State) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(made.sums(a), made.sums(b), strict=True))


def _sets(found: Differences, annotated: bool) -> list[tuple[str, ...]]:
    """Sets of causes that come together, single ones first, in the order of ORDER."""
    sets = {names for names in found.causes.values() if not (annotated and names == {ANNOTATION})}
    ordered = [tuple(n for n in ORDER if n in names) for names in sets]
    return sorted(ordered, key=lambda z: (not z, len(z), [ORDER.index(n) for n in z]))


def _only(made: Comparison, found: Differences, names: set[str]) -> Bools:
    """(U,) the common questions of which exactly these causes differ."""
    own = [found.causes.get(n) == frozenset(names) for n in made.names]
    return np.asarray(np.array(own, np.bool_) & made.common)


def _truths_differ(made: Comparison) -> int:
    first, second = (f.items for f in made.sides)
    return sum(
        first[n].truth != second[n].truth
        for n, both in zip(made.names, made.common, strict=True)
        if both
    )


def _judged_otherwise(made: Comparison) -> int:
    """Questions with the same truth and words whose verdicts, which came with them, differ."""
    first, second = made.sides
    if first.parser.judge is not None or second.parser.judge is not None:
        return 0
    return sum(
        first.texts.get(n) == second.texts.get(n)
        and first.items[n].truth == second.items[n].truth
        and first.verdicts.get(n) != second.verdicts.get(n)
        for n, both in zip(made.names, made.common, strict=True)
        if both
    )


def _answers_differ(made: Comparison, at: Iterable[bool]) -> bool:
    a, b = (f.texts for f in made.sides)
    return any(
        (a.get(n) or "") != (b.get(n) or "") for n, z in zip(made.names, at, strict=True) if z
    )


def _why(found: Differences, sides: tuple[Figure, Figure]) -> str:
    if not found.unknown:
        return "answers differ, and nothing that is recorded does"
    silent = " and ".join(f.title for f in sides if f.protocol is None)
    return f"answers differ, and what those of {silent} were computed from is not recorded"


def _items_share(made: Comparison, own: tuple[_State, _State], start: _State, end: _State) -> Share:
    """What questions do that only one of the two has: both ends of the chain together."""
    (left, _), (right, _) = made.change(own[0], start), made.change(end, own[1])
    only = [int((z & ~made.common).sum()) for z in made.of]
    detail = f"{only[0]} only in the first, {only[1]} only in the second"
    together = _points(_two_changes(made, own, start, end))
    assert abs(together[0] - left[0] - right[0]) < 1e-6
    return Share((ITEMS,), detail, sum(only), together, together)


def _two_changes(
    made: Comparison, own: tuple[_State, _State], start: _State, end: _State
) -> Interval:
    """(start − first) + (second − end), by resampling all clusters together."""
    ends = [(sign, *made.sums(state)) for sign, state in
            ((-1, own[0]), (1, start), (-1, end), (1, own[1]))]  # fmt: skip
    if len(set(made.clusters)) > MAX_RESAMPLED:
        return by_influence(made.clusters, ends)
    columns = [z for _, *sums_of in ends for z in sums_of]
    whole = np.stack(cluster_sums(made.clusters, *columns))
    drawn = whole @ resampled_clusters(whole.shape[1], 0, RESAMPLES).T

    def change(s: NDArray[Any]) -> NDArray[Any]:
        with np.errstate(invalid="ignore", divide="ignore"):
            first, begin, stop, second = (s[2 * k] / s[2 * k + 1] for k in range(4))
        return np.asarray(begin - first + second - stop)

    return percentile_interval(float(change(whole.sum(1))), change(drawn))


def by_influence(
    clusters: Sequence[str], parts: Sequence[tuple[int, NDArray[Any], NDArray[Any]]]
) -> Interval:
    """Σ sign·Σ top / Σ bottom with a normal interval by each cluster's influence (linearised).

    For more clusters than can be resampled. parts: (sign, (U,) top, (U,) bottom).
    """
    estimate, influence = 0.0, np.zeros(len(set(clusters)))
    for sign, top, bottom in parts:
        tops, bottoms = cluster_sums(clusters, top, bottom)
        whole = float(bottoms.sum())
        ratio = float(tops.sum()) / whole if whole else float("nan")
        estimate += sign * ratio
        influence += sign * (tops - ratio * bottoms) / whole
    n = len(influence)
    half = 1.96 * float(np.sqrt(n / (n - 1) * (influence**2).sum()))
    return estimate, estimate - half, estimate + half


def _notes(first: Figure, second: Figure, values: Sequence[tuple[float, int]]) -> Iterable[str]:
    for figure, (value, n) in zip((first, second), values, strict=True):
        if figure.stated is None:
            continue
        printed, counted = figure.stated
        if abs(printed - value) > 0.006 or counted != n:
            yield (
                f"{figure.title} was reported as {printed:.2f} % of {counted}; its answers give"
                f" {value:.2f} % of {n} here."
            )
