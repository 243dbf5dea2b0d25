"""Regions without a class, for what no detector can name: smoke, liquids, light, shadows.

Needs no weights: equal cells of the frame, or what moves against the camera.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.options import DetectOptions
from macd_studio.core.types import Detections, Floats, Pixels, Progress

ROWS, COLUMNS = 4, 4
"""Cells of the grid: as many as tracks are kept by default, with room for none to be cut."""
SIDE = 192
"""Long side at which motion is measured, pixels: finer flow costs much and finds the same."""
WINDOW = 11
"""Side of the window over which flow is averaged, pixels."""
SLOWEST = 0.004
"""Motion between two frames, in shares of the long side, at which a pixel counts as moving."""
SMALLEST = 0.004
"""Share of the frame below which a moving region is noise."""
CLOSED = 0.06
"""Gaps within a moving region that are closed, in shares of the long side."""


class GridDetector:
    """The same equal cells in every frame, called by row and column; confidence 1."""

    name = "grid"
    open_vocabulary = False

    def input_size(self, frames: Pixels, options: DetectOptions) -> None:
        """See `Detector.input_size`: it looks at nothing."""

    def detect(self, frames: Pixels, options: DetectOptions) -> Iterator[Detections]:
        """One Detections a frame, of ROWS × COLUMNS boxes or as many as the options allow."""
        boxes = [
            (x / COLUMNS, y / ROWS, (x + 1) / COLUMNS, (y + 1) / ROWS)
            for y in range(ROWS)
            for x in range(COLUMNS)
        ]
        labels = [f"row {y + 1}, column {x + 1}" for y in range(ROWS) for x in range(COLUMNS)]
        kept = boxes[: options.max_per_frame]
        for _ in frames:
            yield Detections(
                boxes=np.array(kept, np.float32),
                scores=np.ones(len(kept), np.float32),
                labels=tuple(labels[: len(kept)]),
            )


class MotionDetector:
    """What moves otherwise than most of the frame, by dense optical flow.

    Farnebäck's flow between neighbouring frames, less its median, which is the camera's; pixels
    that move make regions, closed over small gaps. A region's confidence rises with its speed.
    """

    name = "motion"
    open_vocabulary = False

    def input_size(self, frames: Pixels, options: DetectOptions) -> int:
        """See `Detector.input_size`."""
        return options.image_size or min(SIDE, max(frames.shape[1:3]))

    def detect(self, frames: Pixels, options: DetectOptions) -> Iterator[Detections]:
        """One Detections a frame; none in a clip of one frame."""
        if len(frames) == 1:
            yield _no_detections()
            return
        grey = [self._shrunk(f, self.input_size(frames, options)) for f in frames]
        for before, after in pairwise(grey):
            yield moving_regions(before, after, options)
        # the last frame has no successor: what moved towards it is where it ends
        yield moving_regions(grey[-1], grey[-2], options)

    @staticmethod
    def _shrunk(frame: Pixels, side: int) -> NDArray[np.uint8]:
        height, width = frame.shape[:2]
        scale = side / max(height, width)
        size = max(16, round(width * scale)), max(16, round(height * scale))
        grey = cv2.cvtColor(np.ascontiguousarray(frame), cv2.COLOR_RGB2GRAY)
        return np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA), np.uint8)


def moving_regions(
    frame: NDArray[np.uint8], other: NDArray[np.uint8], options: DetectOptions
) -> Detections:
    """Boxes of what moves in `frame` (h, w) on its way to `other`, fastest first."""
    start = np.zeros((*frame.shape, 2), np.float32)
    flow = cv2.calcOpticalFlowFarneback(
        frame, other, start, pyr_scale=0.5, levels=3, winsize=WINDOW, iterations=3, poly_n=5,
        poly_sigma=1.1, flags=0,
    )  # fmt: skip
    height, width = frame.shape
    side = max(height, width)
    camera = np.median(flow, axis=(0, 1))
    speed = np.linalg.norm(flow - camera, axis=2) / side
    moving = ((speed > SLOWEST) & _stays(frame.shape, camera)).astype(np.uint8)
    reach = max(3, 2 * round(CLOSED * side / 2) + 1)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (reach, reach))
    closed = cv2.morphologyEx(moving, cv2.MORPH_CLOSE, kernel)
    count, labelled, stats, _ = cv2.connectedComponentsWithStats(closed, connectivity=8)
    rows: list[tuple[float, tuple[float, ...]]] = []
    for i in range(1, count):
        x, y, w, h, area = (int(n) for n in stats[i])
        if area < SMALLEST * height * width:
            continue
        fast = float(speed[(labelled == i) & (moving > 0)].mean())
        score = 1 - float(np.exp(-fast / SLOWEST))
        if score >= options.floor:
            rows.append((score, (x / width, y / height, (x + w) / width, (y + h) / height)))
    rows = sorted(rows, reverse=True)[: options.max_per_frame]
    if not rows:
        return _no_detections()
    scores, boxes = zip(*rows, strict=True)
    return Detections(
        boxes=np.array(boxes, np.float32),
        scores=np.array(scores, np.float32),
        labels=("moving region",) * len(rows),
    )


def _stays(size: tuple[int, ...], camera: NDArray[Any]) -> NDArray[np.bool_]:
    """(h, w) pixels that the camera's motion leaves in the frame; others have poor flow."""
    height, width = size
    x, y = np.arange(width) + camera[0], np.arange(height) + camera[1]
    margin = WINDOW if np.abs(camera).max() > 0.5 else 0
    across = (x >= margin) & (x < width - margin)
    down = (y >= margin) & (y < height - margin)
    return np.asarray(down[:, None] & across)


def _no_detections() -> Detections:
    boxes: Floats = np.zeros((0, 4), np.float32)
    return Detections(boxes, np.zeros(0, np.float32), ())


def load_region(
    name: str, device: str, progress: Progress | None = None
) -> GridDetector | MotionDetector:
    """Regions without a class, which need no weights."""
    made: dict[str, type[GridDetector] | type[MotionDetector]]
    made = {"grid": GridDetector, "motion": MotionDetector}
    return made[name]()
