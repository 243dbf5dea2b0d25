"""Clip → detections, by YOLO (ultralytics), `core.objects.detect_hf` or `core.objects.regions`.

The only importer of ultralytics.

Every frame is detected by itself, without regard to time.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import cv2
import numpy as np

from macd_studio.core.checkpoint.files import weights_hash
from macd_studio.core.embedded import EVERYDAY, NETWORK, PREFIX, REAL_DETECTOR
from macd_studio.core.errors import DetectorError
from macd_studio.core.objects.registry import DETECTORS, HUB_ID, hub_source, listed, named
from macd_studio.core.options import DetectOptions
from macd_studio.core.system.hub import is_closed
from macd_studio.core.system.library_notes import collecting
from macd_studio.core.system.shipped import shipped
from macd_studio.core.text.phrases import words_of
from macd_studio.core.types import Detections, Floats, Outline, Pixels, Progress
from macd_studio.core.validation import shown

BATCH = 8
BATCH_SECONDS = 0.3
"""Frames go through the network together as far as they take this long: boxes appear steadily."""
STRIDE = 32
POINTS, PARTS = 48, 4
FILES = (".pt", ".onnx")
WEIGHTS = "model.safetensors"
YOLO_MAKER = "detect:load_yolo"
"""Makes those whose weights are a file of this folder."""
YOLO_RELEASE = "https://github.com/ultralytics/assets/releases/download/v8.4.0"


class Detector(Protocol):
    """What the pipeline needs of a detector."""

    name: str
    open_vocabulary: bool

    def detect(self, frames: Pixels, options: DetectOptions) -> Iterator[Detections]:
        """One Detections a frame, in order. frames: (D, h, w, 3) RGB 0-255."""
        ...

    def input_size(self, frames: Pixels, options: DetectOptions) -> int | None:
        """Long side of what the network sees of such frames, pixels; None: its own choice."""
        ...


class Yolo:
    """YOLO11, YOLO26 or YOLOE weights as a detector; those of a -seg model give outlines too.

    image_size: the long side that the weights were trained at; smaller frames are not enlarged.
    unnamed: its file tells no names of classes; they are class0, class1, … unless
    `DetectOptions.names` gives them. embed: of YOLOE, gives the embeddings (1, N, size) of N words,
    from the model; its own text encoder without it.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        device: str = "cpu",
        image_size: int = 640,
        embed: Callable[[Any, list[str]], Any] | None = None,
    ) -> None:
        self.name, self.device, self.image_size = name, device, image_size
        self._path, self._embed = path, embed or _embed_words
        reports: list[str] = []
        with collecting(reports):
            self._model = _load(path)
        self.notes, self.weights_hash = tuple(reports), weights_hash([path])
        self._words: tuple[str, ...] = ()
        self._lock = threading.Lock()  # a model of ultralytics keeps the state of a call in itself
        self.unnamed = path.suffix == ".onnx" and not _onnx_facts(path).get("names")
        self.open_vocabulary = type(self._model).__name__ == "YOLOE" and not hasattr(
            self._model.model.model[-1],
            "lrpc",  # of those with a fixed vocabulary of their own
        )

    def _look_for(self, words: tuple[str, ...]) -> None:
        """Makes words the classes. The head is fused with them, so others need the file again."""
        if words == self._words:
            return
        if self._words:
            self._model = _load(self._path)
        try:
            self._model.set_classes(list(words), self._embed(self._model, list(words)))
        except DetectorError:
            raise
        except Exception as error:  # whatever its text encoder met
            raise DetectorError(
                f"{self.name} cannot be asked for words ({type(error).__name__})",
                "Use a YOLOE model that takes words, or a detector of fixed classes",
            ) from error
        self._words = words

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes it knows, by class index."""
        return tuple(self._model.names[i] for i in sorted(self._model.names))

    def input_size(self, frames: Pixels, options: DetectOptions) -> int:
        """See `Detector.input_size`: as asked, else of the frames, at most of the training."""
        own = STRIDE * -(-max(frames.shape[1:3]) // STRIDE)
        return options.image_size or min(self.image_size, own)

    def detect(self, frames: Pixels, options: DetectOptions) -> Iterator[Detections]:
        """Boxes of at least `options.floor` confidence; raises DetectorError if a frame fails."""
        if options.names and not self.unnamed:
            raise DetectorError(f"{self.name} names its classes itself", "Leave the names out")
        size, at, batch = self.input_size(frames, options), 0, 1
        while at < len(frames):
            began = time.monotonic()
            results = self._predict(frames[at : at + batch], size, at, options)
            spent = (time.monotonic() - began) / len(results)
            first, at = not at, at + batch
            # the first also waits for the model to be prepared
            in_time = 2 if first else int(BATCH_SECONDS / spent)
            batch = min(2 * batch, BATCH, max(1, in_time))
            for result in results:
                boxes = result.boxes.cpu()
                contours = _rings(result) if result.masks is not None else ()
                yield Detections(
                    boxes=boxes.xyxyn.numpy().astype(np.float32).clip(0, 1),
                    scores=boxes.conf.numpy().astype(np.float32),
                    labels=tuple(
                        self._label(int(c), result.names, options.names) for c in boxes.cls
                    ),
                    outlines=tuple(simplified(rings) for rings in contours),
                )

    def _label(self, number: int, own: dict[int, str], given: tuple[str, ...]) -> str:
        if not given:
            return own[number]
        if number >= len(given):
            raise DetectorError(
                f"{self.name} found its class {number}, counted from 0, but"
                f" {len(given)} names were given",
                "Give the names of all of its classes, in their order",
            )
        return given[number]

    def _predict(self, frames: Pixels, size: int, at: int, options: DetectOptions) -> list[Any]:
        with self._lock:
            if self.open_vocabulary:
                self._look_for(words_of(options.prompt) or ("object",))
            try:
                with _threads_kept():
                    results: list[Any] = self._model.predict(
                        [np.ascontiguousarray(f[..., ::-1]) for f in frames],
                        imgsz=size,
                        conf=options.floor,
                        max_det=options.max_per_frame,
                        device=self.device,
                        verbose=False,
                    )
            except (RuntimeError, ValueError, LookupError, AttributeError, TypeError) as error:
                raise DetectorError(
                    f"{self.name} failed on frame {at}: {error}", "Try another detector"
                ) from error
        return results


TEXT_ENCODERS = {"mobileclip": ("mobileclip_blt.ts", 600), "mobileclip2": ("mobileclip2_b.ts", 254)}
"""Files that YOLOE's words are encoded with, a download of their own, and their megabytes."""


