"""Detection frame by frame as boxes are shown, over ultralytics' own batched predict.

ultralytics computes with one thread less than there are cores, for the whole process; it is held
against as it comes, and with as many threads as we use.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.page import REAL
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.detect import BATCH, Yolo, load_detector
from macd_studio.core.options import DetectOptions
from macd_studio.core.types import Detections, Pixels
from macd_studio.toyworld.clips import write_mp4
from macd_studio.toyworld.world import sample

ONNX = REAL / "detector" / "yolo11n.onnx"


def measure(runs: int = 5) -> dict[str, float]:
    """Median ratios of runs taken in turn, on the same frames at the same size of input."""
    frames, detector = subject()
    ours, threads = torch.get_num_threads(), max(1, (os.cpu_count() or 1) - 1)
    exported = load_detector(str(ONNX)) if REAL.is_dir() else None
    ratios: dict[str, list[float]] = {}
    for _ in range(runs + 1):
        streamed, boxes = timed(lambda: list(detector.detect(frames, DetectOptions())))
        torch.set_num_threads(ours)
        even, same = timed(lambda: _predict(detector, frames))
        torch.set_num_threads(threads)
        own, _ = timed(lambda: _predict(detector, frames))
        torch.set_num_threads(ours)
        _check(boxes, same)
        ratios.setdefault("detect_over_ultralytics", []).append(streamed / own)
        ratios.setdefault("detect_over_ultralytics_same_threads", []).append(streamed / even)
        if exported is not None:
            by_file, _ = timed(lambda: list(exported.detect(frames, DetectOptions())))
            ratios.setdefault("detect_onnx_over_ultralytics", []).append(by_file / own)
    return {name: round(statistics.median(values[1:]), 3) for name, values in ratios.items()}


def timed(work: Callable[[], list[Any]]) -> tuple[float, list[Any]]:
    """Seconds, and what it gave."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def _check(ours: Sequence[Detections], theirs: Sequence[Any]) -> None:
    for mine, result in zip(ours, theirs, strict=True):
        boxes = result.boxes.xyxyn.numpy().clip(0, 1)
        assert boxes.shape == mine.boxes.shape, "not the same number of boxes"
        assert np.abs(boxes - mine.boxes).max(initial=0) < 1e-3, "not the same boxes"


def subject() -> tuple[Pixels, Yolo]:
    """Frames and a detector: real ones where they are, else the embedded ones."""
    if REAL.is_dir():
        clip = read_clip(REAL / "clips" / "person_bicycle_car.mp4")
        detector = load_detector(str(REAL / "detector" / "yolo11n_fused.pt"))
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "clip.mp4"
            write_mp4(sample(np.random.default_rng(11), "beach", ["cat", "cup"], fog=0.0), path)
            clip = read_clip(path)
        detector = load_detector("toyworld")
    assert isinstance(detector, Yolo)
    return clip.dense_frames, detector


def _predict(detector: Yolo, frames: Pixels) -> list[Any]:
    options, results = DetectOptions(), []
    for at in range(0, len(frames), BATCH):
        results += detector._model.predict(
            [np.ascontiguousarray(f[..., ::-1]) for f in frames[at : at + BATCH]],
            imgsz=detector.input_size(frames, options),
            conf=options.floor,
            max_det=options.max_per_frame,
            device=detector.device,
            verbose=False,
        )
    return results
