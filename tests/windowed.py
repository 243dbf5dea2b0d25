"""Families with code of their own over decoders whose layers see a window, or have sinks."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import transformers as tf

from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.load import adapter_of
from tests.families import draw_weights, tiny

WINDOW = 32
TEXT: dict[str, Any] = {
    "vocab_size": 416, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "max_position_embeddings": 4096, "initializer_range": 0.2, "bos_token_id": None,
    "eos_token_id": 2, "pad_token_id": 0, "sliding_window": WINDOW,
}  # fmt: skip
TEXTS = {
    "mistral": TEXT | {"model_type": "mistral"},
    "gpt_oss": TEXT
    | {
        "model_type": "gpt_oss",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    },
}
"""Decoders of InternVL: text model → its configuration."""


@cache
def windowed(name: str) -> Any:
    """InternVL over a decoder of TEXTS, or "qwen2_vl" with sliding windows."""
    family = "qwen2_vl" if name == "qwen2_vl" else "internvl"
    plain = tiny(family)
    config = plain.model.config.to_dict()
    if name == "qwen2_vl":
        config["text_config"] |= {
            "use_sliding_window": True,
            "sliding_window": WINDOW,
            "max_window_layers": 1,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        }
    else:
        config["text_config"] = TEXTS[name]
    made = type(plain.model.config).from_dict(config)
    torch.manual_seed(0)
    model = draw_weights(getattr(tf, type(plain.model).__name__)(made).eval())
    for parameter, weight in model.named_parameters():
        if parameter.endswith("sinks"):
            weight.data = torch.linspace(0.5, 2.0, len(weight))
    info = BackboneInfo(name, family, 0, "cpu", "float32")
    return adapter_of(family)(model, plain.processor, info)
