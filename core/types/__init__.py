"""What the stages pass to each other. Frozen except Progress; arrays are never written to.

Axes: T sampled frames, D dense frames, K tracks, G frame groups (temporal patches of the
backbone), C candidate tokens, H×W pixels of a source frame, h×w pixels of a model frame.
Boxes are x0 y0 x1 y1 in shares of the source frame, [0, 1]; NaN where a track is lost.

The package is imported as one: `from macd_studio.core.types import Trace`.
"""

from __future__ import annotations

from macd_studio.core.types.answers import (
    MAYBE_THOUGHT,
    Answer,
    AscentStep,
    Counterfactual,
    ShownView,
    StepWeights,
    TokenStep,
)
from macd_studio.core.types.clips import Clip, Floats, Ints, ModelFrames, Pixels, Progress
from macd_studio.core.types.objects import (
    INTERPOLATED,
    LOST,
    SEEN,
    Detections,
    MaskSet,
    Outline,
    Stroke,
    Track,
)
from macd_studio.core.types.trace import Trace

__all__ = [
    "INTERPOLATED",
    "LOST",
    "MAYBE_THOUGHT",
    "SEEN",
    "Answer",
    "AscentStep",
    "Clip",
    "Counterfactual",
    "Detections",
    "Floats",
    "Ints",
    "MaskSet",
    "ModelFrames",
    "Outline",
    "Pixels",
    "Progress",
    "ShownView",
    "StepWeights",
    "Stroke",
    "TokenStep",
    "Trace",
    "Track",
]
