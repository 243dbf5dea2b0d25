"""More families without code of their own: with sound, with tiles, for pictures alone.

As tests/universal_families.py, whose entries these join.
"""

from __future__ import annotations

from typing import Any

import transformers as tf

from tests.families import HIDDEN
from tests.universal_families import (
    EXPERTS,
    QWEN_TOKENS,
    QWEN_VIDEO,
    SQUARE,
    TEXT,
    TOWER,
    VISION,
    Family,
    made,
    packed,
    qwen_ids,
    rope,
)

SOUND = ("<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>")
OMNI = (
    ("image_token", "<|image_pad|>"),
    ("video_token", "<|video_pad|>"),
    ("audio_token", "<|AUDIO|>"),
    ("vision_bos_token", "<|vision_start|>"),
    ("vision_eos_token", "<|vision_end|>"),
    ("audio_bos_token", "<|audio_bos|>"),
    ("audio_eos_token", "<|audio_eos|>"),
)
HEARING = {"encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32,
           "d_model": 32, "num_mel_bins": 16, "output_dim": HIDDEN}  # fmt: skip


def _omni_ids(ids: dict[str, int], kind: str) -> dict[str, Any]:
    return {
        f"image_token_{kind}": ids["<|image_pad|>"],
        f"video_token_{kind}": ids["<|video_pad|>"],
        f"audio_token_{kind}": ids["<|AUDIO|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
        "audio_start_token_id": ids["<|audio_bos|>"],
    }


def _omni(processor: Any, video: Any, side: int) -> Any:
    size = {"shortest_edge": 2 * side**2, "longest_edge": 16 * side**2}

    def build(words: Any, template: str) -> Any:
        video_processor = video()
        made = processor(
            image_processor=tf.Qwen2VLImageProcessor(
                size=size, patch_size=video_processor.patch_size
            ),
            video_processor=video_processor,
            feature_extractor=tf.WhisperFeatureExtractor(feature_size=16),
            tokenizer=words,
            chat_template=template,
        )
        return made

    return build


VIDEO: dict[str, Family] = {
    "qwen2_5_omni_thinker": Family(  # packed patches with a grid, sound
        (*QWEN_TOKENS, *SOUND),
        QWEN_VIDEO,
        lambda ids: {
            "text_config": TEXT | {"rope_parameters": rope(2, 3, 3)},
            "vision_config": TOWER | {"fullatt_block_indexes": [1], "window_size": 56},
            "audio_config": HEARING,
            **_omni_ids(ids, "index"),
            "audio_end_token_id": ids["<|audio_eos|>"],
        },
        _omni(tf.Qwen2_5OmniProcessor, tf.Qwen2VLVideoProcessor, 28),
        OMNI,
    ),
    "qwen3_omni_moe_thinker": Family(  # mixture of experts, deep features, sound
        (*QWEN_TOKENS, *SOUND),
        QWEN_VIDEO,
        lambda ids: {
            # every expert is asked: routes that change with a mask would hide the gradient
            "text_config": TEXT
            | EXPERTS
            | {"num_experts_per_tok": 4, "rope_parameters": rope(4, 2, 2)},
            "vision_config": TOWER
            | {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
            "audio_config": HEARING | {"downsample_hidden_size": 8},
            **_omni_ids(ids, "id"),
        },
        _omni(tf.Qwen3OmniMoeProcessor, tf.Qwen3VLVideoProcessor, 32),
        OMNI,
    ),
    "cosmos3_edge": Family(  # packed patches with a grid, timestamps
        tuple(QWEN_TOKENS),
        QWEN_VIDEO,
        lambda ids: {
            "text_config": TEXT | {"rope_parameters": rope(4, 2, 2)},
            "vision_config": VISION | {"num_patches": 64},
            "projector_hidden_size": 64,
            **qwen_ids(ids),
        },
        packed(
            tf.Cosmos3EdgeVideoProcessor, tf.Cosmos3EdgeProcessor, tf.Cosmos3EdgeImageProcessor
        ),
    ),
    "muse_glimmer": Family(  # sliding window, timestamps
        ("<|patch|>", "<|image_start|>", "<|image_end|>", "<|video|>", "<|vid_frame_separator|>",
         "<|vid_start|>", "<|vid_end|>"),
        "<|video|>",
        lambda ids: {
            "text_config": TEXT | {"sliding_window": 16},
            "vision_config": VISION | {"pos_emb_height": 8, "pos_emb_width": 8},
            "out_hidden_size": 128,
            "projector_hidden_size": 64,
            "image_token_id": ids["<|patch|>"],
            "video_token_id": ids["<|video|>"],
        },
        packed(
            tf.MuseGlimmerVideoProcessor, tf.MuseGlimmerProcessor, tf.MuseGlimmerImageProcessor, 28
        ),
        picture="<|patch|>",
    ),
}  # fmt: skip


M3_TOKENS = ("]<]image[>[", "]<]video[>[", "]<]start of image[>[", "]<]end of image[>[")
VIDEO["minimax_m3_vl"] = Family(  # mixture of experts, sparse attention, timestamps
    M3_TOKENS,
    M3_TOKENS[1],
    lambda ids: {
        "text_config": TEXT
        | {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "dense_intermediate_size": 64,
            "shared_intermediate_size": 32,
            "rotary_dim": 8,
            "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"],
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "index_n_heads": 2,
            "index_head_dim": 16,
            "index_block_size": 8,
            "index_topk_blocks": 4,
        },
        "vision_config": VISION | {"image_size": 56},
        "projector_hidden_size": 64,
        "image_token_index": ids[M3_TOKENS[0]],
        "video_token_index": ids[M3_TOKENS[1]],
    },
    made(
        "MiniMaxM3VL",
        {"size": {"shortest_edge": 4 * 28 * 28, "longest_edge": 16 * 28 * 28}},
        {"max_pixels": 16 * 28 * 28},
    ),
)
REFUSED = {
    "nemotron_h_omni": Family(  # state-space layers, two frames a patch, timestamps
        ("<image>", "<video>", "<so_embedding>", "<so_start>", "<so_end>", "<img>", "</img>"),
        "<video>",
        lambda ids: {
            "text_config": {k: v for k, v in TEXT.items() if k != "num_hidden_layers"}
            | {
                "model_type": "nemotron_h",
                "layers_block_type": ["mamba", "attention", "mlp"],
                "mamba_num_heads": 4,
                "mamba_head_dim": 16,
                "n_groups": 2,
                "ssm_state_size": 8,
                "num_nextn_predict_layers": 0,
            },
            "vision_config": {
                "model_type": "radio",
                "hidden_size": 32,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "video_temporal_patch_size": 2,
                "max_img_size": 256,
            },
            "projector_hidden_size": 64,
            "vision_hidden_size": 32,
            "image_token_id": ids["<image>"],
            "video_token_id": ids["<video>"],
            "audio_token_id": ids["<so_embedding>"],
        },
        lambda words, template: tf.NemotronH_Omni_Reasoning_V3Processor(
            image_processor=tf.NemotronH_Omni_Reasoning_V3ImageProcessor(
                min_num_patches=4, max_num_patches=16
            ),
            video_processor=tf.NemotronH_Omni_Reasoning_V3VideoProcessor(
                video_target_num_patches=16, norm_mean=[0.5] * 3, norm_std=[0.25] * 3
            ),
            tokenizer=words,
            feature_extractor=tf.ParakeetFeatureExtractor(feature_size=16),
            chat_template=template,
        ),
    )
}
"""A family whose forward pass fails in this release of transformers itself."""

PICTURES: dict[str, Family] = {
    "ovis2": Family(  # pictures only, tiles, visual vocabulary
        ("<image>", "<IMG_ATOM>", "<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>",
         "<IMG_END>"),
        "<image>\n",
        lambda ids: {
            "text_config": TEXT | {"model_type": "qwen2"},
            "vision_config": VISION | {"image_size": 56, "vocab_size": 64, "hidden_stride": 2},
            "image_token_id": ids["<IMG_ATOM>"],
            "visual_indicator_token_ids": [
                ids[f"<IMG_{n}>"] for n in ("START", "GRID", "COL", "ROW", "END")
            ],
            "vocab_size": 416,
            "hidden_size": HIDDEN,
        },
        made("Ovis2", SQUARE | {"crop_to_patches": True, "max_patches": 4}, image_seq_length=4),
    ),
    "idefics2": Family(  # pictures only, as PIL pictures
        ("<fake_token_around_image>", "<image>", "<end_of_utterance>"),
        "<image>",
        lambda ids: {
            "text_config": TEXT | {"model_type": "mistral"},
            "vision_config": VISION | {"image_size": 56, "patch_size": 14},
            "perceiver_config": {
                "resampler_n_latents": 4,
                "resampler_depth": 1,
                "resampler_n_heads": 2,
                "resampler_head_dim": 8,
                "num_key_value_heads": 1,
                "hidden_size": HIDDEN,
                "rms_norm_eps": 1e-6,
            },
            "image_token_id": ids["<image>"],
        },
        made(
            "Idefics2", {"size": {"longest_edge": 56, "shortest_edge": 28},
                         "do_image_splitting": False}, image_seq_len=4,
        ),
    ),
    "lfm2_vl": Family(  # pictures only, tiles, convolutions
        ("<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"),
        "<image>",
        lambda ids: {
            "text_config": TEXT
            | {"model_type": "lfm2", "layer_types": ["conv", "full_attention", "conv"]},
            "vision_config": VISION
            | {"model_type": "siglip2_vision_model", "patch_size": 16, "num_patches": 64},
            "projector_hidden_size": 64,
            "image_token_id": ids["<image>"],
        },
        made("Lfm2Vl", {"tile_size": 128, "min_image_tokens": 4, "max_image_tokens": 16,
                        "max_tiles": 4}),
    ),
    "llama4": Family(  # pictures only, tiles, chunked attention, mixture of experts
        ("<|image|>", "<|image_start|>", "<|image_end|>", "<|patch|>", "<|tile_x_separator|>",
         "<|tile_y_separator|>"),
        "<|image|>",
        lambda ids: {
            "text_config": TEXT
            | {
                "intermediate_size_mlp": 64,
                "num_local_experts": 2,
                "attention_chunk_size": 64,
                "moe_layers": [1],
                "no_rope_layers": [1, 1, 0],
                "layer_types": ["chunked_attention", "chunked_attention", "full_attention"],
            },
            "vision_config": VISION
            | {
                "image_size": 56,
                "patch_size": 14,
                "vision_output_dim": 32,
                "projector_input_dim": 32,
                "projector_output_dim": 32,
                "intermediate_size": 128,
            },
            "boi_token_index": ids["<|image_start|>"],
            "eoi_token_index": ids["<|image_end|>"],
            "image_token_index": ids["<|patch|>"],
        },
        made("Llama4", SQUARE | {"max_patches": 4}, patch_size=14),
    ),
}  # fmt: skip
