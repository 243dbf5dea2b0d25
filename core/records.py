"""What a trace records about its clip, its backbone and its detector, as typed plain data.

The fields carry the rules that `core.traces.schema` checks a trace file by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from macd_studio.core.options import DetectOptions
from macd_studio.core.validation import Flag, Many, Maybe, Number, Words, ruled, rules_of

RECORDED = "recorded"
"""The family of a backbone whose trace another program computed, see `core.recording`."""
NAME, LINE, TEXT = Words(200), Words(2000), Words(100_000)
COUNT = Number(0, 10**9, whole=True)
PENALTY = Number(0.01, 100)
_PATH, _SIDE = Words(4096), Number(1, 2**16, whole=True)
_DETECT = rules_of(DetectOptions)


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
        return {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.name not in ("extra", "absent", *self.absent)
        } | dict(self.extra)


@dataclass(frozen=True, kw_only=True)
class ClipRecord(Record):
    """The analysed file. duration: seconds; width, height: pixels of the upright source frames.

    sha256: of the file, or of the frames where another program gave only those. title: the one that
    the file carries.
    """

    name: str = ruled("", _PATH)
    sha256: str = ruled("", NAME)
    duration: float = ruled(0.0, Number(0.0, 1e9))
    width: int = ruled(0, _SIDE)
    height: int = ruled(0, _SIDE)
    title: str = ruled("", LINE)


@dataclass(frozen=True, kw_only=True)
class BackboneRecord(Record):
    """The backbone that answered: the fields of `core.backbones.base.BackboneInfo`, and the prompt.

    pixel_mean: RGB in [0, 1], what the model reads as zero; empty where it is not known.
    repetition_penalty: what lowered the scores of tokens that came before; 1 where nothing did.
    """

    name: str = ruled("", _PATH)
    family: str = ruled("", NAME)
    parameters: int = ruled(0, Number(0, 10**15, whole=True))
    device: str = ruled("", NAME)
    dtype: str = ruled("", NAME)
    revision: str = ruled("", NAME)
    domain: str = ruled("", LINE)
    domain_title: str = ruled("", NAME)
    resample: str = ruled("", NAME)
    cap_pixels_per_frame: bool | None = ruled(None, Maybe(Flag()))
    prompt: str = ruled("", TEXT)
    pixel_mean: tuple[float, ...] = ruled((), Many(Number(-1e6, 1e6), 0, 16))
    repetition_penalty: float = ruled(1.0, PENALTY)

    @property
    def is_recorded(self) -> bool:
        """Whether another program computed the trace, so that no model here can go on from it."""
        return self.family == RECORDED


@dataclass(frozen=True, kw_only=True)
class DetectorRecord(Record):
    """The detector and the `DetectOptions` it was called with.

    image_size: long side that it really saw, pixels; None if it does not say. frames: how many it
    was shown; fps: how dense they were, None for one frame.
    """

    name: str = ruled("", LINE)
    confidence: float = ruled(0.0, _DETECT["confidence"])
    low: float = ruled(0.0, _DETECT["low"])
    image_size: int | None = ruled(None, Maybe(_SIDE))
    max_per_frame: int = ruled(0, _DETECT["max_per_frame"])
    classes: tuple[str, ...] = ruled((), _DETECT["classes"])
    prompt: str = ruled("", _DETECT["prompt"])
    frames: int = ruled(0, COUNT)
    fps: float | None = ruled(None, Maybe(Number(0.0, 1e6)))


NO_CLIP = ClipRecord.from_dict({})
NO_BACKBONE = BackboneRecord.from_dict({})
NO_DETECTOR = DetectorRecord.from_dict({})
"""Before a clip was read, a backbone or a detector was asked: nothing is recorded."""
