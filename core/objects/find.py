"""A Clip and a detector → tracks, frame by frame, with what is shown meanwhile."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.objects.detect import Detector, only
from macd_studio.core.objects.own_detector import checked, size_seen
from macd_studio.core.objects.registry import named
from macd_studio.core.objects.track import Times, rate_of, track
from macd_studio.core.options import WIDEST_S, DetectOptions, RunOptions
from macd_studio.core.records import DetectorRecord
from macd_studio.core.system.library_notes import collecting_from
from macd_studio.core.system.process import freed_kept
from macd_studio.core.text.phrases import noun_phrases, prompt_of
from macd_studio.core.text.words import count
from macd_studio.core.types import Clip, Detections, Pixels, Track
from macd_studio.core.validation import check_named

BOXES_S, BEGINNING = 0.4, 16
"""How often boxes found so far are shown, seconds; of so many frames, as soon as there is one."""
CUT_COLOURS, CUT_SHAPES, CUT_RATIO = 0.22, 0.6, 4.0
"""A hard cut changes the colours by at least that share, leaves a correlation of the greys below
that, and changes that many times as much as the pictures around it do."""
FILE_FIELDS = frozenset({"format", "sha256", "counting"})
"""Fields of a DetectorRecord that only a file of tracks has."""


def frames_of(clip: Clip) -> tuple[Pixels, Times]:
    """The frames that a detector looks at: the dense ones, of a picture the sampled one."""
    if len(clip.dense_frames):
        return clip.dense_frames, clip.dense_times
    return clip.frames, clip.times


def find_cuts(clip: Clip) -> tuple[float, ...]:
    """Times of hard cuts: midway between the last picture of a shot and the first of the next.

    Looked for between all pictures of the clip that are no more than WIDEST_S apart. Compared are
    histograms of a grid of 3 × 3, and the greys without their mean and spread, so that neither
    light that changes nor a camera that moves is a cut; a flash, after which the picture is as it
    was, is none either. Fades and dissolves are not found.
    """
    times = np.concatenate([clip.dense_times, clip.times])
    order = np.argsort(times, kind="stable")
    if len(order) < 2:
        return ()
    pictures = [*clip.dense_frames, *clip.frames]
    seen = [_glance(pictures[i]) for i in order]
    times = times[order]
    change = np.array([_colour_change(a, b) for a, b in pairwise(seen)])
    cuts = []
    for i in np.flatnonzero(change > CUT_COLOURS).tolist():
        around = [j for j in range(max(0, i - 4), min(len(change), i + 5)) if j != i]
        usual = float(np.median(change[around])) if around else 0.0
        before, after = seen[i], seen[i + 1]
        if (
            times[i + 1] - times[i] <= WIDEST_S
            and change[i] > CUT_RATIO * usual
            and _alike(before, after) < CUT_SHAPES
            and not _comes_back(seen, i)
        ):
            cuts.append(float(times[i] + times[i + 1]) / 2)
    return tuple(cuts)


Glance = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Of a picture: histograms (27, 8) that sum to 1, and its greys, small, of mean 0 and length 1."""


def _glance(picture: Pixels) -> Glance:
    whole = np.ascontiguousarray(picture)
    small = np.asarray(cv2.resize(whole, (48, 36), interpolation=cv2.INTER_AREA), np.uint8)
    cells = small.reshape(3, 12, 3, 16, 3).transpose(0, 2, 4, 1, 3).reshape(27, -1) >> 5
    bins = cells + 8 * np.arange(27)[:, None]  # each row of cells has eight of its own
    counts = np.bincount(bins.ravel(), minlength=27 * 8).reshape(27, 8).astype(np.float32)
    padded = np.pad(counts, ((0, 0), (1, 1)), mode="edge")  # a bin's edge is no edge of a colour
    smooth = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    grey = cv2.GaussianBlur(small.mean(axis=2).astype(np.float32), (0, 0), 1.0).ravel()
    grey = grey - grey.mean()
    length = np.linalg.norm(grey)
    return smooth / smooth.sum(axis=1, keepdims=True), grey / max(float(length), 1e-6)


def _colour_change(a: Glance, b: Glance) -> float:
    """Share of the colours that are others, [0, 1]."""
    return 1 - float(np.minimum(a[0], b[0]).sum(axis=1).mean())


def _alike(a: Glance, b: Glance) -> float:
    """Correlation of the greys, [-1, 1]."""
    return float(a[1] @ b[1])


