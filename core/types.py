"""What the stages pass to each other. Frozen except Progress; arrays are never written to.

Axes: T sampled frames, D dense frames, K tracks, G frame groups (temporal patches of the
backbone), C candidate tokens, H×W pixels of a source frame, h×w pixels of a model frame.
Boxes are x0 y0 x1 y1 in shares of the source frame, [0, 1]; NaN where a track is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.evidence.records import Evidence
from macd_studio.core.options import MaskOptions, RunOptions
from macd_studio.core.records import (
    NO_BACKBONE,
    NO_CLIP,
    NO_DETECTOR,
    BackboneRecord,
    ClipRecord,
    DetectorRecord,
)
from macd_studio.core.repeats import Repeats
from macd_studio.core.view_records import View

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Pixels = NDArray[np.uint8]

Outline = tuple[Floats, ...]
"""Closed polygons (P, 2), one for each part that is seen."""

LOST, INTERPOLATED, SEEN = 0, 1, 2


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
    times: (T,) seconds from the start of the file, rising.
    dense_frames: (D, h, w, 3) likewise, long side ≤ 640; dense_times: (D,).
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

    def __repr__(self) -> str:
        shape = f"{len(self.frames)} frames of {self.size[0]}×{self.size[1]}"
        return f"<Clip {self.name!r}: {shape}, {self.duration:.1f} s>"

    def __post_init__(self) -> None:
        if self.frames.ndim != 4 or self.frames.shape[-1] != 3 or self.frames.dtype != np.uint8:
            raise ValueError(f"frames must be (T, H, W, 3) uint8, got {self.frames.shape}")
        if len(self.frames) != len(self.times):
            raise ValueError(f"{len(self.frames)} frames but {len(self.times)} times")


@dataclass(frozen=True, eq=False)
class ModelFrames:
    """The frames as a backbone reads them: resized by its own rule, 8 bits per channel.

    pixels: (T, h, w, 3) RGB 0-255. times: (T,) seconds. duration: of the clip, seconds.
    content: x0 y0 x1 y1, the pixels of a model frame that show the source frame; what lies outside
    is padding. stretch: how much wider the source appears than it is, 1 where its shape is kept.
    """

    pixels: Pixels
    times: NDArray[np.float64]
    duration: float
    content: tuple[int, int, int, int]
    stretch: float = 1.0

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
class Stroke:
    """A line that was brushed onto a track's mask; it is carried along with the track's box.

    points: (N, 2) in shares of the box, 0 0 its upper left corner; they may lie outside. radius:
    in shares of the frame's short side. erase: takes away from the mask instead of adding to it.
    """

    points: Floats
    radius: float
    erase: bool = False


@dataclass(frozen=True, eq=False)
class Track:
    """One object through the clip, read off at the sampled frames.

    boxes: (T, 4) in [0, 1], NaN where lost. state: (T,) LOST, INTERPOLATED or SEEN.
    confidence: mean score of its sightings. frames_seen: sightings on the dense frames. brush:
    what was drawn by hand on its mask, in order. outlines: T of them in shares of the box, None
    where only the box is known; empty where it always is.
    """

    id: int
    label: str
    confidence: float
    boxes: Floats
    state: NDArray[np.int8]
    frames_seen: int
    brush: tuple[Stroke, ...] = ()
    outlines: tuple[Outline | None, ...] = ()

    def outline(self, frame: int) -> Outline | None:
        """Its outline on a sampled frame, in shares of the box; None: the box itself."""
        return self.outlines[frame] if self.outlines else None


@dataclass(frozen=True, eq=False)
class MaskSet:
    """Soft masks. objects: (K, T, H, W) in [0, 1]; outside: (T, H, W), what no object covers."""

    objects: Floats
    outside: Floats


@dataclass(frozen=True, eq=False)
class AscentStep:
    """One step: strengths before it, and the query loss and its gradient there.

    strength, gradient: (K,) float64; frame_strength, frame_gradient: (G,) float64; loss: nats.
    """

    index: int
    loss: float
    strength: NDArray[np.float64]
    gradient: NDArray[np.float64]
    frame_strength: NDArray[np.float64]
    frame_gradient: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """Where the ascent ended, and the level each strength became.

    strength, margin, level: (K,); frame_*: (G,). margin = strength − r0, signed, unclamped by τ.
    base_loss, loss: query loss given V and given V_d, nats; None until both were prefilled.
    """

    strength: NDArray[np.float64]
    margin: NDArray[np.float64]
    level: NDArray[np.float64]
    frame_strength: NDArray[np.float64]
    frame_margin: NDArray[np.float64]
    frame_level: NDArray[np.float64]
    base_loss: float | None = None
    loss: float | None = None


@dataclass(frozen=True, eq=False)
class OcclusionReport:
    """The measured effect of masking each object alone, with its gradient.

    gradient: (K,) dL/dr at the first ascent step. loss_change: (K,) query loss with only that
    object hidden less that of the video, nats. odds_change: (K,) change of the log-odds of the
    baseline answer as a whole. token_change: (K, A) change of the log probability of each of its
    tokens. correlation: Spearman's, of gradient with loss_change; None below three objects or where
    one of them is constant. verdict: in plain words, whether the gradient's choice is supported.
    """

    gradient: NDArray[np.float64]
    loss_change: NDArray[np.float64]
    odds_change: NDArray[np.float64]
    token_change: NDArray[np.float64]
    correlation: float | None
    verdict: str


EDIT_FIELDS = {
    "level": ("track", "level"),
    "frames": ("track", "level"),
    "drop": ("track",),
    "merge": ("track", "other"),
    "label": ("track", "label"),
    "brush": ("track", "frame", "points", "radius", "erase"),
    "add": ("label", "box"),
}
"""The kinds of changes by hand, and the fields of an `Edit` that each of them uses."""


@dataclass(frozen=True)
class Edit:
    """One change by hand; `core.whatif.edits` reads and checks it.

    level: `track` gets `level`. frames: frame group `track` (counted from 0) gets `level`. drop:
    `track` goes. merge: `other` becomes part of `track`. label: `track` is called `label`. brush:
    `points` (N, 2), in shares of the frame, on frame `frame` of `track`. add: a still object with
    `box`, called `label`. Tracks are named by their id.
    """

    kind: str
    track: int = 0
    other: int = 0
    level: float = 0.0
    label: str = ""
    frame: int = 0
    points: tuple[tuple[float, float], ...] = ()
    radius: float = 0.05
    erase: bool = False
    box: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as `core.whatif.edits.read_edit` takes them."""
        values = {name: getattr(self, name) for name in EDIT_FIELDS[self.kind]}
        lists = {"points": [list(p) for p in self.points], "box": list(self.box)}
        return {"kind": self.kind} | {n: lists.get(n, v) for n, v in values.items()}


