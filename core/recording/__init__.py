"""What another implementation of a contrastive decoder computed → a validated Trace.

Such a trace opens in the viewer, is saved and loaded, and its tokens are scored again with other α
and β, as those of this project's own runs. Imports no torch: tensors are handed over as arrays.
"""

from macd_studio.core.recording.answers import (
    AnswerRecord,
    MaskRecord,
    ShownRecord,
    StepRecord,
    TokenText,
)
from macd_studio.core.recording.build import TrackRecord, record

__all__ = [
    "AnswerRecord",
    "MaskRecord",
    "ShownRecord",
    "StepRecord",
    "TokenText",
    "TrackRecord",
    "record",
]
