"""Maps over cells: pooling that keeps sums, shares by region, and agreement. NumPy only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
CELLS = 24
"""About how many cells the longer side of a map has; always a multiple of the vision tokens."""


def grid_of(token_rows: int, token_columns: int) -> tuple[int, int]:
    """Rows and columns of a map over frames of so many vision tokens.

    >>> grid_of(3, 3), grid_of(10, 6), grid_of(40, 30)
    ((24, 24), (20, 12), (40, 30))
    """
    times = max(1, round(CELLS / max(token_rows, token_columns)))
    return times * token_rows, times * token_columns


def overlaps(fine: int, coarse: int) -> NDArray[np.float64]:
    """(coarse, fine) the share of each of `fine` equal pieces of a side in each of `coarse` ones.

    >>> overlaps(3, 2).round(2).tolist()
    [[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]]
    """
    ends = np.arange(fine + 1) / fine
    edges = np.arange(coarse + 1) / coarse
    low = np.maximum(ends[None, :-1], edges[:-1, None])
    high = np.minimum(ends[None, 1:], edges[1:, None])
    return np.asarray((high - low).clip(0) * fine, np.float64)


def sum_to(values: Array, size: tuple[int, int]) -> NDArray[np.float64]:
    """(…, H, W) → (…, R, C): what lies in a pixel is shared by the cells it lies in; sums stay."""
    rows, columns = overlaps(values.shape[-2], size[0]), overlaps(values.shape[-1], size[1])
    return np.asarray(rows @ values.astype(np.float64) @ columns.T)


def mean_to(values: Array, size: tuple[int, int]) -> NDArray[np.float64]:
    """(…, H, W) → (…, R, C): the mean over each cell's area."""
    cells = size[0] * size[1] / (values.shape[-2] * values.shape[-1])
    return np.asarray(sum_to(values, size) * cells)


def shares(values: Array, coverage: Array) -> tuple[tuple[float, ...], float]:
    """Of the magnitude of a map (T, R, C), what lies on each region (K, T, R, C), and on none.

    Regions overlap, so that shares may sum to more than 1. All are 0 for a map of zeros.
    """
    size = np.abs(np.asarray(values, np.float64))
    total = float(size.sum())
    if not total > 0:
        return (0.0,) * len(coverage), 0.0
    each = tuple(float((size * region).sum() / total) for region in coverage)
    free = 1 - coverage.max(0) if len(coverage) else np.ones_like(size)
    return each, float((size * free).sum() / total)


def group_shares(values: Array, groups: Sequence[Sequence[int]]) -> tuple[float, ...]:
    """Of the magnitude of a map (T, R, C), what lies in each frame group."""
    by_frame = np.abs(np.asarray(values, np.float64)).sum((1, 2))
    total = float(by_frame.sum())
    return tuple(float(by_frame[list(g)].sum() / total) if total > 0 else 0.0 for g in groups)


def rank_correlation(a: Array, b: Array) -> float | None:
    """Spearman's correlation of two maps' magnitudes; None where one is flat.

    Magnitudes, because attention has no sign. Over the cells where neither is exactly 0: where no
    object is, a map by object says nothing.
    """
    from scipy.stats import spearmanr  # takes half a second, and few who import this call it

    first, second = np.abs(a).ravel(), np.abs(b).ravel()
    both = (first > 0) & (second > 0)
    first, second = first[both], second[both]
    if first.size < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(spearmanr(first, second).statistic)