def _comes_back(seen: Sequence[Glance], i: int) -> bool:
    """Whether what is on both sides of a change is soon as it was: a flash begins or ends."""
    pairs = [(seen[i], later) for later in seen[i + 2 : i + 5]]
    pairs += [(seen[i + 1], earlier) for earlier in seen[max(0, i - 3) : i]]
    return any(_colour_change(a, b) < CUT_COLOURS and _alike(a, b) > CUT_SHAPES for a, b in pairs)


def tracks_key(
    clip: Clip, options: RunOptions, chosen: DetectOptions, detector: Detector
) -> Hashable:
    """Under what a StageCache keeps a clip's tracks, with their notes.

    chosen: the detector's options, with the prompt that it is asked. Two files may give a detector
    one name: its weights tell them apart.
    """
    weights = getattr(detector, "weights_hash", "")
    return clip.sha256, options.video, chosen, options.track, detector.name, weights


def prompted(detector: Detector, options: DetectOptions, question: str) -> DetectOptions:
    """The options with what a detector of open vocabulary looks for: the question's things.

    Raises OptionError for words, or classes, that the detector cannot look for.
    """
    if detector.open_vocabulary:
        return (
            options
            if options.prompt
            else replace(options, prompt=prompt_of(noun_phrases(question)))
        )
    if options.prompt:
        raise OptionError(
            f"{detector.name} looks for its own classes, not for words",
            f"Leave the prompt out, or choose a detector of words: {', '.join(named('words'))}",
        )
    known = () if getattr(detector, "unnamed", False) else getattr(detector, "labels", ())
    for wanted in options.classes if known or options.names else ():
        check_named(wanted, options.names or known, "class")
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
        image_size=size_seen(detector, frames, chosen),
        max_per_frame=chosen.max_per_frame,
        classes=chosen.classes,
        prompt=chosen.prompt,
        frames=len(frames),
        fps=None if rate is None else round(rate, 2),
        weights_hash=(made_of := getattr(detector, "weights_hash", "")),
        absent=FILE_FIELDS if made_of else FILE_FIELDS | {"weights_hash"},
    )


@dataclass
class Looking:
    """How far a detector has come.

    cuts: the clip's, across which nothing is followed. early: tracks so far, where it is time to
    show them. reports: what libraries reported meanwhile.
    """

    clip: Clip
    options: RunOptions
    cuts: tuple[float, ...] = ()
    early: tuple[Track, ...] | None = None
    detections: list[Detections] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)

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
            self.options.detect, aspect, self.cuts,
        )  # fmt: skip

    def finish(self) -> tuple[tuple[Track, ...], tuple[str, ...]]:
        """All tracks, and what must be known of them."""
        tracks, notes = self.tracks()
        limit = self.options.detect.max_per_frame
        if any(len(d.boxes) >= limit for d in self.detections):
            cap = f"a frame held {count(limit, 'detection')} or more; more were cut"
            notes = (*notes, cap)
        if self.cuts:
            at = ", ".join(f"{t:.1f}" for t in self.cuts[:10])
            more = " and later" if len(self.cuts) > 10 else ""
            notes = (
                *notes,
                f"{count(len(self.cuts), 'hard cut')} at {at} s{more}: no object is followed"
                " across one",
            )
        return tracks, (*notes, *dict.fromkeys(self.reports))  # a library may repeat itself


def look(
    clip: Clip,
    detector: Detector,
    chosen: DetectOptions,
    options: RunOptions,
    cuts: tuple[float, ...] = (),
) -> Iterator[Looking]:
    """The same object after every frame; `finish` it after the last."""
    seen = Looking(clip, options, cuts)
    shown_at, some = time.monotonic(), False
    for found in collecting_from(detections_in(clip, detector, chosen), seen.reports):
        seen.detections.append(found)
        seen.early = None
        now = time.monotonic()
        first = not some and seen.done <= BEGINNING
        if first or now - shown_at > BOXES_S:
            tracks, _ = seen.tracks()
            some = some or bool(tracks)
            if some or now - shown_at > BOXES_S:
                seen.early, shown_at = tracks, now
        yield seen


def detections_in(clip: Clip, detector: Detector, chosen: DetectOptions) -> Iterator[Detections]:
    """What a detector finds of the chosen classes in every frame that it looks at, in order."""
    with freed_kept():  # every frame needs the same blocks
        frames = frames_of(clip)[0]
        for found in checked(detector, detector.detect(frames, chosen), len(frames)):
            yield only(found, chosen.classes)
