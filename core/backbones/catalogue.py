"""Backbones worth choosing, with what they take; any other of a known family works too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Listed:
    """A model by hub id. billions: of parameters; memory_gb: weights in bfloat16.

    The paper's own are Qwen2-VL, Qwen2.5-VL, Qwen3-VL and InternVL3; SmolVLM2 fits a laptop.
    """

    title: str
    hub_id: str
    family: str
    billions: float
    licence: str

    @property
    def memory_gb(self) -> float:
        """What the weights take in bfloat16; a CPU loads float32, twice that."""
        return round(2 * self.billions, 1)

    @property
    def label(self) -> str:
        """One line for a list."""
        return f"{self.title} · {self.billions:g} B · {self.memory_gb:g} GB"


CATALOGUE = (
    Listed(
        "SmolVLM2 256M",
        "HuggingFaceTB/SmolVLM2-256M-Video-Instruct",
        "smolvlm",
        0.26,
        "Apache-2.0",
    ),
    Listed(
        "SmolVLM2 500M",
        "HuggingFaceTB/SmolVLM2-500M-Video-Instruct",
        "smolvlm",
        0.51,
        "Apache-2.0",
    ),
    Listed("Qwen2-VL 2B", "Qwen/Qwen2-VL-2B-Instruct", "qwen2_vl", 2.2, "Apache-2.0"),
    Listed("Qwen3-VL 2B", "Qwen/Qwen3-VL-2B-Instruct", "qwen3_vl", 2.1, "Apache-2.0"),
    Listed("Qwen2.5-VL 3B", "Qwen/Qwen2.5-VL-3B-Instruct", "qwen2_5_vl", 3.8, "Qwen Research"),
    Listed("InternVL3 8B", "OpenGVLab/InternVL3-8B-hf", "internvl", 7.9, "other, see its page"),
    Listed("Qwen2-VL 7B", "Qwen/Qwen2-VL-7B-Instruct", "qwen2_vl", 8.3, "Apache-2.0"),
    Listed("Qwen2.5-VL 7B", "Qwen/Qwen2.5-VL-7B-Instruct", "qwen2_5_vl", 8.3, "Apache-2.0"),
)


def largest_within(gigabytes: float) -> Listed | None:
    """The largest listed model whose bfloat16 weights take at most that much memory."""
    fitting = [m for m in CATALOGUE if m.memory_gb <= gigabytes]
    return max(fitting, key=lambda m: m.billions, default=None)
