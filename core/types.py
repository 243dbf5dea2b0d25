"""What the stages pass to each other. Frozen except Progress; arrays are never written to.

Axes: T sampled frames, D dense frames, K tracks, G frame groups (temporal patches of the
backbone), C candidate tokens, H×W pixels of a source frame, h×w pixels of a model frame.
Boxes are x0 y0 x1 y1 in shares of the source frame, [0, 1]; NaN where a track is lost.
"""

# ruff: noqa: RUF009  (`stored` makes fields, as `dataclasses.field` does)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import (
    COUNT,
    FRAME,
    LARGE,
    LINE,
    MAX_LOGIT,
    MAX_RINGS,
    NAME,
    REAL,
    SHARE,
    TEXT,
    Array,
    ByName,
    Exactly,
    Line,
    Row,
    Rows,
    Stored,
    apart,
    stored,
)
from macd_studio.core.evidence.choices import ChoiceMap
from macd_studio.core.evidence.records import (
    MAX_ENOUGH,
    MAX_EVIDENCE,
    ControlReport,
    Enough,
    Evidence,
    OcclusionReport,
)
from macd_studio.core.options import ContrastOptions, MaskOptions, RunOptions
from macd_studio.core.records import (
    NO_BACKBONE,
    NO_CLIP,
    NO_DETECTOR,
    BackboneRecord,
    ClipRecord,
    DetectorRecord,
    Edit,
    RecordOf,
    Thought,
)
from macd_studio.core.repeats import Repeats
from macd_studio.core.validation import Flag, Maybe, Number, Part, Words, rules_of
from macd_studio.core.view_records import AnyView, View

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Pixels = NDArray[np.uint8]

Outline = tuple[Floats, ...]
"""Closed polygons (P, 2), one for each part that is seen."""

LOST, INTERPOLATED, SEEN = 0, 1, 2
_CONTRAST = rules_of(ContrastOptions)
MAYBE_THOUGHT = Maybe(Row(Thought))


@dataclass
class Progress:
    """How far a slow piece of work is; written by its worker, read by the caller that waits.

    fraction: of what the message names, [0, 1]. stopped: the result is not needed any more; the
    worker ends with Cancelled.
    """

    message: str = ""
    fraction: float = 0.0
    stopped: bool = False

    def begin(self, message: str) -> None:
        """The next piece starts."""
        self.fraction, self.message = 0.0, message


@dataclass(frozen=True, eq=False)
class Clip:
    """Sampled frames for the backbone, and denser, smaller ones for the tracker.

    frames: (T, H, W, 3) RGB 0-255, upright, square pixels, long side ≤ 1280.
    times: (T,) seconds from the start of the file, rising; 0 of a picture, whose duration is 0.
    dense_frames: (D, h, w, 3) likewise, long side ≤ 640; dense_times: (D,).
    numbers: (T,) among the file's frames, from 0; fps, count, full_size (w, h): all of the file.
    """

    frames: Pixels
    times: NDArray[np.float64]
    dense_frames: Pixels
    dense_times: NDArray[np.float64]
    name: str
    sha256: str
    duration: float
    size: tuple[int, int]
    title: str = ""
    notes: tuple[str, ...] = ()
    numbers: Ints | None = None
    fps: float | None = None
    count: int | None = None
    full_size: tuple[int, int] | None = None

    def __repr__(self) -> str:
        shape = f"{len(self.frames)} frames of {self.size[0]}×{self.size[1]}"
        return f"<Clip {self.name!r}: {shape}, {self.duration:.1f} s>"

    @property
    def is_picture(self) -> bool:
        """Whether it is one picture, which has no length, rather than a video of one frame."""
        return len(self.times) == 1 and self.duration == 0

    def __post_init__(self) -> None:
        if self.frames.ndim != 4 or self.frames.shape[-1] != 3 or self.frames.dtype != np.uint8:
            raise ValueError(f"frames must be (T, H, W, 3) uint8, got {self.frames.shape}")
        if len(self.frames) != len(self.times):
            raise ValueError(f"{len(self.frames)} frames but {len(self.times)} times")


