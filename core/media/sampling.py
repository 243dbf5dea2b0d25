"""When a clip is looked at: uniformly for the backbone, and more densely for the tracker."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from macd_studio.core.errors import OptionError
from macd_studio.core.options import WIDEST_S
from macd_studio.core.text.words import count
from macd_studio.core.types import Clip

SAME_MOMENTS = "Give a partner of the same length, or choose a range that lies in both clips"
"""What helps where a clip and its partner are seen at other times."""


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
    number = tracker_count(start, end, fps, limit)
    if not number or (end - start) / number <= max(WIDEST_S, 1 / fps):
        return uniform(start, end, number)
    each = max(1, (limit + len(samples)) // len(samples))
    burst = [(i - each // 2) / fps for i in range(each)]
    return sorted({round(t + d, 9) for t in samples for d in burst if start <= t + d <= end})


def other_moments(times: Sequence[float], others: Sequence[float], duration: float) -> str:
    """Why two clips are not seen at the same times, frame by frame; "" where they are.

    times, others: of their frames, seconds; duration: of the first, 0 of a picture. They may differ
    by half a sampling step, the largest of both: what is on display at a time began before it.

    >>> other_moments([1, 3, 5], [1.2, 3.5, 5.9], 6)
    ''
    >>> other_moments([1, 3, 5], [2, 6, 10], 6)
    'frame 3 of this clip is seen at 5 s, that of its partner at 10 s'
    >>> other_moments([1, 3], [1], 4)
    '2 frames of this clip stand against 1 of its partner'
    """
    if len(times) != len(others):
        said = count(len(times), "frame")
        return f"{said} of this clip stand against {len(others)} of its partner"
    steps = [b - a for z in (times, others) for a, b in pairwise(z)] or [duration]
    far = [abs(a - b) for a, b in zip(times, others, strict=True)]
    worst = max(range(len(far)), key=far.__getitem__)
    if duration == 0 or far[worst] <= max(steps) / 2 + 1e-6:
        return ""
    return (
        f"frame {worst + 1} of this clip is seen at {times[worst]:.4g} s, that of its partner at"
        f" {others[worst]:.4g} s"
    )


def check_partner(clip: Clip, partner: Clip) -> None:
    """Raises OptionError for a partner that is not seen at the times of the clip."""
    times = [float(t) for t in clip.times], [float(t) for t in partner.times]
    if cause := other_moments(*times, clip.duration):
        raise OptionError(cause, SAME_MOMENTS)
