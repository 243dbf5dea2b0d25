"""How long the page says that a run will take, over how long it took.

Runs of different length follow each other, as on a page; each is estimated from those before it,
once its clip is read. The first of each pair of models teaches alone.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.clips import REAL, cut, drawn_file
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.embedded import EMBEDDED
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.detect import Detector, load_detector
from macd_studio.core.options import RunOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.run.spec import RunSpec
from macd_studio.core.types import Clip, Trace
from macd_studio.macd_ui.estimate import Estimator, work_of

YOLO = REAL / "detector" / "yolo11n_fused.pt"
QUESTION = "What is in the video?"
SETTINGS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (8, 1, ()), (8, 5, ()), (16, 1, ()), (8, 1, ("vcd", "sid")), (32, 3, ()), (16, 2, ("vcd",)),
    (8, 3, ()), (32, 1, ("tcd",)),
)  # fmt: skip
"""Frames, steps, further methods."""
LENGTHS = (12, 5, 8, 3, 10)
"""Of the real clip, seconds."""


def measure() -> dict[str, float]:
    """|estimate / time − 1|: the median of the runs and the most, percent; how many runs."""
    off = list(_off())
    return {
        "estimate_off_median_percent": round(100 * statistics.median(off), 1),
        "estimate_off_most_percent": round(100 * max(off), 1),
        "estimate_runs_count": len(off),
    }


def _off() -> Iterator[float]:
    """|estimate / time − 1| of each run that can be estimated."""
    lm, estimator = load_backbone(EMBEDDED, "cpu"), Estimator()
    for detector_name, video, options, methods in _runs():
        detector, clip = load_detector(detector_name), read_clip(video, options.video)
        work = work_of(clip, RunSpec(QUESTION, options, methods, EMBEDDED, detector_name))
        expected = estimator.total(work)
        took, trace = _taken(clip, lm, detector, options, methods)
        estimator.learn(work, trace)
        if expected is not None:
            yield abs(expected / took - 1)


def _taken(
    clip: Clip, lm: LocalLM, detector: Detector, options: RunOptions, methods: tuple[str, ...]
) -> tuple[float, Trace]:
    """Seconds of a run whose models and clip are loaded, and its trace."""
    began = time.perf_counter()
    *_, last = run(lambda: clip, QUESTION, lambda: lm, lambda: detector, options, methods=methods)
    assert last.trace is not None
    return time.perf_counter() - began, last.trace


def _runs() -> Iterator[tuple[str, Path, RunOptions, tuple[str, ...]]]:
    """Detector, clip, options and methods: drawn clips, then a real one where there is one."""
    with drawn_file() as drawn, tempfile.TemporaryDirectory() as folder:
        for frames, steps, methods in SETTINGS:
            yield EMBEDDED, drawn, _options(frames, steps), methods
        if REAL.is_dir():
            for number, seconds in enumerate(LENGTHS):
                video = Path(folder) / f"{number}.mp4"
                cut(REAL / "clips" / "bottle.mp4", video, seconds)
                yield str(YOLO), video, _options(8, 1), ()


def _options(frames: int, steps: int) -> RunOptions:
    plain = RunOptions()
    return replace(
        plain,
        video=replace(plain.video, frames=frames),
        ascent=replace(plain.ascent, steps=steps),
    )
