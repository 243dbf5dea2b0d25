"""What a request says of itself and of who asks, and how far that is believed."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers

from macd_studio.macd_ui.serving.bodies import without_odd_ranges
from macd_studio.macd_ui.serving.identity import is_proxy
from macd_studio.macd_ui.settings import ServerSettings

Scope = MutableMapping[str, Any]
PROXY_CLAIMS = (b"x-forwarded-host", b"x-forwarded-server", b"x-forwarded-port",
                b"x-forwarded-prefix", b"forwarded", b"x-gradio-server", b"x-original-url",
                b"x-rewrite-url", b"x-original-host", b"x-host")  # fmt: skip
"""Headers that name the server otherwise than by its host, which alone is checked. Only a trusted
proxy's x-forwarded-host is read, and becomes the host."""


def host_name(host: str) -> str:
    """The name of a Host header, without the port, in lower case; empty for what is not a host."""
    whole = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%]*)\]|([^\s:/@,\[\]#?]*))(?::\d{0,5})?", host)
    return (whole[1] or whole[2] or "").lower().rstrip(".") if whole else ""


def peer_of(scope: Scope) -> str:
    """The other end of the connection."""
    return str((scope.get("client") or ("unknown", 0))[0])


def believed(scope: Scope, settings: ServerSettings) -> Headers:
    """The headers without what nobody may claim. A trusted proxy may say for which host and by
    which protocol it was asked: that is then the request's own. A Space's proxy hands on the host.
    """
    headers = Headers(scope=scope)
    host, scheme = (headers.get(f"x-forwarded-{what}", "") for what in ("host", "proto"))
    raw = [(k, v) for k, v in scope["headers"] if k.lower() not in PROXY_CLAIMS]
    raw = without_odd_ranges(raw)
    if is_proxy(peer_of(scope), settings.proxies):
        if (named := host.split(",")[-1].strip()) and not settings.space:
            raw = [(k, v) for k, v in raw if k.lower() != b"host"]
            raw.append((b"host", named.encode("latin-1", "replace")))
        if (by := scheme.split(",")[-1].strip().lower()) in ("http", "https"):
            scope["scheme"] = by
    scope["headers"] = raw
    return Headers(raw=raw)
