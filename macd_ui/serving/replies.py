"""The headers of every answer, and what the gate answers by itself: a refusal."""

from __future__ import annotations

import errno

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from macd_studio.macd_ui.quota import QuotaError
from macd_studio.macd_ui.sentences import NO_MEMORY
from macd_studio.macd_ui.serving.bodies import (
    Refusal,
    full_disk,
)
from macd_studio.macd_ui.serving.claims import Scope
from macd_studio.macd_ui.serving.routes import (
    API,
)

CSP = "; ".join((
    "default-src 'self'",
    # Gradio compiles the templates and scripts of its HTML components in the browser
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "media-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self' data: blob:",
    "worker-src 'self' blob:",
    "object-src 'none'",
    "base-uri 'self'",
    "form-action 'self'",
))  # fmt: skip


def security_headers(space: bool, policy: str = CSP) -> dict[str, str]:
    """Headers of every answer. space: pages of huggingface.co may hold this one as a frame."""
    ancestors = "'self' https://huggingface.co" if space else "'self'"
    headers = {
        "content-security-policy": f"{policy}; frame-ancestors {ancestors}",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
        "cross-origin-resource-policy": "same-origin",
    }
    if not space:
        headers |= {"x-frame-options": "SAMEORIGIN", "cross-origin-opener-policy": "same-origin"}
    return headers


def explained(error: BaseException) -> Refusal | None:
    """What to say about an error that is not a fault of the app; None where it is."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ClientDisconnect):
        return Refusal(400, "The connection was closed.")
    if isinstance(error, QuotaError):
        return Refusal(429, str(error))
    if isinstance(error, MemoryError):
        return Refusal(503, NO_MEMORY)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full_disk()
    return None


def reply_to(scope: Scope, refused: Refusal) -> Response:
    """Text for people and uploads; for scripts an object, as Gradio's own refusals are."""
    if refused.elsewhere:
        return RedirectResponse(refused.elsewhere, 303 if refused.status == 404 else 308)
    path = scope["path"].rstrip("/")
    if path == "/config" or (path.startswith(API) and path != f"{API}/upload"):
        body = {"error": refused.words, "detail": refused.words}
        return JSONResponse(body, refused.status)
    return PlainTextResponse(refused.words, refused.status)