@dataclass(frozen=True, eq=False)
class ModelFrames(Stored):
    """The frames as a backbone reads them: resized by its own rule, 8 bits per channel.

    pixels: (T, h, w, 3) RGB 0-255. times: (T,) seconds.
    """

    pixels: Pixels
    times: NDArray[np.float64]
    duration: float = stored(Number(0.0, 1e9), "of the clip, seconds")
    content: tuple[int, int, int, int] = stored(
        Exactly(Number(0, 2**16, whole=True), 4, 4),
        "x0 y0 x1 y1, the pixels of a model frame that show the source frame; the rest is padding",
    )
    stretch: float = stored(
        Number(1e-3, 1e3),
        "how much wider the source appears than it is, 1 where its shape is kept",
        1.0,
        needed=True,
    )

    def __post_init__(self) -> None:
        if self.pixels.ndim != 4 or self.pixels.shape[-1] != 3 or self.pixels.dtype != np.uint8:
            raise ValueError(f"pixels must be (T, h, w, 3) uint8, got {self.pixels.shape}")
        if len(self.pixels) != len(self.times):
            raise ValueError(f"{len(self.pixels)} frames but {len(self.times)} times")
        x0, y0, x1, y1 = self.content
        if not (0 <= x0 < x1 <= self.pixels.shape[2] and 0 <= y0 < y1 <= self.pixels.shape[1]):
            raise ValueError(f"content {self.content} lies outside the frames")

    @property
    def size(self) -> tuple[int, int]:
        """(h, w) of a model frame."""
        return self.pixels.shape[1], self.pixels.shape[2]

    @property
    def padded(self) -> bool:
        """Whether the source frame fills less than the whole model frame."""
        return self.content != (0, 0, self.size[1], self.size[0])

    def subset(self, index: Sequence[int]) -> ModelFrames:
        """Some of the frames, in the order of `index`."""
        return replace(self, pixels=self.pixels[list(index)], times=self.times[list(index)])


@dataclass(frozen=True, eq=False)
class Detections:
    """What a detector saw in one frame: boxes (N, 4) in [0, 1], scores (N,), labels (N,).

    outlines: from a detector that segments, N outlines in shares of the frame, None where it gave
    none; empty from one that does not segment.
    """

    boxes: Floats
    scores: Floats
    labels: tuple[str, ...]
    outlines: tuple[Outline | None, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.boxes) == len(self.scores) == len(self.labels):
            raise ValueError("boxes, scores and labels must be of one length")
        if self.outlines and len(self.outlines) != len(self.labels):
            raise ValueError(f"{len(self.outlines)} outlines but {len(self.labels)} labels")


@dataclass(frozen=True, eq=False)
class Stroke(Stored):
    """A line that was brushed onto a track's mask; it is carried along with the track's box."""

    points: Floats = stored(
        Line(), "(N, 2) in shares of the box, 0 0 its upper left corner; they may lie outside"
    )
    radius: float = stored(Number(0.0, 10.0), "in shares of the frame's short side")
    erase: bool = stored(
        Flag(), "takes away from the mask instead of adding to it", False, needed=True
    )


@dataclass(frozen=True, eq=False)
class Track(Stored):
    """One object through the clip, read off at the sampled frames."""

    id: int = stored(COUNT, "from 1, most important first (confidence × sightings)")
    label: str = stored(NAME, "class name")
    confidence: float = stored(SHARE, "mean detector score of its sightings")
    boxes: Floats = stored(
        Array("T 4", lost=True, digits=5, kept="f4"),
        "x0 y0 x1 y1 in shares of the source frame, NaN where the track is lost",
    )
    state: NDArray[np.int8] = stored(
        Array("T", 0, SEEN, whole=True, kept="i1"), "0 lost, 1 interpolated, 2 seen"
    )
    frames_seen: int = stored(COUNT, "sightings on the dense frames")
    brush: tuple[Stroke, ...] = stored(
        Rows(Stroke, 200), "what was drawn by hand on its mask, in order", ()
    )
    outlines: tuple[Outline | None, ...] = stored(
        Exactly(Maybe(Exactly(Line(4), 0, MAX_RINGS))),
        "polygons of its parts on each frame in shares of the box, null where only the box is"
        " known; empty where it always is",
        (),
    )

    def outline(self, frame: int) -> Outline | None:
        """Its outline on a sampled frame, in shares of the box; None: the box itself."""
        return self.outlines[frame] if self.outlines else None


