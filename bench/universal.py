"""Models behind the universal adapter, at their true size with random weights, float32.

SmolVLM2-256M: a token under two views over one, and over two passes, on one prompt of text as long
as that of a short clip. LLaVA-OneVision-0.5B: a view in which one of four frames is masked, frames
that are the same taken over from the plain video, over reading it whole. Nothing is downloaded.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

from macd_studio.core.backbones.blocks import Block
from macd_studio.core.backbones.dimensions import DIMENSIONS
from macd_studio.core.backbones.local import DecodeState
from macd_studio.core.backbones.random_weights import build
from macd_studio.core.backbones.universal import UniversalVLM
from macd_studio.core.planning.plan import sample_clip

MODEL = "HuggingFaceTB/SmolVLM2-256M-Video-Instruct"
QUESTION = "Is there a dog in the video? " * 45
TOKENS = 24
FRAMEWISE, FRAMES, VIEWS = "llava-hf/llava-onevision-qwen2-0.5b-ov-hf", 4, 3
"""A model whose tower reads frames one by one; how many, and how often each view is read."""


def measure() -> dict[str, float]:
    """Ratios of medians, of what is done in turn."""
    return _tokens(TOKENS) | _frames_once(VIEWS)


def _frames_once(runs: int) -> dict[str, float]:
    torch.manual_seed(0)
    lm = build(FRAMEWISE, DIMENSIONS[FRAMEWISE], "cpu", torch.float32)
    assert isinstance(lm, UniversalVLM)
    encoded = lm.encode(sample_clip(FRAMES, 384), "Is there a dog in the video?")
    plain = lm.prefill(encoded, encoded.video)
    view = encoded.video.clone()
    view[1] *= 0.5
    spent: dict[str, list[float]] = {"whole": [], "shared": []}
    for _ in range(runs):
        for name, reuse in (("whole", None), ("shared", plain)):
            began = time.perf_counter()
            lm.prefill(encoded, view, reuse=reuse)
            spent[name].append(time.perf_counter() - began)
    whole, shared = (statistics.median(spent[name]) for name in ("whole", "shared"))
    return {"universal_view_shared_over_whole": round(shared / whole, 3)}


def _tokens(runs: int) -> dict[str, float]:
    torch.manual_seed(0)
    with torch.no_grad():
        own = build(MODEL, DIMENSIONS[MODEL], "cpu", torch.float32)
    own.processor.chat_template = "{% for m in messages %}{{ m.content[0].text }}{% endfor %}"
    lm = UniversalVLM(own.model, own.processor, own.info)
    start = lm.prefill_question(QUESTION)
    states: dict[str, DecodeState] = {
        "one": lm.select(start, [0]),
        "two": lm.step(lm.join([start, start]), [5, 6]),  # the first tries whether it is sound
    }
    assert len(states["two"].cache) == 1, "rows in one pass were found unsound"
    apart: list[Block] = [b for s in (start, start) for b in lm.select(s, [0]).cache]

    def take(name: str, tokens: list[int]) -> Callable[[], None]:
        def step() -> None:
            states[name] = lm.step(states[name], tokens)

        return step

    @torch.no_grad()
    def one_by_one() -> None:
        nonlocal apart
        apart, _ = lm.each(apart, [5, 6])

    ways: dict[str, Callable[[], None]] = {
        "one": take("one", [5]),
        "two": take("two", [5, 6]),
        "apart": one_by_one,
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs):
        for name, step in ways.items():
            began = time.perf_counter()
            step()
            spent[name].append(time.perf_counter() - began)
    one, two, each = (statistics.median(spent[name]) for name in ("one", "two", "apart"))
    return {
        "universal_prompt_tokens": start.length,
        "universal_token_two_views_over_one": round(two / one, 3),
        "universal_token_two_views_over_apart": round(two / each, 3),
    }
