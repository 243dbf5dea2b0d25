"""When a clip is looked at: uniformly for the backbone, and more densely for the tracker."""

from __future__ import annotations

from collections.abc import Sequence

from macd_studio.core.options import WIDEST_S


def uniform(start: float, end: float, n: int) -> list[float]:
    """Middles of n equal parts of [start, end].

    >>> uniform(0, 8, 4)
    [1.0, 3.0, 5.0, 7.0]
    """
    return [start + (i + 0.5) * (end - start) / n for i in range(n)]


def tracker_count(start: float, end: float, fps: float, limit: int) -> int:
    """How many frames of [start, end] the tracker is shown, evenly spread; none without `fps`."""
    return max(1, min(limit, round((end - start) * fps))) if fps > 0 else 0


def tracker_times(
    start: float, end: float, samples: Sequence[float], fps: float, limit: int
) -> list[float]:
    """Times in [start, end] of the tracker's frames, in order. Seconds; none without `fps`.

    samples: the times at which the backbone is shown the clip. fps: frames per second wanted.
    limit: about how many frames at most. Where so few would lie further apart than an object can be
    followed (`WIDEST_S`), they are gathered in bursts of `fps` around each sample: at least
    there an object is seen often enough to be tracked.

    >>> tracker_times(0, 2, [1.0], 2, 100)
    [0.25, 0.75, 1.25, 1.75]
    >>> tracker_times(0, 600, [150, 450], 10, 4)
    [149.9, 150.0, 150.1, 449.9, 450.0, 450.1]
    """
    count = tracker_count(start, end, fps, limit)
    if not count or (end - start) / count <= max(WIDEST_S, 1 / fps):
        return uniform(start, end, count)
    each = max(1, (limit + len(samples)) // len(samples))
    burst = [(i - each // 2) / fps for i in range(each)]
    return sorted({round(t + d, 9) for t in samples for d in burst if start <= t + d <= end})
