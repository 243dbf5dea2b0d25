"""Where a video changes most: SSACD's second view. Importing this module imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import NotApplicable

if TYPE_CHECKING:
    from torch import Tensor

    from macd_studio.core.backbones.base import Encoded
    from macd_studio.core.views.context import MethodContext

CLIP_THRESHOLD = 0.8
"""Cosine of CLIP's features below which SSACD takes a change for a shift."""


def neighbour_cosines(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """(F, d) → (F − 1,) cosines of each row and the next; 0 beside a row of zeros."""
    lengths = np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    unit = features / lengths
    return np.asarray((unit[:-1] * unit[1:]).sum(1))


def largest_shift(cosines: NDArray[np.float64], threshold: float | None) -> int | None:
    """Index of what follows the smallest cosine, the first of equal ones.

    None where that is not below `threshold`, or where there is nothing to compare.

    >>> largest_shift(np.array([0.9, 0.3, 0.7]), 0.8), largest_shift(np.array([0.9]), 0.8)
    (2, None)
    """
    if not len(cosines):
        return None
    at = int(cosines.argmin())
    return at + 1 if threshold is None or cosines[at] < threshold else None


def shift_of(context: MethodContext) -> tuple[int | None, NDArray[np.float64]]:
    """The first frame after the clip's largest semantic shift, None without one; and the cosines.

    Raises NotApplicable for a picture, and where the features that the options name are not there.
    """
    encoded, options = context.encoded, context.options.ssacd
    if encoded.frames.duration == 0:
        raise NotApplicable("a picture has no semantic shift", "Choose another method")
    threshold = options.threshold
    if options.features == "clip":
        from macd_studio.core.backbones.clip import clip_features

        features = clip_features(encoded.frames.pixels)
        starts = list(range(len(features)))
        threshold = CLIP_THRESHOLD if threshold is None else threshold
    else:
        from macd_studio.core.backbones.local import DecodeState

        base = context.base  # in an evaluation it may wait to be read
        features = context.lm.frame_features(
            encoded, base if isinstance(base, DecodeState) else None
        )
        starts = [group[0] for group in encoded.groups]
    cosines = neighbour_cosines(features)
    at = largest_shift(cosines, threshold)
    return None if at is None else starts[at], cosines


def noised_from(encoded: Encoded, first: int, noise: Tensor, sigma: float) -> Tensor:
    """The video (T, 3, H, W) with noise on its 8-bit pixels from frame `first` on.

    noise: (T, 3, H, W) standard normal; sigma: grey levels. Sums are cut off at 0 and 255 and
    rounded down, as by a conversion to 8 bits.
    """
    mean, std = (z[:, None, None] for z in (encoded.mean, encoded.std))
    rgb = ((encoded.video[first:].float() * std + mean) * 255).round()
    rgb = (rgb + sigma * noise[first:]).clamp(0, 255).floor()
    video = encoded.video.clone()
    video[first:] = ((rgb / 255 - mean) / std).to(video.dtype)
    return video
