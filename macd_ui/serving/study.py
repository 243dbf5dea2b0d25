"""The rating study of a server: opened before the page, and told who sends a request."""

from __future__ import annotations

from starlette.requests import Request

from macd_ui.api import VISITOR
from macd_ui.settings import ServerSettings
from ratings.store import Study
from ratings.web import StudySite


def open_site(settings: ServerSettings) -> StudySite | None:
    """The study's routes; None where none is served. Raises a MacdError for what is no study."""
    if settings.study is None:
        return None
    flags = "SameSite=None; Secure; Partitioned" if settings.space else "SameSite=Lax"
    return StudySite(Study(settings.study), _visitor, flags)


def _visitor(request: Request) -> str:
    """The address that the gate has seen, behind a proxy too."""
    return request.headers.get(VISITOR, "")
