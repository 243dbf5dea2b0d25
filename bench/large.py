"""Qwen2.5-VL-3B at its true size with random weights: what MACD costs over plain decoding.

Nothing is downloaded. FLOPs are counted, exactly: a pass costs a part that depends on no depth, and
the same for every further layer of one kind, so four shallow models of the true width tell the deep
one. `bench.deep` runs the whole of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from transformers import AutoProcessor, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from bench.counted import flops as count
from bench.trace import read
from macd_studio.core.backbones import BackboneInfo, LocalLM
from macd_studio.core.backbones.qwen import Qwen25VL
from macd_studio.core.options import AscentOptions, MaskOptions, RunOptions
from macd_studio.core.system.shipped import shipped
from macd_studio.core.types import LOST, SEEN, Clip, Track
from macd_studio.core.views.context import MethodContext

SIDE, FRAMES, TOKENS = 280, 8, 32
QUESTION = "What is in the video?"
TEXT = {
    "hidden_size": 2048, "intermediate_size": 11008, "num_attention_heads": 16,
    "num_key_value_heads": 2, "vocab_size": 151936, "max_position_embeddings": 128000,
    "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "bos_token_id": None,
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24],
    },
}  # fmt: skip
VISION = {
    "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 2048,
    "patch_size": 14, "window_size": 112, "tokens_per_second": 2,
}  # fmt: skip


@dataclass(frozen=True)
class Depth:
    """Layers: of the vision tower with windows and without, and of the decoder."""

    windowed: int
    full: int
    decoder: int


WHOLE = Depth(28, 4, 36)
SHALLOW = (Depth(1, 1, 1), Depth(2, 1, 1), Depth(1, 2, 1), Depth(1, 1, 2))


def build(depth: Depth, device: str, dtype: torch.dtype) -> LocalLM:
    """A model of the true width; its weights are drawn on the device."""
    layers = depth.windowed + depth.full
    apart = max(1, layers // depth.full)
    full = [layers - 1 - i * apart for i in range(depth.full)]
    processor = AutoProcessor.from_pretrained(shipped("backbone"), local_files_only=True)
    words = processor.tokenizer.get_vocab()
    config = Qwen2_5_VLConfig(
        text_config=TEXT
        | {"num_hidden_layers": depth.decoder, "eos_token_id": processor.tokenizer.eos_token_id},
        vision_config=VISION | {"depth": layers, "fullatt_block_indexes": full},
        tie_word_embeddings=True,
        image_token_id=words["<|image_pad|>"],
        video_token_id=words["<|video_pad|>"],
        vision_start_token_id=words["<|vision_start|>"],
        vision_end_token_id=words["<|vision_end|>"],
    )
    video = processor.video_processor
    video.patch_size = VISION["patch_size"]
    video.size = {"shortest_edge": SIDE * SIDE, "longest_edge": SIDE * SIDE}
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(config)
    model = model.to(dtype).to_empty(device=device)
    generator = torch.Generator(device).manual_seed(0)
    for weight in model.parameters():
        if weight.ndim == 1:
            torch.nn.init.ones_(weight)
        else:
            torch.nn.init.normal_(weight, std=0.02, generator=generator)
    model.tie_weights()
    for module in model.modules():  # buffers that were never computed on the meta device
        if hasattr(module, "inv_freq"):
            fresh = type(module)(module.config)
            module.inv_freq = fresh.inv_freq.to(device)
            if hasattr(module, "original_inv_freq"):
                module.original_inv_freq = module.inv_freq
    count = sum(p.numel() for p in model.parameters())
    info = BackboneInfo("Qwen2.5-VL-3B, random", "qwen2_5_vl", count, device, str(dtype))
    return Qwen25VL(model, processor, info)


def case(lm: LocalLM, objects: int = 2, late: bool = False, **ascent: object) -> MethodContext:
    """A random clip with still objects; late: none before the last quarter, no frame mask."""
    rng = np.random.default_rng(0)
    frames = rng.integers(0, 256, (FRAMES, SIDE, SIDE, 3), dtype=np.uint8)
    none = np.zeros((0, SIDE, SIDE, 3), np.uint8)
    times = np.arange(FRAMES, dtype=np.float64) + 0.5
    clip = Clip(frames, times, none, np.zeros(0), "x.mp4", "0" * 64, float(FRAMES), (SIDE, SIDE))
    state = np.full(FRAMES, SEEN, np.int8)
    boxes = rng.uniform(0, 0.7, (objects, 2))
    tracks = []
    for k, low in enumerate(boxes):
        box = np.tile([*low, *(low + 0.25)], (FRAMES, 1)).astype(np.float32)
        if late:
            box[: -FRAMES // 4], state[: -FRAMES // 4] = np.nan, LOST
        tracks.append(Track(k + 1, "dog", 0.9, box, state, FRAMES))
    options = RunOptions(
        mask=MaskOptions(frame_mask="off" if late else "outside"),
        ascent=AscentOptions(**ascent),  # type: ignore[arg-type]
    )
    return MethodContext(lm, lm.encode(clip, QUESTION), tuple(tracks), options)


def measure() -> dict[str, float]:
    """FLOPs over the base prefill, 8 frames of 280²; see the module's docstring."""
    return {k: round(v, 3) for k, v in flop_ratios().items()}


def flop_ratios() -> dict[str, float]:
    """By kind of run."""
    cases: dict[str, Callable[[LocalLM], MethodContext]] = {
        "base": case,
        "macd1": case,
        "macd1_low_memory": partial(case, memory="low"),
        "macd3": partial(case, steps=3),
        "macd1_k20": partial(case, objects=20),
        "macd1_base_gradient": partial(case, gradient="base"),
        "macd1_half_gradient": partial(case, gradient="half"),
        "macd1_late_object": partial(case, late=True),
    }
    flops: dict[str, list[int]] = {name: [] for name in cases}
    for depth in SHALLOW:
        lm = build(depth, "cpu", torch.float32)
        for name, make in cases.items():
            flops[name].append(count(partial(read, make(lm), name != "base")))
    whole = {name: _extrapolated(counts) for name, counts in flops.items()}
    ratios = {f"flops_{n}_over_base_3b": whole[n] / whole["base"] for n in cases if n != "base"}
    ratios["flops_k20_over_k1_3b"] = whole["macd1_k20"] / whole["macd1"]
    del ratios["flops_macd1_k20_over_base_3b"]
    return ratios | {"tflops_base_prefill_3b": whole["base"] / 1e12}


def _extrapolated(counts: list[int]) -> float:
    """From SHALLOW to WHOLE: what one more layer of a kind costs does not depend on how many."""
    one, *more = counts
    steps = (WHOLE.windowed - 1, WHOLE.full - 1, WHOLE.decoder - 1)
    return one + sum(n * (m - one) for n, m in zip(steps, more, strict=True))
