"""Clip → detections by transformers: whatever its Auto classes load as an object detector.

Of fixed classes (RT-DETR, D-FINE, RF-DETR, DEIMv2, …), an alternative to YOLO where AGPL weights
are not wanted; or of words (Grounding DINO, MM Grounding DINO, OWLv2, OmDet-Turbo), which look for
the things that a question names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import torch

from macd_studio.core.checkpoint.reading import Checkpoint, read_checkpoint
from macd_studio.core.errors import DetectorError, MacdError
from macd_studio.core.objects.registry import DETECTORS, ZERO_SHOT, hub_source
from macd_studio.core.options import DetectOptions
from macd_studio.core.system.fetching import fetch
from macd_studio.core.system.hub import reachable
from macd_studio.core.system.library_notes import collecting
from macd_studio.core.text.phrases import words_of
from macd_studio.core.types import Detections, Pixels, Progress
from macd_studio.core.validation import shown

BATCH = 4


class ClosedSet:
    """RT-DETR, D-FINE or another object detector with a fixed list of classes."""

    open_vocabulary = False

    def __init__(
        self,
        name: str,
        model: Any,
        processor: Any,
        weights_hash: str = "",
        notes: tuple[str, ...] = (),
    ) -> None:
        self.name, self.weights_hash, self.notes = name, weights_hash, notes
        self.model, self.processor = model.eval().requires_grad_(False), processor

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes it knows, by class index."""
        names = self.model.config.id2label
        return tuple(names[i] for i in sorted(names))

    def input_size(self, frames: Pixels, options: DetectOptions) -> None:
        """See `Detector.input_size`: the model's own processor chooses."""

    @torch.no_grad()
    def detect(self, frames: Pixels, options: DetectOptions) -> Iterator[Detections]:
        """Boxes of at least `options.floor` confidence; raises DetectorError if a frame fails."""
        for at in range(0, len(frames), BATCH):
            batch = [np.ascontiguousarray(f) for f in frames[at : at + BATCH]]
            try:
                results = self._detect_batch(batch, options)
            except (RuntimeError, ValueError, LookupError) as error:
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
    """Looks for what `options.prompt` names, such as "dog. umbrella."."""

    open_vocabulary = True

    def _detect_batch(self, batch: list[Pixels], options: DetectOptions) -> list[Any]:
        names = list(words_of(options.prompt)) or ["object"]
        post = self.processor.post_process_grounded_object_detection
        reads = signature(post).parameters
        how = {"threshold": options.floor, "target_sizes": _sizes(batch)}
        if "input_ids" in reads:  # Grounding DINO: one text, whose pieces are matched
            text: Any = [". ".join(names) + "."] * len(batch)
            inputs = self._inputs(batch, text, padding=True)
            how |= {"input_ids": inputs["input_ids"], "text_threshold": options.floor}
        else:  # OWLv2, OmDet-Turbo: a text for each name
            text = [names] * len(batch)
            inputs = self._inputs(batch, text, truncation=True)
            how |= {"text_labels": text}
        results = post(self.model(**inputs), **how)
        return [
            (r["boxes"], r["scores"], [_named(t, names) for t in r["text_labels"]]) for r in results
        ]

    def _inputs(self, batch: list[Pixels], text: Any, **how: Any) -> Any:
        inputs = self.processor(images=batch, text=text, return_tensors="pt", **how)
        return inputs.to(self.model.device)


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
    """A detector by short name, folder or hub id: whatever transformers' Auto classes load as one.

    progress: updated while it is downloaded. Raises DetectorError where it cannot be had, or is no
    detector; Cancelled once `progress` was stopped.
    """
    from transformers import (
        AutoModelForObjectDetection,
        AutoModelForZeroShotObjectDetection,
        AutoProcessor,
    )
    from transformers import AutoImageProcessor  # isort: skip
    from transformers.models.auto.modeling_auto import MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES

    def classes(kind: str) -> tuple[Any, Any]:
        if kind in ZERO_SHOT:
            return AutoModelForZeroShotObjectDetection, AutoProcessor
        if kind in MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES:
            return AutoModelForObjectDetection, AutoImageProcessor
        raise DetectorError(
            f"{shown(name, 200)} holds a model of the kind {shown(kind, 60)}, which finds no"
            " objects",
            "Give the folder or hub id of an object detector",
        )

    instead = "toyworld or yolo11n"
    read, processor, notes = read_auto("detector", name, device, progress, classes, instead)
    kind_of = OpenSet if read.model.config.model_type in ZERO_SHOT else ClosedSet
    if kind_of is ClosedSet:
        _check_classes(read.model, name)
    return kind_of(name, read.model, processor, read.weights_hash, notes)


def read_auto(
    what: str, name: str, device: str, progress: Progress | None,
    classes: Callable[[str], tuple[Any, Any]], instead: str,
) -> tuple[Checkpoint, Any, tuple[str, ...]]:  # fmt: skip
    """A model on its device, its processor, and what must be known of it.

    what: "detector" or "segmenter". name: short name, folder or hub id. classes: for a model type
    those of model and processor; raises DetectorError for one of another use. instead: what may be
    used where this one cannot. Raises DetectorError; Cancelled once `progress` was stopped.
    """
    from transformers import AutoConfig

    local = name not in DETECTORS and Path(name).is_dir()
    source, revision = (name, None) if local else hub_source(name)
    online = local or reachable()
    safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    reports: list[str] = []
    try:
        if not local:
            source = fetch(source, revision, progress or Progress(), online, broken=DetectorError)
        model, processor = classes(AutoConfig.from_pretrained(source, **safe).model_type)
        with collecting(reports):
            read = read_checkpoint(model, source, name, DetectorError)
            read.model.to(device)
            return read, processor.from_pretrained(source, **safe), (*read.notes, *reports)
    except MacdError:
        raise
    except ImportError as error:
        raise DetectorError(
            f"the {what} {name!r} needs what is not installed ({shown(str(error), 120)})",
            f"Install it, or use {instead}",
        ) from error
    except Exception as error:  # whatever the hub, the reader of weights or a config provokes
        if not online:
            raise DetectorError(
                f"the {what} {name!r} is not on this disk, and the hub cannot be reached",
                f"Check the network, or use {instead}",
            ) from error
        raise DetectorError(
            f"the {what} {name!r} cannot be loaded ({type(error).__name__})",
            f"Check the folder, or use {instead}",
        ) from error


def _check_classes(model: Any, name: str) -> None:
    """Raises DetectorError where config.json does not name every class of the head."""
    names, count = model.config.id2label, model.config.num_labels
    if unnamed := [i for i in range(count) if i not in names]:
        raise DetectorError(
            f"the detector {name!r} has {count} classes, and its config.json names"
            f" {count - len(unnamed)} of them (not {', '.join(map(str, unnamed[:3]))})",
            "Give id2label of every class",
        )
