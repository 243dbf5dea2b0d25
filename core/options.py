"""Frozen options, one class a stage, validated at construction; the paper's presets by name.

Every option used is written into the trace, so that a run can be repeated from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from core.errors import OptionError

Fit = Literal["pad", "native"]
Fusion = Literal["max", "confidence", "average", "or"]
FUSIONS: tuple[Fusion, ...] = ("max", "confidence", "average", "or")
Fill = Literal["mean", "black", "blur", "noise", "additive"]
FrameMask = Literal["outside", "whole", "off"]
Gradient = Literal["exact", "base", "half"]
Levels = Literal["three", "continuous"]
Shape = Literal["outline", "box"]
Overlap = Literal["normalise", "raw"]


def _within(name: str, value: float, low: float, high: float) -> None:
    if not (isinstance(value, int | float) and math.isfinite(value) and low <= value <= high):
        raise OptionError(f"{name} is {value!r}", f"Choose a number from {low:g} to {high:g}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise OptionError(f"{name} is {value!r}", f"Choose one of {', '.join(allowed)}")


@dataclass(frozen=True)
class VideoOptions:
    """file → Clip → the frames a backbone reads. Seconds, megabytes, pixels.

    fit "pad": a source frame keeps its shape to within 5 %, padded where the backbone's grid has
    another; "native": whatever the family's own processor does, which may stretch it.
    """

    frames: int = 8
    start: float = 0.0
    end: float | None = None
    dense_fps: float = 10.0
    dense_limit: int = 200
    max_megabytes: float = 100.0
    max_seconds: float = 600.0
    fit: Fit = "pad"

    def __post_init__(self) -> None:
        _within("frames", self.frames, 1, 256)
        _within("start", self.start, 0, 1e6)
        if self.end is not None:
            _within("end", self.end, 0, 1e6)
            if self.end <= self.start:
                raise OptionError(
                    f"the range ends at {self.end:g} s and starts at {self.start:g} s",
                    "Choose an end after the start",
                )
        _within("dense_fps", self.dense_fps, 0, 60)
        _within("dense_limit", self.dense_limit, 1, 2000)
        _within("max_megabytes", self.max_megabytes, 0.001, 100_000)
        _within("max_seconds", self.max_seconds, 1, 36_000)
        _one_of("fit", self.fit, ("pad", "native"))


@dataclass(frozen=True)
class DetectOptions:
    """Clip → detections. `confidence` starts a track; boxes down to `low` may continue one.

    Where `confidence` is the lower of the two, it holds for both; see `floor`.
    classes: keep only these labels, all if empty. prompt: what an open-vocabulary detector looks
    for, "dog. umbrella."; if empty, the nouns of the question.
    """

    confidence: float = 0.5
    low: float = 0.2
    image_size: int | None = None
    max_per_frame: int = 100
    classes: tuple[str, ...] = ()
    prompt: str = ""

    def __post_init__(self) -> None:
        _within("detector confidence", self.confidence, 0.01, 0.99)
        _within("low detector confidence", self.low, 0.01, 0.99)
        if self.image_size is not None:
            _within("detector image size", self.image_size, 32, 2048)
        _within("detections per frame", self.max_per_frame, 1, 500)

    @property
    def floor(self) -> float:
        """The lowest confidence a detector is asked for."""
        return min(self.low, self.confidence)


@dataclass(frozen=True)
class TrackOptions:
    """Detections → tracks. Seconds, and shares of the clip.

    min_seen: fewest sightings that must confirm a track after its first.
    """

    max_gap: float = 1.0
    min_seen: int = 3
    smoothing: float = 0.15
    max_tracks: int = 20

    def __post_init__(self) -> None:
        _within("longest gap to fill", self.max_gap, 0, 10)
        _within("fewest sightings", self.min_seen, 1, 100)
        _within("smoothing", self.smoothing, 0, 5)
        _within("most tracks", self.max_tracks, 1, 100)


@dataclass(frozen=True)
class MaskOptions:
    """Tracks → masks → counterfactual. `pad` and `feather` are shares of the short side.

    shape "outline": what the detector segmented, the box where it did not; "box": always the box.
    fusion: how strengths and masks become one mask, docs/methods.md, step 5. frame_mask "whole"
    needs the fusion "or"; see `check_trainable`.
    """

    pad: float = 0.02
    feather: float = 0.0145
    overlap: Overlap = "normalise"
    swept: bool = False
    fusion: Fusion = "max"
    fill: Fill = "mean"
    frame_mask: FrameMask = "outside"
    fill_seed: int = 0
    shape: Shape = "outline"

    def __post_init__(self) -> None:
        _within("mask padding", self.pad, 0, 0.5)
        _within("mask feather", self.feather, 0.001, 0.5)
        _one_of("mask shape", self.shape, ("outline", "box"))
        _one_of("overlap", self.overlap, ("normalise", "raw"))
        _one_of("fusion", self.fusion, FUSIONS)
        _one_of("fill", self.fill, ("mean", "black", "blur", "noise", "additive"))
        _one_of("frame mask", self.frame_mask, ("outside", "whole", "off"))

    def check_trainable(self) -> None:
        """Raises OptionError where the objects' strengths would have no gradient.

        A frame mask over the whole frame starts at the same strength as the objects, and a maximum
        over both never falls below it: no object mask could then change a single pixel. Drawing
        such masks, and reading them from an older trace, stays possible.
        """
        if self.frame_mask == "whole" and self.fusion != "or":
            raise OptionError(
                f"with the frame mask 'whole' and the fusion {self.fusion!r} every object gradient"
                " is 0: the frame mask covers each object at the same strength",
                "Choose the fusion 'or', or the frame mask 'outside'",
            )


@dataclass(frozen=True)
class AscentOptions:
    """Gradient ascent on the strengths, and how they become levels (steps 7 and 8).

    memory "low" keeps few activations and computes the rest twice; the result is the same.
    gradient "base" and "half" are cheaper approximations, never the paper's: the slope at r = 0,
    from the pass that reads the plain video anyway; the slope at r0 on frames of half the size.
    """

    steps: int = 1
    eta: float = 0.01
    r0: float = 0.75
    tau: float = 0.0
    levels: Levels = "three"
    frame_fraction: float = 0.25
    memory: Literal["normal", "low"] = "normal"
    gradient: Gradient = "exact"

    def __post_init__(self) -> None:
        _within("steps", self.steps, 1, 200)
        _within("eta", self.eta, 1e-8, 1e6)
        _within("r0", self.r0, 0.01, 0.99)
        _within("tau", self.tau, 0, 1)
        _one_of("levels", self.levels, ("three", "continuous"))
        _within("frame fraction", self.frame_fraction, 0, 1)
        _one_of("memory", self.memory, ("normal", "low"))
        _one_of("gradient", self.gradient, ("exact", "base", "half"))
        if self.gradient == "base" and self.steps > 1:
            raise OptionError(
                f"the gradient 'base' is the same at every step, and {self.steps} were asked for",
                "Take one step, or the gradient 'exact'",
            )


@dataclass(frozen=True)
class ContrastOptions:
    """s(t) = (1+α)·logit(t|V) − α·logit(t|V_d); head: p(t|V) ≥ β·max p(·|V).

    head "raw" is TCD's: logit ≥ β·max logit.
    """

    alpha: float = 1.0
    beta: float = 0.1
    head: Literal["probability", "raw"] = "probability"

    def __post_init__(self) -> None:
        _within("alpha", self.alpha, 0, 20)
        _within("beta", self.beta, 0, 2)
        _one_of("head", self.head, ("probability", "raw"))


@dataclass(frozen=True)
class DecodeOptions:
    """Search, docs/methods.md, step 10, and how many candidates a token keeps in the trace.

    greedy; sample: nucleus with temperature and top_p; beam: `beams` wide, score divided by
    length ** length_penalty; vote: self-consistency, `samples` samples, majority of answers.
    """

    search: Literal["greedy", "sample", "beam", "vote"] = "greedy"
    max_tokens: int = 64
    temperature: float = 1.0
    top_p: float = 0.9
    beams: int = 4
    length_penalty: float = 1.0
    samples: int = 5
    seed: int = 0
    keep: int = 256

    def __post_init__(self) -> None:
        _one_of("search", self.search, ("greedy", "sample", "beam", "vote"))
        _within("max tokens", self.max_tokens, 1, 1024)
        _within("temperature", self.temperature, 0.01, 10)
        _within("top-p", self.top_p, 0.01, 1)
        _within("beams", self.beams, 1, 32)
        _within("length penalty", self.length_penalty, -5, 5)
        _within("samples", self.samples, 1, 64)
        _within("kept candidates", self.keep, 1, 4096)


@dataclass(frozen=True)
class VcdOptions:
    """VCD's noise step t of 1000, with the α and β published beside it (see VCD_PRESETS)."""

    step: int = 500
    contrast: ContrastOptions = ContrastOptions(alpha=1.0, beta=0.2)

    def __post_init__(self) -> None:
        _within("VCD noise step", self.step, 0, 999)


