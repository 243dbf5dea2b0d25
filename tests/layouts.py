"""What a family's own processor and `generate` give for a clip, and what this project gives."""

from __future__ import annotations

import inspect
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torchvision.transforms.functional import to_pil_image
from transformers.video_utils import VideoMetadata

from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.processor import ONE_VIDEO
from macd_studio.core.backbones.universal import TIMES_ON_AN_AXIS, UniversalVLM
from macd_studio.core.types import Clip
from tests.families import NAMES as NATIVE
from tests.families import tiny
from tests.universal_models import FAMILIES, PICTURES, parts

SIZES = ((112, 112), (480, 270), (270, 480), (1000, 200), (896, 672))
PIL_ONLY = {"idefics2"}
"""Families whose processors take pictures no other way."""
UNTRIED = {"perception_lm"}
"""A family whose package is not among those that tests are run with."""
WHOLE = {
    "pan and scan": (
        "gemma3",
        {
            "do_pan_and_scan": True,
            "pan_and_scan_min_crop_size": 32,
            "pan_and_scan_max_num_crops": 4,
            "pan_and_scan_min_ratio_to_activate": 1.2,
        },
    )
}
"""Further cases: a family whose processor is set to cut pictures into tiles."""
QUESTION = "Is there a dog in the video?"
TOKENS = 4
Answer = tuple[list[int], list[int]]


def drawn(size: tuple[int, int], frames: int) -> Clip:
    """A clip of coloured tiles on which a square moves. size: (w, h)."""
    width, height = size
    noise = np.random.default_rng(0).integers(40, 216, (frames, -(-height // 8), -(-width // 8), 3))
    pixels = noise.astype(np.uint8).repeat(8, 1).repeat(8, 2)[:, :height, :width]
    side = min(size) // 3
    for t in range(frames):
        pixels[t, side : 2 * side, side * t : side * (t + 1)] = (220, 30, 30)
    pixels.setflags(write=False)
    times = np.arange(frames) * 0.5
    return Clip(pixels, times, pixels, times, "drawn.mp4", "", 0.5 * (frames > 1) * frames, size)


def built(name: str) -> tuple[Any, Any]:
    """The model of a row and its processor."""
    family, settings = WHOLE.get(name, (name, {}))
    if family in NATIVE:
        return tiny(family).model, deepcopy(tiny(family).processor)
    model, processor = parts(family)
    processor = deepcopy(processor)
    if settings:
        processor.images_kwargs = {**processor.images_kwargs, **settings}
    return model, processor


def adapter(name: str) -> Any:
    """What this project loads for it."""
    if name in NATIVE:
        return tiny(name)
    model, processor = built(name)
    return UniversalVLM(model, processor, BackboneInfo(name, name, 0, "cpu", "float32"))


def pictured(name: str) -> bool:
    """Whether it is asked about a picture: a model that reads no video."""
    return WHOLE.get(name, (name,))[0] in PICTURES


def own_answer(name: str, size: tuple[int, int]) -> Answer:
    """Ids of the prompt and of the answer, by `apply_chat_template` and `generate` alone.

    Positions are those of the adapter in the two families whose transformers has an error there.
    """
    model, processor = built(name)
    clip = drawn(size, 1 if pictured(name) else 4)
    rgb = torch.from_numpy(np.array(clip.frames)).permute(0, 3, 1, 2)
    asked: dict[str, Any] = {}
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        asked["return_mm_token_type_ids"] = True
    if pictured(name):
        media = [
            {"type": "image", "image": to_pil_image(f) if name in PIL_ONLY else f} for f in rgb
        ]
    else:
        media = [{"type": "video", "video": rgb}]
        about = VideoMetadata(
            total_num_frames=len(rgb), fps=2.0, duration=len(rgb) / 2, width=size[0],
            height=size[1], frames_indices=list(range(len(rgb))),
        )  # fmt: skip
        given = about if name in ONE_VIDEO else [about]
        asked |= {"do_sample_frames": False, "return_metadata": True, "video_metadata": given}
        if name == "minimax_m3_vl" and any(n % 28 for n in size):
            asked["do_resize"] = True  # its processor takes other sizes only so
    message = {"role": "user", "content": [*media, {"type": "text", "text": QUESTION}]}
    out = processor.apply_chat_template(
        [message], tokenize=True, return_dict=True, add_generation_prompt=True,
        return_tensors="pt", processor_kwargs=asked,
    )  # fmt: skip
    out.pop("video_metadata", None)
    given = {k: v.to(model.dtype) if torch.is_floating_point(v) else v for k, v in out.items()}
    if name in TIMES_ON_AN_AXIS:
        lm = tiny(name)
        given["position_ids"] = lm.encode(clip, QUESTION, fit="native").inputs["position_ids"]
    prompt = given["input_ids"][0].tolist()
    answer = model.generate(**given, max_new_tokens=TOKENS, do_sample=False)
    return prompt, answer[0, len(prompt) :].tolist()


def our_answer(name: str, size: tuple[int, int]) -> Answer:
    """The same by the adapter that loads this family."""
    lm = adapter(name)
    encoded = lm.encode(drawn(size, 1 if pictured(name) else 4), QUESTION, fit="native")
    with torch.no_grad():
        state, tokens = lm.prefill(encoded, encoded.video), []
        while len(tokens) < TOKENS:
            tokens.append(int(state.logits[0].argmax()))
            if tokens[-1] in lm.end_tokens:
                break
            state = lm.step(state, tokens[-1:])
    return encoded.input_ids[0].tolist(), tokens


def names() -> list[str]:
    """All families, and those of `WHOLE`."""
    return [n for n in (*NATIVE, *FAMILIES, *PICTURES, *WHOLE) if n not in UNTRIED]
