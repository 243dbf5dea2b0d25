"""What a trace records about its clip, backbone, detector and changes by hand, as plain data.

Any field of a clip, a backbone or a detector may be missing in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Self, TypeVar

from macd_studio.core.description import (
    COUNT,
    LINE,
    NAME,
    PATH,
    PLAIN,
    TEXT,
    Stored,
    as_object,
    stored,
)
from macd_studio.core.options import DetectOptions
from macd_studio.core.validation import Flag, Many, Maybe, Number, rules_of

RECORDED = "recorded"
"""The family of a backbone whose trace another program computed, see `core.recording`."""
PENALTY = Number(0.01, 100)
MAX_THOUGHT = 8300
"""Tokens of a thought: the longest that `DecodeOptions` allows, its marks and blanks."""
_SIDE = Number(1, 2**16, whole=True)
_DETECT = rules_of(DetectOptions)


CAPABILITIES = {
    "gradient": "the loss of its questions cannot be differentiated with respect to its pixels",
    "reuse": "what two views share is computed for each of them",
    "prune": "its vision tokens cannot be left out",
    "attention": "the attention of its layers cannot be read",
    "knock-out": "its layers cannot be kept from a region",
    "lens": "what its layers hold cannot be read out",
    "times": "it is not told when a frame was taken",
    "rows": "it does not give the logit of every token",
    "logits": "it gives log-probabilities, which have lost the zero of the logits",
    "maps": "what a token rests on cannot be mapped",
    "batch": "its views are decoded one after another",
    "images": "a picture is handed to it as a video of one frame",
}
"""What a model may be able to do → what it means where it is not."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Base of the records.

    extra: keys of a trace file that this version does not know, as plain values; they are kept and
    written back. absent: fields that were not recorded; they have their default, and `as_dict`
    leaves them out. So a record that was read from a file is written as it was.
    """

    extra: Mapping[str, Any] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The record of values that have been checked, such as `as_dict` gives; any may be missing.

        >>> ClipRecord.from_dict({"name": "dog.mp4", "codec": "h264"}).as_dict()
        {'name': 'dog.mp4', 'codec': 'h264'}
        """
        names = rules_of(cls).keys()
        own_fields = {
            n: tuple(v) if isinstance(v, list) else v for n, v in values.items() if n in names
        }
        extra = {n: v for n, v in values.items() if n not in names}
        return cls(**own_fields, extra=extra, absent=frozenset(names - own_fields.keys()))

    def as_dict(self) -> dict[str, Any]:
        """What was recorded, as plain values in the order of the fields."""
        values = {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.name not in ("extra", "absent", *self.absent)
        }
        inner = {n: v.as_dict() for n, v in values.items() if isinstance(v, Record)}
        return values | inner | dict(self.extra)


R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class RecordOf(Generic[R]):
    """The rule of an object of the fields of a record, any of which may be missing."""

    kind: type[R]

    def read(self, value: Any, path: str) -> R:
        """The record; keys that it does not know are its `extra`."""
        rules = rules_of(self.kind)
        row = as_object(value, path)
        return self.kind.from_dict(
            {n: rules.get(n, PLAIN).read(v, f"{path}.{n[:40]}") for n, v in row.items()}
        )


@dataclass(frozen=True, kw_only=True)
class ClipRecord(Record):
    """The analysed file."""

    name: str = stored(PATH, "of the file", "")
    sha256: str = stored(NAME, "of the file, or of the frames if there is no file", "")
    duration: float = stored(Number(0.0, 1e9), "seconds", 0.0)
    width: int = stored(_SIDE, "pixels of an upright source frame", 0)
    height: int = stored(_SIDE, "likewise", 0)
    title: str = stored(LINE, "the one that the file carries", "")
    numbers: tuple[int, ...] = stored(
        Many(COUNT, 0, 4096), "of the sampled frames among the file's, counted from 0", ()
    )
    fps: float | None = stored(
        Maybe(Number(0.0, 1e6)), "of the file, its median; null where it is not known", None
    )
    cuts: tuple[float, ...] = stored(
        Many(Number(0.0, 1e9), 0, 4096), "seconds at which hard cuts were found in its frames", ()
    )


@dataclass(frozen=True, kw_only=True)
class AdapterRecord(Record):
    """What was applied over a backbone's weights."""

    name: str = stored(NAME, "of its folder or hub id, without a path", "")
    kind: str = stored(NAME, "such as LORA", "")
    sha256: str = stored(NAME, "over its configuration and its weights", "")


