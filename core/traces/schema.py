"""What the plain values of a trace file must be: one table per object, read by `core.validation`.

A reader of traces needs no guard: what `core.traces.bundle.load` gives back obeys these tables.
Keys that a table does not know, as a newer version may write, must be plain and of bounded size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from core.errors import OptionError
from core.options import ContrastOptions, DetectOptions, MaskOptions, RunOptions
from core.traces.format import MAX_FURTHER
from core.validation import Flag, Number, Part, Rule, rule_of, shown

LARGE = 1e12
"""No time, strength, gradient or logit of a real run comes near it; sums of a few stay finite."""
MAX_NODES, MAX_DEPTH = 200_000, 8
FRAMES = 4096


@dataclass(frozen=True)
class Words:
    """At most `longest` characters of any kind: readers show them as text."""

    longest: int
    least: int = 0

    def read(self, value: Any, path: str) -> str:
        """The value."""
        if not isinstance(value, str):
            raise OptionError(f"{path} is {shown(value)}, not a text", "Give a text")
        if not self.least <= len(value) <= self.longest:
            raise OptionError(f"{path} has {len(value)} characters", "Give another text")
        return value


@dataclass(frozen=True)
class Maybe:
    """A value, or null."""

    rule: Rule

    def read(self, value: Any, path: str) -> Any:
        """The value, or None."""
        return None if value is None else self.rule.read(value, path)


@dataclass(frozen=True)
class Many:
    """A list of values of one kind."""

    each: Rule
    least: int = 0
    most: int = FRAMES

    def read(self, value: Any, path: str) -> list[Any]:
        """A list of them."""
        if not isinstance(value, list):
            raise OptionError(f"{path} is {shown(value)}, not a list", "Give a list")
        if not self.least <= len(value) <= self.most:
            raise OptionError(f"{path} holds {len(value)} values", "Give another list")
        return [self.each.read(v, f"{path}[{i}]") for i, v in enumerate(value)]


@dataclass(frozen=True)
class ByName:
    """Values of one kind by a name."""

    each: Rule
    most: int = 64
    name: Rule = Words(200)

    def read(self, value: Any, path: str) -> dict[str, Any]:
        """A dict of them."""
        told = _object(value, path, self.most)
        return {self.name.read(n, path): self.each.read(v, f"{path}.{n[:40]}")
                for n, v in told.items()}  # fmt: skip


@dataclass(frozen=True)
class Table:
    """An object by its keys; those of `needed` must be there."""

    rules: Mapping[str, Rule]
    needed: tuple[str, ...] = ()

    def read(self, value: Any, path: str) -> dict[str, Any]:
        """A dict with the values that are told, unknown ones last."""
        told = _object(value, path, 200)
        for name in self.needed:
            if name not in told:
                raise OptionError(f"{path}.{name} is missing", "Give it")
        return {
            name: self.rules.get(name, PLAIN).read(v, f"{path}.{name[:40]}")
            for name, v in told.items()
        }


class Plain:
    """Any JSON value of bounded size and depth."""

    def read(self, value: Any, path: str) -> Any:
        """The value."""
        waiting, seen = [(value, 0)], 0
        while waiting:
            node, depth = waiting.pop()
            seen += 1
            if isinstance(node, dict | list):
                inner = [*node.keys(), *node.values()] if isinstance(node, dict) else node
                waiting += [(v, depth + 1) for v in inner]
            elif isinstance(node, str):
                _LONG.read(node, path)
            elif node is not None and not isinstance(node, bool):
                _ANY_NUMBER.read(node, path)
            if depth > MAX_DEPTH or seen + len(waiting) > MAX_NODES:
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
_LONG, _ANY_NUMBER = Words(100_000), Number(-(2.0**63), 2.0**63)
NAME, LINE, TEXT = Words(200), Words(2000), Words(100_000)
REAL, SHARE, SPENT = Number(-LARGE, LARGE), Number(0.0, 1.0), Number(-LARGE, LARGE)
INDEX = Number(0, FRAMES - 1, whole=True)
COUNT = Number(0, 10**9, whole=True)
_SIDE = Number(1, 2**16, whole=True)


def _rules_of(kind: Any) -> dict[str, Rule]:
    return {one.name: rule_of(one) for one in fields(kind)}


SEED = _rules_of(RunOptions)["seed"]
CONTRAST = _rules_of(ContrastOptions)
DETECTOR = Table(
    {"name": LINE}
    | _rules_of(DetectOptions)
    | {
        "frames": COUNT,
        "fps": Maybe(Number(0.0, 1e6)),
        "image_size": Maybe(Number(1, 2**16, whole=True)),
    }
)
CLIP = Table(
    {
        "name": Words(4096),
        "sha256": NAME,
        "duration": Number(0.0, 1e9),
        "width": _SIDE,
        "height": _SIDE,
        "title": LINE,
    }
)
BACKBONE = Table(
    {
        "name": Words(4096),
        "family": NAME,
        "parameters": Number(0, 10**15, whole=True),
        "device": NAME,
        "dtype": NAME,
        "revision": NAME,
        "domain": LINE,
        "domain_title": NAME,
        "resample": NAME,
        "cap_pixels_per_frame": Maybe(Flag()),
        "prompt": TEXT,
        "pixel_mean": Many(Number(-1e6, 1e6), 0, 16),
    }
)
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
        "view": VIEW,
        "shown": Flag(),
        "ms": SPENT,
        "total_ms": SPENT,
        "memory_mb": SPENT,
        "two_views": Flag(),
        "tokens": Number(0, 8192, whole=True),
        "further": Many(Table({"view": VIEW, "shown": Flag()}, needed=("view",)), 0, MAX_FURTHER),
    },
    needed=(
        "method", "text", "finished", "alpha", "beta", "head", "rule", "votes", "view", "ms",
        "total_ms",        "memory_mb", "two_views", "tokens",
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
LEDGER = Many(ANYTHING, 2, 2)
MANIFEST = Table(
    {
        "question": Words(10_000),
        "groups": Many(Many(INDEX, 1)),
        "model": Maybe(MODEL),
        "counts": COUNTS,
        "tracks": Many(TRACK, 0, 4096),
        "ledger": Maybe(LEDGER),
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