@dataclass(frozen=True)
class SidOptions:
    """SID: from decoder layer `layer` on only `ratio` of the vision tokens stay, the least read."""

    layer: int = 2
    ratio: float = 100 / 576
    contrast: ContrastOptions = ContrastOptions(alpha=0.5, beta=0.1)

    def __post_init__(self) -> None:
        _within("SID layer", self.layer, 1, 200)
        _within("SID ratio", self.ratio, 0, 1)


@dataclass(frozen=True)
class TcdOptions:
    """TCD: frames kept in the reference view; None takes the published 16→4, 12→8, 32→8."""

    keep: int | None = None
    contrast: ContrastOptions = ContrastOptions(alpha=0.5, beta=0.5, head="raw")

    def __post_init__(self) -> None:
        if self.keep is not None:
            _within("TCD frames", self.keep, 1, 256)


VCD_PRESETS: dict[str, VcdOptions] = {
    "paper": VcdOptions(500, ContrastOptions(0.5, 0.1)),
    "code": VcdOptions(500, ContrastOptions(1.0, 0.2)),
    "late": VcdOptions(900, ContrastOptions(1.0, 0.1)),
}
"""VCD's published defaults, which disagree."""


@dataclass(frozen=True)
class RunOptions:
    """One set of options for a whole run; each stage is handed its own part only."""

    video: VideoOptions = field(default_factory=VideoOptions)
    detect: DetectOptions = field(default_factory=DetectOptions)
    track: TrackOptions = field(default_factory=TrackOptions)
    mask: MaskOptions = field(default_factory=MaskOptions)
    ascent: AscentOptions = field(default_factory=AscentOptions)
    contrast: ContrastOptions = field(default_factory=ContrastOptions)
    decode: DecodeOptions = field(default_factory=DecodeOptions)
    vcd: VcdOptions = field(default_factory=VcdOptions)
    sid: SidOptions = field(default_factory=SidOptions)
    tcd: TcdOptions = field(default_factory=TcdOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        self.mask.check_trainable()

    def as_dict(self) -> dict[str, Any]:
        """Plain nested dict, as written into the trace."""
        return asdict(self)


_PARTS: dict[str, Any] = {
    "video": VideoOptions,
    "detect": DetectOptions,
    "track": TrackOptions,
    "mask": MaskOptions,
    "ascent": AscentOptions,
    "contrast": ContrastOptions,
    "decode": DecodeOptions,
    "vcd": VcdOptions,
    "sid": SidOptions,
    "tcd": TcdOptions,
}


def options_from(told: Mapping[str, Any]) -> RunOptions:
    """The RunOptions that `as_dict` wrote; what is missing keeps its default.

    Raises OptionError where a value is out of range or an option is unknown.
    """
    parts: dict[str, Any] = {}
    try:
        for name, kind in _PARTS.items():
            fields = dict(told.get(name, {}))
            if "classes" in fields:
                fields["classes"] = tuple(fields["classes"])
            if "contrast" in fields:
                fields["contrast"] = ContrastOptions(**fields["contrast"])
            parts[name] = kind(**fields)
        return RunOptions(**parts, seed=int(told.get("seed", 0)))
    except (TypeError, ValueError) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(
            f"these are not the options of a run ({error})", "Use those of a saved trace"
        ) from error


PRESETS: dict[str, ContrastOptions] = {
    "toyworld": ContrastOptions(alpha=1.0, beta=0.1),
    "eventhallusion": ContrastOptions(alpha=2.6, beta=0.0036),
    "mvbench": ContrastOptions(alpha=1.0, beta=0.5),
    "perception-test": ContrastOptions(alpha=1.5, beta=0.5),
}
"""α and β by benchmark, as published in the paper; `toyworld` is this project's default."""

SWEEPS: dict[str, tuple[float | str, ...]] = {
    "confidence": (0.3, 0.5, 0.7),
    "steps": (1, 3),
    "eta": (0.01, 0.5),
    "fusion": ("max", "confidence", "average"),  # the paper's; "or" is this project's
    "levels": ("three", "continuous"),
}
"""What the paper varied in its ablations, its default first but for the detector's 0.5."""
