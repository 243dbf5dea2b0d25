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
    TEXT,
    TOWER,
    VISION,
    Family,
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
    "qwen2_5_omni_thinker": Family(
        "packed patches with a grid, sound",
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
    "qwen3_omni_moe_thinker": Family(
        "mixture of experts, deep features, sound",
        (*QWEN_TOKENS, *SOUND),
        QWEN_VIDEO,
        lambda ids: {
            "text_config": TEXT | EXPERTS | {"rope_parameters": rope(4, 2, 2)},
            "vision_config": TOWER
            | {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
            "audio_config": HEARING | {"downsample_hidden_size": 8},
            **_omni_ids(ids, "id"),
        },
        _omni(tf.Qwen3OmniMoeProcessor, tf.Qwen3VLVideoProcessor, 32),
        OMNI,
    ),
    "cosmos3_edge": Family(
        "packed patches with a grid, timestamps",
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
    "muse_glimmer": Family(
        "sliding window, timestamps",
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
    ),
}  # fmt: skip
