"""What a server has done since it started, in figures only: for /healthz."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from macd_studio.core.types import Trace


class Figures:
    """Counts of runs by how they ended, and seconds by stage; safe between threads."""

    def __init__(self) -> None:
        self._ends: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        self._lock = threading.Lock()
        self._began = time.monotonic()

    def ended(self, how: str, trace: Trace | None = None) -> None:
        """A job ended: "complete", "stopped", "refused" or "failed"; its trace, if it has one."""
        with self._lock:
            self._ends[how] += 1
            for stage, ms in {} if trace is None else trace.timings_ms.items():
                self._seconds[stage] = self._seconds.get(stage, 0.0) + ms / 1000

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        with self._lock:
            return {
                "up_s": round(time.monotonic() - self._began, 1),
                "runs": {k: self._ends[k] for k in ("complete", "stopped", "refused", "failed")},
                "seconds": {k: round(v, 3) for k, v in sorted(self._seconds.items())},
                "memory_mb": memory_mb(),
                "threads": threading.active_count(),
            }


def memory_mb() -> float | None:
    """Resident memory of this process; None where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(z.split()[1]) / 1024 for z in lines if z.startswith("VmRSS")), None)
