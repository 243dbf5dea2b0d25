"""Families without code of their own, as tiny random models behind their real classes.

One entry a family: its special tokens, the text that stands for a video in a prompt, its sizes and
its processor. tests/families.py holds the families that have an adapter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import transformers as tf

from tests.families import HIDDEN

TEXT = {
    "vocab_size": 416,
    "hidden_size": HIDDEN,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "initializer_range": 0.2,
    "bos_token_id": None,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 2, "initializer_range": 0.2}  # fmt: skip
TOWER = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2,
         "out_hidden_size": HIDDEN, "initializer_range": 0.2}  # fmt: skip
QWEN_TOKENS = ["<|vision_start|>", "<|vision_end|>", "<|video_pad|>", "<|image_pad|>"]
QWEN_VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


@dataclass(frozen=True)
class Family:
    """How one family is built."""

    special: tuple[str, ...]
    video: str
    config: Callable[[dict[str, int]], dict[str, Any]]
    processor: Callable[[Any, str], Any]
    named: tuple[tuple[str, str], ...] = ()  # tokens that the tokenizer knows by a name
    picture: str = ""  # what stands for a picture, where it is not `video` with "image" in it


def qwen_ids(ids: dict[str, int]) -> dict[str, Any]:
    return {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


GLM_TOKENS = (
    "<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>", "<|image|>",
    "<|video|>",
)  # fmt: skip
GLM_VIDEO = "<|begin_of_video|><|video|><|end_of_video|>"


def rope(*section: int, **more: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": list(section), **more}


EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
           "decoder_sparse_step": 1, "shared_expert_intermediate_size": 32}  # fmt: skip
LINEAR = {
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "num_hidden_layers": 4,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    "rope_parameters": rope(2, 1, 1, partial_rotary_factor=0.5, mrope_interleaved=True),
}


def _glm(ids: dict[str, int], more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "text_config": TEXT
        | {"rope_parameters": rope(2, 1, 1, partial_rotary_factor=0.5)}
        | (more or {}),
        "vision_config": TOWER | {"image_size": 56, "patch_size": 14},
        "image_token_id": ids["<|image|>"],
        "video_token_id": ids["<|video|>"],
        "image_start_token_id": ids["<|begin_of_image|>"],
        "image_end_token_id": ids["<|end_of_image|>"],
        "video_start_token_id": ids["<|begin_of_video|>"],
        "video_end_token_id": ids["<|end_of_video|>"],
    }


def made(name: str, image: Any = None, video: Any = None, **more: Any) -> Any:
    """Builds a processor from the classes whose names begin so; image, video: their settings."""

    def build(words: Any, template: str) -> Any:
        parts = {
            f"{kind}_processor": getattr(tf, f"{name}{kind.title()}Processor")(**settings)
            for kind, settings in (("image", image), ("video", video))
            if settings is not None
        }
        whole = getattr(tf, f"{name}Processor")
        return whole(tokenizer=words, chat_template=template, **parts, **more)

    return build


def packed(video: Any, processor: Any, image: Any = None, side: int = 32, frames: int = 8) -> Any:
    def build(words: Any, template: str) -> Any:
        size = {"shortest_edge": side**2 * 2 * frames, "longest_edge": side**2 * 16 * frames}
        video_processor = video(size=size, do_sample_frames=False)
        pictures = image or tf.Qwen2VLImageProcessor
        return processor(
            image_processor=pictures(size=size, patch_size=video_processor.patch_size),
            tokenizer=words,
            video_processor=video_processor,
            chat_template=template,
        )

    return build


PINPOINTS = [[56, 112], [112, 56], [112, 112]]
SQUARE = {"size": {"height": 56, "width": 56}}
CROPPED = SQUARE | {"crop_size": SQUARE["size"]}

FAMILIES: dict[str, Family] = {
    "llava_onevision": Family(  # frames, pooled
        ("<image>", "<video>"),
        "<video>\n",
        lambda ids: {
            "text_config": TEXT | {"model_type": "qwen2"},
            "vision_config": VISION
            | {"model_type": "siglip_vision_model", "image_size": 56, "patch_size": 14},
            "image_token_index": ids["<image>"],
            "video_token_index": ids["<video>"],
            "image_grid_pinpoints": PINPOINTS,
        },
        made(
            "LlavaOnevision",
            SQUARE | {"image_grid_pinpoints": PINPOINTS},
            SQUARE,
            num_image_tokens=16,
            vision_feature_select_strategy="full",
        ),
    ),
    "video_llama_3": Family(  # packed patches with a grid, compressed
        tuple(QWEN_TOKENS),
        "<|video_pad|>",
        lambda ids: {
            "text_config": TEXT | {"model_type": "qwen2"},
            "vision_config": VISION | {"model_type": "video_llama_3_vision", "patch_size": 14},
            "image_token_id": ids["<|image_pad|>"],
            "video_token_id": ids["<|video_pad|>"],
        },
        made("VideoLlama3", {}, {"size": {"shortest_edge": 784 * 2, "longest_edge": 784 * 16}}),
    ),
    "qwen3_5": Family(  # linear attention, timestamps
        tuple(QWEN_TOKENS),
        QWEN_VIDEO,
        lambda ids: {
            "text_config": TEXT | LINEAR,
            "vision_config": TOWER | {"num_position_embeddings": 64},
            **qwen_ids(ids),
        },
        packed(tf.Qwen3VLVideoProcessor, tf.Qwen3VLProcessor),
    ),
    "glm4v": Family(  # packed patches with a grid, three axes
        GLM_TOKENS,
        GLM_VIDEO,
        _glm,
        packed(tf.Glm4vVideoProcessor, tf.Glm4vProcessor, tf.Glm4vImageProcessor, 28),
    ),
    "video_llava": Family(  # frames as they are
        ("<image>", "<video>"),
        "<video>\n",
        lambda ids: {
            "text_config": TEXT | {"model_type": "llama"},
            "vision_config": VISION
            | {"model_type": "clip_vision_model", "image_size": 56, "patch_size": 14},
            "image_token_index": ids["<image>"],
            "video_token_index": ids["<video>"],
            "image_seq_length": 16,
            "video_seq_length": 8 * 17,
        },
        made(
            "VideoLlava",
            CROPPED,
            CROPPED,
            patch_size=14,
            num_additional_image_tokens=1,
            vision_feature_select_strategy="default",
        ),
    ),
    "qwen3_vl_moe": Family(  # mixture of experts, timestamps
        tuple(QWEN_TOKENS),
        QWEN_VIDEO,
        lambda ids: {
            "text_config": TEXT | EXPERTS | {"rope_parameters": rope(4, 2, 2)},
            "vision_config": TOWER
            | {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
            **qwen_ids(ids),
        },
        packed(tf.Qwen3VLVideoProcessor, tf.Qwen3VLProcessor),
    ),
    "qwen3_5_moe": Family(  # linear attention, mixture of experts
        tuple(QWEN_TOKENS),
        QWEN_VIDEO,
        lambda ids: {
            "text_config": TEXT | EXPERTS | LINEAR,
            "vision_config": TOWER | {"num_position_embeddings": 64},
            **qwen_ids(ids),
        },
        packed(tf.Qwen3VLVideoProcessor, tf.Qwen3VLProcessor),
    ),
    "glm46v": Family(  # packed patches with a grid, three axes, timestamps
        GLM_TOKENS,
        GLM_VIDEO,
        _glm,
        packed(tf.Glm46VVideoProcessor, tf.Glm46VProcessor, tf.Glm46VImageProcessor, 28),
    ),
    "glm4v_moe": Family(  # mixture of experts, three axes
        GLM_TOKENS,
        GLM_VIDEO,
        lambda ids: _glm(
            ids,
            EXPERTS
            | {
                "n_routed_experts": 4,
                "n_shared_experts": 1,
                "first_k_dense_replace": 1,
                "n_group": 1,
                "topk_group": 1,
            },
        ),
        packed(tf.Glm4vVideoProcessor, tf.Glm4vProcessor, tf.Glm4vImageProcessor, 28),
    ),
    "exaone4_5": Family(  # sliding window
        tuple(QWEN_TOKENS),
        QWEN_VIDEO,
        lambda ids: {
            "text_config": TEXT
            | {
                "sliding_window": 16,
                "sliding_window_pattern": "LLG",
                "model_type": "exaone4",
                "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            },
            "vision_config": TOWER
            | {"fullatt_block_indexes": [1], "window_size": 56, "num_key_value_heads": 1},
            **qwen_ids(ids),
        },
        packed(tf.Qwen2VLVideoProcessor, tf.Exaone4_5_Processor, side=28, frames=1),
    ),
    "gemma4": Family(  # sliding window, position ids of patches
        ("<|image>", "<image|>", "<|image|>", "<|video|>", "<|audio>", "<audio|>", "<|audio|>"),
        "<|video|>",
        lambda ids: {
            "text_config": TEXT
            | {
                "sliding_window": 16,
                "hidden_size_per_layer_input": 0,
                "vocab_size_per_layer_input": 416,
                "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            },
            "vision_config": VISION
            | {
                "model_type": "gemma4_vision",
                "patch_size": 16,
                "head_dim": 16,
                "num_key_value_heads": 2,
                "pooling_kernel_size": 2,
                "position_embedding_size": 64,
            },
            "boi_token_id": ids["<|image>"],
            "eoi_token_id": ids["<image|>"],
            "image_token_id": ids["<|image|>"],
            "video_token_id": ids["<|video|>"],
            "boa_token_id": ids["<|audio>"],
            "eoa_token_index": ids["<audio|>"],
            "audio_token_id": ids["<|audio|>"],
        },
        lambda words, template: tf.Gemma4Processor(
            feature_extractor=tf.Gemma4AudioFeatureExtractor(),
            image_processor=tf.Gemma4ImageProcessor(
                patch_size=16, pooling_kernel_size=2, max_soft_tokens=70
            ),
            tokenizer=words,
            video_processor=tf.Gemma4VideoProcessor(
                patch_size=16, pooling_kernel_size=2, max_soft_tokens=70
            ),
            chat_template=template,
        ),
        (
            ("boi_token", "<|image>"),
            ("eoi_token", "<image|>"),
            ("image_token", "<|image|>"),
            ("boa_token", "<|audio>"),
            ("eoa_token", "<audio|>"),
            ("audio_token", "<|audio|>"),
        ),
    ),
    "molmo2": Family(  # frames, attention pooling, bidirectional over pixels
        (
            "<im_start>",
            "<im_end>",
            "<im_patch>",
            "<low_res_im_start>",
            "<frame_start>",
            "<frame_end>",
            "<im_col>",
            "<|image|>",
            "<|video|>",
        ),
        "<|video|>",
        lambda ids: {
            "text_config": TEXT | {"additional_vocab_size": 16},
            "vision_config": VISION
            | {
                "num_key_value_heads": 2,
                "head_dim": 16,
                "image_size": [56, 56],
                "patch_size": 14,
                "num_position_embeddings": 16,
            },
            "adapter_config": {
                "vision_feature_layer": [1, 0],
                "hidden_size": 32,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "intermediate_size": 64,
                "text_hidden_size": HIDDEN,
            },
            "image_start_token_id": ids["<im_start>"],
            "image_end_token_id": ids["<im_end>"],
            "low_res_image_start_token_id": ids["<low_res_im_start>"],
            "image_patch_id": ids["<im_patch>"],
            "frame_start_token_id": ids["<frame_start>"],
            "frame_end_token_id": ids["<frame_end>"],
        },
        made(
            "Molmo2",
            SQUARE | {"patch_size": 14, "overlap_margins": [1, 1]},
            SQUARE | {"patch_size": 14},
        ),
    ),
    "cohere_compass": Family(  # sliding window, deep features
        tuple(t.upper() for t in QWEN_TOKENS),
        QWEN_VIDEO.upper(),
        lambda ids: {
            "text_config": TEXT
            | {
                "sliding_window": 16,
                "logit_scale": 0.5,
                "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
                "rope_parameters": {
                    k: rope(4, 2, 2) for k in ("sliding_attention", "full_attention")
                },
            },
            "vision_config": TOWER
            | {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
            **qwen_ids({k.lower(): v for k, v in ids.items()}),
        },
        packed(tf.CohereCompassVideoProcessor, tf.CohereCompassProcessor),
    ),
    "perception_lm": Family(  # frames, pooled, tower of timm
        ("<|image|>", "<|video|>"),
        "<|video|>",
        lambda ids: {
            "text_config": TEXT | {"model_type": "llama"},
            "vision_config": {
                "model_type": "timm_wrapper",
                "architecture": "vit_pe_core_large_patch14_336",
                "model_args": {
                    "depth": 2,
                    "embed_dim": 64,
                    "img_size": [56, 56],
                    "global_pool": "",
                    "use_post_transformer_norm": False,
                    "init_values": 0.1,
                    "ref_feat_shape": [4, 4],
                },
            },
            "image_token_id": ids["<|image|>"],
            "video_token_id": ids["<|video|>"],
            "projector_pooling_ratio": 2,
        },
        made(
            "PerceptionLM",
            {"tile_size": 56, "max_num_tiles": 1},
            SQUARE,
            patch_size=14,
            pooling_ratio=2,
        ),
        (("image_token", "<|image|>"), ("video_token", "<|video|>")),
    ),
    "minicpmv4_6": Family(  # linear attention, merged tokens, slices
        (
            "<image>",
            "</image>",
            "<slice>",
            "</slice>",
            "<|image_pad|>",
            "<|video_pad|>",
            "<image_id>",
            "</image_id>",
        ),
        "<|video_pad|>",
        lambda ids: {
            "text_config": TEXT | LINEAR | {"model_type": "qwen3_5_text"},
            "vision_config": VISION
            | {
                "model_type": "minicpmv4_6_vision",
                "image_size": 224,
                "patch_size": 14,
                "insert_layer_id": 0,
            },
            "insert_layer_id": 0,
            "image_token_id": ids["<|image_pad|>"],
            "video_token_id": ids["<|video_pad|>"],
        },
        made("MiniCPMV4_6", {}, {}),
        (
            ("image_token", "<|image_pad|>"),
            ("video_token", "<|video_pad|>"),
            ("image_start_token", "<image>"),
            ("image_end_token", "</image>"),
            ("slice_start_token", "<slice>"),
            ("slice_end_token", "</slice>"),
            ("image_id_start_token", "<image_id>"),
            ("image_id_end_token", "</image_id>"),
        ),
    ),
}
