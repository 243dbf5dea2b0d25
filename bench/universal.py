"""A token of a model behind the universal adapter: two views over one, and over two passes.

SmolVLM2-256M at its true size with random weights, float32, on one prompt of text as long as that
of a short clip. Nothing is downloaded.
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

MODEL = "HuggingFaceTB/SmolVLM2-256M-Video-Instruct"
QUESTION = "Is there a dog in the video? " * 45
TOKENS = 24


def measure(runs: int = TOKENS) -> dict[str, float]:
    """Ratios of medians, of steps taken in turn."""
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
