"""The form in which a trace is described: the fields of its classes carry rule and meaning.

A field that is declared with `stored` stands in a trace file. From its rule follow how it is
checked, read and written (`core.traces.codec`), the tables of the documents, the JSON schema and
the TypeScript types (`viewer.types`). So a new field is one line in its class.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import (
    HELP,
    RULE,
    Number,
    Rule,
    Text,
    listed,
    rule_within,
    rules_of,
    shown,
)

NEEDED = "needed"
"""Under this key a field's metadata says whether a file must hold it."""
LARGE = 1e12
"""No time, strength, gradient or logit of a real run comes near it; sums of a few stay finite."""
MAX_NODES, MAX_DEPTH = 200_000, 8
MAX_POINTS, MAX_RINGS = 400, 8
NAME, LINE = Text(200, clean=False), Text(2000, clean=False)
TEXT, PATH = Text(100_000, clean=False), Text(4096, clean=False)
MAX_LOGIT = 1e6
MAX_FRAMES = 4096
FRAME = Number(0, MAX_FRAMES - 1, whole=True)
COUNT, REAL, SHARE = Number(0, 10**9, whole=True), Number(-LARGE, LARGE), Number(0.0, 1.0)
_ANY_NUMBER = Number(-(2.0**63), 2.0**63)
K = TypeVar("K")


def stored(rule: Rule, help: str = "", default: Any = MISSING, *, needed: bool = False) -> Any:
    """A field that stands in a trace file. help: what it holds.

    default: of a trace that is made without it; a class or a function makes one. needed: whether a
    file must hold it even so. A field without a default is always needed.
    """
    metadata = {RULE: rule, HELP: help, NEEDED: needed or default is MISSING}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def described(help: str = "") -> Any:
    """A field without a default that the reader and the writer of files know by name."""
    return field(metadata={HELP: help})


@dataclass(frozen=True, eq=False)
class Stored:
    """Base of the classes that stand in a trace file.

    extra: keys of a file that this version does not know, as plain values; they are written back.
    """

    extra: Mapping[str, Any] = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True)
class Array:
    """Numbers in an array of the file, by axes."""

    axes: str = ""
    """Names of the sizes of its axes, or "*" for any from 1 on; none for one number an object. T
    sampled frames, K tracks, G frame groups, G? the same or 0 without a frame mask, C candidates of
    a token, which lie end to end."""
    least: float = -LARGE
    most: float = LARGE
    """`least` and `most`: the range of the values."""
    whole: bool = False
    """Whether values are integers from 0 on."""
    lost: bool = False
    """Whether values may be NaN or infinite."""
    digits: int | None = None
    """Digits after the point, where it is sent as text."""
    kept: str = "f8"
    """Type of the values in memory, as NumPy names it."""
    longest: int = 2**31
    """Largest size of an axis "*"."""

    def read(self, value: Any, path: str) -> Any:
        """Refuses a value of the manifest: arrays are members of their own."""
        raise OptionError(f"{path} does not belong there", "Leave it out")


@dataclass(frozen=True)
class Row:
    """An object of a class whose fields are `stored`. prefix: of the names of its arrays."""

    kind: type[Any]
    prefix: str = ""

    def read(self, value: Any, path: str) -> Any:
        """The object, of a class without arrays."""
        return build(self.kind, value, path)


@dataclass(frozen=True)
class Rows:
    """Objects of one class.

    prefix: of the names of their arrays; with a number each object has its own, such as
    "answer{}_", else the arrays of all are stacked. by: the field whose value is the key of a dict.
    listed: whether the manifest holds them; without, their arrays say how many they are.
    """

    kind: type[Any]
    most: int
    prefix: str = ""
    least: int = 0
    by: str = ""
    listed: bool = True

    def read(self, value: Any, path: str) -> tuple[Any, ...]:
        """The objects, of a class without arrays."""
        items = enumerate(self.items(value, path))
        return tuple(build(self.kind, v, f"{path}[{i}]") for i, v in items)

    def items(self, value: Any, path: str) -> Sequence[Any]:
        """The plain values of the objects."""
        return listed(value, path, self.least, self.most)


