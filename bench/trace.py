"""A whole run on the embedded models: MACD over baseline, stage by stage, and the trace's size."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bench.clips import drawn_file, still
from bench.counted import flops, in_turn
from macd_studio.core.backbones import Encoded, LocalLM, load_backbone
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.universal import UniversalVLM
from macd_studio.core.decoding.batch import ViewBatch
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import METHODS
from macd_studio.core.objects.detect import Detector, load_detector
from macd_studio.core.objects.track import track
from macd_studio.core.options import AscentOptions, DetectOptions, RunOptions
from macd_studio.core.run.order import run_method
from macd_studio.core.run.pipeline import run
from macd_studio.core.traces.bundle import pack
from macd_studio.core.types import Clip, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.second_view import masked_view

QUESTION = "What is in the video?"


def measure(runs: int = 7) -> dict[str, float]:
    """Ratios from medians of runs taken in turn, and FLOP ratios, which are exact."""
    lm, detector = load_backbone("toyworld", "cpu"), load_detector("toyworld")
    with drawn_file() as path:
        for _ in range(2):  # the first warms up
            *_, last = run(path, QUESTION, lambda: lm, lambda: detector)
        clip = read_clip(path)
        shared = _sharing(lm, detector, path, runs)
    assert last.trace is not None
    spent = last.trace.timings_ms
    out = {f"stage_{k.replace(' ', '_')}_ms": v for k, v in spent.items()}
    out["stage_token_ms"] = spent["decode"] / sum(
        len(a.tokens) for a in last.trace.answers.values()
    )
    plain = spent["video"] + spent["encode"] + spent["prefill"] + spent["decode"] / 2
    out["whole_run_over_plain_decoding_cpu"] = sum(spent.values()) / plain
    out["trace_kb_8_frames"] = round(len(pack(last.trace)) / 1000, 1)
    ways = {"baseline": (lm, "baseline"), "macd": (lm, "macd"), "whole": (_universal(lm), "macd")}
    seconds = in_turn({k: partial(_answer, one, clip, n) for k, (one, n) in ways.items()}, runs)
    base, macd = seconds["baseline"], seconds["macd"]
    out |= {"baseline_ms": 1000 * base, "macd1_ms": 1000 * macd}
    out["e2e_macd1_over_base_cpu"] = macd / base
    out["e2e_universal_over_own_cpu"] = seconds["whole"] / macd
    out |= flop_ratios(lm, clip)
    out["compare5_over_separate"] = shared
    return {k: round(v, 3) for k, v in out.items()}


def _sharing(lm: LocalLM, detector: Detector, path: Path, runs: int) -> float:
    """Five methods on one case over five cases of one method each, medians.

    Only MACD needs objects, so that the others are not charged for detection when alone.
    """
    names = ("baseline", "macd", "vcd", "sid", "tcd")

    def spend(*methods: str) -> float:
        began = time.perf_counter()
        clip = read_clip(path)
        tracks: tuple[Track, ...] = ()
        if "macd" in methods:
            detections = list(detector.detect(clip.dense_frames, DetectOptions()))
            tracks, _ = track(detections, clip.dense_times, clip.times)
        case = MethodContext(lm, lm.encode(clip, QUESTION), tracks, RunOptions())
        for name in methods:
            run_method(case, METHODS[name])
        return time.perf_counter() - began

    pairs = [(spend(*names), sum(spend(n) for n in names)) for _ in range(runs)]
    together, apart = np.median(pairs, axis=0)
    return float(together / apart)


def flop_ratios(lm: LocalLM, clip: Clip) -> dict[str, float]:
    """One-step MACD over the base prefill, and 20 objects over one; counted, not timed.

    Also one-step MACD through the universal adapter over the family's own code.
    """

    def counted(by: LocalLM, objects: int, macd: bool = True) -> int:
        return flops(lambda: read(case(by, clip, objects), macd))

    one = counted(lm, 1)
    return {
        "flops_macd1_over_base": one / counted(lm, 1, macd=False),
        "flops_k20_over_k1": counted(lm, 20) / one,
        "flops_universal_over_own": counted(_universal(lm), 1) / one,
    }


def _universal(lm: LocalLM) -> LocalLM:
    assert isinstance(lm, HfVideoLM)
    return UniversalVLM(lm.model, lm.processor, lm.info)


def case(
    lm: LocalLM,
    clip: Clip,
    objects: int,
    ascent: AscentOptions | None = None,
    encoded: Encoded | None = None,
) -> MethodContext:
    """A clip with so many still objects at random places."""
    options = RunOptions(ascent=ascent or AscentOptions())
    encoded = encoded or lm.encode(clip, QUESTION)
    return MethodContext(lm, encoded, still(objects, len(clip.frames)), options)


def read(of: MethodContext, macd: bool) -> ViewBatch:
    """The prompt read under one view or two: base pass, ascent, and a view whose objects hide.

    The level 1 is set by hand: random weights would decide by chance what is read again.
    """
    if not macd:
        return ViewBatch(of.local, of.base, [])
    masked = replace(of.counterfactual(of.options.mask), level=np.ones(len(of.tracks)))
    return ViewBatch(of.local, of.base, masked_view(of, masked, of.options.mask).states)


def _answer(lm: LocalLM, clip: Clip, name: str) -> None:
    run_method(case(lm, clip, 2), METHODS[name])
