"""What lies before a model is asked: a clip and its tracks, kept on disk and made ahead of time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.core.errors import MacdError, TracksError
from macd_studio.core.objects.detect import Detector
from macd_studio.core.objects.find import detections_in, find_cuts, frames_of, prompted
from macd_studio.core.objects.reading import read_tracks as read_track_file
from macd_studio.core.objects.track import track
from macd_studio.core.options import DetectOptions, RunOptions, TrackOptions
from macd_studio.core.run.cache import StageCache
from macd_studio.core.system.whole import written_whole
from macd_studio.core.types import Clip, Track
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks.base import Benchmark

VERSION = 3
ClipOf = tuple[str, tuple[str, ...], bool]
"""A clip's key, what is asked of it, and whether that depends on its objects."""


class Annotated:
    """A benchmark whose true tracks are those of files: one a clip, named as its key or its file.

    Anything else is the benchmark's own.
    """

    def __init__(self, benchmark: Benchmark, folder: Path, options: TrackOptions) -> None:
        self._benchmark, self._folder, self._options = benchmark, folder, options
        files = (p for p in sorted(folder.rglob("*")) if p.is_file())
        self._files = {p.relative_to(folder).with_suffix("").as_posix(): p for p in files}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._benchmark, name)

    def true_tracks(self, key: str) -> tuple[Track, ...]:
        """The file's objects. Raises TracksError where there is none, or it does not fit."""
        names = key, Path(key).with_suffix("").as_posix(), Path(key).stem
        path = next((self._files[name] for name in names if name in self._files), None)
        if path is None:
            raise TracksError(
                f"the folder of tracks holds no file {shown(key, 100)}", "Name it as the clip"
            )
        return read_track_file(path, self._benchmark.clip(key), self._options).tracks


@dataclass(frozen=True)
class Prepared:
    """A clip with its tracks, or why there is none.

    tracks: of the first question; None where nobody looked. by_question: of each, where a detector
    looks for what a question names; empty where all questions have the same tracks.
    """

    clip: Clip | None = None
    tracks: tuple[Track, ...] | None = None
    error: MacdError | None = None
    by_question: Mapping[str, tuple[Track, ...]] = field(default_factory=dict)

    def tracks_for(self, question: str) -> tuple[Track, ...] | None:
        """The tracks for a question."""
        return self.by_question.get(question, self.tracks)


KEPT = 32
"""Clips whose tracks stay in memory, for questions about them that come one after the other."""


class Preparing:
    """Reads clips and finds their tracks, once a clip; with a folder, they are kept there too.

    content: names everything but the clip that tracks depend on: detector, weights and code.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        detector: Detector | None,
        options: RunOptions,
        content: str = "",
        folder: Path | None = None,
    ) -> None:
        self.benchmark, self.detector, self.options = benchmark, detector, options
        self.content, self.folder = content, folder
        self._kept = StageCache(KEPT)

    def prepare(self, key: str, questions: tuple[str, ...] = (), objects: bool = True) -> Prepared:
        """One clip. Without a detector its true boxes are taken.

        objects: whether anything is asked that depends on them; nobody looks for them otherwise.
        In a lazy run nobody looks for them here, see `tracks_of`.
        questions: asked of the clip; a detector of open vocabulary looks for the nouns of each by
        itself, so that a question's tracks do not depend on what else is asked.
        """
        try:
            clip = self.benchmark.clip(key)
            if not objects or self.options.lazy:
                return Prepared(clip)
            if self.detector is None:
                return Prepared(clip, self.benchmark.true_tracks(key))
            if self.detector.open_vocabulary and not self.options.detect.prompt and questions:
                each = {q: self._tracks(clip, self.detector, q) for q in questions}
                return Prepared(clip, each[questions[0]], by_question=each)
            return Prepared(clip, self._tracks(clip, self.detector))
        except MacdError as error:
            return Prepared(error=error)

    def tracks_of(self, key: str, clip: Clip, question: str) -> tuple[Track, ...]:
        """The tracks for one question about a clip that was prepared without; found once."""
        if self.detector is None:
            return self.benchmark.true_tracks(key)
        return self._tracks(clip, self.detector, question)

    def ahead(self, clips: Iterable[ClipOf]) -> Iterator[Prepared]:
        """All clips in order, as `prepare` takes them; the next is made while the caller works."""
        with ThreadPoolExecutor(1) as pool:
            waiting: Future[Prepared] | None = None
            for which in clips:
                following = pool.submit(self.prepare, *which)
                if waiting is not None:
                    yield waiting.result()
                waiting = following
            if waiting is not None:
                yield waiting.result()

    def _tracks(self, clip: Clip, detector: Detector, question: str = "") -> tuple[Track, ...]:
        chosen = prompted(detector, self.options.detect, question)
        key = self._key(clip, detector, chosen)
        path = self.folder and self.folder / f"{key}.json"
        stored: tuple[Track, ...] | None = self._kept.get(key)
        if stored is None and path is not None:
            stored = read_tracks(path)
        if stored is not None:
            self._kept.put(key, stored)
            return stored
        frames, times = frames_of(clip)
        detections = list(detections_in(clip, detector, chosen))
        aspect = frames.shape[2] / frames.shape[1]
        tracks, _ = track(
            detections, times, clip.times, self.options.track, chosen, aspect, find_cuts(clip)
        )
        if path is not None:
            write_tracks(path, tracks)
        self._kept.put(key, tracks)
        return tracks

    def _key(self, clip: Clip, detector: Detector, chosen: DetectOptions) -> str:
        parts: list[Any] = [VERSION, self.content, detector.name, clip.sha256]
        parts += [clip.times.tolist(), clip.dense_times.tolist(), clip.dense_frames.shape]
        parts += [asdict(chosen), asdict(self.options.track)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def write_tracks(path: Path, tracks: tuple[Track, ...]) -> None:
    """Tracks of one clip as JSON, whole or not at all; read back they are equal to the last bit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as part:
        part.write_text(json.dumps([_plain(t) for t in tracks]))


def read_tracks(path: Path) -> tuple[Track, ...] | None:
    """The tracks of a file; None where there is none, or a damaged one, which is made again."""
    try:
        return tuple(map(_track, json.loads(path.read_text())))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _plain(one: Track) -> dict[str, Any]:
    return {
        "id": one.id,
        "label": one.label,
        "confidence": float(one.confidence),
        "boxes": one.boxes.astype(float).tolist(),
        "state": one.state.tolist(),
        "frames_seen": int(one.frames_seen),
        "outlines": [
            None if o is None else [part.astype(float).tolist() for part in o] for o in one.outlines
        ],
    }


def _track(record: dict[str, Any]) -> Track:
    return Track(
        id=record["id"],
        label=record["label"],
        confidence=record["confidence"],
        boxes=np.array(record["boxes"], np.float32).reshape(-1, 4),
        state=np.array(record["state"], np.int8),
        frames_seen=record["frames_seen"],
        outlines=tuple(
            None if o is None else tuple(np.array(part, np.float32) for part in o)
            for o in record["outlines"]
        ),
    )
