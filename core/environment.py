"""What a result depends on besides its options: versions of libraries, and peak memory."""

from __future__ import annotations

import resource
import sys
from importlib.metadata import PackageNotFoundError, version

import torch

PACKAGES = ("torch", "transformers", "ultralytics", "trackers", "supervision", "av", "numpy")


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    installed = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            installed[name] = "missing"
    return installed


def peak_memory_mb() -> float:
    """Peak memory so far: of the GPU if it was used, else of this process."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return round(torch.cuda.max_memory_allocated() / 2**20, 1)
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale, 1)
