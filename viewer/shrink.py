"""A payload whose pictures are made small enough for a page among many.

Pictures are found by what they are, data URIs of WebP, wherever in the payload they stand.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any

from PIL import Image

from macd_studio.core.media.webp import URI_PREFIX

QUALITIES = ((90, 1.0), (75, 1.0), (60, 1.0), (45, 1.0), (45, 0.75), (30, 0.75), (30, 0.5))
"""WebP qualities and scales of the sides, tried in this order."""


def as_text(payload: dict[str, Any]) -> str:
    """The payload as JSON that is safe inside a script element: without `<`, `>` or `&`."""
    text = json.dumps(payload, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def shrink(payload: dict[str, Any], most: int) -> tuple[dict[str, Any], str]:
    """The payload with pictures coarse enough that `as_text` gives at most `most` characters.

    Also how the pictures were compressed, in words; "" where they are unchanged. A payload whose
    other parts are too large comes back with the coarsest pictures.
    """
    if len(as_text(payload)) <= most:
        return payload, ""
    smaller, note = payload, ""
    for quality, scale in QUALITIES:
        smaller = _mapped(payload, lambda uri, q=quality, s=scale: _coarser(uri, q, s))  # type: ignore[misc]
        note = f"WebP quality {quality}" + ("" if scale == 1 else f", {scale:.0%} of the side")
        if len(as_text(smaller)) <= most:
            break
    return smaller, note


def without_pictures(payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with every picture's text empty."""
    left: dict[str, Any] = _mapped(payload, lambda uri: "")
    return left


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with every picture in it changed."""
    if isinstance(value, dict):
        return {k: _mapped(v, change) for k, v in value.items()}
    if isinstance(value, list):
        return [_mapped(v, change) for v in value]
    if isinstance(value, str) and value.startswith(URI_PREFIX):
        return change(value)
    return value


def _coarser(uri: str, quality: int, scale: float) -> str:
    """The picture at this quality; unchanged where that would not make it smaller."""
    content = base64.b64decode(uri.removeprefix(URI_PREFIX))
    with Image.open(io.BytesIO(content), formats=["WEBP"]) as image:
        small = webp(image.convert("RGB"), quality, round(max(image.size) * scale))
    return URI_PREFIX + base64.b64encode(small).decode() if len(small) < len(content) else uri


def webp(image: Image.Image, quality: int, side: int) -> bytes:
    """The picture as WebP, its long side at most `side` pixels."""
    if max(image.size) > side:
        image = image.copy()
        image.thumbnail((max(1, side), max(1, side)))
    out = io.BytesIO()
    image.save(out, "WEBP", quality=quality, method=4)
    return out.getvalue()
