"""The metric doctor: can any confusion matrix give these published figures at all?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import Maybe, Number, shown

Counts = NDArray[np.int64]
METRICS = ("accuracy", "precision", "recall", "f1", "yes_rate")
Unmatched = Literal["wrong", "no"]
Printed = Literal["rounded", "rounded-or-truncated"]


@dataclass(frozen=True)
class Claim:
    """A row of a table of yes/no results. Shares in percent, as printed; None where not given.

    decimals: printed ones, of all figures or by metric (2 where one is not named). unmatched: what
    an answer that is neither yes nor no counts as: always wrong, or as a no. printed: whether
    figures were rounded, or each of them perhaps cut off.
    """

    n: int
    positives: int | None = None
    accuracy: float | None = None
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    yes_rate: float | None = None
    decimals: int | Mapping[str, int] = 2
    unmatched: Unmatched = "wrong"
    printed: Printed = "rounded"

    def __post_init__(self) -> None:
        if not 1 <= self.n <= 50_000:
            raise OptionError(f"n is {self.n}", "Give the number of questions, 1 to 50000")
        for name in METRICS:
            Maybe(Number(0, 100)).read(getattr(self, name), name)
            Number(0, 15, whole=True).read(self.decimals_of(name), "decimals")
        for name, words in (("unmatched", Unmatched), ("printed", Printed)):
            if getattr(self, name) not in get_args(words):
                raise OptionError(
                    f"{name} is {shown(getattr(self, name))}",
                    f"Choose one of {', '.join(get_args(words))}",
                )
        if self.positives is None and self.n > 500:
            raise OptionError("the number of positives is missing", "Give it where n is over 500")
        if self.positives is not None and not 0 <= self.positives <= self.n:
            raise OptionError(
                f"{self.positives} of {self.n} questions cannot be positive",
                "Give the number of questions whose answer is yes",
            )

    def decimals_of(self, metric: str) -> int:
        """How many decimals of a figure are printed."""
        return self.decimals if isinstance(self.decimals, int) else self.decimals.get(metric, 2)

    def could_be_printed(self, metric: str, share: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which shares in [0, 1] would be printed as this claim; all where it is not claimed."""
        claimed = getattr(self, metric)
        if claimed is None:
            return np.ones(np.shape(share), bool)
        unit = 10.0 ** -self.decimals_of(metric)
        above = 100 * share - claimed
        fits = np.abs(above) <= unit / 2 + TOLERANCE
        if self.printed == "rounded-or-truncated":
            fits |= (above >= -TOLERANCE) & (above < unit - TOLERANCE)
        return np.asarray(fits)

    @property
    def one_class(self) -> bool:
        """Whether one answer is right for every question."""
        return self.positives in (0, self.n)


TOLERANCE = 1e-9


@dataclass(frozen=True)
class Diagnosis:
    """possible: how many sets of counts give the claim.

    example: one of them as TP FN FP TN; what of n they leave are questions answered no is right for
    whose answers were unmatched. over_always_yes: accuracy and F1, where claimed: whether each is
    over that of answering "yes" every time; empty where the positives are unknown. notes: what else
    is to be known to read the row.
    """

    possible: int
    example: tuple[int, int, int, int] | None
    over_always_yes: dict[str, bool]
    verdict: str
    notes: tuple[str, ...] = ()

    @property
    def beats_always_yes(self) -> bool | None:
        """Whether every claimed one of accuracy and F1 does; None where nothing can be said."""
        return all(self.over_always_yes.values()) if self.over_always_yes else None