def _embed_words(model: Any, words: list[str]) -> Any:
    """By the text encoder of a YOLOE model, which must be on this disk or can be downloaded."""
    variant = str(getattr(model.model, "text_model", "mobileclip:blt")).partition(":")[0]
    file, megabytes = TEXT_ENCODERS.get(variant, (variant, 600))
    missing = DetectorError(
        f"the words are encoded by {file}, {megabytes} MB, which is not on this disk and could not"
        " be downloaded",
        "Put it into this folder, or use a detector of fixed classes",
    )
    if not Path(file).is_file() and is_closed():
        raise missing
    try:
        return model.get_text_pe(words)
    except Exception as error:
        raise missing from error


def _rings(result: Any) -> Iterator[list[Floats]]:
    """The outlines of each mask, of every part of it, in shares of the frame."""
    from ultralytics.utils.ops import scale_coords

    masks = result.masks.data
    for mask in masks.byte().cpu().numpy():
        contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        yield [
            np.asarray(scale_coords(mask.shape, ring[:, 0].astype(np.float32), result.orig_shape,
                                    normalize=True), np.float32)
            for ring in contours
        ]  # fmt: skip


def _onnx_facts(path: Path) -> dict[str, str]:
    """What an exported model states of itself, as its task and its names."""
    import onnxruntime  # type: ignore[import-untyped]

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return dict(session.get_modelmeta().custom_metadata_map)


