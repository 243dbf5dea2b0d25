"""What a family's own processor and `generate` give for a clip, and what this project gives."""

from __future__ import annotations

import inspect
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from transformers.video_utils import VideoMetadata

from macd_studio.core.backbones.base import VideoLM
from macd_studio.core.types import Clip
from tests.families import NAMES as NATIVE
from tests.families import tiny
from tests.universal_models import PICTURES, parts, universal

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


def count_of(name: str) -> int:
    """Frames that a family is asked about: a model for pictures reads one."""
    return 1 if name in PICTURES else 4


def own_answer(name: str, size: tuple[int, int]) -> Answer:
    """Ids of the prompt and of the answer, by `apply_chat_template` and `generate` alone."""
    if name in NATIVE:
        model, processor = tiny(name).model, tiny(name).processor
    else:
        model, processor = parts(name)
    processor = deepcopy(processor)
    clip = drawn(size, count_of(name))
    rgb = torch.from_numpy(np.array(clip.frames)).permute(0, 3, 1, 2)
    asked: dict[str, Any] = {}
    if "mm_token_type_ids" in inspect.signature(model.forward).parameters:
        asked["return_mm_token_type_ids"] = True
    if name in PICTURES:
        media = [{"type": "image", "image": frame} for frame in rgb]
    else:
        media = [{"type": "video", "video": rgb}]
        about = VideoMetadata(
            total_num_frames=len(rgb), fps=2.0, duration=len(rgb) / 2, width=size[0],
            height=size[1], frames_indices=list(range(len(rgb))),
        )  # fmt: skip
        asked |= {"do_sample_frames": False, "return_metadata": True, "video_metadata": [about]}
    message = {"role": "user", "content": [*media, {"type": "text", "text": QUESTION}]}
    out = processor.apply_chat_template(
        [message], tokenize=True, return_dict=True, add_generation_prompt=True,
        return_tensors="pt", processor_kwargs=asked,
    )  # fmt: skip
    out.pop("video_metadata", None)
    prompt = out["input_ids"][0].tolist()
    answer = model.generate(**out, max_new_tokens=TOKENS, do_sample=False)
    return prompt, answer[0, len(prompt) :].tolist()


def our_answer(name: str, size: tuple[int, int]) -> Answer:
    """The same by the adapter that loads this family."""
    lm: VideoLM = tiny(name) if name in NATIVE else universal(name)
    encoded = lm.encode(drawn(size, count_of(name)), QUESTION, fit="native")
    with torch.no_grad():
        state, tokens = lm.prefill(encoded, encoded.video), []
        while len(tokens) < TOKENS:
            tokens.append(int(state.logits[0].argmax()))
            if tokens[-1] in lm.end_tokens:
                break
            state = lm.step(state, tokens[-1:])
    return encoded.input_ids[0].tolist(), tokens
