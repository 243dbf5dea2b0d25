"""Qwen2.5-VL, the embedded backbone's family: Qwen2-VL with time in its positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.backbones.qwen2_vl import Qwen2VL


class Qwen25VL(Qwen2VL):
    """A `Qwen2_5_VLForConditionalGeneration`."""

    def clock(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Times count from the first frame: positions know seconds a patch, not the clock."""
        return np.asarray(times - times[0])

    def time_step(self, out: Mapping[str, Any]) -> float:
        """See `Qwen2VL.time_step`: seconds per temporal patch × positions per second."""
        seconds = float(out["second_per_grid_ts"][0])
        return seconds * float(self.model.config.vision_config.tokens_per_second)
