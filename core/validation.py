"""What a value from outside must be, declared once: a rule per field, and objects of fields.

Options, traces and what programs send carry their rules as metadata of fields. `read` gives the
value as its field keeps it, or raises OptionError that names the value by its path. The rules of
plain values are here; `core.description` adds those of a trace file, such as arrays and rows of
objects. Imports nothing but errors.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol, get_args

from macd_studio.core.errors import OptionError

RULE, HELP, UNIT = "rule", "help", "unit"
"""Under these keys a field's metadata holds its rule, what it does, and its unit."""
MAX_VALUES = 4096
"""Longest list of a `Many` without a limit of its own."""


class Rule(Protocol):
    """How a value is checked."""

    def read(self, value: Any, path: str) -> Any:
        """The value as it is kept; raises OptionError that names `path`."""


def shown(value: Any, longest: int = 40) -> str:
    """A value in a message: short and printable, however large it is.

    >>> shown(1.5), shown("a" * 50), shown([1]), shown(10**400)
    ('1.5', "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'", 'a list', 'a number of about 400 digits')
    """
    if isinstance(value, str):
        return repr(value if len(value) <= longest else f"{value[:longest]}…")
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**18:
        return f"a number of about {round(value.bit_length() * math.log10(2))} digits"
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    kinds = ((Mapping, "an object"), (list | tuple, "a list"))
    return next((name for kind, name in kinds if isinstance(value, kind)), type(value).__name__)


@dataclass(frozen=True)
class Number:
    """A finite number in [low, high]; with `whole` a whole one, which may be written 3.0."""

    low: float
    high: float
    whole: bool = False

    def read(self, value: Any, path: str) -> float | int:
        """An int where the number is whole, a float elsewhere."""
        fits = (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and self.low <= value <= self.high  # false for NaN
            and (not self.whole or value == int(value))
        )
        if not fits:
            kind = "whole number" if self.whole else "number"
            raise OptionError(f"{path} is {shown(value)}", f"Choose a {kind} {self._range()}")
        return int(value) if self.whole else float(value)

    def _range(self) -> str:
        low, high = (f"{x:.10g}" if isinstance(x, float) else str(x) for x in (self.low, self.high))
        return f"from {low} to {high}"


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def read(self, value: Any, path: str) -> bool:
        """The value."""
        if not isinstance(value, bool):
            raise OptionError(f"{path} is {shown(value)}", "Choose true or false")
        return value


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    among: tuple[str, ...]

    def read(self, value: Any, path: str) -> str:
        """The value."""
        if not isinstance(value, str) or value not in self.among:
            raise OptionError(f"{path} is {shown(value)}", f"Choose one of {', '.join(self.among)}")
        return value


@dataclass(frozen=True)
class Text:
    """A text of `least` to `longest` characters.

    clean: without NUL, and such that it can be written as UTF-8. Without, characters are of any
    kind: readers show them as text.
    """

    longest: int
    least: int = 0
    clean: bool = True

    def read(self, value: Any, path: str) -> str:
        """The value."""
        if not isinstance(value, str):
            raise OptionError(f"{path} is {shown(value)}, not a text", "Give a text")
        if not self.least <= len(value) <= self.longest:
            raise OptionError(
                f"{path} has {len(value)} characters",
                f"Give {_between(self.least, self.longest)} characters",
            )
        if self.clean and ("\0" in value or any("\ud800" <= c <= "\udfff" for c in value)):
            raise OptionError(f"{path} holds a character that is not text", "Type it again")
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
    """A list of `least` to `most` values of one kind."""

    each: Rule
    least: int = 0
    most: int = MAX_VALUES

    def read(self, value: Any, path: str) -> tuple[Any, ...]:
        """A tuple of them."""
        items = listed(value, path, self.least, self.most)
        return tuple(self.each.read(v, f"{path}[{i}]") for i, v in enumerate(items))


MOST_LISTED = 100
"""Names that a message lists; a detector may have a thousand classes."""


def check_named(name: Any, among: Collection[str], kind: str) -> None:
    """Raises OptionError where nothing among these has that name. kind: what they are, as "view".

    >>> check_named("b", ("a", "c"), "letter")
    Traceback (most recent call last):
    macd_studio.core.errors.OptionError: there is no letter 'b'. Choose one of a, c.
    """
    if name not in among:
        raise OptionError(
            f"there is no {kind} {shown(name)}",
            f"{_near(name, among)}Choose one of {', '.join([*among][:MOST_LISTED])}"
            + (f" and {len(among) - MOST_LISTED} others" if len(among) > MOST_LISTED else ""),
        )


def _near(name: Any, among: Collection[str]) -> str:
    """The question whether the nearest of these was meant, "" where none is near."""
    text = name[:40] if isinstance(name, str) else ""
    near = difflib.get_close_matches(text, among, n=1, cutoff=0.5)
    return f"Did you mean {near[0]}? " if near else ""


