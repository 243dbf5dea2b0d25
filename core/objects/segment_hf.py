"""Points on an object → its mask through the clip, by transformers' SAM 2, EdgeTAM or SAM 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch

from macd_studio.core.errors import DetectorError
from macd_studio.core.objects.detect_hf import read_auto
from macd_studio.core.objects.registry import COLOURS, DETECTORS
from macd_studio.core.objects.segment import Point, Sighting
from macd_studio.core.system.machine import free_gb
from macd_studio.core.types import Pixels, Progress
from macd_studio.core.validation import shown

KINDS = ("sam2_video", "edgetam_video", "sam3_tracker_video", "sam3_video")
"""Model types of transformers that follow what is under points."""
WORK_MB, FRAME_MB = 1000.0, 16.0
"""Megabytes of one frame's pass, and of each frame that is kept for the session, at 1024 × 1024."""


class Tracker:
    """A video model of transformers that is given points on one frame."""

    def __init__(self, name: str, model: Any, processor: Any, notes: tuple[str, ...] = ()) -> None:
        self.name, self.notes = name, notes
        self.model, self.processor = model.eval().requires_grad_(False), processor

    @torch.no_grad()
    def segment(self, frames: Pixels, at: int, points: Sequence[Point]) -> Iterator[Sighting]:
        """See `core.objects.segment.Segmenter.segment`."""
        size = frames.shape[1], frames.shape[2]
        places = [[x * size[1], y * size[0]] for x, y in points]
        try:
            session = self.processor.init_video_session(
                video=[np.ascontiguousarray(f) for f in frames], inference_device=self.model.device
            )
            self.processor.add_inputs_to_inference_session(
                session, frame_idx=at, obj_ids=1, input_points=[[places]],
                input_labels=[[[1] * len(places)]],
            )  # fmt: skip
            yield self._sighting(self.model(session, frame_idx=at), size)
            for reverse in (False, True):
                passed = self.model.propagate_in_video_iterator(
                    session, start_frame_idx=at, reverse=reverse
                )
                with closing(passed):
                    for output in passed:
                        if output.frame_idx != at:
                            yield self._sighting(output, size)
        except (RuntimeError, ValueError) as error:
            raise DetectorError(
                f"{self.name} failed: {shown(str(error), 200)}", "Try another segmenter"
            ) from error

    def _sighting(self, output: Any, size: tuple[int, int]) -> Sighting:
        (masks,) = self.processor.post_process_masks(
            [output.pred_masks], original_sizes=[size], binarize=True
        )
        scores = getattr(output, "object_score_logits", None)
        score = 1.0 if scores is None else float(torch.sigmoid(scores.float()).max())
        return Sighting(output.frame_idx, masks.bool().reshape(-1, *size)[0].cpu().numpy(), score)


def planned_mb(millions: float, frames: int) -> float:
    """Megabytes that following an object takes. millions: of parameters, in 32 bits."""
    return 4 * millions + WORK_MB + FRAME_MB * frames


def load_tracker(
    name: str, device: str = "cpu", progress: Progress | None = None, frames: int = 0
) -> Tracker:
    """A tracker by short name, folder or hub id, by transformers' Auto classes.

    frames: see `core.objects.segment.load_segmenter`. Raises DetectorError where it cannot be had,
    follows no points, or does not fit the memory; Cancelled once `progress` was stopped.
    """
    from transformers import (
        AutoModel,
        AutoProcessor,
        Sam3TrackerVideoModel,
        Sam3TrackerVideoProcessor,
    )

    entry = DETECTORS.get(name)
    if entry is not None and entry.parameters is not None:
        _check_memory(entry.title, planned_mb(entry.parameters, frames), device)

    def classes(kind: str) -> tuple[Any, Any]:
        if kind not in KINDS:
            raise DetectorError(
                f"{shown(name, 200)} holds a model of the kind {shown(kind, 60)}, which follows no"
                " points",
                "Give the folder or hub id of SAM 2, EdgeTAM or SAM 3",
            )
        if kind == "sam3_video":  # the detector of words, whose files hold the tracker too
            return Sam3TrackerVideoModel, Sam3TrackerVideoProcessor
        return AutoModel, AutoProcessor

    instead = f"{COLOURS}, which needs no weights"
    read, processor, notes = read_auto("segmenter", name, device, progress, classes, instead)
    return Tracker(name, read.model, processor, notes)


def _check_memory(title: str, needed_mb: float, device: str) -> None:
    free = free_gb(torch.device(device))
    if free is not None and needed_mb > 1000 * free:
        raise DetectorError(
            f"{title} takes about {needed_mb / 1000:.1f} GB to follow an object through this clip,"
            f" and {free:.1f} GB are free",
            f"Choose fewer frames, a smaller model, or {COLOURS}",
        )
