"""Qwen3-VL: every temporal patch stands by itself in the prompt, after its time in words."""

from __future__ import annotations

from core.backbones.qwen2_vl import Qwen2VL


class Qwen3VL(Qwen2VL):
    """A `Qwen3VLForConditionalGeneration`; its timestamps are text, and positions know no time."""

    fewest = 2
