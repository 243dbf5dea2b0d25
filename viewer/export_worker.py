"""Writes one trace as a page of its own, in a process of its own.

Runs as `python -m viewer.export_worker`, started by `viewer.exporting` only.
"""

from __future__ import annotations

from typing import Any

from macd_studio.core.system.beside import make_one
from macd_studio.core.traces.bundle import unpack
from macd_studio.viewer import standalone


def write(job: dict[str, Any], content: bytes) -> bytes:
    """The page of a trace."""
    return standalone(unpack(content)).encode("utf-8")


if __name__ == "__main__":
    make_one(write)
