"""Files that ship with the project, checked against their sha256 before they are loaded."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

from macd_studio.core.embedded import EMBEDDED
from macd_studio.core.errors import BackboneCorrupt


def assets() -> Path:
    """The folder of what ships: weights, examples and the page's style.

    Beside `core`, in a checkout as in an installed package.
    """
    return Path(__file__).resolve().parents[2] / "assets"


_DOCUMENT = """\
body { max-width: WIDTH; margin: 0 auto; padding: 24px 16px 80px; overflow-wrap: break-word; }
body { font: var(--type-m)/1.6 var(--face); color: var(--ink); background: var(--paper); }
h1 { font-size: var(--type-xxl); line-height: 1.25; }
h2 { font-size: var(--type-xl); } h3 { font-size: var(--type-l); }
a { color: var(--accent); } summary { cursor: pointer; }
img, svg { max-width: 100%; height: auto; border-radius: var(--corner-s); }
figure { margin: 24px 0; padding: 16px; background: #fff; color: #1c2127; }
table { border-collapse: collapse; display: block; overflow-x: auto; overflow-wrap: normal; }
table { font-size: var(--type-s); font-variant-numeric: tabular-nums; }
td, th { border: 1px solid var(--line); padding: 4px 8px; text-align: left; vertical-align: top; }
pre { overflow-x: auto; padding: 8px; background: var(--tint); border-radius: var(--corner-s); }
code { font-family: var(--mono); font-size: var(--type-s); }
"""


def look() -> str:
    """The CSS of every page: colours of both schemes, type, space and corners, by name."""
    return (assets() / "look.css").read_text(encoding="utf-8")


def document_style(width: str) -> str:
    """The CSS of a page to be read: a report, a guide. width: of its lines at most, in CSS."""
    return look() + _DOCUMENT.replace("WIDTH", width)


TOYWORLD = assets() / "toyworld"


@cache
def shipped(name: str, part: str = EMBEDDED) -> Path:
    """Path of a file or folder in a part of `assets`, verified against its `manifest.json`.

    Raises BackboneCorrupt where a file is missing or is not the one that was shipped.
    """
    folder = TOYWORLD.parent / part
    manifest: dict[str, str] = json.loads((folder / "manifest.json").read_text())
    entries = {f: h for f, h in manifest.items() if f == name or f.startswith(f"{name}/")}
    if not entries:
        raise BackboneCorrupt(f"{name!r} is not listed in the manifest", _REMEDY)
    for file, sha256 in entries.items():
        path = folder / file
        if not path.is_file():
            raise BackboneCorrupt(f"the shipped file {file!r} is missing", _REMEDY)
        if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            raise BackboneCorrupt(f"the shipped file {file!r} was changed or damaged", _REMEDY)
    return folder / name


_REMEDY = "Check the project out again, or install it again"