@dataclass(frozen=True, kw_only=True)
class BackboneRecord(Record):
    """The backbone that answered: as `core.backbones.base.BackboneInfo` has it, with the prompt."""

    name: str = stored(PATH, "of its weights", "")
    family: str = stored(NAME, "of the architecture", "")
    parameters: int = stored(Number(0, 10**15, whole=True), "how many weights", 0)
    device: str = stored(NAME, "what it ran on", "")
    dtype: str = stored(NAME, "of its weights", "")
    revision: str = stored(NAME, "of its weights", "")
    domain: str = stored(LINE, "what it was trained on, where that is narrow", "")
    domain_title: str = stored(NAME, "the title of clips of that kind", "")
    resample: str = stored(NAME, "the filter that frames are resized with", "")
    cap_pixels_per_frame: bool | None = stored(
        Maybe(Flag()), "whether each frame is limited; null where the family does not limit", None
    )
    prompt: str = stored(TEXT, "the whole prompt", "")
    pixel_mean: tuple[float, ...] = stored(
        Many(Number(-1e6, 1e6), 0, 16), "RGB in [0, 1], what it reads as zero, if known", ()
    )
    repetition_penalty: float = stored(
        PENALTY, "what lowered the scores of tokens that came before; 1 where nothing did", 1.0
    )
    quantised: str = stored(NAME, "how its weights are packed; missing where they are not", "")
    held_bytes: int = stored(Number(0, 10**15, whole=True), "what packed weights take", 0)
    offloaded: str = stored(LINE, "where its weights lie, if not on the device alone", "")
    weights_hash: str = stored(
        NAME,
        "of its weights: `sha256:` and a hash over every byte of their files, or `sampled:` and one"
        " over headers, spread blocks and a piece of each tensor",
        "",
    )
    adapter: AdapterRecord | None = stored(  # noqa: RUF009 - a field
        Maybe(RecordOf(AdapterRecord)),
        "what was applied over its weights; missing where nothing was",
        None,
    )
    server: str = stored(LINE, "what held the model in another process; missing elsewhere", "")
    log_p_error: float = stored(
        Number(0.0, 1e3),
        "how far each log-probability that the server gave is taken to be off, nats; certificates"
        " rest on it; missing where no server was asked",
        0.0,
    )
    video_log_p_error: float = stored(
        Number(0.0, 1e3),
        "the same of the plain video alone, which no mask covers; missing, or 0, where"
        " `log_p_error` holds of it too",
        0.0,
    )
    device_name: str = stored(LINE, "of the GPU, missing where none was used", "")
    lacks: tuple[str, ...] = stored(
        Many(NAME, 0, 32), "what it cannot do, names of `core.records.CAPABILITIES`", ()
    )

    @property
    def is_recorded(self) -> bool:
        """Whether another program computed the trace, so that no model here can go on from it."""
        return self.family == RECORDED


@dataclass(frozen=True, kw_only=True)
class DetectorRecord(Record):
    """The detector and the `DetectOptions` it was called with."""

    name: str = stored(LINE, "of the detector", "")
    confidence: float = stored(_DETECT["confidence"], "of a detection that starts a track", 0.0)
    low: float = stored(_DETECT["low"], "of a detection that continues one", 0.0)
    image_size: int | None = stored(
        Maybe(_SIDE), "long side that it really saw, pixels; null if it does not say", None
    )
    max_per_frame: int = stored(_DETECT["max_per_frame"], "most detections in a frame", 0)
    classes: tuple[str, ...] = stored(_DETECT["classes"], "what it looked for; empty for all", ())
    prompt: str = stored(_DETECT["prompt"], "what it was asked for, in words", "")
    names: tuple[str, ...] = stored(
        _DETECT["names"], "of its classes, where they were given; empty where it has its own", ()
    )
    frames: int = stored(COUNT, "how many frames it was shown", 0)
    fps: float | None = stored(
        Maybe(Number(0.0, 1e6)), "how dense they were, null for one frame", None
    )
    format: str = stored(NAME, "of a file of tracks, which took the detector's place", "")
    sha256: str = stored(NAME, "of that file", "")
    counting: str = stored(LINE, "which of its frames were taken for the sampled ones", "")
    weights_hash: str = stored(
        NAME, "of the detector's weights, as of the backbone's; missing where it has none", ""
    )

    @property
    def is_file(self) -> bool:
        """Whether objects are those of a file, and no detector was asked."""
        return bool(self.format)


EDIT_FIELDS = {
    "level": ("track", "level"),
    "frames": ("track", "level"),
    "drop": ("track",),
    "merge": ("track", "other"),
    "label": ("track", "label"),
    "brush": ("track", "frame", "points", "radius", "erase"),
    "add": ("label", "box"),
    "point": ("label", "frame", "points", "segmenter"),
}
"""The kinds of changes by hand, and the fields of an `Edit` that each of them uses."""


@dataclass(frozen=True)
class Edit:
    """One change by hand; `core.whatif.edits` reads and checks it.

    level: `track` gets `level`. frames: frame group `track` (counted from 0) gets `level`. drop:
    `track` goes. merge: `other` becomes part of `track`. label: `track` is called `label`. brush:
    `points` (N, 2), in shares of the frame, on frame `frame` of `track`. add: a still object with
    `box`, called `label`. point: the object under `points` on frame `frame`, called `label`, as
    `segmenter` sees and follows it. Tracks are named by their id.
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
    segmenter: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as `core.whatif.edits.read_edit` takes them."""
        values = {name: getattr(self, name) for name in EDIT_FIELDS[self.kind]}
        lists = {"points": [list(p) for p in self.points], "box": list(self.box)}
        return {"kind": self.kind} | {n: lists.get(n, v) for n, v in values.items()}


@dataclass(frozen=True)
class Thought(Stored):
    """What a model wrote before its answer, between its marks for that."""

    text: str = stored(TEXT, "the thought, without its marks")
    tokens: tuple[int, ...] = stored(
        Many(Number(0, 2**31, whole=True), 1, MAX_THOUGHT),
        "ids of its tokens, with the marks and the blanks that follow",
    )
    closed: bool = stored(
        Flag(), "whether the model ended it itself; false where it was cut", True, needed=True
    )


NO_CLIP = ClipRecord.from_dict({})
NO_BACKBONE = BackboneRecord.from_dict({})
NO_DETECTOR = DetectorRecord.from_dict({})
"""Before a clip was read, a backbone or a detector was asked: nothing is recorded."""
