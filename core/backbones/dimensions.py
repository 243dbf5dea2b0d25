"""The dimensions of a model: published ones of the listed models, by hub id, and those of a folder.

The published ones are kept here so that a model can be planned (`core.plan`) and tried
with random weights without a download. A test holds each to the published number of parameters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

from macd_studio.core.errors import BackboneNotFound, UnsupportedBackbone


class Dimensions(TypedDict):
    """text, vision: of transformers' configs. tied: whether the head is the embedding table."""

    family: str
    text: dict[str, Any]
    vision: dict[str, Any]
    tied: bool
    top: dict[str, Any]


def _text(hidden: int, inner: int, layers: int, heads: tuple[int, int], vocabulary: int,
          **more: Any) -> dict[str, Any]:  # fmt: skip
    return {
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads[0], "num_key_value_heads": heads[1],
        "vocab_size": vocabulary, "max_position_embeddings": 32768, **more,
    }  # fmt: skip


def _rope(theta: float, section: tuple[int, ...]) -> dict[str, Any]:
    rope = {"rope_type": "default", "rope_theta": theta, "mrope_section": list(section)}
    return {"rope_parameters": rope, "rms_norm_eps": 1e-6}


_QWEN2 = _rope(1e6, (16, 24, 24))
_QWEN2_VISION = {"depth": 32, "embed_dim": 1280, "num_heads": 16, "mlp_ratio": 4, "patch_size": 14}
_QWEN2_5_VISION = {
    "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
    "patch_size": 14, "window_size": 112, "tokens_per_second": 2,
    "fullatt_block_indexes": [7, 15, 23, 31],
}  # fmt: skip
_SIGLIP = {
    "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
    "num_attention_heads": 12, "image_size": 512, "patch_size": 16,
}  # fmt: skip

DIMENSIONS: dict[str, Dimensions] = {
    "HuggingFaceTB/SmolVLM2-256M-Video-Instruct": {
        "family": "smolvlm",
        "text": _text(576, 1536, 30, (9, 3), 49280, model_type="llama"),
        "vision": _SIGLIP,
        "tied": False,
        "top": {"scale_factor": 4},
    },
    "HuggingFaceTB/SmolVLM2-500M-Video-Instruct": {
        "family": "smolvlm",
        "text": _text(960, 2560, 32, (15, 5), 49280, model_type="llama"),
        "vision": _SIGLIP,
        "tied": False,
        "top": {"scale_factor": 4},
    },
    "Qwen/Qwen2-VL-2B-Instruct": {
        "family": "qwen2_vl",
        "text": _text(1536, 8960, 28, (12, 2), 151936, **_QWEN2),
        "vision": _QWEN2_VISION | {"hidden_size": 1536},
        "tied": True,
        "top": {},
    },
    "Qwen/Qwen3-VL-2B-Instruct": {
        "family": "qwen3_vl",
        "text": _text(2048, 6144, 28, (16, 8), 151936, head_dim=128, **_rope(5e6, (24, 20, 20))),
        "vision": {
            "depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16,
            "patch_size": 16, "out_hidden_size": 2048, "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [5, 11, 17],
        },
        "tied": True,
        "top": {},
    },
    "Qwen/Qwen2.5-VL-3B-Instruct": {
        "family": "qwen2_5_vl",
        "text": _text(2048, 11008, 36, (16, 2), 151936, **_QWEN2),
        "vision": _QWEN2_5_VISION | {"out_hidden_size": 2048},
        "tied": True,
        "top": {},
    },
    "OpenGVLab/InternVL3-8B-hf": {
        "family": "internvl",
        "text": _text(3584, 18944, 28, (28, 4), 151674, model_type="qwen2"),
        "vision": {
            "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
            "num_attention_heads": 16, "image_size": [448, 448], "patch_size": [14, 14],
            "norm_type": "layer_norm", "attention_bias": True,
        },
        "tied": False,
        "top": {"image_seq_length": 256},
    },
    "Qwen/Qwen2-VL-7B-Instruct": {
        "family": "qwen2_vl",
        "text": _text(3584, 18944, 28, (28, 4), 152064, **_QWEN2),
        "vision": _QWEN2_VISION | {"hidden_size": 3584},
        "tied": False,
        "top": {},
    },
    "Qwen/Qwen2.5-VL-7B-Instruct": {
        "family": "qwen2_5_vl",
        "text": _text(3584, 18944, 28, (28, 4), 152064, **_QWEN2),
        "vision": _QWEN2_5_VISION | {"out_hidden_size": 3584},
        "tied": False,
        "top": {},
    },
}  # fmt: skip

PLANNED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm")
"""Families that `core.backbones.random_weights` can build."""
_TOP = ("image_seq_length", "downsample_ratio", "scale_factor")
_LEFT_OUT = {
    "architectures", "bos_token_id", "dtype", "eos_token_id", "id2label", "label2id",
    "layer_types", "model_type", "pad_token_id", "tie_word_embeddings", "transformers_version",
    "_name_or_path",
}  # fmt: skip
"""What says nothing of size, or follows from the number of layers."""


def dimensions_in(folder: str | Path) -> Dimensions:
    """The dimensions that a folder's config.json states; its weights are not needed.

    Raises BackboneNotFound where it has none that transformers can read, and UnsupportedBackbone
    for a family that cannot be planned.
    """
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackboneNotFound(
            f"{str(folder)!r} holds no config.json of a model that transformers knows",
            "Give the folder of a model, or a listed hub id",
        ) from error
    if config.model_type not in PLANNED:
        raise UnsupportedBackbone(
            f"{str(folder)!r} is of the family {config.model_type!r}, which cannot be planned",
            f"Choose a model of {', '.join(PLANNED)}",
        )
    parts = {}
    for name in ("text_config", "vision_config"):
        part = getattr(config, name)
        parts[name] = {k: v for k, v in part.to_diff_dict().items() if k not in _LEFT_OUT}
    if config.model_type in ("internvl", "smolvlm"):  # their decoder's family is open
        parts["text_config"]["model_type"] = config.text_config.model_type
    return {
        "family": config.model_type,
        "text": {"num_hidden_layers": config.text_config.num_hidden_layers} | parts["text_config"],
        "vision": _sizes(config.vision_config) | parts["vision_config"],
        "tied": bool(getattr(config, "tie_word_embeddings", False)),
        "top": {k: getattr(config, k) for k in _TOP if hasattr(config, k)},
    }


def _sizes(vision: Any) -> dict[str, Any]:
    """What planning reads of a vision tower even where it is the family's default."""
    layers = "depth" if hasattr(vision, "depth") else "num_hidden_layers"
    keys = (layers, "patch_size", "image_size", "fullatt_block_indexes", "deepstack_visual_indexes")
    return {k: getattr(vision, k) for k in keys if getattr(vision, k, None) is not None}
