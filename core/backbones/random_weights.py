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

_SPECIAL = {
    "qwen": ["<|vision_start|>", "<|vision_end|>", "<|video_pad|>", "<|image_pad|>"],
    "internvl": ["<img>", "</img>", "<IMG_CONTEXT>", "<video>"],
    "smolvlm": [
        "<fake_token_around_image>", "<image>", "<video>", "<global-img>", "<end_of_utterance>",
    ],
}  # fmt: skip
_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% for c in m.content %}{% if c.type == 'video' %}VIDEO{% else %}{{ c.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)


def build(name: str, dimensions: Dimensions, device: str, dtype: torch.dtype) -> HfVideoLM:
    """The family's adapter around a random model on a device, "meta" inside a dry run included."""
    family = dimensions["family"]
    words = _tokenizer(family)
    config = _config(dimensions, words.get_vocab())
    model_class: Any = getattr(tf, FAMILIES[family][0])
    with torch.device(device), _default_dtype(dtype):
        model = model_class(config).eval()
    model.generation_config.eos_token_id = words.eos_token_id
    parameters = sum(p.numel() for p in model.parameters())
    info = BackboneInfo(f"{name}, random weights", family, parameters, device, str(dtype))
    return adapter_of(family)(model, _processor(dimensions, words), info)


def with_depth(dimensions: Dimensions, vision: int, full: int, decoder: int) -> Dimensions:
    """The same model with other numbers of layers.

    full: of the vision tower's layers, those whose attention has no windows (Qwen2.5-VL), or
    whose features go to the decoder (Qwen3-VL); 0 for families without such layers.
    """
    other = deepcopy(dimensions)
    other["text"]["num_hidden_layers"] = decoder
    key = "depth" if "depth" in other["vision"] else "num_hidden_layers"
    other["vision"][key] = vision + full
    for chosen in ("fullatt_block_indexes", "deepstack_visual_indexes"):
        if chosen in other["vision"]:
            other["vision"][chosen] = list(range(full))
    return other


def depth_of(dimensions: Dimensions) -> tuple[int, int, int]:
    """Layers as `with_depth` takes them."""
    vision = dimensions["vision"]
    whole = vision["depth"] if "depth" in vision else vision["num_hidden_layers"]
    chosen = vision.get("fullatt_block_indexes", vision.get("deepstack_visual_indexes", ()))
    return whole - len(chosen), len(chosen), dimensions["text"]["num_hidden_layers"]


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
    special = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    special += _SPECIAL["qwen" if family.startswith("qwen") else family]
    vocabulary = {word: i for i, word in enumerate([*special, "<unk>"])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.add_special_tokens(special)
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    extra = {}
    if family == "internvl":
        extra = {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        }
    return tf.PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<|pad|>",
        eos_token="<|im_end|>",
        unk_token="<unk>",
        additional_special_tokens=special[1:],
        extra_special_tokens=extra,
    )


def _config(dimensions: Dimensions, ids: dict[str, int]) -> Any:
    family = dimensions["family"]
    text = dimensions["text"] | {
        "bos_token_id": None,
        "eos_token_id": ids["<|im_end|>"],
        "pad_token_id": ids["<|pad|>"],
        "tie_word_embeddings": dimensions["tied"],
    }
    tokens = {
        "internvl": {"image_token_id": ids.get("<IMG_CONTEXT>")},
        "smolvlm": {"image_token_id": ids.get("<image>")},
    }.get(family) or {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }
    config_class: Any = getattr(tf, FAMILIES[family][0]).config_class
    return config_class(
        text_config=text,
        vision_config=dimensions["vision"],
        tie_word_embeddings=dimensions["tied"],
        **tokens,
        **dimensions["top"],
    )


def _processor(dimensions: Dimensions, words: tf.PreTrainedTokenizerFast) -> Any:
    """Takes frames as they come in, rounded to the patch grid, where the family allows that."""
    family, vision = dimensions["family"], dimensions["vision"]
    if family == "internvl":
        height, width = vision["image_size"]
        size = {"height": height, "width": width}
        image_tokens = dimensions["top"]["image_seq_length"]
        return tf.InternVLProcessor(
            image_processor=tf.GotOcr2ImageProcessor(size=size),
            tokenizer=words,
            video_processor=tf.InternVLVideoProcessor(size=size, do_sample_frames=False),
            image_seq_length=image_tokens,
            chat_template=_TEMPLATE.replace("VIDEO", "<video>\n"),
        )
    if family == "smolvlm":
        side = vision["image_size"]
        image_tokens = (side // vision["patch_size"] // dimensions["top"]["scale_factor"]) ** 2
        return tf.SmolVLMProcessor(
            image_processor=tf.SmolVLMImageProcessor(),
            tokenizer=words,
            video_processor=tf.SmolVLMVideoProcessor(
                size={"longest_edge": side}, max_image_size={"longest_edge": side}
            ),
            image_seq_len=image_tokens,
        )
    third = family == "qwen3_vl"
    size = {"shortest_edge": 4096, "longest_edge": 1 << 30}
    video_class: Any = tf.Qwen3VLVideoProcessor if third else tf.Qwen2VLVideoProcessor
    processor_class: Any = {
        "qwen2_vl": tf.Qwen2VLProcessor,
        "qwen2_5_vl": tf.Qwen2_5_VLProcessor,
        "qwen3_vl": tf.Qwen3VLProcessor,
    }[family]
    return processor_class(
        image_processor=tf.Qwen2VLImageProcessor(size=size),
        tokenizer=words,
        video_processor=video_class(
            size=size,
            patch_size=vision["patch_size"],
            do_sample_frames=False,
            cap_pixels_per_frame=False,
        ),
        chat_template=_TEMPLATE.replace("VIDEO", "<|vision_start|><|video_pad|><|vision_end|>"),
    )