CONTROL_NAMES = ("random", "mask-all", "reversed", "blank")
"""Of the views that a `ControlReport` compares with: random masks, and methods' views."""
RANDOM_MASKS = 20
"""Random masks that a `ControlReport` draws."""


@dataclass(frozen=True)
class ControlOutcome:
    """What one control view chooses where MACD's answer leaves the baseline's.

    name: one of CONTROL_NAMES. text: its token's exact text. same: MACD's choice. index: of
    that token; before the report's index where the control leaves MACD's answer earlier.
    """

    name: str
    text: str
    same: bool
    index: int


@dataclass(frozen=True)
class ControlReport:
    """Controls to compare MACD's own masks with.

    index: the first token at which MACD's answer differs from the baseline's, None where they
    agree. Then `same` means that a control agrees with both over the whole answer. macd, baseline:
    the token's text there, of the last token where they agree. outcomes: random masks first.
    constant: the smallest amount which, added to the logit of MACD's token given the video, makes
    it the baseline's choice (0 where they agree). milliseconds: what the report took.
    """

    index: int | None
    macd: str
    baseline: str
    outcomes: tuple[ControlOutcome, ...]
    constant: float
    milliseconds: float

    def random(self) -> tuple[int, int]:
        """Random masks that do the same, and all of them."""
        drawn = [o.same for o in self.outcomes if o.name == "random"]
        return sum(drawn), len(drawn)


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
class TokenStep:
    """One decoded token with its candidates under both views.

    candidates: (C,) token ids, best base logit first; base: (C,) their logits; others: (C,) those
    of each second view; *_log_z: log partition over the whole vocabulary, so that
    p(t) = exp(logit − log_z) is exact; texts: (C,) the candidates' exact text. With one second view
    they hold the winner for any α in [0, 20] and β in [0, 1], with several the choice. floor: every
    token whose base logit is at least this is among them (−inf: all are; inf: not known), so
    probabilities over a head that ends above it are exact, and upper bounds over one that reaches
    below. hidden: (N,) vision tokens that the first second view did not see, None where it hides
    none. weights: how it was scored; None where the answer's α, β and cut say so. repeats: what a
    repetition penalty lowers.
    """

    index: int
    token: int
    text: str
    candidates: Ints
    texts: tuple[str, ...]
    base: Floats
    base_log_z: float
    others: tuple[Floats, ...] = ()
    others_log_z: tuple[float, ...] = ()
    hidden: NDArray[np.bool_] | None = None
    floor: float = -np.inf
    weights: StepWeights | None = None
    repeats: Repeats | None = None


