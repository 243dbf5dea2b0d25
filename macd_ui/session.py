"""What outlives one click: loaded models, the lock of the device, and each visitor's last trace."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.types import Progress, Trace

if TYPE_CHECKING:
    from core.backbones import VideoLM
    from core.detect import Detector
    from core.pipeline import StageCache
    from core.whatif import Workbench

MODELS_KEPT = 2
PARTS = {"prefill": "ascent"}
"""Timings that are a part of a stage that the page shows."""
log = logging.getLogger(__name__)


@dataclass
class Session:
    """One visitor: a folder of their own, a running job if any, the last trace."""

    folder: Path
    stop: threading.Event = field(default_factory=threading.Event)
    busy: threading.Lock = field(default_factory=threading.Lock)
    trace: Trace | None = None
    cache: StageCache | None = None
    bench: Workbench | None = None
    former: list[Trace] = field(default_factory=list)
    link: str = ""

    def show(self, trace: Trace, link: str = "") -> None:
        """Another trace is on the page: changes by hand start anew."""
        self.trace, self.bench, self.link = trace, None, link
        self.former.clear()


class Pace:
    """How long each stage took lately, to tell how much time is left."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def learn(self, timings_ms: Mapping[str, float]) -> None:
        """Takes in the stages of a finished run; the last run counts half."""
        spent: dict[str, float] = {}
        for name, ms in timings_ms.items():
            stage = PARTS.get(name, name)
            spent[stage] = spent.get(stage, 0.0) + ms / 1000
        for stage, seconds in spent.items():
            before = self._seconds.get(stage, seconds)
            self._seconds[stage] = 0.5 * before + 0.5 * seconds

    def left(self, stages: Sequence[str], fraction: float) -> float | None:
        """Seconds left of `stages`, of whose first a fraction is done; None if not known yet."""
        if not stages or any(s not in self._seconds for s in stages if s != "load"):
            return None
        first, *rest = (self._seconds.get(s, 0.0) for s in stages)
        return first * (1 - fraction) + sum(rest)


class Store:
    """All sessions and models of one running page."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="macd-studio-"))
        self._sessions: dict[str, Session] = {}
        self._models: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._lock, self._loading = threading.Lock(), threading.Lock()
        self.device_lock = threading.Lock()
        self.pace = Pace()

    def session(self, key: str) -> Session:
        """The session of a browser tab, made when first asked for."""
        with self._lock:
            if key not in self._sessions:
                folder = Path(tempfile.mkdtemp(dir=self.root))
                self._sessions[key] = Session(folder)
            return self._sessions[key]

    def forget(self, key: str) -> None:
        """The tab was closed: stops its job and deletes its files."""
        with self._lock:
            gone = self._sessions.pop(key, None)
        if gone:
            gone.stop.set()
            shutil.rmtree(gone.folder, ignore_errors=True)

    def close(self) -> None:
        """Deletes every file of the page."""
        shutil.rmtree(self.root, ignore_errors=True)

    def backbone(self, name: str, progress: Progress | None = None) -> VideoLM:
        """A loaded backbone, the same for all sessions; progress: told how far a load is."""

        def load() -> VideoLM:
            from core.backbones import load_backbone

            return load_backbone(name, progress=progress)

        return self._kept(("backbone", name), load)

    def detector(self, name: str) -> Detector:
        """A loaded detector, the same for all sessions."""

        def load() -> Detector:
            from core.backbones.base import device_of
            from core.detect import load_detector

            return load_detector(name, device_of().type)

        return self._kept(("detector", name), load)

    def _kept(self, key: tuple[str, str], load: Callable[[], Any]) -> Any:
        if key in self._models:  # what is there is had at once, whatever is being loaded
            return self._models[key]
        with self._loading:
            if key not in self._models:
                self._models[key] = load()
            self._models.move_to_end(key)
            same = [k for k in self._models if k[0] == key[0]]
            for old in same[:-MODELS_KEPT]:
                del self._models[old]
            return self._models[key]

    def warm_up(self) -> None:
        """Loads the embedded models beside the first visitor's reading."""

        def load() -> None:
            try:
                self.backbone("toyworld")
                self.detector("toyworld")
            except Exception:  # the first run will meet it again and explain it
                log.exception("the embedded models could not be loaded ahead")

        threading.Thread(target=load, name="warm-up", daemon=True).start()
