"""Models without code of their own, built; and the table of docs/backbones.md from their checks."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
import transformers as tf
from transformers import AutoConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES as CLASSES

from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.contract import check_model, picture_check, reads_times
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.backbones.universal import UniversalVLM
from tests.fakes import clip
from tests.families import NAMES as NATIVE
from tests.families import PLAIN, TEMPLATE, draw_weights, tiny, train_tokenizer
from tests.further_families import PICTURES as MORE_PICTURES
from tests.further_families import REFUSED
from tests.further_families import VIDEO as FURTHER
from tests.universal_families import FAMILIES as FIRST
from tests.universal_families import SQUARE, TEXT, VISION, Family, made

FAMILIES = FIRST | FURTHER

PICTURES: dict[str, Family] = {
    "llava": Family(  # pictures only
        ("<image>",),
        "<image>\n",
        lambda ids: {
            "text_config": TEXT | {"model_type": "llama"},
            "vision_config": VISION
            | {"model_type": "clip_vision_model", "image_size": 56, "patch_size": 14},
            "image_token_index": ids["<image>"],
            "image_seq_length": 16,
        },
        lambda words, template: tf.LlavaProcessor(
            image_processor=tf.CLIPImageProcessor(
                size={"height": 56, "width": 56}, crop_size={"height": 56, "width": 56}
            ),
            tokenizer=words,
            patch_size=14,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
            chat_template=template,
        ),
    ),
    "gemma3": Family(  # pictures only, sliding window, bidirectional over pixels
        ("<start_of_image>", "<end_of_image>", "<image_soft_token>"),
        "<start_of_image>",
        lambda ids: {
            "text_config": TEXT
            | {
                "sliding_window": 16,
                "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            },
            "vision_config": VISION
            | {"model_type": "siglip_vision_model", "image_size": 56, "patch_size": 14},
            "mm_tokens_per_image": 4,
            "boi_token_index": ids["<start_of_image>"],
            "eoi_token_index": ids["<end_of_image>"],
            "image_token_index": ids["<image_soft_token>"],
        },
        made("Gemma3", SQUARE, image_seq_length=4),
        (
            ("boi_token", "<start_of_image>"),
            ("eoi_token", "<end_of_image>"),
            ("image_token", "<image_soft_token>"),
        ),
    ),
    "idefics3": Family(  # pictures only, tiles
        ("<fake_token_around_image>", "<image>", "<global-img>", "<end_of_utterance>"),
        "<image>",
        lambda ids: {
            "text_config": TEXT | {"model_type": "llama"},
            "vision_config": VISION | {"image_size": 56, "patch_size": 14},
            "image_token_id": ids["<image>"],
            "scale_factor": 2,
        },
        made(
            "Idefics3",
            {"size": {"longest_edge": 56}, "max_image_size": {"longest_edge": 56}},
            image_seq_len=4,
        ),
    ),
}

PICTURES |= MORE_PICTURES

NEWER = {"molmo2"}
"""Families that the oldest supported release of transformers does not hold."""


@cache
def parts(name: str) -> tuple[Any, Any]:
    """A tiny random model and its processor; the same weights at every call."""
    if name == "perception_lm":  # not among the packages that tests are run with
        pytest.importorskip("timm")
    if name in NEWER and name not in CLASSES and tf.__version__ < "5.23":
        pytest.skip(f"transformers {tf.__version__} does not hold {name}")
    family = (FAMILIES | PICTURES | REFUSED)[name]
    words = train_tokenizer([*PLAIN, *family.special], **dict(family.named))
    config = AutoConfig.for_model(name, **family.config(words.get_vocab()))
    torch.manual_seed(0)  # of what `draw_weights` leaves as it is made
    model = draw_weights(getattr(tf, CLASSES[name])(config).eval())
    model.generation_config.eos_token_id = 2
    both = "{% if c.type == 'video' %}VIDEO{% elif c.type == 'image' %}IMAGE"
    template = TEMPLATE.replace("{% if c.type == 'video' %}VIDEO", both)
    picture = family.picture or family.video.replace("video", "image").replace("VIDEO", "IMAGE")
    template = template.replace("VIDEO", family.video).replace("IMAGE", picture)
    return model, family.processor(words, template)


def universal(name: str) -> UniversalVLM:
    """The universal adapter around a tiny random model; of tests/families.py too."""
    if name in NATIVE:
        own = tiny(name)
        return UniversalVLM(own.model, own.processor, own.info)
    model, processor = parts(name)
    count = sum(p.numel() for p in model.parameters())
    return UniversalVLM(
        model, processor, BackboneInfo(f"tiny {name}", name, count, "cpu", "float32")
    )


HEADER = ("pictures", "times", "shared work", "attention", "families")


def _told_times(name: str) -> bool:
    """Whether it is told when a frame was taken; a model for pictures reads one alone."""
    if name in PICTURES:
        return False
    lm: LocalLM = tiny(name) if name in NATIVE else universal(name)
    return reads_times(lm, lm.preprocess(clip(8, 96)))


def cells(name: str) -> tuple[str, ...]:
    """What one family can do, as the cells of its row in docs/backbones.md; each "yes" is run.

    Raises AssertionError where it has no gradient, which all of the table have.
    """
    lm, times = universal(name), "yes" if _told_times(name) else "no"
    if name in NATIVE:  # with code of its own, which only its pictures do not go through
        return "yes" if picture_check(lm).holds else "no", times, "all", "yes"
    contract = check_model(lm)
    gradient, picture, frames, attention = (
        next(c for c in contract.checks if c.name == check)
        for check in ("gradient", "picture", "frames", "attention")
    )
    assert gradient.holds, gradient.found
    return (
        "pictures only" if name in PICTURES and picture.holds else "yes" if picture.holds else "no",
        times,
        "frames" if frames.holds else "no",
        "yes" if attention.holds else "no",
    )


def table() -> str:
    """The rows of docs/backbones.md: `python -m tests.universal_models`."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in (*NATIVE, *FAMILIES, *PICTURES):
        alike.setdefault(cells(name), []).append(f"`{name}`")
    head = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
    return "\n".join(
        [*head, *(f"| {' | '.join((*told, ', '.join(names)))} |" for told, names in alike.items())]
    )


if __name__ == "__main__":
    print(table())
