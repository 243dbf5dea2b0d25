"""Clip → detections by transformers: RT-DETR and D-FINE (Apache-2.0), and Grounding DINO.

An alternative to YOLO where AGPL weights are not wanted, and an open-vocabulary detector that looks
for the things a question names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from macd_studio.core.errors import DetectorError, MacdError
from macd_studio.core.fetching import fetch
from macd_studio.core.hub import reachable
from macd_studio.core.objects.registry import DETECTORS
from macd_studio.core.options import DetectOptions
from macd_studio.core.types import Detections, Pixels, Progress

BATCH = 4


class ClosedSet:
    """RT-DETR, D-FINE or another object detector with a fixed list of classes."""

    open_vocabulary = False

    def __init__(self, name: str, model: Any, processor: Any) -> None:
        self.name = name
        self.model, self.processor = model.eval().requires_grad_(False), processor

    def input_size(self, frames: Pixels, options: DetectOptions) -> None:
        """See `Detector.input_size`: the model's own processor chooses."""

    @torch.no_grad()
    def detect(self, frames: Pixels, options: DetectOptions) -> Iterator[Detections]:
        """Boxes of at least `options.floor` confidence; raises DetectorError if a frame fails."""
        for at in range(0, len(frames), BATCH):
            batch = [np.ascontiguousarray(f) for f in frames[at : at + BATCH]]
            try:
                results = self._detect_batch(batch, options)
            except (RuntimeError, ValueError) as error:
                raise DetectorError(
                    f"{self.name} failed on frame {at}: {error}", "Try another detector"
                ) from error
            for frame, (boxes, scores, labels) in zip(batch, results, strict=True):
                yield _detections(frame, boxes, scores, labels, options)

    def _detect_batch(self, batch: list[Pixels], options: DetectOptions) -> list[Any]:
        inputs = self.processor(images=batch, return_tensors="pt").to(self.model.device)
        results = self.processor.post_process_object_detection(
            self.model(**inputs), threshold=options.floor, target_sizes=_sizes(batch)
        )
        names = self.model.config.id2label
        return [(r["boxes"], r["scores"], [names[int(i)] for i in r["labels"]]) for r in results]


class OpenSet(ClosedSet):
    """Grounding DINO: looks for what `options.prompt` names, such as "dog. umbrella."."""

    open_vocabulary = True

    def _detect_batch(self, batch: list[Pixels], options: DetectOptions) -> list[Any]:
        names = [w.strip() for w in options.prompt.split(".") if w.strip()] or ["object"]
        text = ". ".join(names) + "."
        inputs = self.processor(
            images=batch, text=[text] * len(batch), return_tensors="pt", padding=True
        ).to(self.model.device)
        results = self.processor.post_process_grounded_object_detection(
            self.model(**inputs),
            inputs["input_ids"],
            threshold=options.floor,
            text_threshold=options.floor,
            target_sizes=_sizes(batch),
        )
        return [
            (r["boxes"], r["scores"], [_named(t, names) for t in r["text_labels"]]) for r in results
        ]


def _named(text: str, names: list[str]) -> str:
    """The prompt's own words for what the model matched, the longest that occur whole in it.

    >>> _named("woman", ["man", "Woman"]), _named("a red car", ["car", "red car"])
    ('Woman', 'red car')
    """
    words = _words(text)
    for name in sorted(names, key=len, reverse=True):
        if _words(name) in words:
            return name
    return text.strip(" .") or "object"


def _words(text: str) -> str:
    words = re.findall(r"[^\W_]+", text.lower())
    return " " + " ".join(words) + " "


def _sizes(batch: list[Pixels]) -> list[tuple[int, int]]:
    return [(f.shape[0], f.shape[1]) for f in batch]


def _detections(
    frame: Pixels, boxes: Any, scores: Any, labels: list[str], options: DetectOptions
) -> Detections:
    height, width = frame.shape[:2]
    order = scores.argsort(descending=True)[: options.max_per_frame].cpu().numpy()
    places = boxes.cpu().numpy().reshape(-1, 4) / (width, height, width, height)
    return Detections(
        boxes=places[order].astype(np.float32).clip(0, 1),
        scores=scores.cpu().numpy()[order].astype(np.float32),
        labels=tuple(labels[i] for i in order),
    )


def load_hf_detector(name: str, device: str = "cpu", progress: Progress | None = None) -> ClosedSet:
    """A detector by short name or folder; progress: updated while it is downloaded.

    Raises DetectorError where it cannot be had, Cancelled once `progress` was stopped.
    """
    from transformers import (
        AutoModelForObjectDetection,
        AutoModelForZeroShotObjectDetection,
        AutoProcessor,
    )
    from transformers import AutoConfig, AutoImageProcessor  # isort: skip

    entry = DETECTORS.get(name)
    source, revision = entry.hub if entry is not None and entry.hub is not None else (name, None)
    local = Path(source).is_dir()
    online = local or reachable()
    safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        if not local:
            source = fetch(source, revision, progress or Progress(), online, broken=DetectorError)
        grounded = AutoConfig.from_pretrained(source, **safe).model_type == "grounding-dino"
        model_class: Any = (
            AutoModelForZeroShotObjectDetection if grounded else AutoModelForObjectDetection
        )
        model = model_class.from_pretrained(source, use_safetensors=True, **safe).to(device)
        processor_class: Any = AutoProcessor if grounded else AutoImageProcessor
        processor = processor_class.from_pretrained(source, **safe)
    except MacdError:
        raise
    except Exception as error:  # whatever the hub, the reader of weights or a config provokes
        if not online:
            raise DetectorError(
                f"the detector {name!r} is not on this disk, and the hub cannot be reached",
                "Check the network, or use toyworld or a file",
            ) from error
        raise DetectorError(
            f"the detector {name!r} cannot be loaded ({type(error).__name__})",
            "Check the folder, or use toyworld or yolo11n",
        ) from error
    return (OpenSet if grounded else ClosedSet)(name, model, processor)
