"""A detector of everyday objects, downloaded to one's own machine when its visitor asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import wait
from dataclasses import dataclass

from macd_studio.core.errors import Cancelled
from macd_studio.core.objects.registry import DETECTORS
from macd_studio.core.system.cache import run_in_thread
from macd_studio.core.types import Progress
from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.jobs import Jobs
from macd_studio.macd_ui.models import fetchable_detector
from macd_studio.macd_ui.session import Session
from macd_studio.macd_ui.session_view import Updates, joined, running
from macd_studio.viewer import status

OFTEN_S = 0.5
"""How often its progress is shown."""


@dataclass(frozen=True)
class Fetches:
    """Downloads of a session: one at a time, ended by Stop or with its tab."""

    jobs: Jobs

    def fetch(self, key: str) -> Iterator[Updates]:
        """Downloads the detector that is missing, and chooses it for the clip."""
        session = self.jobs.store.sessions.open(key)
        name = fetchable_detector(self.jobs.store.settings)
        if name is not None:
            yield from self.jobs.alone(
                session, self._fetch(session, name), self.jobs.view.restore_after_run, "fetch",
                "form", lambda: None,
            )  # fmt: skip

    def _fetch(self, session: Session, name: str) -> Iterator[Updates]:
        store, view, progress = self.jobs.store, self.jobs.view, Progress()
        loading = run_in_thread(lambda: store.models.detector(name, progress))
        busy = running(True)
        try:
            while not loading.done():
                if session.stop.is_set():
                    raise Cancelled(*sentences.DOWNLOAD_STOPPED)
                fraction = progress.fraction
                message = progress.message or sentences.fetching(DETECTORS[name])
                state = status(
                    fraction=fraction, message=sentences.with_share(message, fraction),
                    running=True, where="form",
                )  # fmt: skip
                yield view.show_state(session, state) | busy
                busy = {}
                wait([loading], OFTEN_S)
        finally:
            progress.stopped = True
        loading.result()
        session.answered = True
        yield joined(
            view.detector_of_clip(session), view.run_buttons(session), running(False),
            view.show_state(session, status()),
        )  # fmt: skip
