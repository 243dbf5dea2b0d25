"""Frozen options, one class per stage, validated at construction; the paper's presets by name.

Every option used is written into the trace, so that a run can be repeated from it.
"""

# ruff: noqa: RUF009  (`choice` and `part` make fields, as `dataclasses.field` does)
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import (
    Checked,
    Part,
    choice,
    flag,
    number,
    numbers,
    part,
    shown,
    text,
    texts,
    whole,
)

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


# the ascent, and the levels that strengths become

Gradient = Literal["exact", "base", "half", "difference"]
Objective = Literal["query", "answer", "margin"]
Strengths = Literal["per-object", "shared"]
Levels = Literal["three", "continuous"]
Memory = Literal["normal", "low"]
DITHERS = 4
"""How often the loss is read under noise, for what a difference must exceed."""


@dataclass(frozen=True)
class Level:
    """What a strength becomes. value: None stands for every strength between 0 and 1."""

    value: float | None
    name: str


@dataclass(frozen=True)
class AscentOptions(Checked):
    """Gradient ascent on the strengths, and how they become levels (steps 7 and 8).

    memory "low" keeps few activations and computes the rest twice; the result is the same.
    gradient "base" and "half" are cheaper approximations, never the paper's: the slope at r = 0,
    from the pass that reads the plain video anyway; the slope at r0 on frames of half the size.
    "difference" needs no gradient of the model: central differences of a step along each
    strength, 0 where they do not exceed the noise, see `undecided`.
    objective: what the ascent climbs, given V_d: the paper's query loss; or the mean negative log
    likelihood of the answer that plain decoding gives; or how far that answer's first token falls
    behind its runner-up. Both need the video to be decoded first.
    strengths: one for each object, or one that all objects share, whose gradient is that of the
    loss when all of them move alike. Frame groups keep a strength each.
    """

    steps: int = whole(1, 1, 200, "ascent steps")
    eta: float = number(0.01, 1e-8, 1e6, "ascent step size η")
    r0: float = number(0.75, 0.01, 0.99, "strength at which the ascent starts")
    tau: float = number(0.0, 0, 1, "dead band τ around r0 in which a level stays at r0")
    levels: Levels = choice(
        "three", Levels, "three levels 0 / r0 / 1, or strengths as the ascent left them"
    )
    frame_fraction: float = number(
        0.25,
        0,
        1,
        "largest share of frame groups that stay masked; one of them at least, unless it is 0",
    )
    memory: Memory = choice("normal", Memory, "low keeps fewer activations and takes longer")
    gradient: Gradient = choice(
        "exact",
        Gradient,
        "exact is MACD; base and half are cheaper approximations; difference"
        " reads 4 views a strength, and needs no gradient",
    )
    difference_step: float = number(0.05, 0.01, 0.5, "step h of the gradient 'difference'")
    objective: Objective = choice(
        "query",
        Objective,
        "what the ascent climbs: the question's loss (the paper), the answer's, or its margin",
    )
    strengths: Strengths = choice(
        "per-object", Strengths, "a strength for each object, or one that all objects share"
    )

    def named_levels(self) -> tuple[Level, Level, Level]:
        """The levels and their names, from the lowest to the highest.

        >>> [(level.value, level.name) for level in AscentOptions().named_levels()]
        [(0.0, 'kept'), (0.75, 'partly masked'), (1.0, 'masked')]
        """
        partly = self.r0 if self.levels == "three" else None
        return Level(0.0, "kept"), Level(partly, "partly masked"), Level(1.0, "masked")

    def level_name(self, value: float) -> str:
        """The name of a level in [0, 1]; one between 0 and 1 is partly masked, r0 or not."""
        lowest, between, highest = self.named_levels()
        return next((z.name for z in (lowest, highest) if z.value == value), between.name)

    def reads(self, objects: int, groups: int) -> int:
        """How many videos one step by reading alone reads, see `core.masking.difference`.

        0 with another gradient. objects, groups: how many strengths there are of each.
        """
        if self.gradient != "difference":
            return 0
        moved = min(objects, 1) if self.strengths == "shared" else objects
        return 1 + DITHERS + 4 * (moved + groups)

    def undecided(self, slopes: Iterable[float]) -> list[bool]:
        """Which slopes of a step, objects' or groups', are told from 0 by no difference.

        Such a strength stays at r0: what its mask does to the loss lies below the noise.
        """
        return [self.gradient == "difference" and slope == 0 for slope in slopes]

    def check_together(self) -> None:
        """Raises OptionError for several steps along a gradient that stays the same.

        And for the gradients "base" and "difference" of another objective: both know only the
        question's loss.
        """
        if self.gradient in ("base", "difference") and self.objective != "query":
            raise OptionError(
                f"the gradient {self.gradient!r} is that of the query loss, and"
                f" {self.objective!r} was asked for",
                "Take the gradient 'exact', or the objective 'query'",
            )
        if self.gradient == "base" and self.steps > 1:
            raise OptionError(
                f"the gradient 'base' is the same at every step, and {self.steps} were asked for",
                "Take one step, or the gradient 'exact'",
            )