@dataclass(frozen=True, eq=False)
class MaskSet:
    """Soft masks. objects: (K, T, H, W) in [0, 1]; outside: (T, H, W), what no object covers."""

    objects: Floats
    outside: Floats


@dataclass(frozen=True, eq=False)
class AscentStep(Stored):
    """One step of the ascent: strengths before it, and the query loss and its gradient there."""

    index: int
    loss: float = stored(Array(), "nats per token")
    strength: NDArray[np.float64] = stored(Array("K"), "of the objects")
    gradient: NDArray[np.float64] = stored(Array("K"), "∂L/∂r of the objects")
    frame_strength: NDArray[np.float64] = stored(Array("G?"), "of the frame groups")
    frame_gradient: NDArray[np.float64] = stored(Array("G?"), "∂L/∂r of the frame groups")


@dataclass(frozen=True, eq=False)
class Counterfactual(Stored):
    """Where the ascent ended, and the level each strength became."""

    strength: NDArray[np.float64] = stored(Array("K"), "of the objects after the last step")
    margin: NDArray[np.float64] = stored(Array("K"), "strength − r0, signed, unclamped by τ")
    level: NDArray[np.float64] = stored(Array("K", 0, 1), "what the strengths became")
    frame_strength: NDArray[np.float64] = stored(Array("G?"), "of the frame groups")
    frame_margin: NDArray[np.float64] = stored(Array("G?"), "their strength − r0")
    frame_level: NDArray[np.float64] = stored(Array("G?", 0, 1), "what their strengths became")
    base_loss: float | None = stored(
        Maybe(REAL), "query loss given V, nats per token; null until both views were read", None
    )
    loss: float | None = stored(Maybe(REAL), "query loss given V_d", None)


@dataclass(frozen=True)
class StepWeights:
    """How one token was chosen: base·z + Σ others·z′ + bias, among tokens with z ≥ floor.

    z: logits of the video, z′: of each second view. The token with the largest z is always among
    them. bias: (token, amount) pairs added to the score.
    """

    base: float = 1.0
    others: tuple[float, ...] = ()
    floor: float = -np.inf
    bias: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class TokenStep(Stored):
    """One decoded token with its candidates under both views.

    With one second view the candidates hold the winner for any α in [0, 20] and β in [0, 1], with
    several the choice. texts: (C,) their exact text. others: (C,) logits of each second view, and
    others_log_z their partitions. hidden: (N,) vision tokens that the first second view did not
    see, None where it hides none. weights: how it was scored; None where the answer's α, β and cut
    say so. repeats: what a repetition penalty lowers.
    """

    index: int
    token: int = stored(Array(whole=True), "id of the chosen token")
    text: str = apart("its exact text")
    candidates: Ints = stored(Array("C", whole=True), "token ids, best base logit first")
    texts: tuple[str, ...] = apart("their exact texts")
    base: Floats = stored(
        Array("C", -MAX_LOGIT, MAX_LOGIT, digits=5, kept="f4"), "the candidates' logits given V"
    )
    base_log_z: float = stored(
        Array(least=-MAX_LOGIT, most=MAX_LOGIT),
        "log partition over the whole vocabulary, so that p = exp(logit − log_z) is exact",
    )
    others: tuple[Floats, ...] = ()
    others_log_z: tuple[float, ...] = ()
    hidden: NDArray[np.bool_] | None = None
    floor: float = stored(
        Array(lost=True),
        "every token whose base logit is at least this is a candidate (−∞: all are; ∞: not known),"
        " so probabilities over a head that ends above it are exact, and upper bounds below",
        -np.inf,
    )
    weights: StepWeights | None = None
    repeats: Repeats | None = None


