"""The flags of an option class of its own, such as `EvidenceOptions`, made of its fields.

Imports no torch.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from macd_studio.core.cli.flags import names_in
from macd_studio.core.validation import Checked, help_of

Options = TypeVar("Options", bound=Checked)


@dataclass(frozen=True)
class ClassFlags(Generic[Options]):
    """A flag for each field of `kind`.

    names: field → its flag, where that is not its name. metavars: field → how its value is written.
    lists: fields whose values are written in one word, separated by commas; other fields of several
    values are flags that may be given again. off: switch that is on → what its flag does, which
    turns it off.
    """

    kind: type[Options]
    names: dict[str, str] = field(default_factory=dict)
    metavars: dict[str, str] = field(default_factory=dict)
    lists: tuple[str, ...] = ()
    off: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[str, str, Any, str]]:
        """Field, flag, default and help of each."""
        for one in fields(cast(Any, self.kind)):
            default: Any = one.default
            off = "no-" if default is True else ""
            name = "--" + off + one.name.replace("_", "-")
            words = self.off[one.name] if off else help_of(one)
            yield one.name, self.names.get(one.name, name), default, words

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Adds them to a command."""
        for name, flag, default, words in self:
            parser.add_argument(flag, dest=name, **self._how(name, default, words))

    def options(self, args: argparse.Namespace) -> Options:
        """The options of a parsed command. Raises OptionError."""
        values = {name: getattr(args, name) for name, *_ in self}
        return self.kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})

    def _how(self, name: str, default: Any, words: str) -> dict[str, Any]:
        kind = get_type_hints(self.kind)[name]
        if kind is bool:
            action = "store_false" if default else "store_true"
            return {"action": action, "default": default, "help": words}
        if get_origin(kind) is tuple:
            metavar = self.metavars.get(name, "NAME")
            if name in self.lists:
                metavar = f"{metavar},…"
                return {"type": names_in, "default": (), "metavar": metavar, "help": words}
            again = f"{words}; may be given again"
            return {"action": "append", "default": [], "metavar": metavar, "help": again}
        how = {"default": default, "help": f"{words} (default: {default})" if default else words}
        if get_origin(kind) is Literal:
            return how | {"choices": get_args(kind)}
        return how | {"type": kind, "metavar": self.metavars.get(name, name.upper())}
