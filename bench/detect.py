"""Detection frame by frame as boxes are shown, over ultralytics' own batched predict."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.page import REAL
from macd_studio.core.media.video import read_clip
from macd_studio.core.objects.detect import BATCH, Yolo, load_detector
from macd_studio.core.options import DetectOptions
from macd_studio.core.types import Pixels
from macd_studio.toyworld.clips import write_mp4
from macd_studio.toyworld.world import sample


def measure(runs: int = 5) -> dict[str, float]:
    """Median ratio of runs taken in turn, on the same frames at the same size of input."""
    frames, detector = _subject()
    pairs = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        n_streamed = [len(d.boxes) for d in detector.detect(frames, DetectOptions())]
        middle = time.perf_counter()
        n_predicted = _predict(detector, frames)
        pairs.append((middle - began) / (time.perf_counter() - middle))
        assert n_streamed == n_predicted, "not the same boxes"
    return {"detect_over_ultralytics": round(statistics.median(pairs[1:]), 3)}


def _subject() -> tuple[Pixels, Yolo]:
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


def _predict(detector: Yolo, frames: Pixels) -> list[int]:
    options, n_boxes = DetectOptions(), []
    for at in range(0, len(frames), BATCH):
        results = detector._model.predict(
            [np.ascontiguousarray(f[..., ::-1]) for f in frames[at : at + BATCH]],
            imgsz=detector.input_size(frames, options),
            conf=options.floor,
            max_det=options.max_per_frame,
            device=detector.device,
            verbose=False,
        )
        n_boxes += [len(r.boxes) for r in results]
    return n_boxes
