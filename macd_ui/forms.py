"""Widget values → options. Pure: no widget is imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import OptionError
from core.options import (
    AscentOptions,
    ContrastOptions,
    DecodeOptions,
    DetectOptions,
    MaskOptions,
    RunOptions,
    VideoOptions,
)

FUSIONS = ("max", "confidence", "average", "or")
LEVELS = ("three", "continuous")
FILLS = ("mean", "black", "blur", "noise", "additive")
SHAPES = ("outline", "box")
FRAME_MASKS = ("outside", "whole", "off")


def run_options(values: Mapping[str, Any]) -> RunOptions:
    """Options from the settings by name; an empty field is an OptionError that names it."""
    return RunOptions(
        video=VideoOptions(frames=_whole(values, "frames")),
        detect=DetectOptions(confidence=_number(values, "confidence")),
        mask=MaskOptions(
            fill=values["fill"],
            fusion=values["fusion"],
            frame_mask=values["frame_mask"],
            swept=bool(values["swept"]),
            shape=values["shape"],
        ),
        ascent=AscentOptions(
            steps=_whole(values, "steps"),
            eta=_number(values, "eta"),
            tau=_number(values, "tau"),
            levels=values["levels"],
            memory="low" if values["low_memory"] else "normal",
            gradient=values["gradient"],
        ),
        contrast=ContrastOptions(alpha=_number(values, "alpha"), beta=_number(values, "beta")),
        decode=DecodeOptions(search=values["search"], seed=_whole(values, "seed")),
        seed=_whole(values, "seed"),
    )


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values[name]
    if value is None or isinstance(value, bool | str):
        raise OptionError(f"{name.replace('_', ' ')} is empty", "Type a number")
    return float(value)


def _whole(values: Mapping[str, Any], name: str) -> int:
    value = _number(values, name)
    if not value.is_integer():
        raise OptionError(f"{name} is {value:g}", "Type a whole number")
    return int(value)