# scores, second views and search

HeadRule = Literal["probability", "raw"]
Search = Literal["greedy", "sample", "beam", "vote"]
MAX_TOKENS = 1024
"""Of an answer."""


@dataclass(frozen=True)
class ContrastOptions(Checked):
    """s(t) = (1+α)·logit(t|V) − α·logit(t|V_d); head: p(t|V) ≥ β·max p(·|V).

    head "raw" is TCD's: logit ≥ β·max logit.
    """

    alpha: float = number(1.0, 0, 20, "contrast strength α")
    beta: float = number(0.1, 0, 2, "plausibility cut β")
    head: HeadRule = choice(
        "probability", HeadRule, "what the cut compares: probabilities, or raw logits"
    )


@dataclass(frozen=True)
class DecodeOptions(Checked):
    """Search, docs/methods.md, step 10, and how many candidates per token the trace keeps.

    greedy; sample: nucleus with temperature and top_p; beam: `beams` wide, score divided by
    length ** length_penalty; vote: self-consistency, `samples` samples, majority of answers.
    """

    search: Search = choice(
        "greedy", Search, "how the answer is decoded: greedy, nucleus sampling, beams, or a vote"
    )
    max_tokens: int = whole(64, 1, MAX_TOKENS, "longest answer, without its thought", "tokens")
    max_thought: int = whole(1024, 1, 8192, "longest thought before the answer", "tokens")
    contrast_thought: bool = flag(False, "contrast the thought, too, for each method by itself")
    temperature: float = number(1.0, 0.01, 10, "of sample and vote")
    top_p: float = number(0.9, 0.01, 1, "of sample and vote")
    beams: int = whole(4, 1, 32, "beam width")
    length_penalty: float = number(1.0, -5, 5, "of beam search")
    samples: int = whole(5, 1, 64, "samples that vote")
    seed: int = whole(0, 0, MAX_SEED, "seed of sample and vote")
    keep: int = whole(256, 1, 4096, "candidates per token kept in the trace")


@dataclass(frozen=True)
class VcdOptions(Checked):
    """VCD's noise step t of 1000, with the α and β published with it (see VCD_PRESETS)."""

    step: int = whole(500, 0, 999, "noise step, of 1000")
    contrast: ContrastOptions = part(ContrastOptions(alpha=1.0, beta=0.2))


@dataclass(frozen=True)
class SidOptions(Checked):
    """SID: from decoder layer `layer` on only `ratio` of the vision tokens stay, the least read."""

    layer: int = whole(2, 1, 200, "decoder layer from which vision tokens are hidden")
    ratio: float = number(100 / 576, 0, 1, "share of vision tokens that stay")
    contrast: ContrastOptions = part(ContrastOptions(alpha=0.5, beta=0.1))


@dataclass(frozen=True)
class TcdOptions(Checked):
    """TCD: frames kept in the reference view; None takes the published 16→4, 12→8, 32→8."""

    keep: int | None = whole(
        None, 1, 256, "frames in the second view; 16→4, 12→8, 32→8 as published without it"
    )
    contrast: ContrastOptions = part(ContrastOptions(alpha=0.5, beta=0.5, head="raw"))


@dataclass(frozen=True)
class SeasonOptions(Checked):
    """SEASON: α 1 and share 0.33 are one of two published pairs, 0.5 and 0.25 the other; no cut."""

    share: float = number(
        0.33, 0, 1, "of the mean over frames in each layer of the vision tower, temporal view"
    )
    step: int = whole(500, 0, 999, "noise step of the spatial view, of VCD's 1000")
    contrast: ContrastOptions = part(ContrastOptions(alpha=1.0, beta=0.0))


ShiftFeatures = Literal["own", "clip"]


@dataclass(frozen=True)
class SsacdOptions(Checked):
    """SSACD: σ and τ as in its authors' example; their α and β are not public.

    threshold None: 0.8 for CLIP's features; none for those of the model itself, of which no value
    was published, so that the largest shift counts whatever its size.
    """

    features: ShiftFeatures = choice(
        "own",
        ShiftFeatures,
        "whose features tell a shift: those of the model itself, or of the CLIP in MACD_CLIP",
    )
    sigma: float = number(75.0, 0, 1000, "standard deviation of the noise, grey levels of 255")
    threshold: float | None = number(
        None, -1, 1, "cosine below which a change is a shift; CLIP's 0.8 without it"
    )
    contrast: ContrastOptions = part(ContrastOptions(alpha=1.0, beta=0.1))


@dataclass(frozen=True)
class RuleOptions(Checked):
    """What the score rules other than the linear one take, with their published defaults."""

    delta: float = number(1.0, -100, 100, "yes-bias: δ, added to the logit of yes")
    code_power: float = number(0.2, 0.01, 10, "CODE's exponent a")
    only_threshold: float = number(0.2, 0, 2, "ONLY's γ")
    m3id_decay: float = number(0.02, 0, 1, "M3ID's λ per token")
    log_lambda: float = number(1.0, 0, 20, "log-linear's λ")
    beta: float = number(0.1, 0, 2, "plausibility cut of ONLY, M3ID and log-linear")
    season_layer: int | None = whole(
        None, 0, 199, "first of the four decoder layers that SEASON reads; 20 of 28 without it"
    )


