"""Writes the objects of one trace for another program, in a process of its own.

Runs as `python -m core.report.export_worker`, started by `export_beside` only.
"""

from __future__ import annotations

from typing import Any

from macd_studio.core.report.export import exported
from macd_studio.core.system.beside import make_one
from macd_studio.core.traces.bundle import unpack


def write(job: dict[str, Any], content: bytes) -> bytes:
    """The objects of a trace as the job asks for them."""
    return exported(unpack(content), job["format"], job["what"])


if __name__ == "__main__":
    make_one(write)
