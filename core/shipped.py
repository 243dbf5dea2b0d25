"""Files that ship with the project, checked against their sha256 before they are loaded."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from macd_studio.core.errors import BackboneCorrupt


def assets() -> Path:
    """The folder of what ships: weights, examples and the page's style.

    Beside `core`, in a checkout as in an installed package.
    """
    return Path(__file__).resolve().parents[1] / "assets"


TOYWORLD = assets() / "toyworld"


@cache
def shipped(name: str) -> Path:
    """Path of a file or folder in `assets/toyworld`, verified against `manifest.json`.

    Raises BackboneCorrupt where a file is missing or is not the one that was shipped.
    """
    manifest: dict[str, str] = json.loads((TOYWORLD / "manifest.json").read_text())
    entries = {f: h for f, h in manifest.items() if f == name or f.startswith(f"{name}/")}
    if not entries:
        raise BackboneCorrupt(f"{name!r} is not listed in the manifest", _REMEDY)
    for file, sha256 in entries.items():
        path = TOYWORLD / file
        if not path.is_file():
            raise BackboneCorrupt(f"the shipped file {file!r} is missing", _REMEDY)
        if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise BackboneCorrupt(f"the shipped file {file!r} was changed or damaged", _REMEDY)
    return TOYWORLD / name


_REMEDY = "Check the project out again, or run `python -m toyworld.make_assets manifest`"
