"""The metric doctor: can any confusion matrix give these published figures at all?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import OptionError
from core.validation import Number

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Claim:
    """A row of a table of yes/no results. Shares in percent, as printed; None where not given."""

    n: int
    positives: int | None = None
    accuracy: float | None = None
    precision: float | None = None
    recall: float | None = None
    f1: float | None = None
    yes_rate: float | None = None
    decimals: int = 2

    def __post_init__(self) -> None:
        if not 1 <= self.n <= 50_000:
            raise OptionError(f"n is {self.n}", "Give the number of questions, 1 to 50000")
        Number(0, 10, whole=True).read(self.decimals, "decimals")
        for name in ("accuracy", "precision", "recall", "f1", "yes_rate"):
            Number(0, 100, optional=True).read(getattr(self, name), name)
        if self.positives is None and self.n > 500:
            raise OptionError("the number of positives is missing", "Give it where n is over 500")
        if self.positives is not None and not 0 <= self.positives <= self.n:
            raise OptionError(
                f"{self.positives} of {self.n} questions cannot be positive",
                "Give the number of questions whose answer is yes",
            )


@dataclass(frozen=True)
class Diagnosis:
    """possible: how many confusion matrices give the claim; example: one of them as TP FN FP TN.

    beats_always_yes: whether accuracy and F1 are over those of answering "yes" every time; None
    where the positives are unknown or neither is claimed.
    """

    possible: int
    example: tuple[int, int, int, int] | None
    beats_always_yes: bool | None
    verdict: str


def audit_metrics(claim: Claim) -> Diagnosis:
    """Tries every confusion matrix of that size; figures must agree to their printed decimals.

    Unmatched answers count as no, which is how the published scorers count them.

    >>> audit_metrics(Claim(n=10, positives=5, accuracy=85.0)).possible
    0
    >>> audit_metrics(Claim(n=10, positives=5, accuracy=80.0, recall=100.0)).example
    (5, 0, 2, 3)
    """
    counts = [claim.positives] if claim.positives is not None else list(range(claim.n + 1))
    possible, example = 0, None
    half = 0.5 * 10.0**-claim.decimals + 1e-9
    for p in counts:
        fp = np.arange(claim.n - p + 1)
        for tp in range(p + 1):
            fits = _fits(claim, p, tp, fp, half)
            count = int(fits.sum())
            possible += count
            if example is None and count:
                first = int(np.flatnonzero(fits)[0])
                example = tp, p - tp, first, claim.n - p - first
    beats = _beats_always_yes(claim)
    return Diagnosis(possible, example, beats, _verdict(possible, beats))


def _fits(claim: Claim, p: int, tp: int, fp: Counts, half: float) -> NDArray[np.bool_]:
    """Which numbers of false positives give the claimed figures; nothing over nothing counts 0."""
    top = {
        "accuracy": (tp + claim.n - p - fp, np.full(len(fp), claim.n)),
        "precision": (np.full(len(fp), tp), tp + fp),
        "recall": (np.full(len(fp), tp), np.full(len(fp), p)),
        "f1": (np.full(len(fp), 2 * tp), tp + fp + p),
        "yes_rate": (tp + fp, np.full(len(fp), claim.n)),
    }
    fits = np.ones(len(fp), bool)
    for name, (part, whole) in top.items():
        claimed = getattr(claim, name)
        if claimed is not None:
            share = np.divide(part, whole, out=np.zeros(len(fp)), where=whole > 0)
            fits &= np.abs(100 * share - claimed) <= half
    return fits


def always_yes(n: int, positives: int) -> dict[str, float]:
    """What answering "yes" every time gets, in percent.

    >>> {k: round(v, 1) for k, v in always_yes(193, 137).items()}
    {'accuracy': 71.0, 'f1': 83.0}
    """
    return {"accuracy": 100 * positives / n, "f1": 200 * positives / (n + positives)}


def _beats_always_yes(claim: Claim) -> bool | None:
    if claim.positives is None:
        return None
    line = always_yes(claim.n, claim.positives)
    claimed = {k: getattr(claim, k) for k in line if getattr(claim, k) is not None}
    half = 0.5 * 10.0**-claim.decimals
    return all(v > line[k] + half for k, v in claimed.items()) if claimed else None


def _verdict(possible: int, beats: bool | None) -> str:
    if not possible:
        return "impossible: no confusion matrix of this size gives these figures"
    if beats is False:
        return "possible, but it does not beat answering yes every time"
    return "possible"
