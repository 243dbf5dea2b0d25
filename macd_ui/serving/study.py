"""The rating study of a server: opened before the page."""

from __future__ import annotations

import tempfile
from pathlib import Path

from starlette.routing import BaseRoute

from macd_studio.macd_ui.serving.hub_login import login_routes
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.ratings.mirror import mirror_to_hub
from macd_studio.ratings.store import Study
from macd_studio.ratings.web import StudySite


def open_site(settings: ServerSettings) -> StudySite | None:
    """The study's routes; None where none is served. Raises a MacdError for what is no study."""
    if settings.study is None:
        return None
    flags = "SameSite=None; Secure; Partitioned" if settings.space else "SameSite=Lax"
    study = Study(settings.study)
    site = StudySite(study, flags)
    if settings.study_dataset is not None:
        folder = Path(tempfile.mkdtemp(prefix="macd-study-"))
        site.mirror = mirror_to_hub(study, settings.study_dataset, folder)
    return site


def study_routes(site: StudySite | None, settings: ServerSettings) -> list[BaseRoute]:
    """The study's routes, and with `study_login` those of signing in; none without a study."""
    if site is None:
        return []
    return [*(login_routes(site.study) if settings.study_login else ()), *site.routes()]