@dataclass(frozen=True, eq=False)
class ShownView(Stored):
    """What a second view was. shown: its frames as the model read them, (T, h, w, 3).

    None where it has the pixels of the first view, or none at all.
    """

    view: View = stored(AnyView(), "its kind, with plain numbers")
    shown: Pixels | None = None


@dataclass(frozen=True, eq=False)
class Answer(Stored):
    """One method's answer. tokens: the end token included."""

    method: str = stored(Words(100, 1), "the method's name")
    text: str = stored(TEXT, "the answer")
    tokens: tuple[TokenStep, ...] = apart("its tokens, the end token included")
    finished: bool = stored(Flag(), "whether the model ended it itself")
    alpha: float = stored(_CONTRAST["alpha"], "α (0 in the baseline)", 0.0, needed=True)
    beta: float = stored(_CONTRAST["beta"], "β (0 in the baseline)", 0.0, needed=True)
    head: str = stored(
        _CONTRAST["head"], "what the cut compares: `probability`, or TCD's `raw` on raw logits",
        "probability", needed=True,
    )  # fmt: skip
    rule: str = stored(
        Words(100, 1),
        "how the views were scored, a name in `core.rules`; α, β and head are those of `linear`",
        "linear", needed=True,
    )  # fmt: skip
    votes: dict[str, int] = stored(
        ByName(Number(0, 10**6, whole=True), 1000, TEXT),
        "of self-consistency: normalised answer → samples that gave it",
        dict,
        needed=True,
    )
    second_views: tuple[ShownView, ...] = stored(
        Rows(ShownView, 9, "{}_"),
        "its second views, in order; none of a plain answer",
        (),
        needed=True,
    )
    thought: Thought | None = stored(MAYBE_THOUGHT, "its own, where thoughts are contrasted", None)
    ms: float = stored(
        REAL, "time it added: the first to need a shared piece pays for it", 0.0, needed=True
    )
    total_ms: float = stored(
        REAL, "time of everything it needs, from the prompt to the answer", 0.0, needed=True
    )
    memory_mb: float = stored(
        REAL, "peak of the tensors alive for it, weights included", 0.0, needed=True
    )


