"""The objects of a trace ⇄ rows of its manifest and named arrays, by the rules of their fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.description import LARGE, NEEDED, Array, Row, Rows, as_object, build, plain
from macd_studio.core.errors import OptionError, TraceError
from macd_studio.core.traces.archive import DAMAGED
from macd_studio.core.traces.format import Arrays
from macd_studio.core.validation import rule_within, rules_of

Made = dict[str, Any]


@dataclass
class Writer:
    """Turns objects into plain values. arrays: filled. more: what no rule of a class describes."""

    arrays: Arrays
    more: Mapping[type, Callable[[Any, str], Made]] = field(default_factory=dict)

    def row(self, value: Any, prefix: str = "", arrays: bool = True) -> Made:
        """The manifest's row of an object; its arrays are named by the prefix and the field."""
        row: Made = {}
        for name, rule in rules_of(value).items():
            inner, part = rule_within(rule), getattr(value, name)
            if isinstance(inner, Array):
                if arrays:
                    self.arrays[prefix + name] = np.asarray(part)
            elif isinstance(inner, Row):
                row[name] = None if part is None else self.row(part, prefix + inner.prefix)
            elif isinstance(inner, Rows):
                self._rows(name, inner, part, prefix, row)
            else:
                row[name] = plain(part, getattr(inner, "digits", None))
        if type(value) in self.more:
            row |= self.more[type(value)](value, prefix)
        return {**value.extra, **row}

    def _rows(self, name: str, rule: Rows, part: Any, prefix: str, row: Made) -> None:
        values = list(part.values()) if rule.by else list(part)
        each = "{}" in rule.prefix
        rows = [
            self.row(v, prefix + rule.prefix.format(i), arrays=each) for i, v in enumerate(values)
        ]
        if not each:
            self.columns(values, rule.kind, prefix + rule.prefix)
        if rule.listed:
            row[name] = rows

    def columns(self, values: Sequence[Any], kind: type, prefix: str) -> None:
        """The arrays of objects of one class, stacked; those by candidates end to end."""
        for name, rule in rules_of(kind).items() if values else ():
            if isinstance(rule, Array):
                join = np.concatenate if rule.axes == "C" else np.stack
                self.arrays[prefix + name] = join([np.asarray(getattr(v, name)) for v in values])


