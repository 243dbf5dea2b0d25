"""Every decoder by name. A new one is a function MethodContext → DecodingViews, and one line below.

Importing this package imports no torch: a method's module is loaded when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from core.errors import OptionError

if TYPE_CHECKING:
    from core.methods.base import DecodingViews, MethodContext


@dataclass(frozen=True)
class Method:
    """A decoder by name. place: module and function that prepares its views."""

    name: str
    title: str
    place: str

    def _function(self) -> Callable[[Any], Any]:
        module, function = self.place.split(":")
        found: Callable[[Any], Any] = getattr(import_module(f"core.methods.{module}"), function)
        return found

    def prepare(self, case: MethodContext) -> DecodingViews:
        """The views this method decodes from."""
        prepared: DecodingViews = self._function()(case)
        return prepared

    @property
    def source(self) -> str:
        """Where the method comes from: its function's docstring."""
        return (self._function().__doc__ or "").strip()


METHODS: dict[str, Method] = {
    m.name: m
    for m in (
        Method("baseline", "Baseline", "controls:baseline"),
        Method("macd", "MACD", "masked:macd"),
        Method("vcd", "VCD", "noise:vcd"),
        Method("sid", "SID", "rivals:sid"),
        Method("tcd", "TCD", "rivals:tcd"),
        Method("macd-fixed", "MACD, no mask training", "masked:macd_fixed"),
        Method("macd-object", "MACD, no frame mask", "masked:macd_object"),
        Method(
            "macd-object-subsampled",
            "MACD, no frame mask, fewer frames",
            "masked:macd_object_subsampled",
        ),
        Method("macd-continuous", "MACD, continuous strengths", "masked:macd_continuous"),
        Method("macd-swept", "MACD, swept masks", "masked:macd_swept"),
        Method("noise-global", "Trained noise, whole clip", "noise:noise_global"),
        Method("noise-object", "Trained noise, objects", "noise:noise_object"),
        Method("noise-frame", "Trained noise, frames", "noise:noise_frame"),
        Method("random-mask", "Random places, same area", "masked:random_mask"),
        Method("mask-all", "Every object hidden", "masked:mask_all"),
        Method("reversed", "Reversed signs", "masked:reversed_signs"),
        Method("blank", "Blank video", "controls:blank"),
        Method("head-only", "Head rule alone", "controls:head_only"),
        Method("prompt-bias", "Prompt asks for yes", "controls:prompt_bias"),
        Method("output-bias", "Bias on yes", "controls:output_bias"),
        Method("always-yes", "Always yes", "controls:always_yes"),
    )
}


def find_methods(names: Iterable[str]) -> list[Method]:
    """Methods by name, each once, in the order given; "all" is every one. Raises OptionError."""
    wanted = list(dict.fromkeys(names))
    if wanted == ["all"]:
        return list(METHODS.values())
    if unknown := [n for n in wanted if n not in METHODS]:
        raise OptionError(f"there is no method {unknown[0]!r}", f"Choose of {', '.join(METHODS)}")
    return [METHODS[n] for n in wanted]
