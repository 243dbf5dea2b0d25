"""How the cost grows: steps, rivals, objects, frames, memory; on the embedded backbone, on the CPU.

Every ratio is of medians of runs taken in turn, so that a slow moment hits both sides.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from bench.clips import SPEC, drawn
from bench.counted import Call, peak_bytes, ratio
from bench.trace import QUESTION, case
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.macd import query_loss
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions
from macd_studio.core.run.order import run_method
from macd_studio.core.types import Clip
from macd_studio.toyworld.world import frame_times, render


def measure(runs: int = 9) -> dict[str, float]:
    """Ratios over the baseline at 8 frames and two objects unless the key says otherwise."""
    lm, clip = load_backbone("toyworld", "cpu"), drawn()
    base = _method(lm, clip, "baseline")
    calls: dict[str, tuple[Call, Call]] = {
        "e2e_macd3_over_base_cpu": (_method(lm, clip, "macd", steps=3), base),
        "e2e_vcd_over_base_cpu": (_method(lm, clip, "vcd"), base),
        "e2e_sid_over_base_cpu": (_method(lm, clip, "sid"), base),
        "e2e_tcd_over_base_cpu": (_method(lm, clip, "tcd"), base),
        "ascent_low_over_normal_memory_time_cpu": (
            _ascent(lm, clip, 2, "low"),
            _ascent(lm, clip, 2),
        ),
    }
    for k in (5, 20):
        calls[f"ascent_k{k}_over_k1_cpu"] = _ascent(lm, clip, k), _ascent(lm, clip, 1)
    for frames in (8, 16, 32):
        longer = _clip(frames)
        pair = _method(lm, longer, "macd"), _method(lm, longer, "baseline")
        calls[f"e2e_macd1_over_base_t{frames}_cpu"] = pair
    calls["view_late_object_shared_over_whole_cpu"] = _late(lm, _clip(16))
    calls["token2_over_1_cpu"] = _tokens(lm, clip, 2), _tokens(lm, clip, 1)
    out = {key: ratio(*pair, runs) for key, pair in calls.items()}
    weighed = {
        "macd1": _method(lm, clip, "macd"),
        "macd1_low": _method(lm, clip, "macd", memory="low"),
        "macd3": _method(lm, clip, "macd", steps=3),
        "vcd": _method(lm, clip, "vcd"),
        "sid": _method(lm, clip, "sid"),
    }
    for name, call in weighed.items():
        out[f"memory_{name}_over_base_cpu"] = _peak(lm, call) / _peak(lm, base)
    out["ascent_low_over_normal_memory_activations"] = _activations(
        lm, clip, low=True
    ) / _activations(lm, clip, low=False)
    return {k: round(v, 3) for k, v in out.items()}


def _clip(frames: int) -> Clip:
    times = frame_times(frames)
    return replace(drawn(), frames=render(SPEC, times, 192), times=times * 4.0)


def _peak(lm: LocalLM, call: Call) -> int:
    return peak_bytes(lm.model, call)  # type: ignore[attr-defined]


def _late(lm: LocalLM, clip: Clip) -> tuple[Call, Call]:
    """Reading a view that differs on the last quarter of frames: after the base view, and alone."""
    encoded = lm.encode(clip, QUESTION)
    video = encoded.video.clone()
    video[-len(video) // 4 :] = 0
    base = lm.prefill(encoded, encoded.video)
    return lambda: lm.prefill(encoded, video, reuse=base), lambda: lm.prefill(encoded, video)


def _tokens(lm: LocalLM, clip: Clip, views: int, tokens: int = 32) -> Call:
    """Decoding with one row or two."""
    encoded = lm.encode(clip, QUESTION)
    start = lm.prefill(encoded, torch.stack([encoded.video] * views))

    def call() -> object:
        state = lm.select(start, range(views))
        for _ in range(tokens):
            state = lm.step(state, [5] * views)
        return state.logits

    return call


def _method(lm: LocalLM, clip: Clip, name: str, **ascent: object) -> Call:
    options = AscentOptions(**ascent)  # type: ignore[arg-type]
    encoded = lm.encode(clip, QUESTION)
    return lambda: run_method(case(lm, clip, 2, options, encoded), METHODS[name])


def _ascent(lm: LocalLM, clip: Clip, objects: int, memory: str = "normal") -> Call:
    of = case(lm, clip, objects, AscentOptions(memory=memory))  # type: ignore[arg-type]
    assert of.base is not None
    return lambda: list(of.ascent_steps(of.options.mask, of.options.ascent))


def _activations(lm: LocalLM, clip: Clip, low: bool) -> int:
    """Bytes that one ascent step keeps for its way back, weights left out."""
    encoded = lm.encode(clip, QUESTION)
    weights = {p.untyped_storage().data_ptr() for p in lm.model.parameters()}  # type: ignore[attr-defined]
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    video = encoded.video.clone().requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = query_loss(lm, encoded, video, low)
    size = sum(kept.values())
    del loss
    return size
