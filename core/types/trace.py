"""The trace: everything computed for one clip and one question."""

# ruff: noqa: RUF009  (`stored` makes fields, as `dataclasses.field` does)
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import (
    COUNT,
    FRAME,
    LARGE,
    LINE,
    NAME,
    REAL,
    TEXT,
    Array,
    ByName,
    Row,
    Rows,
    Stored,
    described,
    stored,
)
from macd_studio.core.embedded import DRAWN
from macd_studio.core.measurements import (
    MAX_ENOUGH,
    MAX_EVIDENCE,
    ChoiceMap,
    ControlReport,
    Enough,
    Evidence,
    OcclusionReport,
)
from macd_studio.core.options import MaskOptions, RunOptions
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
from macd_studio.core.types.answers import MAYBE_THOUGHT, Answer, AscentStep, Counterfactual
from macd_studio.core.types.clips import ModelFrames, Pixels
from macd_studio.core.types.objects import Track
from macd_studio.core.validation import Many, Maybe, Number, Part, Text, rules_of


@dataclass(frozen=True, eq=False)
class Trace(Stored):
    """Everything computed for one clip and one question; figures and pages only read this.

    frames: (T, H, W, 3), the source frames in their true shape, for display. options: what the run
    was done with, without `edits`, the changes by hand that followed in this order.
    unknown_options: those of a newer version, which are kept by their part and name.
    """

    question: str = stored(Text(10_000, clean=False), "the question as asked")
    frames: Pixels = described("the source frames in their true shape")
    times: NDArray[np.float64] = stored(Array("T", digits=5), "seconds")
    groups: tuple[tuple[int, ...], ...] = stored(
        Many(Many(FRAME, 1)), "the frames of each temporal patch, G lists"
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
        Many(TEXT, 0, 1000), "what was repaired, left out, or must be known to read the result",
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
        """Whether it was trained on drawn clips and this is none, or the other way round.

        False before it was asked, and for a model that knows no such limit.
        """
        drawn = self.clip.title == DRAWN
        return bool(self.backbone.domain) and drawn != (self.backbone.domain_title == DRAWN)

    def without_measurements(self) -> Trace:
        """The trace without what was measured on it after the run."""
        return replace(self, occlusion=None, controls=None, choice_map=None, evidence=(), enough=())

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values, docs/json-schema.md: what `show --json` prints."""
        from macd_studio.core.report.summary import as_json

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
        from macd_studio.viewer.notebook import viewer_frame

        return viewer_frame(self)
