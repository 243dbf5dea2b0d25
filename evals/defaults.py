"""Options of an evaluation where nothing is said; imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.options import Fit, RunOptions, options_from

FIT: Fit = "native"
"""Frames go through the model's own processor as published. "pad", the default of a single run,
keeps the shape of frames that InternVL, SmolVLM and LLaVA-NeXT-Video would stretch or crop.
"""


def evaluation_options(values: Mapping[str, Any]) -> RunOptions:
    """The options of a run from plain values, FIT where these hold none. Raises OptionError."""
    options_from(values)
    video = {"fit": FIT} | dict(values.get("video", {}))
    return options_from({**values, "video": video})
