"""Every family as a tiny random model behind its real classes, with a tokenizer trained here."""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest
import torch
import transformers as tf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.load import adapter_of
from macd_studio.core.types import Clip

NAMES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "smolvlm", "llava_next_video")
SAMPLED = ("llava_next_video",)
"""Families that `make test` tries by their gradient and their processor alone."""
UNLISTED = {"llava_next_video"}
"""Families that load by their id or folder, and of which the catalogue names no model."""
EVERY = [pytest.param(n, marks=pytest.mark.long) if n in SAMPLED else n for n in NAMES]
TEXT = (
    "Is there a dog in the video? Which way does it move? seconds Frame You are provided the "
    "following series of frames from a video. Frame from user assistant User Assistant yes no "
) * 8
PLAIN = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
OF_FAMILY = {
    "qwen": ["<|vision_start|>", "<|vision_end|>", "<|video_pad|>", "<|image_pad|>"],
    "internvl": ["<img>", "</img>", "<IMG_CONTEXT>", "<video>"],
    "smolvlm": ["<fake_token_around_image>", "<image>", "<video>", "<global-img>",
                "<end_of_utterance>"],
    "llava_next_video": ["<image>", "<video>"],
}  # fmt: skip
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% for c in m.content %}{% if c.type == 'video' %}VIDEO{% else %}{{ c.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)
HIDDEN = 64


def train_tokenizer(special: list[str], **extra: str) -> tf.PreTrainedTokenizerFast:
    """A byte-level BPE of 400 tokens with these special ones, PLAIN first."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator([TEXT], trainer)
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        eos_token="<|im_end|>",
        additional_special_tokens=special[1:],
        extra_special_tokens=extra,
    )


def tokenizer(family: str) -> tf.PreTrainedTokenizerFast:
    """The tokenizer of a family, with its special tokens."""
    extra = {}
    if family == "internvl":
        extra = {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        }
    own = OF_FAMILY["qwen" if family.startswith("qwen") else family]
    return train_tokenizer(PLAIN + own, **extra)


def _text(**more):
    return {
        "vocab_size": 416, "hidden_size": HIDDEN, "intermediate_size": 128,
        "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 4096, "initializer_range": 0.2,
        "bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0,
    } | more  # fmt: skip


def _qwen(family: str, ids: dict[str, int]):
    tokens = {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }
    rope = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0}
    if family == "qwen2_vl":
        vision = {
            "depth": 2,
            "embed_dim": 32,
            "hidden_size": HIDDEN,
            "num_heads": 2,
            "mlp_ratio": 2,
        }
        config = tf.Qwen2VLConfig(
            text_config=_text(rope_parameters=rope), vision_config=vision, **tokens
        )
        return config, tf.Qwen2VLForConditionalGeneration, tf.Qwen2VLProcessor
    vision = {"depth": 3, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2,
              "out_hidden_size": HIDDEN}  # fmt: skip
    if family == "qwen2_5_vl":
        config = tf.Qwen2_5_VLConfig(
            text_config=_text(rope_parameters=rope),
            vision_config=vision | {"fullatt_block_indexes": [2], "window_size": 56},
            **tokens,
        )
        return config, tf.Qwen2_5_VLForConditionalGeneration, tf.Qwen2_5_VLProcessor
    config = tf.Qwen3VLConfig(
        text_config=_text(head_dim=16, rope_parameters=rope | {"mrope_section": [4, 2, 2]}),
        vision_config=vision | {"num_position_embeddings": 64, "deepstack_visual_indexes": [0, 1]},
        **tokens,
    )
    return config, tf.Qwen3VLForConditionalGeneration, tf.Qwen3VLProcessor


def _parts(family: str):
    words = tokenizer(family)
    ids = words.get_vocab()
    if family.startswith("qwen"):
        config, model, processor = _qwen(family, ids)
        side = 32 if family == "qwen3_vl" else 28
        frames = 8 if family == "qwen3_vl" else 1
        size = {"shortest_edge": side**2 * 2 * frames, "longest_edge": side**2 * 16 * frames}
        video = tf.Qwen3VLVideoProcessor if family == "qwen3_vl" else tf.Qwen2VLVideoProcessor
        own = processor(
            image_processor=tf.Qwen2VLImageProcessor(size=size),
            tokenizer=words,
            video_processor=video(size=size, do_sample_frames=False, cap_pixels_per_frame=False),
            chat_template=TEMPLATE.replace("VIDEO", "<|vision_start|><|video_pad|><|vision_end|>"),
        )
        return config, model, own
    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
              "intermediate_size": 64}  # fmt: skip
    if family == "internvl":
        config = tf.InternVLConfig(
            text_config=_text(model_type="qwen2"),
            vision_config=vision | {"image_size": [56, 56], "patch_size": [14, 14],
                                    "norm_type": "layer_norm"},
            image_token_id=ids["<IMG_CONTEXT>"], image_seq_length=4,
        )  # fmt: skip
        size = {"height": 56, "width": 56}
        own = tf.InternVLProcessor(
            image_processor=tf.GotOcr2ImageProcessor(size=size),
            tokenizer=words,
            video_processor=tf.InternVLVideoProcessor(size=size, do_sample_frames=False),
            image_seq_length=4,
            chat_template=TEMPLATE.replace("VIDEO", "<video>\n"),
        )
        return config, tf.InternVLForConditionalGeneration, own
    if family == "llava_next_video":
        config = tf.LlavaNextVideoConfig(
            text_config=_text(model_type="llama"),
            vision_config=vision | {"model_type": "clip_vision_model", "num_hidden_layers": 3,
                                    "image_size": 56, "patch_size": 14, "projection_dim": 32},
            image_token_index=ids["<image>"], video_token_index=ids["<video>"],
        )  # fmt: skip
        own = tf.LlavaNextVideoProcessor(
            image_processor=tf.LlavaNextImageProcessor(),
            tokenizer=words,
            video_processor=tf.LlavaNextVideoVideoProcessor(),
            patch_size=14,
            vision_feature_select_strategy="default",
            chat_template=TEMPLATE.replace("VIDEO", "<video>\n"),
        )
        return config, tf.LlavaNextVideoForConditionalGeneration, own
    config = tf.SmolVLMConfig(
        text_config=_text(model_type="llama"),
        vision_config=vision | {"image_size": 56, "patch_size": 14},
        image_token_id=ids["<image>"], scale_factor=2,
    )  # fmt: skip
    own = tf.SmolVLMProcessor(
        image_processor=tf.SmolVLMImageProcessor(),
        tokenizer=words,
        video_processor=tf.SmolVLMVideoProcessor(
            size={"longest_edge": 112}, max_image_size={"longest_edge": 56}
        ),
        image_seq_len=4,
    )
    return config, tf.SmolVLMForConditionalGeneration, own


def draw_weights(model):
    """Random weights from a seed; what starts at zero would hide a wrong gradient."""
    generator = torch.Generator().manual_seed(1)
    for weight in model.parameters():
        if weight.ndim > 1:
            scale = weight.shape[-1] ** -0.5 if weight.ndim == 2 else 0.05
            weight.data = torch.randn(weight.shape, generator=generator) * scale
    return model


@cache
def tiny(family: str, dtype: torch.dtype = torch.float32):
    """The family's adapter around a random model; the same weights at every call."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    config, model_class, processor = _parts(family)
    torch.manual_seed(0)
    model = draw_weights(model_class(config).eval())
    model.generation_config.eos_token_id = config.text_config.eos_token_id
    info = BackboneInfo(family, family, 0, "cpu", str(dtype))
    return adapter_of(family)(model.to(dtype), processor, info)


def outer(lm, encoded, video, extra=(), seconds=2.0, positions=None):
    """(L, V) logits by the model's own forward: the reference for the adapter's shorter ways.

    positions: (3, 1, L) of a family that has them; by default the adapter's own.
    """
    ids = torch.cat([encoded.input_ids, torch.tensor([list(extra)], dtype=torch.long)], 1)
    given = dict(encoded.inputs)
    pixels = encoded.layout(video)
    if lm.info.family in ("smolvlm", "llava_next_video"):
        pixels = pixels[None]
    if lm.info.family.startswith("qwen"):
        given["mm_token_type_ids"] = torch.where(ids == lm.vision_token, 2, 0).int()
        longer = lm.continue_prompt(encoded, extra).inputs["position_ids"]
        given["position_ids"] = longer if positions is None else positions
    if lm.info.family == "qwen2_5_vl":
        given["second_per_grid_ts"] = torch.tensor([seconds])
    with torch.no_grad():
        out = lm.model(input_ids=ids, **{lm.pixels: pixels.to(lm.dtype)}, **given)
    return out.logits[0]


def make_clip(frames=4, seed=0, step=1.0):
    """Noise of 60 × 80 pixels; step: seconds a frame."""
    rng = np.random.default_rng(seed)
    pictures = rng.integers(0, 255, (frames, 60, 80, 3), dtype=np.uint8)
    times = (np.arange(frames) + 0.5) * step
    return Clip(pictures, times, pictures[:0], np.zeros(0), "x.mp4", "0", frames * step, (80, 60))
