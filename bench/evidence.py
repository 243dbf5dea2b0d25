"""What evidence, every choice of objects and a second question cost on the embedded backbone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice

import numpy as np
import torch
from torch import Tensor

from bench.clips import CUP, drawn, drawn_file, still
from bench.counted import Call, flops, in_turn, ratio
from bench.trace import QUESTION
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.evidence.case import EvidenceCase
from macd_studio.core.evidence.enough import PieceReader
from macd_studio.core.evidence.kinds import find_kind
from macd_studio.core.evidence.options import EnoughOptions, EvidenceOptions
from macd_studio.core.measurements import Target
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.options import RunOptions
from macd_studio.core.run.cache import StageCache
from macd_studio.core.run.pipeline import run
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Clip, Trace
from macd_studio.core.views.context import MethodContext
from macd_studio.core.whatif.controls import BATCH
from macd_studio.core.whatif.workbench import Workbench

OBJECTS = PIECES = 8
CHOSEN = 6
"""Objects of the choice map."""
OTHER_QUESTION = "Is there a cup in the video?"


def measure(runs: int = 9) -> dict[str, float]:
    """Over one forward pass, over as many as there are views, and over the first question."""
    lm, clip = load_backbone("toyworld", "cpu"), drawn()
    gradient, forward = _kind(lm, clip, "gradient"), _forwards(lm, clip, 1)
    together, apart = _kind(lm, clip, "occlusion"), _forwards(lm, clip, OBJECTS)
    batches, single = readings(lm, clip)
    out = {
        "evidence_gradient_over_forward_cpu": ratio(gradient, forward, runs),
        "evidence_gradient_over_forward_flops": flops(gradient) / flops(forward),
        "evidence_occlusion8_over_forwards_cpu": ratio(together, apart, runs),
        "evidence_occlusion8_over_forwards_flops": flops(together) / flops(apart),
        "choices64_over_single_cpu": ratio(batches, single, 5),
        "choices64_over_single_flops": flops(batches) / flops(single),
        "second_question_over_first_cpu": _second_question(runs),
        **_enough(lm, clip),
        **_map(lm),
    }
    return {k: round(v, 3) for k, v in out.items()}


def _enough(lm: LocalLM, clip: Clip) -> dict[str, float]:
    """Seconds until a search for what is enough knows a first bound, and until all is read."""

    def whole() -> None:
        reader = _reader(lm, clip)
        reader.read(range(1 << len(reader.pieces)))

    spent = in_turn({"first": lambda: next(_reader(lm, clip).search()), "whole": whole}, 3)
    return {"enough_first_bound_s": spent["first"], "enough_256_views_s": spent["whole"]}


def _reader(lm: LocalLM, clip: Clip) -> PieceReader:
    """Three still objects and the background, in two runs of frames: eight pieces."""
    tracks = still(PIECES // 2 - 1, len(clip.frames))
    context = MethodContext(lm, lm.encode(clip, QUESTION), tracks, RunOptions())
    best = context.lm.next_logits(context.base)[0].best()
    reader = PieceReader(context, EnoughOptions(), Target("baseline", 0, best, ""), (best,))
    assert len(reader.pieces) == PIECES
    return reader


def _case(lm: LocalLM, clip: Clip) -> EvidenceCase:
    """The clip with eight still objects; both views are prefilled, as after a run."""
    context = MethodContext(
        lm, lm.encode(clip, QUESTION), still(OBJECTS, len(clip.frames)), RunOptions()
    )
    target = Target("baseline", 0, context.lm.next_logits(context.base)[0].best(), "")
    views = {"video": context.encoded.video}
    evidence_case = EvidenceCase(context, target, (), views, EvidenceOptions(sanity=False), ())
    evidence_case.score("video")
    return evidence_case


def _kind(lm: LocalLM, clip: Clip, name: str) -> Call:
    case = _case(lm, clip)
    return lambda: find_kind(name).measure(case, "video")


def _forwards(lm: LocalLM, clip: Clip, views: int) -> Call:
    """Single-view forwards, one after the other: masked already, nothing shared."""
    case = _case(lm, clip)
    videos = [case.masks.composite(one) for one in case.masks.per_object_mask[:views]]

    def read() -> None:
        for video in videos:
            lm.prefill(case.encoded, video)

    return read


def readings(lm: LocalLM, clip: Clip) -> tuple[Call, Call]:
    """Two calls: every subset in batches, as the map reads them, and one view after the other."""
    context = MethodContext(
        lm, lm.encode(clip, QUESTION), still(CHOSEN, len(clip.frames)), RunOptions()
    )
    masks, frames = context.masks(context.options.mask), np.zeros(len(context.encoded.groups))
    if masks.outside is None:
        frames = np.zeros(0)
    assert context.base.length  # read once, before the clock

    def videos() -> Iterator[Tensor]:
        for n in range(CHOSEN + 1):
            for subset in combinations(range(CHOSEN), n):
                level = np.array([float(k in subset) for k in range(CHOSEN)])
                yield context.composite(masks, level, frames)

    def together() -> None:
        rest = videos()
        while batch := list(islice(rest, BATCH)):
            lm.next_logits(context.prefill(torch.stack(batch)))

    def apart() -> None:
        for video in videos():
            lm.next_logits(lm.prefill(context.encoded, video, reuse=context.base))

    return together, apart


def six_objects(trace: Trace) -> Trace:
    """The trace with six still objects, of which two are masked."""
    levels = trace.counterfactual
    assert levels is not None
    some = (np.arange(CHOSEN) < 2).astype(float)
    levels = replace(levels, strength=some, margin=some - 0.5, level=some,
                     frame_level=np.zeros_like(levels.frame_level))  # fmt: skip
    return replace(trace, tracks=still(CHOSEN, len(trace.frames)), steps=(), counterfactual=levels,
                   choice_map=None, occlusion=None, controls=None)  # fmt: skip


def _map(lm: LocalLM, runs: int = 3) -> dict[str, float]:
    """Seconds of a whole map, and those of the processor, medians."""
    six = six_objects(load(CUP.with_suffix(".macd")))
    spent = []
    for _ in range(runs + 1):
        bench = Workbench(six, lm)
        assert bench.context.base.length
        began, used = time.perf_counter(), time.process_time()
        for _event in bench.choice_events():
            pass
        spent.append((time.perf_counter() - began, time.process_time() - used))
    found = bench.trace.choice_map
    assert found is not None
    assert len(found.subsets) == 1 << CHOSEN
    seconds, processor = np.median(spent[1:], axis=0)
    return {"choices64_map_s": float(seconds), "choices64_map_processor_s": float(processor)}


def _second_question(runs: int) -> float:
    """A whole run on a clip that another question was asked of, over a run on a new clip."""
    lm, detector = load_backbone("toyworld", "cpu"), load_detector("toyworld")
    spent: list[list[float]] = []
    with drawn_file() as path:
        for _ in range(runs):
            cache, row = StageCache(), []
            for question in (QUESTION, OTHER_QUESTION):
                began = time.perf_counter()
                for _event in run(path, question, lambda: lm, lambda: detector, cache=cache):
                    pass
                row.append(time.perf_counter() - began)
            spent.append(row)
    first, second = np.median(spent, axis=0)
    return float(second / first)
