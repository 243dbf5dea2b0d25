"""A listed model at its true dimensions with random weights: nothing is downloaded.

The tokenizer knows no word, only the family's special tokens; it cuts text at words, punctuation
and digits, so that prompts are about as long as the true ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
import transformers as tf
from tokenizers import Tokenizer, models, pre_tokenizers

from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.dimensions import Dimensions
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.load import FAMILIES, adapter_of
from macd_studio.core.backbones.refused import check_tower
from macd_studio.core.backbones.universal import UniversalVLM

_QWEN = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
_TOKENS: dict[str, dict[str, str]] = {
    "internvl": {"image_token_id": "<IMG_CONTEXT>"},
    "smolvlm": {"image_token_id": "<image>"},
    "llava_onevision": {"image_token_index": "<image>", "video_token_index": "<video>"},
    "perception_lm": {"image_token_id": "<|image|>", "video_token_id": "<|video|>"},
    "gemma4": {
        "boi_token_id": "<|image>", "eoi_token_id": "<image|>", "image_token_id": "<|image|>",
        "video_token_id": "<|video|>", "boa_token_id": "<|audio>", "eoa_token_index": "<audio|>",
        "audio_token_id": "<|audio|>",
    },
}  # fmt: skip
"""Of each family's configuration: which token each id is of. The Qwen-like families: _QWEN."""
_NAMED: dict[str, dict[str, str]] = {
    "internvl": {
        "start_image_token": "<img>", "end_image_token": "</img>",
        "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>",
    },
    "perception_lm": {"image_token": "<|image|>", "video_token": "<|video|>"},
    "gemma4": {
        "boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>",
        "boa_token": "<|audio>", "eoa_token": "<audio|>", "audio_token": "<|audio|>",
    },
}  # fmt: skip
"""Tokens that a family's tokenizer knows by a name."""
_UNNAMED = {
    "smolvlm": ("<fake_token_around_image>", "<video>", "<global-img>", "<end_of_utterance>"),
}
_PLACES = {
    "internvl": "<video>\n",
    "llava_onevision": "<video>\n",
    "perception_lm": "<|video|>",
    "gemma4": "<|video|>",
    "video_llama_3": "<|video_pad|>",
}
"""What a prompt says where the video is."""
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% for c in m.content %}{% if c.type == 'video' %}VIDEO{% else %}{{ c.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def build(
    name: str, dimensions: Dimensions, device: str, dtype: torch.dtype
) -> HfVideoLM | UniversalVLM:
    """The family's adapter around a random model on a device, "meta" inside a dry run included.

    The universal adapter for a family without one. Raises UnsupportedBackbone for a family that
    needs a package which is not installed.
    """
    family = dimensions["family"]
    check_tower(name, dimensions["vision"].get("model_type", ""))
    words = _tokenizer(family)
    config = _config(dimensions, words.get_vocab())
    model_class: Any = tf.AutoModelForMultimodalLM._model_mapping[type(config)]
    with torch.device(device), _default_dtype(dtype):
        model = model_class(config).eval()
    model.generation_config.eos_token_id = words.eos_token_id
    parameters = sum(p.numel() for p in model.parameters())
    info = BackboneInfo(f"{name}, random weights", family, parameters, device, str(dtype))
    adapter = adapter_of(family) if family in FAMILIES else UniversalVLM
    return adapter(model, _processor(dimensions, words), info)


def with_depth(dimensions: Dimensions, vision: int, full: int, decoder: int) -> Dimensions:
    """The same model with other numbers of layers.

    full: of the vision tower's layers, those whose attention has no windows (Qwen2.5-VL), or
    whose features go to the decoder (Qwen3-VL); of Gemma 4 the groups of the decoder's layers that
    read the keys of others; 0 for families without such layers. decoder: its other layers, or
    groups of layers where they are of several kinds.
    """
    other = deepcopy(dimensions)
    text, tower = other["text"], other["vision"]
    group = other.get("group", [])
    groups = decoder
    if "num_kv_shared_layers" in text:
        text["num_kv_shared_layers"] = full * len(group)
        groups, full = decoder + full, 0
    text["num_hidden_layers"] = groups * max(1, len(group))
    if group:
        text["layer_types"] = group * groups
    parts = tower["model_args"] if "model_args" in tower else tower
    parts["num_hidden_layers" if "num_hidden_layers" in parts else "depth"] = vision + full
    for chosen in ("fullatt_block_indexes", "deepstack_visual_indexes"):
        if chosen in tower:
            tower[chosen] = list(range(full))
    return other


def depth_of(dimensions: Dimensions) -> tuple[int, int, int]:
    """Layers as `with_depth` takes them."""
    text, tower = dimensions["text"], dimensions["vision"]
    each = len(dimensions.get("group", [])) or 1
    groups = text["num_hidden_layers"] // each
    parts = tower.get("model_args", tower)
    whole = parts["depth"] if "depth" in parts else parts["num_hidden_layers"]
    if "num_kv_shared_layers" in text:
        shared = text["num_kv_shared_layers"] // each
        return whole, shared, groups - shared
    chosen = tower.get("fullatt_block_indexes", tower.get("deepstack_visual_indexes", ()))
    return whole - len(chosen), len(chosen), groups


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Weights are made in it; frequencies of positions, which ask for float32, are not."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _tokenizer(family: str) -> tf.PreTrainedTokenizerFast:
    named = _NAMED.get(family, {})
    media = [*_TOKENS.get(family, _QWEN).values(), *named.values(), *_UNNAMED.get(family, ())]
    special = ["<|pad|>", "<|im_start|>", "<|im_end|>", *dict.fromkeys(media)]
    vocabulary = {word: i for i, word in enumerate([*special, "<unk>"])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.add_special_tokens(special)
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        eos_token="<|im_end|>",
        unk_token="<unk>",
        additional_special_tokens=special[1:],
        extra_special_tokens=named,
    )


def _config(dimensions: Dimensions, ids: dict[str, int]) -> Any:
    family = dimensions["family"]
    text = dimensions["text"] | {
        "bos_token_id": None,
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|pad|>"],
        "tie_word_embeddings": dimensions["tied"],
    }
    if group := dimensions.get("group"):
        text["layer_types"] = group * (text["num_hidden_layers"] // len(group))
    config_class: Any = tf.CONFIG_MAPPING[family]
    return config_class(
        text_config=text,
        vision_config=dimensions["vision"],
        tie_word_embeddings=dimensions["tied"],
        **{name: ids[token] for name, token in _TOKENS.get(family, _QWEN).items()},
        **dimensions["top"],
    )


def _processor(dimensions: Dimensions, words: tf.PreTrainedTokenizerFast) -> Any:
    """Takes frames as they come in, rounded to the patch grid, where the family allows that."""
    family, vision = dimensions["family"], dimensions["vision"]
    place = _PLACES.get(family, "<|vision_start|><|video_pad|><|vision_end|>")
    more: dict[str, Any] = {"chat_template": _TEMPLATE.replace("VIDEO", place)}
    size: dict[str, int] = {"shortest_edge": 4096, "longest_edge": 1 << 30}
    if family == "internvl":
        size = dict(zip(("height", "width"), vision["image_size"], strict=True))
        kind, image = tf.InternVLProcessor, tf.GotOcr2ImageProcessor(size=size)
        video = tf.InternVLVideoProcessor(size=size, do_sample_frames=False)
        more["image_seq_length"] = dimensions["top"]["image_seq_length"]
    elif family == "smolvlm":
        side = vision["image_size"]
        size = {"longest_edge": side}
        kind, image = tf.SmolVLMProcessor, tf.SmolVLMImageProcessor()
        video = tf.SmolVLMVideoProcessor(size=size, max_image_size=size)
        tokens = (side // vision["patch_size"] // dimensions["top"]["scale_factor"]) ** 2
        more = {"image_seq_len": tokens}
    elif family == "llava_onevision":
        side = vision["image_size"]
        size = {"height": side, "width": side}
        kind, image = tf.LlavaOnevisionProcessor, tf.LlavaOnevisionImageProcessor(size=size)
        video = tf.LlavaOnevisionVideoProcessor(size=size)
        more["num_image_tokens"] = (side // vision["patch_size"]) ** 2
        more["vision_feature_select_strategy"] = "full"
    elif family == "perception_lm":
        height, width = vision["model_args"]["img_size"]
        kind, image = tf.PerceptionLMProcessor, tf.PerceptionLMImageProcessor(tile_size=height)
        video = tf.PerceptionLMVideoProcessor(size={"height": height, "width": width})
        more |= {"patch_size": 14, "pooling_ratio": dimensions["top"]["projector_pooling_ratio"]}
    elif family == "gemma4":
        kind, image = tf.Gemma4Processor, tf.Gemma4ImageProcessor()
        video = tf.Gemma4VideoProcessor()
        more["feature_extractor"] = tf.Gemma4AudioFeatureExtractor()
    elif family == "video_llama_3":
        kind, image = tf.VideoLlama3Processor, tf.VideoLlama3ImageProcessor(size=size)
        # how many tokens of a still picture are left out depends on the clip: none here
        plain = {"do_sample_frames": False, "use_token_compression": False}
        video = tf.VideoLlama3VideoProcessor(size=size, **plain)
    else:
        own = {"qwen2_vl": tf.Qwen2VLProcessor, "qwen2_5_vl": tf.Qwen2_5_VLProcessor}
        kind, image = own.get(family, tf.Qwen3VLProcessor), tf.Qwen2VLImageProcessor(size=size)
        third = family in ("qwen3_vl", "qwen3_5")
        video = (tf.Qwen3VLVideoProcessor if third else tf.Qwen2VLVideoProcessor)(
            size=size,
            patch_size=vision["patch_size"],
            do_sample_frames=False,
            cap_pixels_per_frame=False,
        )
    return kind(image_processor=image, video_processor=video, tokenizer=words, **more)
