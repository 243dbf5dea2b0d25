"""Recommended backbones with their memory needs; any other of a known family works too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from macd_studio.core.backbones.weights_options import Weights

PLANNED = Path(__file__).with_name("planned.json")
"""`core.planning.plan` of each listed model, 8 frames of 280 × 280; see `bench.planned`."""


@dataclass(frozen=True)
class CatalogueEntry:
    """A model by hub id. billions: of parameters. revision: the commit that is loaded; empty where
    it is not known, and the newest is followed.

    The paper's own are Qwen2-VL, Qwen2.5-VL, Qwen3-VL and InternVL3; SmolVLM2 fits a laptop.
    """

    title: str
    hub_id: str
    family: str
    billions: float
    licence: str
    revision: str = ""

    @property
    def memory_gb(self) -> float:
        """What the weights take in bfloat16; a CPU loads float32, twice that."""
        return round(2 * self.billions, 1)

    @property
    def needed_gb(self) -> float:
        """GB of the smallest run with MACD in bfloat16: low memory, 8 frames of 280 × 280."""
        return self.needed()

    def needed(self, weights: Weights = "as-is", itemsize: int = 2) -> float:
        """GB of the smallest run with MACD (see `needed_gb`), by how the weights are held.

        itemsize: bytes of a number that is not packed, 4 on a CPU.
        """
        estimate = planned(self.hub_id)
        if estimate is None:
            return self.memory_gb * itemsize / 2
        kept = estimate if weights == "as-is" else estimate["held"][weights]
        packed = float(kept.get("packed_gb", 0.0))
        return packed + (float(kept["macd_low_memory_peak_gb"]) - packed) * itemsize / 2

    @property
    def label(self) -> str:
        """One line for a list."""
        newest = "" if self.revision else " · newest commit"
        size = f"{self.billions:g} B · {self.memory_gb:g} GB"
        return f"{self.title} · {size} · {self.licence}{newest}"


_of = CatalogueEntry
CATALOGUE = (
    _of("SmolVLM2 256M", "HuggingFaceTB/SmolVLM2-256M-Video-Instruct",
        "smolvlm", 0.26, "Apache-2.0",
        "067788b187b95ebe7b2e040b3e4299e342e5b8fd"),
    _of("SmolVLM2 500M", "HuggingFaceTB/SmolVLM2-500M-Video-Instruct",
        "smolvlm", 0.51, "Apache-2.0",
        "7b375e1b73b11138ff12fe22c8f2822d8fe03467"),
    _of("Qwen2-VL 2B", "Qwen/Qwen2-VL-2B-Instruct", "qwen2_vl", 2.2, "Apache-2.0",
        "895c3a49bc3fa70a340399125c650a463535e71c"),
    _of("Qwen3-VL 2B", "Qwen/Qwen3-VL-2B-Instruct", "qwen3_vl", 2.1, "Apache-2.0",
        "89644892e4d85e24eaac8bacfd4f463576704203"),
    _of("Qwen2.5-VL 3B", "Qwen/Qwen2.5-VL-3B-Instruct", "qwen2_5_vl", 3.8, "Qwen Research",
        "66285546d2b821cf421d4f5eb2576359d3770cd3"),
    _of("InternVL3 8B", "OpenGVLab/InternVL3-8B-hf", "internvl", 7.9, "Qwen",
        "259a3b64a14623c0ec91a045cb43f7c5af5fa6af"),
    _of("Qwen2-VL 7B", "Qwen/Qwen2-VL-7B-Instruct", "qwen2_vl", 8.3, "Apache-2.0",
        "eed13092ef92e448dd6875b2a00151bd3f7db0ac"),
    _of("Qwen2.5-VL 7B", "Qwen/Qwen2.5-VL-7B-Instruct", "qwen2_5_vl", 8.3, "Apache-2.0",
        "cc594898137f460bfe9f0759e9844b3ce807cfb5"),
    _of("SmolVLM2 2.2B", "HuggingFaceTB/SmolVLM2-2.2B-Instruct", "smolvlm", 2.25, "Apache-2.0"),
    _of("Qwen3.5 0.8B", "Qwen/Qwen3.5-0.8B", "qwen3_5", 0.85, "Apache-2.0"),
    _of("Qwen3.5 2B", "Qwen/Qwen3.5-2B", "qwen3_5", 2.2, "Apache-2.0"),
    _of("Qwen3.5 4B", "Qwen/Qwen3.5-4B", "qwen3_5", 4.5, "Apache-2.0"),
    _of("Qwen3.5 9B", "Qwen/Qwen3.5-9B", "qwen3_5", 9.4, "Apache-2.0"),
    _of("Gemma 4 E2B", "google/gemma-4-E2B-it", "gemma4", 5.1, "Apache-2.0"),
    _of("Gemma 4 E4B", "google/gemma-4-E4B-it", "gemma4", 8, "Apache-2.0"),
    _of("LLaVA-OneVision 0.5B", "llava-hf/llava-onevision-qwen2-0.5b-ov-hf",
        "llava_onevision", 0.89, "Apache-2.0"),
    _of("LLaVA-OneVision 7B", "llava-hf/llava-onevision-qwen2-7b-ov-hf",
        "llava_onevision", 8, "Apache-2.0"),
    _of("VideoLLaMA3 2B", "lkhl/VideoLLaMA3-2B-Image-HF", "video_llama_3", 1.96, "Apache-2.0"),
    _of("VideoLLaMA3 7B", "lkhl/VideoLLaMA3-7B-Image-HF", "video_llama_3", 8, "Apache-2.0"),
    _of("PerceptionLM 1B", "facebook/Perception-LM-1B",
        "perception_lm", 1.53, "FAIR Noncommercial Research"),
    _of("PerceptionLM 3B", "facebook/Perception-LM-3B",
        "perception_lm", 3.5, "FAIR Noncommercial Research"),
    _of("PerceptionLM 8B", "facebook/Perception-LM-8B",
        "perception_lm", 9.8, "FAIR Noncommercial Research"),
)  # fmt: skip


@cache
def planned(hub_id: str) -> dict[str, Any] | None:
    """The stored `core.planning.plan.Plan` of a listed model; None for another."""
    estimates: dict[str, dict[str, Any]] = json.loads(PLANNED.read_text())
    return estimates.get(hub_id)


def largest_within(gigabytes: float) -> CatalogueEntry | None:
    """The largest that runs MACD within so much memory (see `needed_gb`), of a known commit."""
    fitting = [m for m in CATALOGUE if m.revision and m.needed_gb <= gigabytes]
    return max(fitting, key=lambda m: m.billions, default=None)
