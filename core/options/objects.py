"""Options of video, detection, tracking and masks."""

# ruff: noqa: RUF009  (`choice` and `part` make fields, as `dataclasses.field` does)
from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import Checked, choice, flag, number, numbers, text, texts, whole

Fit = Literal["pad", "native"]
Fusion = Literal["max", "confidence", "average", "or", "sum"]
FUSIONS: tuple[Fusion, ...] = ("max", "confidence", "average", "or", "sum")
Fill = Literal["mean", "black", "blur", "noise", "plate", "additive"]
FrameMask = Literal["outside", "whole", "off"]
Shape = Literal["outline", "box"]
Overlap = Literal["normalise", "raw"]
FirstFrame = Literal["auto", "0", "1"]
Columns = Literal[
    "auto", "box", "box-conf", "box-track", "box-conf-track", "box-track-conf", "track-box",
    "track-box-conf", "polygon", "polygon-conf", "polygon-track", "polygon-conf-track", "pose",
    "pose-conf", "pose-track", "pose-conf-track",
]  # fmt: skip
MAX_FRAMES = 256
"""Most frames that a backbone is shown."""
WIDEST_S = 1.0
"""Nothing is followed from one frame of the tracker to the next over more seconds than this."""
MAX_SEED = 2**32 - 1
"""Every generator of random numbers that is used here takes a seed up to this."""


@dataclass(frozen=True)
class VideoOptions(Checked):
    """file → Clip → the frames a backbone reads. Seconds, megabytes, pixels.

    fit "pad": a source frame keeps its shape to within 5 %, padded where the backbone's grid has
    another; "native": whatever the family's own processor does, which may stretch it.
    at: the pictures on display at these times are the frames, and `frames` does not count.
    """

    frames: int = whole(8, 1, MAX_FRAMES, "frames sampled for the backbone")
    at: tuple[float, ...] = numbers(
        MAX_FRAMES, 0, 1e6, "times of frames picked by hand, instead of uniform ones", "seconds"
    )
    start: float = number(0.0, 0, 1e6, "start of the range, from the first picture on", "seconds")
    end: float | None = number(None, 0, 1e6, "end of the range, likewise; or the clip's", "seconds")
    dense_fps: float = number(10.0, 0, 60, "frames per second for the tracker, 0 for none")
    dense_limit: int = whole(200, 1, 2000, "most frames for the tracker")
    frame_rate: float = number(25.0, 0.1, 240, "frames per second of a folder or zip of pictures")
    max_megabytes: float = number(4000.0, 0.001, 100_000, "largest file that is read", "MB")
    max_seconds: float = number(600.0, 1, 36_000, "longest range that is read", "seconds")
    fit: Fit = choice(
        "pad", Fit, "pad keeps the clip's shape; native leaves it to the backbone's processor"
    )

    @property
    def wanted(self) -> int:
        """How many frames the backbone is to read."""
        return len(self.at) or self.frames

    def check_together(self) -> None:
        """Raises OptionError for a range that ends before it starts, and for picked frames that
        are out of order or outside the range.
        """
        if self.end is not None and self.end <= self.start:
            raise OptionError(
                f"the range ends at {self.end:g} s and starts at {self.start:g} s",
                "Choose an end after the start",
            )
        if any(later <= earlier for earlier, later in pairwise(self.at)):
            raise OptionError(
                "the picked frames are not in order", "Give their times in order, each once"
            )
        outside = [t for t in self.at if t < self.start or t > (self.end or math.inf)]
        if outside:
            raise OptionError(
                f"the frame picked at {outside[0]:g} s is outside the range",
                "Pick frames inside it, or choose a wider one",
            )


