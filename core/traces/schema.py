"""What the plain values of a trace file must be: one table per object, read by `core.validation`.

A reader of traces needs no guard: what `core.traces.bundle.load` gives back obeys these tables.
Keys that a table does not know, as a newer version may write, must be plain and of bounded size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from macd_studio.core.errors import OptionError
from macd_studio.core.options import ContrastOptions, MaskOptions, RunOptions
from macd_studio.core.records import (
    COUNT,
    LINE,
    NAME,
    PENALTY,
    TEXT,
    BackboneRecord,
    ClipRecord,
    DetectorRecord,
    Record,
)
from macd_studio.core.traces.format import MAX_SECOND_VIEWS
from macd_studio.core.types import CONTROL_NAMES
from macd_studio.core.validation import (
    Choice,
    Flag,
    Many,
    Maybe,
    Number,
    Part,
    Rule,
    Words,
    rules_of,
    shown,
)

LARGE = 1e12
"""No time, strength, gradient or logit of a real run comes near it; sums of a few stay finite."""
R = TypeVar("R", bound=Record)
MAX_NODES, MAX_DEPTH = 200_000, 8
FRAMES = 4096


@dataclass(frozen=True)
class ByName:
    """Values of one kind by a name."""

    each: Rule
    most: int = 64
    name: Rule = NAME

    def read(self, value: Any, path: str) -> dict[str, Any]:
        """A dict of them."""
        entries = _object(value, path, self.most)
        return {self.name.read(n, path): self.each.read(v, f"{path}.{n[:40]}")
                for n, v in entries.items()}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """An object by its keys; those of `needed` must be there."""

    rules: Mapping[str, Rule]
    needed: tuple[str, ...] = ()

    def read(self, value: Any, path: str) -> dict[str, Any]:
        """A dict with the checked values, in their order."""
        entries = _object(value, path, 200)
        for name in self.needed:
            if name not in entries:
                raise OptionError(f"{path}.{name} is missing", "Give it")
        return {
            name: self.rules.get(name, PLAIN).read(v, f"{path}.{name[:40]}")
            for name, v in entries.items()
        }


@dataclass(frozen=True)
class RecordOf(Generic[R]):
    """An object of the fields of a record, any of which may be missing."""

    kind: type[R]

    def read(self, value: Any, path: str) -> R:
        """The record; keys that it does not know are its `extra`."""
        return self.kind.from_dict(Table(rules_of(self.kind)).read(value, path))


class Plain:
    """Any JSON value of bounded size and depth."""

    def read(self, value: Any, path: str) -> Any:
        """The value."""
        waiting, nodes = [(value, 0)], 0
        while waiting:
            node, depth = waiting.pop()
            nodes += 1
            if isinstance(node, dict | list):
                inner = [*node.keys(), *node.values()] if isinstance(node, dict) else node
                waiting += [(v, depth + 1) for v in inner]
            elif isinstance(node, str):
                TEXT.read(node, path)
            elif node is not None and not isinstance(node, bool):
                _ANY_NUMBER.read(node, path)
            if depth > MAX_DEPTH or nodes + len(waiting) > MAX_NODES:
                raise OptionError(f"{path} holds more than belongs there", "Give less")
        return value


class Anything:
    """What the reader of traces checks in another way, for speed."""

    def read(self, value: Any, path: str) -> Any:
        """The value."""
        return value


def _object(value: Any, path: str, most: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise OptionError(f"{path} is {shown(value)}, not an object", "Give an object")
    if len(value) > most:
        raise OptionError(f"{path} holds {len(value)} values", "Give another object")
    return value


PLAIN, ANYTHING = Plain(), Anything()
_ANY_NUMBER = Number(-(2.0**63), 2.0**63)
REAL, SHARE, SPENT = Number(-LARGE, LARGE), Number(0.0, 1.0), Number(-LARGE, LARGE)
INDEX = Number(0, FRAMES - 1, whole=True)
SEED = rules_of(RunOptions)["seed"]
CONTRAST = rules_of(ContrastOptions)
CLIP, BACKBONE = RecordOf(ClipRecord), RecordOf(BackboneRecord)
DETECTOR = RecordOf(DetectorRecord)
VIEW = Table(
    {
        "kind": NAME,
        "level": Many(REAL),
        "frame_level": Many(REAL),
        "swept": Flag(),
        "frame_mask": NAME,
        "frames": Many(INDEX),
        "over": NAME,
        "scale": REAL,
        "layer": COUNT,
        "ratio": REAL,
        "grid": Many(Number(1, 2**20, whole=True), 3, 3),
        "caption": LINE,
        "boxes": Many(Many(Maybe(Many(REAL, 4, 4)))),
        "random": Table(
            {
                "area_ratio": REAL,
                "scale": REAL,
                "unmoved": Many(COUNT),
                "tries": COUNT,
            }
        ),
    }
)
ANSWER = Table(
    {
        "method": Words(100, 1),
        "text": TEXT,
        "finished": Flag(),
        "alpha": CONTRAST["alpha"],
        "beta": CONTRAST["beta"],
        "head": CONTRAST["head"],
        "rule": Words(100, 1),
        "votes": ByName(Number(0, 10**6, whole=True), 1000, TEXT),
        "second_views": Many(
            Table({"view": VIEW, "shown": Flag()}, needed=("view", "shown")), 0, MAX_SECOND_VIEWS
        ),
        "ms": SPENT,
        "total_ms": SPENT,
        "memory_mb": SPENT,
        "repetition_penalty": PENALTY,
        "tokens": Number(0, 8192, whole=True),
    },
    needed=(
        "method", "text", "finished", "alpha", "beta", "head", "rule", "votes", "second_views",
        "ms", "total_ms", "memory_mb", "tokens",
    ),
)  # fmt: skip
STROKE = Table(
    {"points": ANYTHING, "radius": Number(0.0, 10.0), "erase": Flag()},
    needed=("points", "radius", "erase"),
)
TRACK = Table(
    {
        "id": COUNT,
        "label": NAME,
        "confidence": SHARE,
        "frames_seen": COUNT,
        "brush": Many(STROKE, 0, 200),
        "outlines": ANYTHING,
    },
    needed=("id", "label", "confidence", "frames_seen"),
)
MODEL = Table(
    {
        "content": Many(Number(0, 2**16, whole=True), 4, 4),
        "stretch": Number(1e-3, 1e3),
        "duration": Number(0.0, 1e9),
    },
    needed=("content", "stretch", "duration"),
)
COUNTS = Table(
    dict.fromkeys(("frames", "tracks", "groups"), Number(0, FRAMES, whole=True)),
    needed=("frames", "tracks", "groups"),
)
OCCLUSION = Many(ANYTHING, 2, 2)
OUTCOME = Table(
    {"name": Choice(CONTROL_NAMES), "text": TEXT, "same": Flag(), "index": COUNT},
    needed=("name", "text", "same", "index"),
)
CONTROLS = Table(
    {
        "index": Maybe(COUNT),
        "macd": TEXT,
        "baseline": TEXT,
        "outcomes": Many(OUTCOME, 0, 1000),
        "constant": Number(0.0, LARGE),
        "milliseconds": SPENT,
    },
    needed=("index", "macd", "baseline", "outcomes", "constant", "milliseconds"),
)
MANIFEST = Table(
    {
        "question": Words(10_000),
        "groups": Many(Many(INDEX, 1)),
        "model": Maybe(MODEL),
        "counts": COUNTS,
        "tracks": Many(TRACK, 0, 4096),
        "occlusion": Maybe(OCCLUSION),
        "controls": Maybe(CONTROLS),
        "truth": LINE,
        "answers": Many(ANSWER, 0, 100),
        "pieces": ByName(TEXT, 2**20),
        "losses": Maybe(Many(Maybe(REAL), 2, 2)),
        "clip": CLIP,
        "backbone": BACKBONE,
        "detector": DETECTOR,
        "timings_ms": ByName(SPENT),
        "peak_memory_mb": Number(0.0, LARGE),
        "seed": SEED,
        "shared": ByName(COUNT),
        "skipped": ByName(TEXT, 100),
        "status": NAME,
        "versions": ByName(NAME),
        "warnings": Many(TEXT, 0, 1000),
        "sha256": ByName(NAME, FRAMES),
        "mask": Part(MaskOptions()),
        "options": ANYTHING,
    },
    needed=(
        "question", "groups", "model", "counts", "tracks", "answers", "pieces", "losses", "mask",
        "clip", "backbone", "detector", "options", "timings_ms", "peak_memory_mb", "seed", "shared",
        "skipped",        "status", "versions", "warnings", "sha256",
    ),
)  # fmt: skip
