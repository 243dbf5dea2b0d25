"""What this machine has: versions of libraries, memory that is taken and free."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from macd_studio.core.system.unix import unix

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
    resource = unix("resource")
    most: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / scale, 1)


def free_gb(where: torch.device) -> float | None:
    """Memory that is free on a device; None where the system does not say."""
    if where.type == "cuda":
        free: int = torch.cuda.mem_get_info(where)[0]
        return free / 1e9
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    fields = {line.split(":")[0]: line.split()[1] for line in lines}
    return int(fields["MemAvailable"]) * 1024 / 1e9 if "MemAvailable" in fields else None
