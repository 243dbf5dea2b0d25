"""What every run writes and says: JSON files, packed lines, progress, the machine that computes."""

from __future__ import annotations

import gzip
import json
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import shown


def check_folder(out: Path) -> None:
    """Raises OptionError where a folder cannot be made or written into."""
    try:
        near = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
    except (OSError, ValueError) as error:
        raise OptionError(
            f"{shown(str(out), 200)} cannot be a folder ({error})", "Choose another"
        ) from None
    if not near.is_dir():
        raise OptionError(
            f"{shown(str(near), 200)} is not a folder", "Choose a folder for the results"
        )
    if not os.access(near, os.W_OK | os.X_OK):
        raise OptionError(
            f"nothing can be written in {shown(str(near), 200)}", "Choose another folder"
        )


def machine() -> str:
    """What computes, and with which versions; imports torch."""
    import platform

    import torch

    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU, float32"
    return f"{where}, torch {torch.__version__}, Python {platform.python_version()}"


def say(line: str) -> None:
    """Tells of progress, beside what the command prints."""
    print(line, file=sys.stderr, flush=True)


def pack_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows as packed lines of JSON, the same bytes for the same rows."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def finite(value: Any) -> Any:
    """Plain values with None in the place of what JSON cannot hold, NaN and infinities.

    >>> finite({"a": (1.0, float("nan"))})
    {'a': [1.0, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(v) for name, v in value.items()}
    return [finite(v) for v in value] if isinstance(value, list | tuple) else value


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file whole or not at all."""
    part = path.with_suffix(".part")
    try:
        part.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