def simplified(rings: Sequence[Floats]) -> Outline | None:
    """The larger parts of an outline, `POINTS` points in all; None where it encloses nothing.

    Douglas-Peucker, as fine as that number allows. Parts of less than a twentieth are left out.
    """
    closed = [np.asarray(r, np.float32).reshape(-1, 1, 2).clip(0, 1) for r in rings if len(r) > 2]
    closed = sorted(closed, key=cv2.contourArea, reverse=True)[:PARTS]
    closed = [r for r in closed if cv2.contourArea(r) > 0.05 * cv2.contourArea(closed[0])]
    few = [_few(r, POINTS // len(closed)) for r in closed]
    return tuple(r for r in few if len(r) > 2) or None


def _few(ring: Floats, points: int) -> Floats:
    size = float(np.ptp(ring[:, 0], axis=0).max())
    finer = 0.004
    while len(reduced := cv2.approxPolyDP(ring, finer * size, True)) > points:
        finer *= 1.5
    return np.asarray(reduced[:, 0], np.float32)


def only(detections: Detections, classes: tuple[str, ...]) -> Detections:
    """The detections of these classes; all of them where none is named."""
    if not classes:
        return detections
    kept = [i for i, label in enumerate(detections.labels) if label in classes]
    labels = tuple(detections.labels[i] for i in kept)
    outlines = tuple(detections.outlines[i] for i in kept) if detections.outlines else ()
    return Detections(detections.boxes[kept], detections.scores[kept], labels, outlines)


def load_detector(name: str, device: str = "cpu", progress: Progress | None = None) -> Detector:
    """A detector by its name in `registry.DETECTORS`, by file (.pt, .onnx), or by the folder or hub
    id of a transformers detector.

    progress: updated while it is downloaded. Raises DetectorError where the weights are missing or
    unusable.
    """
    check_detector(name)
    path = Path(name)
    if path.suffix in FILES:
        return Yolo(path.name, path, device)
    place = DETECTORS[name].make if name in DETECTORS else "detect_hf:load_hf_detector"
    module, function = place.split(":")
    make = getattr(import_module(f"macd_studio.core.objects.{module}"), function)
    made: Detector = make(name, device, progress)
    return made


def load_embedded(name: str, device: str, progress: Progress | None = None) -> Yolo:
    """The detector that ships with the project."""
    return Yolo(name, shipped("detector.pt"), device, image_size=192)


def load_shipped(name: str, device: str, progress: Progress | None = None) -> Yolo:
    """YOLO11n, whose weights ship: the embedded backbone sees through the same network."""
    (progress or Progress()).begin(f"Loading {DETECTORS[name].title}")
    return Yolo(name, shipped(f"backbone/{NETWORK}", EVERYDAY), device)


def load_yolo(name: str, device: str, progress: Progress | None = None) -> Yolo:
    """YOLO by its name, from this folder or downloaded into it."""
    path, progress = Path(f"{name}.pt"), progress or Progress()
    if not path.is_file():
        _download(name, path, progress)
    progress.begin(f"Loading {DETECTORS[name].title}")
    return Yolo(name, path, device)


def _download(name: str, path: Path, progress: Progress) -> None:
    """Weights of YOLO by name, into this folder. Raises DetectorError, Cancelled."""
    if is_closed():
        raise DetectorError(
            f"{path.name} is not on this disk, and this server downloads nothing any more",
            "Choose another detector",
        )
    from macd_studio.core.system.fetching import fetch_file

    entry = DETECTORS[name]
    fetch_file(f"{YOLO_RELEASE}/{path.name}", path, progress, entry.title, DetectorError)


def check_detector(name: str) -> None:
    """Raises DetectorError for what is not a detector's name or file; loads nothing."""
    if Path(name).suffix in FILES:
        if not os.path.isfile(name):
            raise DetectorError(
                f"there is no detector file {shown(name, 200)}",
                "Give a .pt or .onnx file, or a name such as toyworld or yolo11n",
            )
    elif name in named("points"):
        raise DetectorError(
            f"{name} finds no objects by itself: it follows a point",
            f"Choose one of {listed()}, and add objects to the finished run by points",
        )
    elif name not in DETECTORS and not os.path.isdir(name) and not HUB_ID.fullmatch(name):
        raise DetectorError(
            f"{shown(name, 200)} is not a known detector",
            f"Choose one of {listed()}, a .pt or .onnx file, a folder or a hub id",
        )


def is_on_disk(name: str) -> bool:
    """Whether a detector can be had without a network. name: as of `load_detector`."""
    entry = DETECTORS.get(name)
    if entry is not None and entry.hub is None:
        return entry.make != YOLO_MAKER or Path(f"{name}.pt").is_file()
    if entry is None and (Path(name).exists() or not HUB_ID.fullmatch(name)):
        return Path(name).exists()
    from huggingface_hub import try_to_load_from_cache

    source, revision = hub_source(name)
    return isinstance(try_to_load_from_cache(source, WEIGHTS, revision=revision), str)


@contextmanager
def _threads_kept() -> Iterator[None]:
    """While inside, ultralytics does not choose how many threads this process computes with.

    It does when it is imported (OpenCV), and when a network is put on a CPU (torch), each time for
    all that the process does from then on, and to fewer than are there.
    """
    import torch

    before, of_opencv = torch.get_num_threads(), cv2.getNumThreads()
    chooses = sys.modules.get("ultralytics.utils.torch_utils")
    if chooses is not None:
        vars(chooses)["NUM_THREADS"] = before  # so that the network itself computes with as many
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)
        if cv2.getNumThreads() != of_opencv:
            cv2.setNumThreads(of_opencv)


@contextmanager
def _temporary_settings() -> Iterator[None]:
    """While inside, ultralytics writes its settings into a folder that goes with this process.

    It does so when it is first imported. A folder that YOLO_CONFIG_DIR names is kept.
    """
    if "YOLO_CONFIG_DIR" in os.environ or "ultralytics" in sys.modules:
        yield
        return
    os.environ["YOLO_CONFIG_DIR"] = _settings_folder().name
    try:
        yield
    finally:
        del os.environ["YOLO_CONFIG_DIR"]


@cache
def _settings_folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="macd-ultralytics-")


