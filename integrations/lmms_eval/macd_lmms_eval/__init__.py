"""MACD Studio's decoding methods in lmms-eval, and its benchmarks as tasks there."""

from __future__ import annotations

from typing import Any


def manifest() -> Any:
    """What lmms-eval asks of its entry point `lmms_eval.models`."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest("macd_studio", chat_class_path="macd_lmms_eval.model.MacdStudio")