@dataclass(frozen=True, eq=False)
class ShownView:
    """What a second view was. shown: its frames as the model read them, (T, h, w, 3).

    None where it has the pixels of the first view, or none at all.
    """

    view: View
    shown: Pixels | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """One method's answer. finished: the model ended it itself, not the token limit.

    rule: how the views were scored, see core.rules; alpha, beta and head, which logits the cut
    compares, are those of the rule "linear". votes: normalised answer → samples that gave it.
    ms: time that it added to the run, in which the first method to need a shared piece pays for it;
    total_ms: of everything it needs, from the prompt to the answer. memory_mb: peak of the tensors
    alive for it, weights included.
    """

    method: str
    text: str
    tokens: tuple[TokenStep, ...]
    finished: bool
    alpha: float = 0.0
    beta: float = 0.0
    head: str = "probability"
    rule: str = "linear"
    votes: dict[str, int] = field(default_factory=dict)
    second_views: tuple[ShownView, ...] = ()
    ms: float = 0.0
    total_ms: float = 0.0
    memory_mb: float = 0.0


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything computed for one clip and one question; figures and pages only read this.

    frames: (T, H, W, 3), the source frames in their true shape, for display. model_frames: what the
    backbone read, exactly; None before a backbone was asked. groups: the frames of each temporal
    patch. options: what the run was done with, without `edits`, the changes by hand that followed
    in this order. clip, backbone, detector: see core.records; keys that a newer version wrote there
    are their `extra`. timings_ms: by stage.
    status: "complete", or "stopped: STAGE" when the run was cancelled there. shared: how often
    a piece of work served another method. skipped: method → why it does not apply to the question.
    truth: the right answer, empty where it is not known.
    """

    question: str
    frames: Pixels
    times: NDArray[np.float64]
    groups: tuple[tuple[int, ...], ...]
    clip: ClipRecord = NO_CLIP
    backbone: BackboneRecord = NO_BACKBONE
    detector: DetectorRecord = NO_DETECTOR
    options: RunOptions = field(default_factory=RunOptions)
    edits: tuple[Edit, ...] = ()
    model_frames: ModelFrames | None = None
    mask: MaskOptions = field(default_factory=MaskOptions)
    tracks: tuple[Track, ...] = ()
    steps: tuple[AscentStep, ...] = ()
    counterfactual: Counterfactual | None = None
    occlusion: OcclusionReport | None = None
    controls: ControlReport | None = None
    evidence: tuple[Evidence, ...] = ()
    answers: dict[str, Answer] = field(default_factory=dict)
    timings_ms: dict[str, float] = field(default_factory=dict)
    peak_memory_mb: float = 0.0
    warnings: tuple[str, ...] = ()
    seed: int = 0
    shared: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    truth: str = ""
    status: str = "complete"
    versions: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        answers = ", ".join(f"{name}: {answer.text!r}" for name, answer in self.answers.items())
        return f"<Trace {self.clip.name!r} {self.question!r}: {answers or self.status}>"

    @property
    def outside_domain(self) -> bool:
        """Whether the backbone was trained on narrower data and the clip is not of that kind.

        False where the backbone has not been asked yet.
        """
        domain_title = self.backbone.domain_title
        return bool(self.backbone.domain) and self.clip.title != domain_title

    def without_measurements(self) -> Trace:
        """The trace without what was measured on it after the run."""
        return replace(self, occlusion=None, controls=None, evidence=())

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values, docs/json-schema.md: what `show --json` prints."""
        from macd_studio.core.traces.summary import as_json

        return as_json(self)

    def figure(self, name: str, backend: Any = "plotly", **which: Any) -> Any:
        """A figure by its name: "strengths", "logits", "decision", "evidence" or "overview".

        docs/python.md shows each.

        backend: "plotly" for a screen, "matplotlib" for a paper: vector, and told apart in greys.
        which: what of the trace, such as `answer="vcd"` or `token=2`. Raises OptionError for what
        is not in the trace.
        """
        from macd_studio.core.figures import draw

        return draw(self, name, backend, **which)

    def _repr_html_(self) -> str:
        """The viewer in a frame, which a notebook shows for a trace at the end of a cell."""
        from macd_studio.core.notebook import viewer_frame

        return viewer_frame(self)
