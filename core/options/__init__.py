"""Frozen options, one class per stage, validated at construction; the paper's presets by name.

Every option used is written into the trace, so that a run can be repeated from it. The package is
imported as one: `from macd_studio.core.options import RunOptions`.
"""

from __future__ import annotations

from macd_studio.core.options.ascent import (
    DITHERS,
    AscentOptions,
    Gradient,
    Level,
    Levels,
    Memory,
    Objective,
    Strengths,
)
from macd_studio.core.options.decoding import (
    MAX_TOKENS,
    PRESETS,
    VCD_PRESETS,
    ContrastOptions,
    DecodeOptions,
    HeadRule,
    RuleOptions,
    Search,
    SidOptions,
    TcdOptions,
    VcdOptions,
)
from macd_studio.core.options.objects import (
    FUSIONS,
    MAX_FRAMES,
    MAX_SEED,
    WIDEST_S,
    Columns,
    DetectOptions,
    Fill,
    FirstFrame,
    Fit,
    FrameMask,
    Fusion,
    MaskOptions,
    Overlap,
    Shape,
    TrackOptions,
    VideoOptions,
)
from macd_studio.core.options.run import (
    OWN_CONTRAST,
    PlanOptions,
    RunOptions,
    options_from,
    read_options,
)

__all__ = [
    "DITHERS",
    "FUSIONS",
    "MAX_FRAMES",
    "MAX_SEED",
    "MAX_TOKENS",
    "OWN_CONTRAST",
    "PRESETS",
    "VCD_PRESETS",
    "WIDEST_S",
    "AscentOptions",
    "Columns",
    "ContrastOptions",
    "DecodeOptions",
    "DetectOptions",
    "Fill",
    "FirstFrame",
    "Fit",
    "FrameMask",
    "Fusion",
    "Gradient",
    "HeadRule",
    "Level",
    "Levels",
    "MaskOptions",
    "Memory",
    "Objective",
    "Overlap",
    "PlanOptions",
    "RuleOptions",
    "RunOptions",
    "Search",
    "Shape",
    "SidOptions",
    "Strengths",
    "TcdOptions",
    "TrackOptions",
    "VcdOptions",
    "VideoOptions",
    "options_from",
    "read_options",
]