VCD_PRESETS: dict[str, VcdOptions] = {
    "paper": VcdOptions(500, ContrastOptions(0.5, 0.1)),
    "code": VcdOptions(500, ContrastOptions(1.0, 0.2)),
    "late": VcdOptions(900, ContrastOptions(1.0, 0.1)),
}
"""VCD's published defaults, which disagree."""
PRESETS: dict[str, ContrastOptions] = {
    "toyworld": ContrastOptions(alpha=1.0, beta=0.1),
    "eventhallusion": ContrastOptions(alpha=2.6, beta=0.0036),
    "mvbench": ContrastOptions(alpha=1.0, beta=0.5),
    "perception-test": ContrastOptions(alpha=1.5, beta=0.5),
}
"""α and β by benchmark, as published in the paper; `toyworld` is this project's default."""


# a whole run, a plan, and how they are read


@dataclass(frozen=True)
class PlanOptions(Checked):
    """Input of `core.planning.plan`.

    frame_size: side in pixels. open_share: of questions, see `lazy_cost`.
    """

    frames: int = whole(8, 1, MAX_FRAMES)
    frame_size: int = whole(280, 28, 4096)
    steps: int = whole(1, 1, 200)
    open_share: float | None = number(None, 0, 1)


@dataclass(frozen=True)
class RunOptions(Checked):
    """One set of options for a whole run; each stage is handed its own part only."""

    video: VideoOptions = part(VideoOptions())
    detect: DetectOptions = part(DetectOptions())
    track: TrackOptions = part(TrackOptions())
    mask: MaskOptions = part(MaskOptions())
    ascent: AscentOptions = part(AscentOptions())
    contrast: ContrastOptions = part(ContrastOptions())
    decode: DecodeOptions = part(DecodeOptions())
    vcd: VcdOptions = part(VcdOptions())
    sid: SidOptions = part(SidOptions())
    tcd: TcdOptions = part(TcdOptions())
    ssacd: SsacdOptions = part(SsacdOptions())
    season: SeasonOptions = part(SeasonOptions())
    rules: RuleOptions = part(RuleOptions())
    seed: int = whole(
        0, 0, MAX_SEED, "seed of noise, random masks and, without one of its own, of the search"
    )
    masks_only: bool = flag(False, "stop after the masks: no answer is decoded")
    choices: tuple[str, ...] = texts(
        20, 100, "answers that the question offers, as in dog,cat; macd-measured weighs these alone"
    )
    lazy: bool = flag(
        False,
        "look for objects and read second views only where a token needs them: the same answers,"
        " and no more in the trace than that",
    )

    def check_runnable(self) -> None:
        """Raises OptionError for options that no run takes; see `MaskOptions.check_trainable`.

        It is called where options are read and where a run begins, and not at construction, so
        that the options of an older trace can be held.
        """
        self.mask.check_trainable()
        if self.decode.contrast_thought and (self.lazy or self.decode.search in ("beam", "vote")):
            raise OptionError(
                "a lazy run, beam search and votes cannot contrast a thought",
                "Leave contrast_thought out, or choose greedy or sample without lazy",
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain nested dict, as written into the trace."""
        return asdict(self)


OWN_CONTRAST = tuple(n for n, value in vars(RunOptions()).items() if hasattr(value, "contrast"))
"""Parts named after a view that was published with an α, β and cut of its own."""


def options_from(values: Mapping[str, Any]) -> RunOptions:
    """The RunOptions that `as_dict` wrote, or any part of them; the one reader of options.

    What is missing keeps its default. Raises OptionError, with the path of the key, for a value of
    another type or out of its range, and for a key that is not an option.
    """
    if not isinstance(values, Mapping):
        raise OptionError("options are not an object", 'Give {} or, say, {"ascent": {"steps": 3}}')
    options: RunOptions = Part(RunOptions()).read(values, "")
    options.check_runnable()
    return options


def read_options(options: RunOptions | None, parts: Mapping[str, Any]) -> RunOptions:
    """Options that were given either whole or by their parts. Raises OptionError."""
    if options is None:
        own = RunOptions()
        for name in parts.keys() - vars(own).keys():
            if owner := next(
                (p for p, of in vars(own).items() if name in getattr(of, "__dict__", ())), None
            ):
                raise OptionError(
                    f"there is no option {name!r}", f"It is one of {owner}: {owner}={{{name!r}: …}}"
                )
        return options_from(parts)
    if parts:
        raise OptionError(
            f"options were given as a whole and {', '.join(parts)} in addition",
            "Give either options=RunOptions(...) or its parts",
        )
    if not isinstance(options, RunOptions):
        raise OptionError(f"options is {shown(options)}", "Give RunOptions(...), or parts by name")
    options.check_runnable()
    return options
