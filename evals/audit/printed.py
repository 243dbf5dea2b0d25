"""Printed rows of one backbone: what its baseline gets that says "yes" as often as a method.

Where a row's figures fit one confusion matrix alone, its counts are known without single answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from macd_studio.evals.audit.controls import normal_change, precise_change
from macd_studio.evals.paper.published import PublishedRow, diagnose

BASELINES = frozenset(("baseline", "greedy", "vanilla", "regular"))
"""How tables call plain decoding, in any case."""


@dataclass(frozen=True)
class SameRate:
    """A row beside its baseline. n: questions; yes: said by the baseline and by the method.

    before, after: accuracies that the counts give. random, normal, most: what the baseline gets
    that says yes as often as the method, see `evals.audit.controls`; all in percent.
    """

    n: int
    yes: tuple[int, int]
    before: float
    after: float
    random: float
    normal: float
    most: float


def at_the_same_rate(rows: Sequence[PublishedRow]) -> list[SameRate | None]:
    """For each row; None for baselines, and where the counts of either are not known."""
    known = [_counts(row) for row in rows]
    plain = {_about(r): c for r, c in zip(rows, known, strict=True) if _is_baseline(r)}
    return [
        None if own is None or _is_baseline(row) else _beside(plain.get(_about(row)), own)
        for row, own in zip(rows, known, strict=True)
    ]


Counts = tuple[int, int, int, int]
"""TP, FN, FP, TN, which sum to the number of questions."""


def _is_baseline(row: PublishedRow) -> bool:
    return row.labels.get("method", "").strip().lower() in BASELINES


def _about(row: PublishedRow) -> tuple[str, ...]:
    return tuple(v for k, v in sorted(row.labels.items()) if k != "method")


def _counts(row: PublishedRow) -> Counts | None:
    found = diagnose(row) if row.positives is not None else None
    if found is None or found.possible != 1 or found.example is None:
        return None
    return found.example if sum(found.example) == row.n else None


def _beside(before: Counts | None, after: Counts) -> SameRate | None:
    if before is None or sum(before) != sum(after) or sum(before[:2]) != sum(after[:2]):
        return None
    (tp, fn, fp, tn), n = before, sum(before)
    yes = tp + fp, after[0] + after[2]
    more = yes[1] - yes[0]
    # of the answers that change, right ones are gained and lost in the baseline's own shares
    chance = more * ((fn - tn) / max(1, fn + tn) if more > 0 else (tp - fp) / max(1, tp + fp)) / n
    sums = np.array([tp, tp + fn, fp, fp + tn, yes[1], n], float)
    plain = (tp + tn) / n
    gains = (chance, float(normal_change(sums)), float(precise_change(sums)))
    random, normal, most = (100 * (plain + z) for z in gains)
    return SameRate(n, yes, 100 * plain, 100 * (after[0] + after[3]) / n, random, normal, most)


def sentence(found: SameRate | None) -> str:
    """As the doctor adds it to a row; "" for None.

    >>> sentence(SameRate(193, (57, 121), 35.8, 49.2, 52.3, 53.0, 55.0))
    '; "yes" 29.5 → 62.7 %, with which changes at random get 52.3, a moved threshold 53.0 (at most \
55.0)'
    """
    if found is None:
        return ""
    before, after = (100 * z / found.n for z in found.yes)
    return (
        f'; "yes" {before:.1f} → {after:.1f} %, with which changes at random get'
        f" {found.random:.1f}, a moved threshold {found.normal:.1f} (at most {found.most:.1f})"
    )
