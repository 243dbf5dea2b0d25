"""What evidence costs on the embedded backbone, and a second question on the same clip: ratios.

Every ratio is of medians of runs taken in turn, so that a slow moment hits both sides.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.counted import flops
from bench.trace import QUESTION, still
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
from macd_studio.core.types import Clip
from macd_studio.core.views.context import MethodContext
from macd_studio.toyworld.clips import drawn_clip, write_mp4
from macd_studio.toyworld.world import sample

OBJECTS = PIECES = 8
Timed = Callable[[], object]
OTHER_QUESTION = "Is there a cup in the video?"


def measure(runs: int = 9) -> dict[str, float]:
    """Over one forward pass, over eight of them, and over the first question."""
    lm = load_backbone("toyworld", "cpu")
    spec = sample(np.random.default_rng(11), "beach", ["cat", "cup"], fog=0.0)
    clip = drawn_clip(spec, "bench", "0" * 64)
    gradient, forward = _gradient(lm, clip), _forwards(lm, clip, 1)
    together, apart = _occlusion(lm, clip), _forwards(lm, clip, OBJECTS)
    out = {
        "evidence_gradient_over_forward_cpu": ratio(gradient, forward, runs),
        "evidence_gradient_over_forward_flops": flops(gradient) / flops(forward),
        "evidence_occlusion8_over_forwards_cpu": ratio(together, apart, runs),
        "evidence_occlusion8_over_forwards_flops": flops(together) / flops(apart),
        "second_question_over_first_cpu": _second_question(runs),
    } | _enough(lm, clip)
    return {k: round(v, 3) for k, v in out.items()}


def _enough(lm: LocalLM, clip: Clip) -> dict[str, float]:
    """Seconds until a search for what is enough knows a first bound, and until all is read."""
    first, whole = [], []
    for _ in range(3):
        began = time.perf_counter()
        reader = _reader(lm, clip)
        reader.read(range(1 << len(reader.pieces)))
        whole.append(time.perf_counter() - began)
        began = time.perf_counter()
        next(_reader(lm, clip).search())
        first.append(time.perf_counter() - began)
    return {
        "enough_first_bound_s": statistics.median(first),
        "enough_256_views_s": statistics.median(whole),
    }


def _reader(lm: LocalLM, clip: Clip) -> PieceReader:
    """Three still objects and the background, in two runs of frames: eight pieces."""
    tracks = still(PIECES // 2 - 1, len(clip.frames))
    context = MethodContext(lm, lm.encode(clip, QUESTION), tracks, RunOptions())
    best = context.lm.next_rows(context.base)[0].best()
    reader = PieceReader(context, EnoughOptions(), Target("baseline", 0, best, ""), (best,))
    assert len(reader.pieces) == PIECES
    return reader


def ratio(one: Timed, other: Timed, runs: int) -> float:
    """Median time of one call over that of the other; they take turns."""
    pairs = []
    for _ in range(runs + 1):
        spent = []
        for call in (one, other):
            began = time.perf_counter()
            call()
            spent.append(time.perf_counter() - began)
        pairs.append(spent)
    a, b = (statistics.median(z) for z in zip(*pairs[1:], strict=True))  # the first warms up
    return float(a / b)


def _case(lm: LocalLM, clip: Clip) -> EvidenceCase:
    """The clip with eight still objects; both views are prefilled, as after a run."""
    context = MethodContext(
        lm, lm.encode(clip, QUESTION), still(OBJECTS, len(clip.frames)), RunOptions()
    )
    target = Target("baseline", 0, context.lm.next_rows(context.base)[0].best(), "")
    views = {"video": context.encoded.video}
    evidence_case = EvidenceCase(context, target, (), views, EvidenceOptions(sanity=False), ())
    evidence_case.score("video")
    return evidence_case


def _gradient(lm: LocalLM, clip: Clip) -> Timed:
    case = _case(lm, clip)
    return lambda: find_kind("gradient").measure(case, "video")


def _occlusion(lm: LocalLM, clip: Clip) -> Timed:
    case = _case(lm, clip)
    return lambda: find_kind("occlusion").measure(case, "video")


def _forwards(lm: LocalLM, clip: Clip, views: int) -> Timed:
    """Single-view forwards, one after the other: masked already, nothing shared."""
    case = _case(lm, clip)
    videos = [case.masks.composite(one) for one in case.masks.reach[:views]]

    def read() -> None:
        for video in videos:
            lm.prefill(case.encoded, video)

    return read


def _second_question(runs: int) -> float:
    """A whole run on a clip that another question was asked of, over a run on a new clip."""
    lm, detector = load_backbone("toyworld", "cpu"), load_detector("toyworld")
    firsts: list[float] = []
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.mp4"
        write_mp4(sample(np.random.default_rng(11), "beach", ["cat", "cup"], fog=0.0), path)
        for _ in range(runs):
            cache = StageCache()
            for question, spent in ((QUESTION, firsts), (OTHER_QUESTION, seconds)):
                began = time.perf_counter()
                for _event in run(path, question, lambda: lm, lambda: detector, cache=cache):
                    pass
                spent.append(time.perf_counter() - began)
    return float(np.median(seconds) / np.median(firsts))