def listed(value: Any, path: str, least: int, most: int) -> Sequence[Any]:
    """The value, which must be a list of so many values."""
    if not isinstance(value, list | tuple):
        raise OptionError(f"{path} is {shown(value)}, not a list", "Give a list")
    if not least <= len(value) <= most:
        raise OptionError(f"{path} holds {len(value)} values", f"Give {_between(least, most)}")
    return value


def _between(least: int, most: int) -> str:
    """How many of something are allowed.

    >>> _between(0, 9), _between(2, 2), _between(1, 9)
    ('at most 9', '2', '1 to 9')
    """
    if least == most:
        return str(most)
    return f"{least} to {most}" if least else f"at most {most}"


@dataclass(frozen=True)
class Part:
    """An object of a class whose fields have rules; missing values are taken from `default`."""

    default: Any

    def read(self, value: Any, path: str) -> Any:
        """An instance of the default's class, from one or from plain values."""
        kind = type(self.default)
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise OptionError(f"{path} is {shown(value)}", "Give an object of options by name")
        rules = rules_of(kind)
        refuse_unknown(value, rules, path)
        prefix = f"{path}." if path else ""
        values = {n: rules[n].read(v, f"{prefix}{n}") for n, v in value.items()}
        return replace(self.default, **values)


def refuse_unknown(values: Mapping[Any, Any], allowed: Collection[str], path: str) -> None:
    """Raises OptionError for the first key that is not known, with the nearest one that is."""
    for key in values:
        if key in allowed:
            continue
        name = key[:40] if isinstance(key, str) else shown(key)
        place = f"{path}.{name}" if path else name
        raise OptionError(
            f"there is no option {place!r}",
            f"{_near(name, allowed)}Choose one of {', '.join(sorted(allowed))}",
        )


def rule_of(one: Field[Any]) -> Rule:
    """The rule of a dataclass field."""
    rule: Rule = one.metadata[RULE]
    return rule


def rule_within(rule: Rule) -> Rule:
    """The rule of a value that may be null, or of the values of a list."""
    while isinstance(rule, Maybe | Many):
        rule = rule.rule if isinstance(rule, Maybe) else rule.each
    return rule


def rules_of(kind: Any) -> dict[str, Rule]:
    """The rules of a dataclass by field, without the fields that have none."""
    return {one.name: rule_of(one) for one in fields(kind) if RULE in one.metadata}


class Checked:
    """Base of dataclasses whose fields have rules: constructing one checks every value."""

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            kept = rule_of(one).read(getattr(self, one.name), one.name)
            object.__setattr__(self, one.name, kept)
        self.check_together()

    def check_together(self) -> None:
        """Raises OptionError where values exclude each other that are sound alone."""


def number(default: float | None, low: float, high: float, help: str = "", unit: str = "") -> Any:
    """A field for a number in [low, high]; None is allowed where it is the default."""
    return _number(default, Number(float(low), float(high)), help, unit)


def whole(default: int | None, low: int, high: int, help: str = "", unit: str = "") -> Any:
    """A field for a whole number in [low, high]; None is allowed where it is the default."""
    return _number(default, Number(low, high, whole=True), help, unit)


def _number(default: float | None, rule: Number, help: str, unit: str) -> Any:
    return _field(default, Maybe(rule) if default is None else rule, help, unit)


def flag(default: bool, help: str = "") -> Any:
    """A field for true or false."""
    return _field(default, Flag(), help)


def choice(default: str, among: Any, help: str = "") -> Any:
    """A field for one of the words of a Literal type."""
    return _field(default, Choice(get_args(among)), help)


def text(default: str, longest: int, help: str = "") -> Any:
    """A field for a text."""
    return _field(default, Text(longest), help)


def texts(most: int, longest: int, help: str = "") -> Any:
    """A field for texts, none by default."""
    return _field((), Many(Text(longest), 0, most), help)


def numbers(most: int, low: float, high: float, help: str = "", unit: str = "") -> Any:
    """A field for numbers in [low, high], none by default."""
    return _field((), Many(Number(float(low), float(high)), 0, most), help, unit)


def part(default: Any) -> Any:
    """A field for an object of the default's class."""
    return _field(default, Part(default))


def help_of(one: Field[Any]) -> str:
    """What an option does, with its unit."""
    unit = one.metadata.get(UNIT)
    return f"{one.metadata.get(HELP, '')}{f', {unit}' if unit else ''}"


def _field(default: Any, rule: Rule, help: str = "", unit: str = "") -> Any:
    return field(default=default, metadata={RULE: rule, HELP: help, UNIT: unit})


def mode_of(path: Path) -> int:
    """The mode of what is there, of `os.stat`; 0 where nothing is.

    Raises OSError where that cannot be told, as for a name that is too long; the questions of
    pathlib answer False there from Python 3.14 on.
    """
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
