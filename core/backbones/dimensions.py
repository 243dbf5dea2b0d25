"""The dimensions of a model: published ones of the listed models, by hub id, and those of a folder.

The published ones are kept here so that a model can be planned (`core.planning.plan`) and tried
with random weights without a download. A test holds each to the published number of parameters.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NotRequired, TypedDict

from macd_studio.core.errors import BackboneNotFound, UnsupportedBackbone


class Dimensions(TypedDict):
    """text, vision: of transformers' configs. tied: whether the head is the embedding table.

    top: of the whole configuration. group: kinds of the decoder's layers that follow each other
    again and again; absent where all are of one kind.
    """

    family: str
    text: dict[str, Any]
    vision: dict[str, Any]
    tied: bool
    top: dict[str, Any]
    group: NotRequired[list[str]]


def _text(hidden: int, inner: int, layers: int, heads: tuple[int, int], vocabulary: int,
          **more: Any) -> dict[str, Any]:  # fmt: skip
    return {
        "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads[0], "num_key_value_heads": heads[1],
        "vocab_size": vocabulary, "max_position_embeddings": 32768, **more,
    }  # fmt: skip


def _model(family: str, text: dict[str, Any], vision: dict[str, Any], tied: bool,
           group: list[str] | None = None, **top: Any) -> Dimensions:  # fmt: skip
    found: Dimensions = {
        "family": family, "text": text, "vision": vision, "tied": tied, "top": top,
    }  # fmt: skip
    if group:
        found["group"] = group
    return found


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
_SO400M = {
    "hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16, "patch_size": 14,
}  # fmt: skip
_Text = tuple[int, int, int, tuple[int, int]]
"""Width, inner width, layers, and heads of a decoder."""
_Vision = tuple[int, int, int, int]
"""Layers, width, inner width and heads of a vision tower."""


def _qwen3_5(text: _Text, value_heads: int, tied: bool, vision: _Vision) -> Dimensions:
    depth, width, inner, heads = vision
    rope = _rope(1e7, (11, 11, 10))["rope_parameters"]
    return _model(
        "qwen3_5",
        _text(
            *text, 248320, head_dim=256, linear_num_value_heads=value_heads,
            linear_num_key_heads=16,
            rope_parameters=rope | {"partial_rotary_factor": 0.25, "mrope_interleaved": True},
        ),
        {
            "depth": depth, "hidden_size": width, "intermediate_size": inner, "num_heads": heads,
            "patch_size": 16, "out_hidden_size": text[0], "num_position_embeddings": 2304,
        },
        tied,
        group=["linear_attention"] * 3 + ["full_attention"],
    )  # fmt: skip


def _gemma4(text: _Text, shared: int, sliding: int, wide: bool) -> Dimensions:
    """shared: layers at the end that read keys of others; sliding: layers in a row with a window;
    wide: whether the shared layers are twice as wide inside."""
    return _model(
        "gemma4",
        _text(
            *text, 262144, head_dim=256, global_head_dim=512, num_kv_shared_layers=shared,
            use_double_wide_mlp=wide, hidden_size_per_layer_input=256,
            vocab_size_per_layer_input=262144, sliding_window=512, final_logit_softcapping=30.0,
        ),
        {
            "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16,
            "num_attention_heads": 12, "num_key_value_heads": 12, "head_dim": 64,
            "patch_size": 16, "pooling_kernel_size": 3, "use_clipped_linears": True,
        },
        tied=True,
        group=["sliding_attention"] * sliding + ["full_attention"],
        audio_config={},
    )  # fmt: skip


def _llava_onevision(text: _Text, vocabulary: int, tied: bool) -> Dimensions:
    vision = _SO400M | {
        "model_type": "siglip_vision_model", "image_size": 384, "num_hidden_layers": 26,
        "vision_use_head": False,
    }  # fmt: skip
    return _model(
        "llava_onevision", _text(*text, vocabulary, model_type="qwen2"), vision, tied,
        vision_feature_layer=-1, vision_feature_select_strategy="full",
    )  # fmt: skip


def _video_llama_3(text: _Text, vocabulary: int, tied: bool) -> Dimensions:
    vision = _SO400M | {"model_type": "video_llama_3_vision", "num_hidden_layers": 27}
    return _model("video_llama_3", _text(*text, vocabulary, model_type="qwen2"), vision, tied)


def _perception_lm(text: _Text, tied: bool, tower: str, depth: int, width: int) -> Dimensions:
    """tower: name of the vision tower in timm; depth, width: its layers and their width."""
    return _model(
        "perception_lm",
        _text(*text, 128256, model_type="llama", rms_norm_eps=1e-5),
        {
            "model_type": "timm_wrapper", "architecture": tower, "do_pooling": True,
            "model_args": {
                "depth": depth, "embed_dim": width, "img_size": [448, 448],
                "global_pool": "", "use_post_transformer_norm": False, "init_values": 0.1,
                "ref_feat_shape": [32, 32],
            },
        },
        tied,
        vision_use_cls_token=width == 1024,
        projector_pooling_ratio=2,
    )  # fmt: skip


_PE_L, _PE_G = "vit_pe_core_large_patch14_336", "vit_pe_core_gigantic_patch14_448"

DIMENSIONS: dict[str, Dimensions] = {
    "HuggingFaceTB/SmolVLM2-256M-Video-Instruct": _model(
        "smolvlm", _text(576, 1536, 30, (9, 3), 49280, model_type="llama"), _SIGLIP,
        tied=False, scale_factor=4,
    ),
    "HuggingFaceTB/SmolVLM2-500M-Video-Instruct": _model(
        "smolvlm", _text(960, 2560, 32, (15, 5), 49280, model_type="llama"), _SIGLIP,
        tied=False, scale_factor=4,
    ),
    "Qwen/Qwen2-VL-2B-Instruct": _model(
        "qwen2_vl", _text(1536, 8960, 28, (12, 2), 151936, **_QWEN2),
        _QWEN2_VISION | {"hidden_size": 1536}, tied=True,
    ),
    "Qwen/Qwen3-VL-2B-Instruct": _model(
        "qwen3_vl",
        _text(2048, 6144, 28, (16, 8), 151936, head_dim=128, **_rope(5e6, (24, 20, 20))),
        {
            "depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16,
            "patch_size": 16, "out_hidden_size": 2048, "num_position_embeddings": 2304,
            "deepstack_visual_indexes": [5, 11, 17],
        },
        tied=True,
    ),
    "Qwen/Qwen2.5-VL-3B-Instruct": _model(
        "qwen2_5_vl", _text(2048, 11008, 36, (16, 2), 151936, **_QWEN2),
        _QWEN2_5_VISION | {"out_hidden_size": 2048}, tied=True,
    ),
    "OpenGVLab/InternVL3-8B-hf": _model(
        "internvl",
        _text(3584, 18944, 28, (28, 4), 151674, model_type="qwen2"),
        {
            "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
            "num_attention_heads": 16, "image_size": [448, 448], "patch_size": [14, 14],
            "norm_type": "layer_norm", "attention_bias": True,
        },
        tied=False, image_seq_length=256,
    ),
    "Qwen/Qwen2-VL-7B-Instruct": _model(
        "qwen2_vl", _text(3584, 18944, 28, (28, 4), 152064, **_QWEN2),
        _QWEN2_VISION | {"hidden_size": 3584}, tied=False,
    ),
    "Qwen/Qwen2.5-VL-7B-Instruct": _model(
        "qwen2_5_vl", _text(3584, 18944, 28, (28, 4), 152064, **_QWEN2),
        _QWEN2_5_VISION | {"out_hidden_size": 3584}, tied=False,
    ),
    "HuggingFaceTB/SmolVLM2-2.2B-Instruct": _model(
        "smolvlm", _text(2048, 8192, 24, (32, 32), 49280, model_type="llama"),
        _SO400M | {"num_hidden_layers": 27, "image_size": 384}, tied=False, scale_factor=3,
    ),
    "Qwen/Qwen3.5-0.8B": _qwen3_5((1024, 3584, 24, (8, 2)), 16, True, (12, 768, 3072, 12)),
    "Qwen/Qwen3.5-2B": _qwen3_5((2048, 6144, 24, (8, 2)), 16, True, (24, 1024, 4096, 16)),
    "Qwen/Qwen3.5-4B": _qwen3_5((2560, 9216, 32, (16, 4)), 32, True, (24, 1024, 4096, 16)),
    "Qwen/Qwen3.5-9B": _qwen3_5((4096, 12288, 32, (16, 4)), 32, False, (27, 1152, 4304, 16)),
    "google/gemma-4-E2B-it": _gemma4((1536, 6144, 35, (8, 1)), 20, 4, wide=True),
    "google/gemma-4-E4B-it": _gemma4((2560, 10240, 42, (8, 2)), 18, 5, wide=False),
    "llava-hf/llava-onevision-qwen2-0.5b-ov-hf": _llava_onevision(
        (896, 4864, 24, (14, 2)), 152000, tied=True
    ),
    "llava-hf/llava-onevision-qwen2-7b-ov-hf": _llava_onevision(
        (3584, 18944, 28, (28, 4)), 152128, tied=False
    ),
    "lkhl/VideoLLaMA3-2B-Image-HF": _video_llama_3((1536, 8960, 28, (12, 2)), 151936, tied=True),
    "lkhl/VideoLLaMA3-7B-Image-HF": _video_llama_3((3584, 18944, 28, (28, 4)), 152064, tied=False),
    "facebook/Perception-LM-1B": _perception_lm((2048, 8192, 16, (32, 8)), True, _PE_L, 23, 1024),
    "facebook/Perception-LM-3B": _perception_lm((3072, 8192, 28, (24, 8)), True, _PE_L, 23, 1024),
    "facebook/Perception-LM-8B": _perception_lm(
        (4096, 14336, 32, (32, 8)), False, _PE_G, 47, 1536
    ),
}  # fmt: skip

PLANNED = (
    "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm",
    "qwen3_5", "gemma4", "llava_onevision", "video_llama_3", "perception_lm",
)  # fmt: skip
"""Families that `core.backbones.random_weights` can build."""
_OPEN = ("internvl", "smolvlm", "llava_onevision", "video_llama_3", "perception_lm")
"""Of them, those whose parts are of an open family."""
_TOP = (
    "image_seq_length", "downsample_ratio", "scale_factor", "vision_feature_layer",
    "vision_feature_select_strategy", "vision_use_cls_token", "projector_pooling_ratio",
)  # fmt: skip
_LEFT_OUT = {
    "architectures", "bos_token_id", "dtype", "eos_token_id", "id2label", "label2id",
    "layer_types", "model_type", "pad_token_id", "per_layer_config", "tie_word_embeddings",
    "transformers_version", "_name_or_path",
}  # fmt: skip
"""What does not depend on size, or follows from the number of layers."""


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
    text, vision = parts["text_config"], _sizes(config.vision_config) | parts["vision_config"]
    if config.model_type in _OPEN:
        text["model_type"] = config.text_config.model_type
        if config.model_type != "smolvlm":
            vision["model_type"] = config.vision_config.model_type
    if config.model_type == "gemma4":  # sizes of single layers, by their number
        single = config.text_config.to_dict().get("per_layer_config") or {}
        text["global_head_dim"] = next((v["head_dim"] for v in single.values()), 512)
        text["num_kv_shared_layers"] = config.text_config.num_kv_shared_layers
    top = {k: getattr(config, k) for k in _TOP if hasattr(config, k)}
    if getattr(config, "audio_config", None) is not None:
        top["audio_config"] = config.audio_config.to_diff_dict()
    found: Dimensions = {
        "family": config.model_type,
        "text": {"num_hidden_layers": config.text_config.num_hidden_layers} | text,
        "vision": vision,
        "tied": bool(getattr(config, "tie_word_embeddings", False)),
        "top": top,
    }
    if group := _repeated(list(getattr(config.text_config, "layer_types", None) or ())):
        found["group"] = group
    return found


def _repeated(kinds: list[str]) -> list[str]:
    """The shortest run of layers that makes up all of them; empty where all are of one kind.

    >>> _repeated(["a", "a", "b", "a", "a", "b"]), _repeated(["a", "a"])
    (['a', 'a', 'b'], [])
    """
    for length in range(1, len(kinds) + 1):
        if len(kinds) % length == 0 and kinds[:length] * (len(kinds) // length) == kinds:
            return kinds[:length] if length > 1 else []
    return []


def _sizes(vision: Any) -> dict[str, Any]:
    """What planning reads of a vision tower even where it is the family's default."""
    layers = "depth" if hasattr(vision, "depth") else "num_hidden_layers"
    keys = (layers, "patch_size", "image_size", "fullatt_block_indexes", "deepstack_visual_indexes")
    return {k: getattr(vision, k) for k in keys if getattr(vision, k, None) is not None}
