"""Which real backbone and detector fit this machine, for clips that are not of the toy world."""

from __future__ import annotations

import importlib.util
import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from macd_studio.core.backbones.catalogue import CATALOGUE, CatalogueEntry, planned
from macd_studio.macd_ui.settings import EMBEDDED, ServerSettings

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


DETECTORS = {
    "yolo11n": "YOLO11n · 2.6 M parameters · AGPL-3.0",
    "rt-detr": "RT-DETR R50 · 43 M parameters · Apache-2.0",
}
"""Detectors that are offered, with what is known of them in words; the faster first."""


def offered(settings: ServerSettings, machine: Machine | None = None) -> RealModels | None:
    """What a visitor is offered by one click; None where the operator listed no real model.

    A public page offers only what its operator listed. Elsewhere it is the largest listed backbone
    that fits the memory and answers within PATIENCE_S, and a detector for everyday objects.
    """
    listed = [m for m in CATALOGUE if not settings.public or m.hub_id in settings.backbones]
    detector = _detector(settings, machine)
    if not listed or detector is None:
        others = [name for name in settings.backbones if name != EMBEDDED]
        if not settings.public or not others or detector is None:
            return None
        return RealModels(others[0], detector, f"{others[0]} and {detector}", "")
    here = machine or this_machine()
    fitting = [m for m in listed if needed_gb(m, here) <= SHARE * here.memory_gb]
    if not fitting:
        return None
    quick = [m for m in fitting if seconds_of(m, here) <= PATIENCE_S]
    best = max(quick, key=lambda m: m.billions) if quick else min(
        fitting, key=lambda m: m.billions
    )  # fmt: skip
    facts = (
        f"{best.billions:g} B parameters · needs {needed_gb(best, here):.1f} of"
        f" {here.memory_gb:.0f} GB of memory · {best.licence} · first run downloads"
        f" {best.memory_gb:g} GB. Detector: {DETECTORS.get(detector, detector)}."
    )
    return RealModels(best.hub_id, detector, f"{best.title} and {_name(detector)}", facts)


def needed_gb(model: CatalogueEntry, machine: Machine) -> float:
    """10⁹ bytes of a run with MACD; a CPU holds float32, twice the planned bfloat16."""
    return model.needed_gb * (1 if machine.device == "cuda" else 2)


def seconds_of(model: CatalogueEntry, machine: Machine) -> float:
    """Reading both views and the gradient, from the planned FLOPs; detector and tokens excluded."""
    plan = planned(model.hub_id)
    tflops = float(plan["macd_tflops"]) if plan else UNPLANNED_TFLOPS * model.billions
    return tflops / machine.tflops


def _detector(settings: ServerSettings, machine: Machine | None) -> str | None:
    if settings.public:
        return next((name for name in settings.detectors if name != EMBEDDED), None)
    on_gpu = (machine or this_machine()).device == "cuda"
    quick = importlib.util.find_spec("ultralytics") is not None
    return "rt-detr" if on_gpu or not quick else "yolo11n"


def _name(detector: str) -> str:
    return DETECTORS.get(detector, detector).partition(" · ")[0]


@lru_cache(maxsize=1)
def this_machine() -> Machine:
    """Measured once; takes some hundredths of a second."""
    import torch

    from macd_studio.core.backbones.base import device_of

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
