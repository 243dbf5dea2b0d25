"""The models of the page: those that are loaded, and the real ones that fit this machine."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from macd_studio.core.backbones.catalogue import CATALOGUE, CatalogueEntry, planned
from macd_studio.core.backbones.remote_address import is_remote
from macd_studio.core.backbones.weights_options import Weights
from macd_studio.core.embedded import AUTO, REAL_DETECTOR, SHIPPED
from macd_studio.core.errors import OptionError
from macd_studio.core.objects.registry import COLOURS, DETECTORS, named
from macd_studio.core.system.recent import Recent
from macd_studio.core.types import Clip, Progress
from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.settings import ServerSettings

if TYPE_CHECKING:
    from macd_studio.core.backbones import LocalLM, Reader
    from macd_studio.core.objects.detect import Detector
    from macd_studio.core.objects.segment import Segmenter

MAX_LOADED = 2
"""Models of each kind that stay loaded."""

SHARE = 0.8
"""Of the memory that is there, what a run may take at most, [0, 1]."""
PATIENCE_S = 120.0
"""The largest model whose runs are not expected to take longer is offered, else the smallest."""
MATMUL = 1024
"""Side of the matrices by which this machine's speed is measured."""
UNPLANNED_TFLOPS = 8.0
"""10¹² operations of a run, for each 10⁹ parameters of a model that was not planned."""
CGROUP = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Machine:
    """What a model would run on. memory_gb: 10⁹ bytes of the GPU, else of this process.

    tflops: 10¹² operations a second, measured on a product of matrices.
    """

    device: str
    memory_gb: float
    tflops: float


@dataclass(frozen=True)
class RealModels:
    """A backbone and a detector by name, and what is known of them in words."""

    backbone: str
    detector: str
    title: str
    facts: str

    def as_dict(self) -> dict[str, str]:
        """For the page."""
        return {"title": self.title, "facts": self.facts}


def offered(settings: ServerSettings, machine: Machine | None = None) -> RealModels | None:
    """What a visitor is offered by one click; None where the operator listed no real model.

    A public page offers only what its operator listed. Elsewhere it is the largest backbone of a
    known commit that fits the memory and answers within PATIENCE_S, and a detector for everyday
    objects.
    """
    known = [m for m in CATALOGUE if m.revision]
    listed = [m for m in CATALOGUE if m.hub_id in settings.backbones] if settings.public else known
    detector = _detector(settings, machine)
    if not listed:
        others = [name for name in settings.backbones if name not in (AUTO, *SHIPPED)]
        if not settings.public or not others:
            return None
        return RealModels(others[0], detector, sentences.both_models(others[0], detector), "")
    here = machine or this_machine()
    weights = settings.weights
    fitting = [m for m in listed if needed_gb(m, here, weights) <= SHARE * here.memory_gb]
    if not fitting:
        return None
    quick = [m for m in fitting if seconds_of(m, here) <= PATIENCE_S]
    best = max(quick, key=lambda m: m.billions) if quick else min(
        fitting, key=lambda m: m.billions
    )  # fmt: skip
    facts = sentences.model_facts(
        best.billions, needed_gb(best, here, weights), here.memory_gb, best.licence, best.memory_gb,
        _facts(detector),
    )  # fmt: skip
    return RealModels(
        best.hub_id, detector, sentences.both_models(best.title, _name(detector)), facts
    )


def needed_gb(model: CatalogueEntry, machine: Machine, weights: Weights = "as-is") -> float:
    """10⁹ bytes of a run with MACD; a CPU holds float32, twice the planned bfloat16."""
    return model.needed(weights, 2 if machine.device == "cuda" else 4)


def seconds_of(model: CatalogueEntry, machine: Machine) -> float:
    """Reading both views and the gradient, from the planned FLOPs; detector and tokens excluded."""
    plan = planned(model.hub_id)
    tflops = float(plan["macd_tflops"]) if plan else UNPLANNED_TFLOPS * model.billions
    return tflops / machine.tflops


def _detector(settings: ServerSettings, machine: Machine | None) -> str:
    """A detector of everyday objects: on a GPU a larger one, where visitors may choose it."""
    known = (*SHIPPED, AUTO, REAL_DETECTOR, *named("nothing"))
    if settings.public:
        return next((name for name in settings.detectors if name not in known), REAL_DETECTOR)
    on_gpu = (machine or this_machine()).device == "cuda"
    quick = importlib.util.find_spec("ultralytics") is not None
    return "rt-detr" if on_gpu or not quick else REAL_DETECTOR


def first_segmenter(settings: ServerSettings) -> str:
    """What the page looks at points with at first, without any download.

    What the operator listed or, on one's own machine, what is on its disk; else what needs no
    weights.
    """
    from macd_studio.core.objects.detect import is_on_disk

    listed = [name for name in settings.segmenters if name != COLOURS]
    if settings.public:
        return listed[0] if listed else COLOURS
    known = [*listed, *(name for name in named("points") if name != COLOURS)]
    return next((name for name in known if is_on_disk(name)), COLOURS)


