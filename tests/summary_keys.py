"""The keys of docs/summary-keys.json, as paths: `tracks[].boxes`."""

import json
from collections.abc import Iterator
from typing import Any

from macd_studio.viewer.describe import SUMMARY


def documented(under: str = "") -> set[str]:
    """Paths of all keys, or of those below `under`, which is taken off."""
    paths = set(_paths(json.loads(SUMMARY.read_text(encoding="utf-8"))))
    return {path.removeprefix(under) for path in paths if path.startswith(under)}


def _paths(node: dict[str, Any], lead: str = "") -> Iterator[str]:
    for name, value in node.items():
        if not name:
            continue
        yield f"{lead}{name}"
        if isinstance(value, list):
            yield from _paths(value[0], f"{lead}{name}[].")
        elif isinstance(value, dict):
            yield from _paths(value, f"{lead}{name}.")