@dataclass(frozen=True)
class DetectOptions(Checked):
    """Clip → detections. `confidence` starts a track; boxes down to `low` may continue one.

    Where `confidence` is the lower of the two, it holds for both; see `floor`.
    classes: keep only these labels, all if empty. prompt: what an open-vocabulary detector looks
    for, "dog. umbrella."; if empty, the nouns of the question.
    """

    confidence: float = number(0.5, 0.01, 0.99, "detection confidence that starts a track")
    low: float = number(0.2, 0.01, 0.99, "lowest confidence that continues a track")
    image_size: int | None = whole(
        None, 32, 2048, "long side the detector sees, its own choice without it", "pixels"
    )
    max_per_frame: int = whole(100, 1, 500, "most detections per frame")
    classes: tuple[str, ...] = texts(200, 100, "only these labels, as in dog,cup")
    prompt: str = text(
        "", 2000, "what an open-vocabulary detector looks for; the nouns of the question without it"
    )
    names: tuple[str, ...] = texts(
        1000, 100, "names of a detector's classes in their order, where its file holds none"
    )

    @property
    def floor(self) -> float:
        """The lowest confidence a detector is asked for."""
        return min(self.low, self.confidence)


@dataclass(frozen=True)
class TrackOptions(Checked):
    """Detections → tracks. Seconds, and shares of the clip.

    min_seen: fewest sightings that must confirm a track after its first. file_…: how a file of
    tracks is read, see `core.objects.annotations` and `core.objects.formats`.
    """

    max_gap: float = number(1.0, 0, 10, "longest gap that is interpolated", "seconds")
    min_seen: int = whole(3, 1, 100, "fewest detections of a track after its first")
    smoothing: float = number(0.15, 0, 5, "width of the smoothing of boxes", "seconds")
    max_tracks: int = whole(20, 1, 100, "most tracks that are kept")
    file_fps: float | None = number(
        None, 0.001, 1000,
        "frames per second of a file of tracks; without it those it states, else the clip's own"
        " frames are counted", "frames per second",
    )  # fmt: skip
    file_start: float = number(
        0.0, -36_000, 36_000, "time in the clip of a track file's frame 0", "seconds"
    )
    file_first: FirstFrame = choice("auto", FirstFrame, "first frame of a track file")
    file_source: str = text("", 300, "which of a track file's videos is the clip's, by its name")
    file_columns: Columns = choice("auto", Columns, "columns of YOLO's texts behind the class")


@dataclass(frozen=True)
class MaskOptions(Checked):
    """Tracks → masks → counterfactual. `pad` and `feather` are shares of the short side.

    shape "outline": what the detector segmented, the box where it did not; "box": always the box.
    fusion: docs/methods.md, step 5. frame_mask "whole" needs "or" or "sum", see `check_trainable`.
    """

    pad: float = number(0.02, 0, 0.5, "growth of every mask", "share of the short side")
    feather: float = number(0.0145, 0.001, 0.5, "softness of mask edges", "share of the short side")
    overlap: Overlap = choice(
        "normalise", Overlap, "strengths where masks overlap: normalised by confidence, or raw"
    )
    swept: bool = flag(False, "sweep masks over time, so that they do not reveal the motion")
    fusion: Fusion = choice("max", Fusion, "how masks and strengths become one mask")
    strength_twice: bool = flag(False, "apply each strength twice, as the paper's equations stand")
    fill: Fill = choice("mean", Fill, "what masked pixels become")
    frame_mask: FrameMask = choice(
        "outside", FrameMask, "what it covers: pixels outside the objects, the whole frame, nothing"
    )
    fill_seed: int = whole(0, 0, MAX_SEED, "seed of the noise in masked pixels")
    shape: Shape = choice(
        "outline", Shape, "outline where the detector segments, or always the box"
    )

    def check_trainable(self) -> None:
        """Raises OptionError where the objects' strengths would have no gradient.

        A frame mask over the whole frame starts at the same strength as the objects, and a maximum
        over both never falls below it: no object mask could then change a single pixel. Drawing
        such masks, and reading them from an older trace, stays possible.
        """
        if self.frame_mask == "whole" and self.fusion not in ("or", "sum"):
            raise OptionError(
                f"with the frame mask 'whole' and the fusion {self.fusion!r} every object gradient"
                " is 0: the frame mask covers each object at the same strength",
                "Choose the fusion 'or', or the frame mask 'outside'",
            )
