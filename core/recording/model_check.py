"""Whether a model reads a recorded prompt as the other program did, by one token of an answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from macd_studio.core.errors import OptionError
from macd_studio.core.types import ModelFrames, TokenStep, Trace

TOLERANCE = 0.05
"""Difference, in logits, that may come from rounding. Other positions of the text after a video
changed the embedded model by up to 1.5."""
NORMALISED = 1e-3
"""A log partition no further from 0 is that of log-probabilities."""


def difference_note(trace: Trace, model: Any) -> str:
    """A note where a model's prefill differs from the first token of a recorded answer, else "".

    Compares the log partition; where log-probabilities were recorded, which have none, the token's
    own. model: one that `core.backbones.load_backbone` gave. The frames are read as they are, so
    they must have the size that it reads. Raises OptionError for another object or size.
    """
    if not callable(getattr(model, "encode_frames", None)):
        raise OptionError(
            f"model is {type(model).__name__}, which reads no frames here",
            "Give what core.backbones.load_backbone gives for the same weights",
        )
    name, first = next((n, a.tokens[0]) for n, a in trace.answers.items())
    pixels = trace.frames
    height, width = pixels.shape[1:3]
    frames = ModelFrames(pixels, trace.times, float(trace.times[-1]), (0, 0, width, height))
    encoded = model.encode_frames(frames, trace.question)
    logits = _logits(model, encoded)
    if first.candidates.max() >= len(logits):
        return (
            f"the model {model.info.name} has {len(logits)} tokens, fewer than were recorded: it is"
            " another one"
        )
    what, recorded, here = _compared(first, logits)
    if abs(recorded - here) <= TOLERANCE:
        return ""
    return (
        f"the model {model.info.name} differs from the first token of {name!r}: {what} {here:.3f},"
        f" recorded {recorded:.3f}; check its frames, prompt and positions (position_ids)"
    )


def _logits(model: Any, encoded: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(V,) given the video, of the first token."""

    return np.asarray(model.next_rows(model.prefill(encoded, encoded.video))[0].values, np.float64)


def _compared(
    step: TokenStep, logits: np.ndarray[Any, np.dtype[np.float64]]
) -> tuple[str, float, float]:
    """What is compared, recorded and here."""
    log_z = float(np.logaddexp.reduce(logits))
    if abs(step.base_log_z) > NORMALISED:
        return "log partition", float(step.base_log_z), log_z
    at = int(np.flatnonzero(step.candidates == step.token)[0])
    return (
        "log-probability",
        float(step.base[at] - step.base_log_z),
        float(logits[step.token] - log_z),
    )