@dataclass
class Reader:
    """Puts objects together from untrusted rows and arrays; raises OptionError or TraceError.

    sizes: of the axes by name, see `core.description.Array`. more: fields of a class that no rule
    describes, from its row, its path and the prefix of its arrays. skip: keys of its row that those
    are made from.
    """

    arrays: Arrays
    sizes: dict[str, int]
    more: Mapping[type, Callable[[Made, str, str], Made]] = field(default_factory=dict)
    skip: Mapping[type, frozenset[str]] = field(default_factory=dict)

    def row(self, kind: type, value: Any, path: str, prefix: str = "", **made: Any) -> Any:
        """An object of a class."""
        row = as_object(value, path)
        within = f"{path}." if path else ""
        for name, rule in rules_of(kind).items():
            inner = rule_within(rule)
            if name in made:
                continue
            if isinstance(inner, Array):
                if prefix + name in self.arrays or _needed(kind, name):
                    made[name] = self.array(prefix + name, inner)
            elif isinstance(inner, Row) and row.get(name) is not None:
                made[name] = self.row(inner.kind, row[name], within + name, prefix + inner.prefix)
            elif isinstance(inner, Rows) and (name in row or not inner.listed):
                made[name] = self._rows(inner, row.get(name), within + name, prefix)
        if kind in self.more:
            made |= self.more[kind](row, path, prefix)
        return build(kind, row, path, self.skip.get(kind, frozenset()), **made)

    def _rows(self, rule: Rows, value: Any, path: str, prefix: str) -> Any:
        kind, each = rule.kind, "{}" in rule.prefix
        if rule.listed:
            items = rule.items(value, path)
            columns: list[Made] = [{}] * len(items)
            if not each:
                columns = self.columns(kind, prefix + rule.prefix, len(items))
        else:
            stacked = [self.arrays.get(prefix + rule.prefix + name) for name in rules_of(kind)]
            lengths = [len(one) if one.ndim else 0 for one in stacked if one is not None]
            count = min(max(lengths, default=0), rule.most)  # one of another length is refused
            columns = self.columns(kind, prefix + rule.prefix, count)
            columns = [column | {"index": i} for i, column in enumerate(columns)]
            items = [{}] * count
        objects = [
            self.row(kind, item, f"{path}[{i}]", prefix + rule.prefix.format(i), **columns[i])
            for i, item in enumerate(items)
        ]
        if not rule.by:
            return tuple(objects)
        named = {getattr(z, rule.by): z for z in objects}
        if len(named) < len(objects):
            raise OptionError(f"{path} holds two of one {rule.by}", "Give each its own")
        return named

    def columns(self, kind: type, prefix: str, count: int, ends: Any = None) -> list[Made]:
        """The fields of objects of one class that lie in stacked arrays.

        ends: (count,) of their candidates, where they have some.
        """
        columns: list[Made] = [{} for _ in range(count)]
        for name, rule in rules_of(kind).items() if count else ():
            if not isinstance(rule, Array):
                continue
            if prefix + name not in self.arrays and not _needed(kind, name):
                continue
            if rule.axes == "C":
                whole = self.array(prefix + name, rule, size=int(ends[-1]))
                parts = np.split(whole, ends[:-1])
            else:
                parts = self.array(prefix + name, rule, lead=(count,))
                parts = parts.tolist() if not rule.axes else parts
            for column, part in zip(columns, parts, strict=True):
                column[name] = part
        return columns

    def array(self, name: str, rule: Array, lead: tuple[int, ...] = (), size: int = 0) -> Any:
        """An array of the shape, kind and range that the rule says; lead: axes before its own."""
        array = required(self.arrays, name)
        shape = list(lead)
        for i, axis in enumerate(rule.axes.split(), len(lead)):
            there = array.shape[i] if i < array.ndim else -1
            if axis == "G?" and axis not in self.sizes:
                self.sizes[axis] = 0 if there == 0 else self.sizes["G"]
            if axis == "*":
                shape.append(there if 0 < there <= rule.longest else 1)
            elif axis == "C":
                shape.append(size)
            else:
                shape.append(int(axis) if axis.isdigit() else self.sizes[axis])
        checked = shaped(
            self.arrays, name, tuple(shape), whole=rule.whole, lost=rule.lost, most=rule.most
        )
        beyond = (checked < rule.least) | (checked > rule.most)
        if (beyond & np.isfinite(checked)).any():
            raise TraceError(f"{name} in the trace is out of range", DAMAGED)
        return checked.astype(np.int64 if rule.whole and rule.kept == "f8" else rule.kept)


def _needed(kind: type, name: str) -> bool:
    return any(one.metadata[NEEDED] for one in fields(kind) if one.name == name)


def required(arrays: Arrays, name: str) -> NDArray[Any]:
    """The array of that name. Raises TraceError where there is none."""
    if name not in arrays:
        raise TraceError(f"the trace lacks {name}", DAMAGED)
    return arrays[name]


def shaped(
    arrays: Arrays,
    name: str,
    shape: tuple[int, ...],
    *,
    whole: bool = False,
    lost: bool = False,
    most: float = LARGE,
) -> NDArray[Any]:
    """float64, or int64 if whole; within ± most; finite unless `lost` allows others."""
    array = required(arrays, name)
    if array.shape != shape or array.dtype.kind not in ("iu" if whole else "fiu"):
        raise TraceError(
            f"{name} in the trace is {array.dtype} {array.shape}, not {shape}", DAMAGED
        )
    if whole:
        sound = (array >= 0) & (array < 2**31)
    else:
        array = array.astype(np.float64)
        sound = (np.abs(array) <= most) | (lost & ~np.isfinite(array))
    if not sound.all():
        raise TraceError(f"{name} in the trace is not finite, or out of range", DAMAGED)
    return array.astype(np.int64) if whole else array
