"""Trace ⇄ one `.macd` file: a zip of a JSON manifest, plain arrays and WebP frames.

Opens without torch, reads no pickle and executes nothing. The format is described in
docs/trace-format.md; a file that is damaged, tampered with or too large raises TraceError.
"""

from __future__ import annotations

import os
from pathlib import Path

from core.bundle_format import MAX_BYTES
from core.bundle_read import unpack
from core.bundle_write import pack
from core.errors import TraceError
from core.types import Trace

__all__ = ["load", "pack", "save", "unpack"]


def save(trace: Trace, path: str | Path) -> Path:
    """Writes the file whole or not at all; returns its path. Raises TraceError if it cannot."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            part.write_bytes(pack(trace))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise TraceError(
            f"the trace cannot be written to {str(path)!r} ({error.strerror})",
            "Choose another place, or free space",
        ) from error
    return path


def load(path: str | Path) -> Trace:
    """Opens a saved trace; raises TraceError for anything that is not a sound one."""
    path = Path(path)
    if not path.is_file():
        raise TraceError(f"there is no trace {str(path)!r}", "Check the file name")
    if path.stat().st_size > MAX_BYTES:
        raise TraceError(f"{path.name!r} is larger than a trace can be", "Choose a .macd file")
    content = path.read_bytes()
    if not content.startswith(b"PK"):
        raise TraceError(f"{path.name!r} is no trace", "Choose a .macd file")
    return unpack(content)
