"""Options of an evaluation where nothing is said; imports no torch.

The files of a benchmark are the user's own, so that longer and larger ones are read than of
strangers on the page; each benchmark says how long its videos are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from macd_studio.core.options import Fit, RunOptions, options_from

FIT: Fit = "native"
"""Frames go through the model's own processor as published. "pad", the default of a single run,
keeps the shape of frames that InternVL, SmolVLM and LLaVA-NeXT-Video would stretch or crop.
"""

LONG = {"max_seconds": 7200.0, "max_megabytes": 8000.0}
"""Limits of `VideoOptions` where videos may last an hour: Video-MME's longest do."""


def evaluation_options(
    values: Mapping[str, Any], limits: Mapping[str, float] | None = None
) -> RunOptions:
    """The options of a run from plain values. Raises OptionError.

    Where these hold none, the fit is FIT, and the longest and largest video are those of `limits`.
    """
    options_from(values)
    video = {"fit": FIT} | dict(limits or {}) | dict(values.get("video", {}))
    return options_from({**values, "video": video})