def _import_yolo() -> Any:
    """ultralytics.YOLO, which loads known classes only: a .pt file is a pickle.

    ultralytics takes the restriction from the environment when it is imported, so a value that
    was there before is overwritten, and one that came too late is set in its module. Its warnings
    are for who collects them, not for the terminal; its settings, of which none is read here, are
    written into a temporary folder instead of the user's.
    """
    os.environ |= {"ULTRALYTICS_SAFE_LOAD": "1", "YOLO_AUTOINSTALL": "false", "YOLO_OFFLINE": "1"}
    os.environ.setdefault("YOLO_VERBOSE", "false")
    with _threads_kept(), _temporary_settings():
        from ultralytics import YOLO
        from ultralytics.nn import tasks
    logger = logging.getLogger("ultralytics")
    logger.setLevel(min(logger.level, logging.WARNING))

    tasks.SAFE_LOAD = True
    if not tasks._SafeLoad.restricted():
        raise DetectorError(
            "this version of torch cannot load detector weights safely",
            "Install the versions in constraints.txt",
        )
    return YOLO


def _load(path: Path) -> Any:
    YOLO = _import_yolo()
    if not path.is_file():  # ultralytics would look for it on its servers, by the file's name
        raise DetectorError(
            f"there is no detector file {shown(str(path), 200)}",
            "Give a .pt or .onnx file, or a name such as toyworld or yolo11n",
        )
    if path.suffix == ".safetensors":
        with _threads_kept():
            return _of_network(YOLO, path)
    try:
        with _threads_kept():
            task = _onnx_facts(path).get("task", "detect") if path.suffix == ".onnx" else None
            model = YOLO(str(path), task=task)
            class_names, task = model.names, model.task
    except Exception as error:  # ultralytics raises whatever its reader met
        raise DetectorError(
            f"{path.name} cannot be loaded as YOLO weights ({type(error).__name__})",
            "Give the file of a YOLO11 model, or connect to the network to download it by name",
        ) from error
    if task not in ("detect", "segment"):
        raise DetectorError(f"{path.name} is a model to {task}", "Use a detection or -seg model")
    if not class_names:
        raise DetectorError(f"{path.name} names no classes", "Use a detection model")
    _check_head(model, path)
    return model


def _of_network(YOLO: Any, path: Path) -> Any:
    """ultralytics' YOLO11n with the weights that ship, which are fused and no pickle."""
    import torch
    from safetensors import safe_open

    model = YOLO(f"{REAL_DETECTOR}.yaml", task="detect")
    network = model.model.fuse(verbose=False).eval()
    # newer versions leave out this activation, with which the weights were trained
    network.model[9].cv1.act = torch.nn.SiLU()
    with safe_open(path, "pt") as file:
        names = json.loads(file.metadata()["names"])
        weights = {k.removeprefix(PREFIX): file.get_tensor(k).float() for k in file.keys()}
    missing, unknown = network.load_state_dict(weights, strict=False)
    if unknown or any("dfl" not in name for name in missing):
        raise DetectorError(
            "this version of ultralytics builds another YOLO11n than the weights that ship",
            "Install the versions in constraints.txt",
        )
    network.names = dict(enumerate(names))
    return model


def _check_head(model: Any, path: Path) -> None:
    """Raises DetectorError for weights that are not whole, or classes that are not all named."""
    network = model.model
    if not hasattr(network, "model"):  # exported: its graph is whole, or was not loaded
        return
    head, names = network.model[-1], model.names
    classes = int(getattr(head, "nc", len(names)))
    unnamed = [i for i in range(classes) if i not in names]
    if unnamed or len(names) > classes:
        raise DetectorError(
            f"{path.name} has {classes} classes and names of {len(names)}"
            + (f" (none of {', '.join(map(str, unnamed[:3]))})" if unnamed else ""),
            "Train or export it again with as many names as classes",
        )