def audit_metrics(claim: Claim) -> Diagnosis:
    """Tries every confusion matrix of that size; figures must agree to their printed decimals.

    Where unmatched answers count as wrong there is one more count: unmatched answers to questions
    whose right answer is no, which are neither false alarms nor right.

    >>> audit_metrics(Claim(n=10, positives=5, accuracy=85.0, unmatched="no")).possible
    0
    >>> audit_metrics(Claim(n=10, positives=5, accuracy=80.0, recall=100.0)).example
    (5, 0, 2, 3)
    """
    counts = [claim.positives] if claim.positives is not None else list(range(claim.n + 1))
    possible, example, fewest = 0, None, claim.n + 1
    for p in counts:
        fp = np.arange(claim.n - p + 1)[None]
        rows = max(1, CHUNK // fp.size)
        for start in range(0, p + 1, rows):
            tp = np.arange(start, min(start + rows, p + 1))[:, None]
            low, high = _true_negatives(claim, p, tp, fp)
            sets = np.where(_fits(claim, p, tp, fp), np.maximum(high - low + 1, 0), 0)
            possible += int(sets.sum())
            unmatched = np.where(sets > 0, claim.n - p - fp - high, claim.n + 1)
            i, j = np.unravel_index(int(unmatched.argmin()), unmatched.shape)
            if unmatched[i, j] < fewest:
                fewest = int(unmatched[i, j])
                example = int(tp[i, 0]), p - int(tp[i, 0]), int(fp[0, j]), int(high[i, j])
    over = _over_always_yes(claim)
    return Diagnosis(possible, example, over, _verdict(possible, over), _notes(claim))


CHUNK = 1_000_000
"""Confusion matrices tried at once."""


def _fits(claim: Claim, p: int, tp: Counts, fp: Counts) -> NDArray[np.bool_]:
    """Which counts (tp, fp) give the claims but for accuracy; 0/0 counts as 0."""
    parts: dict[str, tuple[Counts, Counts]] = {
        "precision": (tp, tp + fp),
        "recall": (tp, np.full_like(tp, p)),
        "f1": (2 * tp, tp + fp + p),
        "yes_rate": (tp + fp, np.full_like(tp + fp, claim.n)),
    }
    fits = np.ones((tp.size, fp.size), bool)
    for name, (part, total) in parts.items():
        if getattr(claim, name) is not None:
            share = part / np.maximum(total, 1)
            fits &= claim.could_be_printed(name, share)
    return fits


def _true_negatives(claim: Claim, p: int, tp: Counts, fp: Counts) -> tuple[Counts, Counts]:
    """The fewest and the most true negatives that give the accuracy; fewest > most: none do."""
    most = claim.n - p - fp + 0 * tp
    fewest = most if claim.unmatched == "no" else np.zeros_like(most)
    if claim.accuracy is None:
        return fewest, most
    hits = np.arange(claim.n + 1)
    fits = np.flatnonzero(claim.could_be_printed("accuracy", hits / claim.n))
    if not len(fits):
        return most + 1, most
    return np.maximum(fewest, fits[0] - tp), np.minimum(most, fits[-1] - tp)


def f1_range(claim: Claim) -> tuple[float, float] | None:
    """What F1 can be for the printed precision and recall, percent; None without both.

    >>> low, high = f1_range(Claim(193, precision=76, recall=72, decimals=0))
    >>> round(low, 1), round(high, 1)
    (73.4, 74.4)
    """
    if claim.precision is None or claim.recall is None:
        return None
    ends = []
    for side in (-1, 1):
        p, r = (
            min(max(getattr(claim, name) + side * _reach(claim, name), 0.0), 100.0)
            for name in ("precision", "recall")
        )
        ends.append(2 * p * r / (p + r) if p + r else 0.0)
    return ends[0], ends[1]


def _reach(claim: Claim, metric: str) -> float:
    """How far the truth may lie from a printed figure."""
    return 10.0 ** -claim.decimals_of(metric) * (0.5 if claim.printed == "rounded" else 1.0)


def _notes(claim: Claim) -> tuple[str, ...]:
    notes = []
    ends = f1_range(claim)
    if ends is not None and claim.f1 is not None:
        reach = _reach(claim, "f1") + TOLERANCE
        if not ends[0] - reach <= claim.f1 <= ends[1] + reach:
            notes.append(
                f"F1 {claim.f1:.2f}, but precision and recall give {ends[0]:.2f} to {ends[1]:.2f}"
            )
    if claim.one_class:
        answer = "yes" if claim.positives else "no"
        notes.append(
            f"{answer} is right for every question: answering it every time gets 100 %, and"
            " precision, recall and F1 say nothing"
        )
    return tuple(notes)


def always_yes(n: int, positives: int) -> dict[str, float]:
    """What answering "yes" every time gets, in percent.

    >>> {k: round(v, 1) for k, v in always_yes(193, 137).items()}
    {'accuracy': 71.0, 'f1': 83.0}
    """
    return {"accuracy": 100 * positives / n, "f1": 200 * positives / (n + positives)}


def _over_always_yes(claim: Claim) -> dict[str, bool]:
    """By more than the rounding of the printed figure."""
    if claim.positives is None:
        return {}
    line = always_yes(claim.n, claim.positives)
    claimed = {k: getattr(claim, k) for k in line if getattr(claim, k) is not None}
    return {k: v > line[k] + 0.5 * 10.0 ** -claim.decimals_of(k) for k, v in claimed.items()}


def _verdict(possible: int, over: dict[str, bool]) -> str:
    if not possible:
        return "impossible: no confusion matrix of this size gives these figures"
    if below := [{"f1": "F1"}.get(k, k) for k, beats in over.items() if not beats]:
        named = " and ".join(below)
        return f"possible, but it does not beat answering yes every time in {named}"
    return "possible"
