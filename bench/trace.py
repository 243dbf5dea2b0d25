"""A whole run on the embedded models: MACD over baseline, stage by stage, and the trace's size."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from core.ascent import ascend, conclude
from core.backbones import Encoded, State, VideoLM, load_backbone
from core.bundle import pack
from core.decode import decode
from core.detect import Detector, load_detector
from core.masks import draw_masks
from core.methods import METHODS
from core.methods.base import Case
from core.methods.run import run_method
from core.options import (
    AscentOptions,
    ContrastOptions,
    DecodeOptions,
    DetectOptions,
    MaskOptions,
    RunOptions,
)
from core.pipeline import run
from core.track import track
from core.types import SEEN, Clip, Track
from core.video import read_clip
from core.views import MaskedView, masked_view
from toyworld.clips import write_mp4
from toyworld.world import sample

QUESTION = "What is in the video?"


def measure(runs: int = 7) -> dict[str, float]:
    """Ratios from medians of runs taken in turn, and FLOP ratios, which are exact."""
    lm, detector = load_backbone("toyworld", "cpu"), load_detector("toyworld")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        write_mp4(sample(np.random.default_rng(11), "beach", ["cat", "cup"], fog=0.0), path)
        *_, last = run(path, QUESTION, lambda: lm, lambda: detector)
        *_, last = run(path, QUESTION, lambda: lm, lambda: detector)
        clip = read_clip(path)
    assert last.trace is not None
    out = {f"stage_{k}_ms": v for k, v in last.trace.timings_ms.items()}
    out["trace_kb_8_frames"] = round(len(pack(last.trace)) / 1000, 1)
    encoded = lm.encode(clip, QUESTION)

    two = _view(encoded, 2)
    pairs = [(_baseline(lm, two), _macd(lm, two)) for _ in range(runs)]
    base, macd = (statistics.median(z) for z in zip(*pairs, strict=True))
    out |= {"baseline_ms": 1000 * base, "macd1_ms": 1000 * macd}
    out["e2e_macd1_over_base_cpu"] = macd / base
    out |= flop_ratios(lm, clip)
    out["compare5_over_separate"] = _sharing(lm, detector, runs)
    return {k: round(v, 3) for k, v in out.items()}


def _sharing(lm: VideoLM, detector: Detector, runs: int) -> float:
    """Five methods on one case over five cases of one method each, medians.

    Only MACD needs objects, so that the others are not charged for detection when alone.
    """
    names = ("baseline", "macd", "vcd", "sid", "tcd")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        write_mp4(sample(np.random.default_rng(11), "beach", ["cat", "cup"], fog=0.0), path)

        def spend(*methods: str) -> float:
            began = time.perf_counter()
            clip, tracks = read_clip(path), ()
            if "macd" in methods:
                seen = list(detector.detect(clip.dense_frames, DetectOptions()))
                tracks, _ = track(seen, clip.dense_times, clip.times)
            case = Case(lm, clip, lm.encode(clip, QUESTION), tracks, RunOptions())
            for name in methods:
                run_method(case, METHODS[name])
            return time.perf_counter() - began

        pairs = [(spend(*names), sum(spend(n) for n in names)) for _ in range(runs)]
    together, apart = (statistics.median(z) for z in zip(*pairs, strict=True))
    return together / apart


def flop_ratios(lm: VideoLM, clip: Clip) -> dict[str, float]:
    """One-step MACD over the base prefill, and 20 objects over one; counted, not timed."""
    encoded = lm.encode(clip, QUESTION)
    prefill = _flops(lambda: lm.prefill(encoded, encoded.video))
    one, twenty = (_flops(lambda k=k: _views(lm, _view(encoded, k))) for k in (1, 20))
    return {"flops_macd1_over_base": one / prefill, "flops_k20_over_k1": twenty / one}


def _view(encoded: Encoded, tracks: int) -> MaskedView:
    found = _tracks(tracks, len(encoded.frames))
    masks = draw_masks(found, len(encoded.frames), encoded.frames.shape[1:3])
    return masked_view(encoded, masks, found, MaskOptions())


def _tracks(n: int, frames: int) -> list[Track]:
    state = np.full(frames, SEEN, np.int8)
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 0.7, (n, 2))
    boxes = np.concatenate([low, low + 0.25], 1).astype(np.float32)
    return [Track(i, "dog", 0.9, np.tile(b, (frames, 1)), state, 8) for i, b in enumerate(boxes)]


def _views(lm: VideoLM, view: MaskedView) -> tuple[State, State]:
    base = lm.prefill(view.encoded, view.encoded.video)
    (step,) = ascend(lm, view, AscentOptions())
    found = conclude(step, AscentOptions())
    with torch.no_grad():
        video = view.video(torch.tensor(found.level), torch.tensor(found.frame_level))
    return base, lm.prefill(view.encoded, video)


def _baseline(lm: VideoLM, view: MaskedView) -> float:
    began = time.perf_counter()
    base = lm.prefill(view.encoded, view.encoded.video)
    list(decode(lm, base, None, ContrastOptions(), DecodeOptions()))
    return time.perf_counter() - began


def _macd(lm: VideoLM, view: MaskedView) -> float:
    began = time.perf_counter()
    base, counter = _views(lm, view)
    list(decode(lm, base, counter, ContrastOptions(), DecodeOptions()))
    return time.perf_counter() - began


def _flops(call: Callable[[], object]) -> int:
    counter = FlopCounterMode(display=False)
    with counter:
        call()
    return counter.get_total_flops()
