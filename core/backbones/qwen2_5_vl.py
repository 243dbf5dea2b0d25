"""Qwen2.5-VL, the embedded backbone's family: Qwen2-VL with time in its positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from core.backbones.qwen2_vl import Qwen2VL
from core.types import Clip


class Qwen25VL(Qwen2VL):
    """A `Qwen2_5_VLForConditionalGeneration`."""

    def given(self, clip: Clip) -> Clip:
        """Times count from the first frame: positions know seconds a patch, not the clock."""
        return super().given(replace(clip, times=clip.times - clip.times[0]))

    def timing(self, out: Mapping[str, Any]) -> dict[str, Any]:
        """Seconds per temporal patch."""
        return {"second_per_grid_ts": torch.as_tensor(out["second_per_grid_ts"])}