@dataclass(frozen=True)
class Line:
    """Points (N, 2), far from none; digits: after the point, where they are written."""

    digits: int | None = None

    def read(self, value: Any, path: str) -> NDArray[np.float32]:
        """An array of them."""
        points = (
            np.array(value) if isinstance(value, list) and len(value) <= MAX_POINTS else np.zeros(0)
        )
        if points.dtype.kind not in "if" or points.shape[1:] != (2,) or not len(points):
            raise OptionError(f"{path} is not a line", "Give points")
        if not (np.abs(points.astype(np.float64)) < 1000).all():
            raise OptionError(f"{path} lies far outside", "Give other points")
        return points.astype(np.float32)


@dataclass(frozen=True)
class ByName:
    """Values of one kind by a name."""

    each: Rule
    most: int = 64
    name: Rule = NAME

    def read(self, value: Any, path: str) -> dict[str, Any]:
        """A dict of them."""
        entries = as_object(value, path, self.most)
        return {
            self.name.read(n, path): self.each.read(v, f"{path}.{n[:40]}")
            for n, v in entries.items()
        }


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


PLAIN = Plain()


@dataclass(frozen=True)
class Table:
    """An object of plain values by its keys, any of which may be missing."""

    rules: Mapping[str, Rule]

    def read(self, value: Any, path: str) -> dict[str, Any]:
        """A dict with the checked values, in their order."""
        return {
            name: self.rules.get(name, PLAIN).read(v, f"{path}.{name[:40]}")
            for name, v in as_object(value, path).items()
        }


def as_object(value: Any, path: str, most: int = 200) -> dict[str, Any]:
    """The value, which must be an object of no more than `most` keys."""
    if not isinstance(value, dict):
        raise OptionError(f"{path} is {shown(value)}, not an object", "Give an object")
    if len(value) > most:
        raise OptionError(f"{path} holds {len(value)} values", "Give another object")
    return value


def build(
    kind: type[K], value: Any, path: str, skip: frozenset[str] = frozenset(), **made: Any
) -> K:
    """An object of a class from plain values, which are checked, and fields that were made already.

    skip: keys that belong to somebody else. Raises OptionError that names the value by its path.
    """
    row = as_object(value, path)
    prefix = f"{path}." if path else ""
    rules = rules_of(kind)
    for one in fields(kind):  # type: ignore[arg-type]
        name = one.name
        if name in made or name not in rules:
            continue
        if name in row:
            made[name] = rules[name].read(row[name], f"{prefix}{name}")
        elif one.metadata.get(NEEDED):
            raise OptionError(f"{prefix}{name} is missing", "Give it")
    unknown = row.keys() - rules.keys() - skip - made.keys()
    if unknown:
        made["extra"] = {
            n: PLAIN.read(v, f"{prefix}{n[:40]}") for n, v in row.items() if n in unknown
        }
    return kind(**made)


def plain(value: Any, digits: int | None = None) -> Any:
    """JSON values: dataclasses by their stored fields, arrays and tuples as lists."""
    if isinstance(value, np.ndarray):
        rounds = digits is not None and value.dtype.kind == "f"
        return (rounded(value, digits) if rounds else value).tolist()  # type: ignore[arg-type]
    if isinstance(value, tuple | list):
        return [plain(v, digits) for v in value]
    if isinstance(value, float):
        return value if digits is None else round(value, digits)
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {name: plain(v, digits) for name, v in value.items()}
    return as_row(value) if is_dataclass(value) else value


def rounded(values: NDArray[Any], digits: int) -> NDArray[np.float64]:
    """Each value as Python's `round` gives it, at the speed of NumPy."""
    exact = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.abs(exact) * 10.0**digits
        sure = (np.abs(scaled % 1 - 0.5) > 1e-3) & (scaled < 1e9)  # NumPy scales before it rounds
        out = np.round(exact, digits)
    out[~sure] = [round(x, digits) for x in exact[~sure].tolist()]
    return out


def as_row(value: Any, arrays: bool = False, without: Collection[str] = ()) -> dict[str, Any]:
    """The stored fields of an object as JSON values, and what else its file held.

    arrays: whether those that a file holds as arrays are among them. without: fields left out.
    """
    rules = rules_of(value) or {one.name: PLAIN for one in fields(value)}
    row = {
        name: plain(getattr(value, name), getattr(rule_within(rule), "digits", None))
        for name, rule in rules.items()
        if name not in without and (arrays or not isinstance(rule, Array))
    }
    return row | dict(getattr(value, "extra", {}))
