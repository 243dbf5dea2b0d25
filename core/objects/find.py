"""A Clip and a detector → tracks, frame by frame, with what is shown meanwhile."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from macd_studio.core.objects.detect import Detector, only
from macd_studio.core.objects.track import Times, rate_of, track
from macd_studio.core.options import DetectOptions, RunOptions
from macd_studio.core.question import nouns
from macd_studio.core.records import DetectorRecord
from macd_studio.core.types import Clip, Detections, Pixels, Track
from macd_studio.core.words import count

FIRST_BOXES_S, BOXES_S = 0.1, 0.4
"""How often the boxes found so far are looked at until there is one, and shown from then on."""
FILE_FIELDS = frozenset({"format", "sha256", "counting"})
"""Fields of a DetectorRecord that only a file of tracks has."""


def frames_of(clip: Clip) -> tuple[Pixels, Times]:
    """The frames that a detector looks at: the dense ones, of a picture the sampled one."""
    if len(clip.dense_frames):
        return clip.dense_frames, clip.dense_times
    return clip.frames, clip.times


def tracks_key(clip: Clip, options: RunOptions, chosen: DetectOptions, detector: str) -> Hashable:
    """Under what a StageCache keeps a clip's tracks, with their notes.

    chosen: the detector's options, with the prompt that it is asked. detector: its name.
    """
    return clip.sha256, options.video, chosen, options.track, detector


def prompted(detector: Detector, options: DetectOptions, question: str) -> DetectOptions:
    """The options with what a detector of open vocabulary looks for: the question's nouns."""
    if detector.open_vocabulary and not options.prompt:
        return replace(options, prompt=". ".join(nouns(question)))
    return options


def record_of(
    clip: Clip, detector: Detector, chosen: DetectOptions, options: RunOptions
) -> DetectorRecord:
    """What a trace keeps of a detector and what it was asked."""
    frames, times = frames_of(clip)
    rate = rate_of(times, options.track.max_gap)
    return DetectorRecord(
        name=detector.name,
        confidence=chosen.confidence,
        low=chosen.low,
        image_size=detector.input_size(frames, chosen),
        max_per_frame=chosen.max_per_frame,
        classes=chosen.classes,
        prompt=chosen.prompt,
        frames=len(frames),
        fps=None if rate is None else round(rate, 2),
        absent=FILE_FIELDS,
    )


@dataclass
class Looking:
    """How far a detector has come. early: tracks so far, where it is time to show them."""

    clip: Clip
    options: RunOptions
    early: tuple[Track, ...] | None = None
    detections: list[Detections] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Frames looked at."""
        return len(self.detections)

    @property
    def total(self) -> int:
        """Frames in all."""
        return len(frames_of(self.clip)[0])

    def tracks(self) -> tuple[tuple[Track, ...], tuple[str, ...]]:
        """Tracks of the frames so far, and notes."""
        _, times = frames_of(self.clip)
        aspect = self.clip.size[0] / self.clip.size[1]
        return track(
            self.detections, times[: self.done], self.clip.times, self.options.track,
            self.options.detect, aspect,
        )  # fmt: skip

    def finish(self) -> tuple[tuple[Track, ...], tuple[str, ...]]:
        """All tracks, and what must be known of them."""
        tracks, notes = self.tracks()
        limit = self.options.detect.max_per_frame
        if any(len(d.boxes) >= limit for d in self.detections):
            cap = f"a frame held {count(limit, 'detection')} or more; more were cut"
            notes = (*notes, cap)
        return tracks, notes


def look(
    clip: Clip, detector: Detector, chosen: DetectOptions, options: RunOptions
) -> Iterator[Looking]:
    """The same object after every frame; `finish` it after the last."""
    seen = Looking(clip, options)
    shown_at, some = time.monotonic(), False
    for detected in detector.detect(frames_of(clip)[0], chosen):
        seen.detections.append(only(detected, chosen.classes))
        seen.early = None
        if time.monotonic() - shown_at > (BOXES_S if some else FIRST_BOXES_S):
            seen.early, _ = seen.tracks()
            some, shown_at = bool(seen.early), time.monotonic()
        yield seen