@dataclass(frozen=True, eq=False)
class Trace(Stored):
    """Everything computed for one clip and one question; figures and pages only read this.

    frames: (T, H, W, 3), the source frames in their true shape, for display. options: what the run
    was done with, without `edits`, the changes by hand that followed in this order.
    unknown_options: those of a newer version, which are kept by their part and name.
    """

    question: str = stored(Words(10_000), "the question as asked")
    frames: Pixels = apart("the source frames in their true shape")
    times: NDArray[np.float64] = stored(Array("T", digits=5), "seconds")
    groups: tuple[tuple[int, ...], ...] = stored(
        Exactly(Exactly(FRAME, 1)), "the frames of each temporal patch, G lists"
    )
    clip: ClipRecord = stored(RecordOf(ClipRecord), "the analysed file", NO_CLIP, needed=True)
    backbone: BackboneRecord = stored(
        RecordOf(BackboneRecord), "the model that answered", NO_BACKBONE, needed=True
    )
    detector: DetectorRecord = stored(
        RecordOf(DetectorRecord), "the detector and its options", NO_DETECTOR, needed=True
    )
    options: RunOptions = field(default_factory=RunOptions)
    edits: tuple[Edit, ...] = ()
    unknown_options: Mapping[str, Any] = field(default_factory=dict)
    model_frames: ModelFrames | None = stored(
        Maybe(Row(ModelFrames)), "what the backbone read; null before it was asked", None,
        needed=True,
    )  # fmt: skip
    mask: MaskOptions = stored(
        Part(MaskOptions()), "the recipe of the masks", MaskOptions, needed=True
    )
    tracks: tuple[Track, ...] = stored(Rows(Track, 4096), "the objects", (), needed=True)
    steps: tuple[AscentStep, ...] = stored(
        Rows(AscentStep, 10_000, "step_", listed=False), "the ascent", ()
    )
    counterfactual: Counterfactual | None = stored(
        Maybe(Row(Counterfactual, "final_")), "where it ended", None
    )
    occlusion: OcclusionReport | None = stored(
        Maybe(Row(OcclusionReport, "occlusion_")),
        "the measured effect of masking each object alone; null until it was measured", None,
    )  # fmt: skip
    controls: ControlReport | None = stored(
        Maybe(Row(ControlReport)),
        "whether other masks do what MACD's do; null until measured", None,
    )  # fmt: skip
    evidence: tuple[Evidence, ...] = stored(
        Rows(Evidence, MAX_EVIDENCE, "evidence{}_"), "where the evidence for a token lies", ()
    )
    enough: tuple[Enough, ...] = stored(Rows(Enough, MAX_ENOUGH), "what is enough for a token", ())
    choice_map: ChoiceMap | None = stored(Maybe(Row(ChoiceMap)), "what every subset does", None)
    answers: dict[str, Answer] = stored(
        Rows(Answer, 100, "answer{}_", by="method"), "by method", dict, needed=True
    )
    timings_ms: dict[str, float] = stored(ByName(REAL), "milliseconds by stage", dict, needed=True)
    peak_memory_mb: float = stored(
        Number(0.0, LARGE), "peak memory: of the GPU if one was used, else of the process", 0.0,
        needed=True,
    )  # fmt: skip
    warnings: tuple[str, ...] = stored(
        Exactly(TEXT, 0, 1000), "what was repaired, left out, or must be known to read the result",
        (), needed=True,
    )  # fmt: skip
    seed: int = stored(rules_of(RunOptions)["seed"], "the seed", 0, needed=True)
    shared: dict[str, int] = stored(
        ByName(COUNT), "how many further methods each piece of work served", dict, needed=True
    )
    skipped: dict[str, str] = stored(
        ByName(TEXT, 100), "methods that do not apply to the question → why", dict, needed=True
    )
    thought: Thought | None = stored(MAYBE_THOUGHT, "what the model wrote before all answers", None)
    truth: str = stored(LINE, "the right answer, where somebody knows it; else empty", "")
    status: str = stored(
        NAME, "`complete`, or `stopped: STAGE` where the run was cancelled", "complete", needed=True
    )
    versions: dict[str, str] = stored(
        ByName(NAME), "versions of the libraries that a result depends on", dict, needed=True
    )

    def __repr__(self) -> str:
        answers = ", ".join(f"{name}: {answer.text!r}" for name, answer in self.answers.items())
        return f"<Trace {self.clip.name!r} {self.question!r}: {answers or self.status}>"

    @property
    def is_picture(self) -> bool:
        """See `Clip.is_picture`."""
        return len(self.times) == 1 and self.clip.duration == 0

    @property
    def outside_domain(self) -> bool:
        """Whether it was trained on narrower data than this clip; False before it was asked."""
        return bool(self.backbone.domain) and self.clip.title != self.backbone.domain_title

    def without_measurements(self) -> Trace:
        """The trace without what was measured on it after the run."""
        return replace(self, occlusion=None, controls=None, choice_map=None, evidence=(), enough=())

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values, docs/json-schema.md: what `show --json` prints."""
        from macd_studio.core.traces.summary import as_json

        return as_json(self)

    def figure(self, name: str, backend: Any = "plotly", **which: Any) -> Any:
        """A figure by its name: "strengths", "logits", "decision", "evidence" or "overview".

        backend: "plotly" for a screen, "matplotlib" for a paper, told apart in greys. which: what
        of the trace, such as `answer="vcd"` or `token=2`. Raises OptionError for what is not there.
        """
        from macd_studio.core.figures import draw

        return draw(self, name, backend, **which)

    def _repr_html_(self) -> str:
        """The viewer in a frame, which a notebook shows for a trace at the end of a cell."""
        from macd_studio.core.figures.notebook import viewer_frame

        return viewer_frame(self)
