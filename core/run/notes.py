"""What a run must tell beside its results, as sentences of a trace's warnings."""

from __future__ import annotations

from collections.abc import Iterator

from macd_studio.core.methods import clamped_share, display_name
from macd_studio.core.options import AscentOptions, VideoOptions
from macd_studio.core.types import Answer, AscentStep, Clip, Counterfactual

UNNAMED = "{} does not say what its classes are called: give their names in order, with --names"
NOBODY_FOUND = "looked for, and not found: {}"
PART = "{:g} to {:g} s of {:.1f} s were analysed, and nothing else"
SHORTER_S = 0.5
"""Seconds that may be missing at the end of a clip before that is told."""
NO_TRACKS = "no objects were found: only the frame mask is used"
NOTHING = "no objects were found and the frame mask is off: MACD has nothing to hide"
SAME_VIEWS = "every mask ended at level 0: both views are the same, so contrast changes nothing"
NOTHING_OPEN = (
    "no contrast could change a token of MACD's answer, so it was decoded without the ascent and"
    " its second view"
)
NO_ANSWER = "only the masks were computed: no answer was decoded"
APPROXIMATE = {
    "base": "approximate gradient: taken on the plain video (r = 0), not at the strengths' start",
    "half": "approximate gradient: taken on frames of half the size",
    "difference": "slopes were measured by reading alone, each as a central difference",
}
UNDECIDED = (
    "{} of {} slopes could not be told from 0 and are undecided: such a mask stays at r0, where it"
    " started"
)
NEARLY_ALL = 0.98
"""Mean of the mask from which on the counterfactual shows nothing."""
ALL_MASKED = "the masks hide nearly the whole video: the counterfactual holds no evidence at all"


CLAMPED = (
    "{}: {:.1f} % of the noise's values lay outside RGB and were clamped, since the server takes"
    " frames in 8 bits"
)


def of_range(clip: Clip, options: VideoOptions) -> Iterator[str]:
    """Which part of the clip was read, in seconds, where it is not all of it."""
    end = clip.duration if options.end is None else min(options.end, clip.duration)
    if options.start > 0 or end < clip.duration - SHORTER_S:
        yield PART.format(round(options.start, 2), round(end, 2), clip.duration)


def of_view(answer: Answer) -> Iterator[str]:
    """Where a second view's values were clamped, how many."""
    if (share := clamped_share(answer)) is not None:
        yield CLAMPED.format(display_name(answer), 100 * share)


def of_slopes(last: AscentStep, options: AscentOptions) -> Iterator[str]:
    """How many slopes of a step no difference tells from 0."""
    slopes = options.undecided([*last.gradient, *last.frame_gradient])
    if any(slopes):
        yield UNDECIDED.format(sum(slopes), len(slopes))


def of_masks(counterfactual: Counterfactual, masked: float) -> Iterator[str]:
    """Where both views are the same, or one shows nothing. masked: mean of the mask, [0, 1]."""
    if not counterfactual.level.any() and not counterfactual.frame_level.any():
        yield SAME_VIEWS
    if masked > NEARLY_ALL:
        yield ALL_MASKED