def _name(detector: str) -> str:
    return _facts(detector).partition(" · ")[0]


def _facts(detector: str) -> str:
    return DETECTORS[detector].facts if detector in DETECTORS else detector


@lru_cache(maxsize=1)
def this_machine() -> Machine:
    """Measured once; takes some hundredths of a second."""
    import torch

    from macd_studio.core.backbones.local import device_of

    device = device_of()
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory / 1e9
        matrix = torch.randn(8 * MATMUL, MATMUL, device=device, dtype=torch.bfloat16)
    else:
        memory = _memory_bytes() / 1e9
        matrix = torch.randn(MATMUL, MATMUL)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        float((matrix @ matrix.T)[0, 0])  # waits for the device
        times.append(time.perf_counter() - began)
    rows, columns = matrix.shape
    return Machine(device.type, memory, 2e-12 * rows * rows * columns / min(times))


def _memory_bytes() -> int:
    """Of the machine, or of the container that this process is confined to."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(pages, int(CGROUP.read_text()))
    except (OSError, ValueError):  # there is none, or it is "max"
        return pages


class Models:
    """Loaded models, the same for all sessions; safe to share between threads.

    Of each kind the MAX_LOADED stay that were used last. weights: how real backbones are quantised;
    offload: whether what does not fit the device lies off it. named: the backbones that the page
    was started with; one that another server holds is asked only where it is among them.
    """

    def __init__(
        self, weights: Weights = "as-is", offload: bool = False, named: Sequence[str] = ()
    ) -> None:
        self.weights, self.offload, self._named = weights, offload, tuple(named)
        kinds = ("backbone", "detector", "segmenter")
        self._loaded: dict[str, Recent[str, Any]] = {kind: Recent(MAX_LOADED) for kind in kinds}
        self._loading = threading.Lock()

    def backbone(self, name: str, progress: Progress | None = None) -> Reader:
        """A loaded backbone; progress: updated while it loads.

        Raises OptionError for a server that was not named at the start, whoever names it here.
        """
        if is_remote(name) and name not in self._named:
            raise OptionError(
                f"this page does not ask the server {name[:80]!r}",
                "Name it when the page is started: --backbone vllm:http://HOST:PORT",
            )

        def load() -> Reader:
            from macd_studio.core.backbones import load_backbone, open_backbone

            if name in SHIPPED:
                return load_backbone(name, progress=progress)
            if is_remote(name):
                return open_backbone(name, progress=progress)
            held: dict[str, Any] = {"weights": self.weights, "offload": self.offload}
            return load_backbone(name, progress=progress, **held)

        lm: Reader = self.get(("backbone", name), load)
        return lm

    def detector(
        self, name: str, progress: Progress | None = None, device: str = "auto"
    ) -> Detector:
        """A loaded detector; progress: updated while it loads. device: see `device_of`."""

        def load() -> Detector:
            from macd_studio.core.backbones.local import device_of
            from macd_studio.core.objects.detect import load_detector

            return load_detector(name, device_of(device).type, progress)

        detector: Detector = self.get(("detector", _on(device, name)), load)
        return detector

    def segmenter(self, name: str, frames: int = 0, device: str = "auto") -> Segmenter:
        """A loaded segmenter. frames: see `load_segmenter`; device: see `device_of`."""

        def load() -> Segmenter:
            from macd_studio.core.backbones.local import device_of
            from macd_studio.core.objects.segment import load_segmenter

            return load_segmenter(name, device_of(device).type, frames=frames)

        segmenter: Segmenter = self.get(("segmenter", _on(device, name)), load)
        return segmenter

    def get(self, key: tuple[str, str], load: Callable[[], Any]) -> Any:
        """The model of a (kind, name): at once where it is loaded, else when `load` has ended.

        One model is loaded at a time; those that are there can be had meanwhile.
        """
        kind, name = key
        loaded = self._loaded[kind]
        if (model := loaded.get(name)) is not None:
            return model
        with self._loading:
            model = loaded.get(name)  # loaded while this one waited
            if model is None:
                model = load()
                loaded.put(name, model)
            return model


def _on(device: str, name: str) -> str:
    return name if device == "auto" else f"{name} on {device}"


def try_out(lm: LocalLM, detector: Detector) -> None:
    """One pass of every kind that a run makes, on blank frames."""
    import torch

    from macd_studio.core.options import DetectOptions

    frames = np.zeros((8, 96, 96, 3), np.uint8)
    for count in (1, 2, 4, 8):  # a detector prepares itself for every size of a batch
        list(detector.detect(frames[:count], DetectOptions()))
    times = np.arange(8, dtype=np.float64)
    clip = Clip(frames, times, frames[:0], times[:0], "", "", 8.0, (96, 96))
    encoded = lm.encode(clip, "What is in the video?")
    video = encoded.video.clone().requires_grad_()
    torch.autograd.grad(lm.query_logits(encoded, video).sum(), video)
    state = lm.prefill(encoded, encoded.video)
    lm.step(lm.join([state, state]), [next(iter(lm.end_tokens))] * 2)
