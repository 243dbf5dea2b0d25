"""The flags of the command line: options, changes by hand, and what several commands share.

Imports no torch.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import Any, Generic, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from macd_studio import __version__
from macd_studio.core.backbones.weights_options import Dtype, Weights, WeightsOptions
from macd_studio.core.objects.edits import FORMS
from macd_studio.core.objects.registry import COLOURS, listed
from macd_studio.core.options import (
    OWN_CONTRAST,
    PRESETS,
    VCD_PRESETS,
    RunOptions,
    options_from,
)
from macd_studio.core.text.words import visible_json
from macd_studio.core.validation import Checked, Part, help_of, rule_of


@dataclass(frozen=True)
class Flag:
    """One option's flag.

    part: where RunOptions keeps the field, "" for a field of its own, "vcd.contrast" for one of
    VCD's contrast. help: what the option does; the default is added to it.
    """

    name: str
    part: str
    field: str
    help: str

    @property
    def dest(self) -> str:
        """Its name among the parsed arguments."""
        return self.name.lstrip("-").replace("-", "_")

    @property
    def owner(self) -> type:
        """The option class that declares the field."""
        kind: type = RunOptions
        for name in filter(None, self.part.split(".")):
            kind = get_type_hints(kind)[name]
        return kind

    def value(self, options: RunOptions) -> Any:
        """The field's value in the given options."""
        owner: Any = options
        for name in filter(None, self.part.split(".")):
            owner = getattr(owner, name)
        return getattr(owner, self.field)


NAMES = {
    ("detect", "max_per_frame"): "--max-detections",
    ("track", "file_fps"): "--tracks-fps",
    ("track", "file_start"): "--tracks-start",
    ("track", "file_first"): "--first-frame",
    ("track", "file_source"): "--track-source",
    ("track", "file_columns"): "--columns",
    ("mask", "shape"): "--mask-shape",
    ("decode", "seed"): "--search-seed",
    ("rules", "beta"): "--rule-beta",
}
"""Flags whose name is not that of their field."""


def _flags(kind: type, path: tuple[str, ...] = ()) -> Iterator[Flag]:
    for one in fields(kind):
        rule = rule_of(one)
        if isinstance(rule, Part):
            yield from _flags(type(rule.default), (*path, one.name))
            continue
        prefix = [path[0]] if path and path[0] in OWN_CONTRAST else []
        usual = "--" + "-".join([*prefix, *one.name.split("_")])
        part = ".".join(path)
        yield Flag(NAMES.get((part, one.name), usual), part, one.name, help_of(one))


def _root(flag: Flag) -> str:
    """The part of RunOptions that its field belongs to; "" for a field of its own."""
    return flag.part.split(".")[0]


FLAGS: tuple[Flag, ...] = tuple(_flags(RunOptions))
"""A flag for every option, in the order of the classes."""

_TITLES = {
    "video": "reading the video",
    "detect": "detection",
    "track": "tracking",
    "mask": "masks",
    "ascent": "gradient ascent",
    "contrast": "contrast",
    "decode": "decoding",
    "vcd": "VCD",
    "sid": "SID",
    "tcd": "TCD",
    "ssacd": "SSACD",
    "season": "SEASON",
    "rules": "other score rules",
}
GROUPS = {
    **{part: _TITLES.get(part, part) for part in dict.fromkeys(_root(f) for f in FLAGS) if part},
    "": "seed",
}
"""Titles of the parts in the help; that of a part without one is its name."""

SET_BY_PRESET = {"contrast": "--preset", "vcd": "--vcd", "vcd.contrast": "--vcd"}
"""Parts whose defaults come from a preset; their flags override it."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds a flag for every option, and the presets.

    The parsed value of a flag that was not given is the field's default, or None where a preset or
    another flag decides it.
    """
    groups = {part: parser.add_argument_group(title) for part, title in GROUPS.items()}
    groups["contrast"].add_argument(
        "--preset",
        choices=tuple(PRESETS),
        default="toyworld",
        help="α and β: the paper's by benchmark, or our own (default: toyworld)",
    )
    groups["vcd"].add_argument(
        "--vcd",
        choices=tuple(VCD_PRESETS),
        default="code",
        help="which of VCD's published defaults (default: code)",
    )
    for flag in FLAGS:
        groups[_root(flag)].add_argument(flag.name, **_how(flag))


def add_some_flags(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Adds the flags of some options, None where they were not given; see `some_options`."""
    for flag in FLAGS:
        if flag.name in names:
            parser.add_argument(flag.name, **_how(flag) | {"default": None})


def some_options(args: argparse.Namespace, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What was given of these flags, by part of `RunOptions`; raises OptionError."""
    found: dict[str, dict[str, Any]] = {}
    for flag in FLAGS:
        if flag.name in names and (value := getattr(args, flag.dest)) is not None:
            found.setdefault(flag.part, {})[flag.field] = value
    options_from(found)
    return found


def _how(flag: Flag) -> dict[str, Any]:
    """How argparse reads a flag."""
    kind = _kind(flag)
    decided_by = _decided_by(flag)
    default = None if decided_by else flag.value(RunOptions())
    if kind is bool:
        return {"action": "store_true", "help": flag.help}
    default_text = _text(default) if default not in (None, (), "") else ""
    default_text = decided_by or default_text
    keywords: dict[str, Any] = {
        "default": default,
        "help": f"{flag.help} (default: {default_text})" if default_text else flag.help,
    }
    if get_origin(kind) is Literal:
        return keywords | {"choices": get_args(kind)}
    if get_origin(kind) is tuple and float in get_args(kind):
        return keywords | {"type": _numbers, "metavar": "NUMBER,…"}
    if get_origin(kind) is tuple:
        return keywords | {"type": names_in, "metavar": "NAME,…"}
    return keywords | {"type": kind}


@cache
def _kind(flag: Flag) -> Any:
    """The type of a flag's field, without None."""
    kind = get_type_hints(flag.owner)[flag.field]
    some = [k for k in get_args(kind) if k is not NoneType]
    return some[0] if NoneType in get_args(kind) else kind


def _decided_by(flag: Flag) -> str:
    """What gives the value of a flag that was not given; "" where it has a default."""
    if flag.name == "--search-seed":
        return "that of --seed"
    return f"that of {SET_BY_PRESET[flag.part]}" if flag.part in SET_BY_PRESET else ""


def names_in(text: str) -> tuple[str, ...]:
    """Names separated by commas; one that holds a comma is quoted, as in a CSV file.

    >>> names_in('dog,"cup, red"')
    ('dog', 'cup, red')
    """
    rows = list(csv.reader(io.StringIO(text, newline="")))
    return tuple(rows[0]) if rows else ()


def _numbers(text: str) -> tuple[float, ...]:
    """Numbers separated by commas.

    >>> _numbers("0.5,2")
    (0.5, 2.0)
    """
    return tuple(float(part) for part in text.split(",") if part.strip())


def _text(value: Any) -> str:
    """A value as its flag takes it."""
    if isinstance(value, tuple):
        row = io.StringIO(newline="")
        csv.writer(row).writerow(value)
        return row.getvalue().removesuffix("\r\n")
    return str(value)


def options_of(args: argparse.Namespace) -> RunOptions:
    """The options of a parsed command. Raises OptionError where one is out of its range."""
    RunOptions(seed=args.seed)  # before it is taken for the search's own
    values = RunOptions(contrast=PRESETS[args.preset], vcd=VCD_PRESETS[args.vcd]).as_dict()
    for flag in FLAGS:
        value = getattr(args, flag.dest)
        if flag.name == "--search-seed" and value is None:
            value = args.seed
        if value is not None:
            owner = values
            for name in filter(None, flag.part.split(".")):
                owner = owner[name]
            owner[flag.field] = value
    return options_from(values)


def words(options: RunOptions) -> Iterator[str]:
    """The flags that give these options, only those that differ from the defaults."""
    plain = RunOptions()
    for flag in FLAGS:
        value = flag.value(options)
        usual = options.seed if flag.name == "--search-seed" else flag.value(plain)
        if value == usual:
            continue
        if value is True:
            yield flag.name
        else:
            yield from _pair(flag.name, _text(value))


def _pair(name: str, text: str) -> Iterator[str]:
    """A flag and its value: one word where argparse would take the value for another flag."""
    if text.startswith("-"):
        yield f"{name}={text}"
    else:
        yield from (name, text)


def add_edit_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags; the parsed `edits` are pairs of flag and text in the order they came in.

    segmenter: what sees and follows the objects of --point.
    """
    for flag, (form, text, _) in FORMS.items():
        parser.add_argument(
            flag,
            dest="edits",
            action="append",
            type=partial(lambda name, text: (name, text), flag),
            metavar=form,
            default=[],
            help=text,
        )
    parser.add_argument(
        "--segmenter",
        default=COLOURS,
        metavar="NAME",
        help=f"sees and follows the objects of --point: {listed(segmenters=True)}, a folder or a"
        " hub id (default: %(default)s, which needs no weights)",
    )


def add_version(parser: argparse.ArgumentParser) -> None:
    """--version: prints the version of the project and ends."""
    parser.add_argument("--version", action="version", version=f"macd-studio {__version__}")


def add_model(command: argparse.ArgumentParser) -> None:
    """The flags of a command that loads what made the trace."""
    command.add_argument(
        "--backbone", help="what made the trace; must be named unless it is the embedded one"
    )
    add_device(command)


def add_device(command: argparse.ArgumentParser) -> None:
    """Where models are put, and how a backbone's weights are held."""
    command.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    add_weights(command)
    hashed = next(f for f in fields(WeightsOptions) if f.name == "hash_weights")
    command.add_argument("--hash-weights", action="store_true", help=help_of(hashed))


def add_weights(command: argparse.ArgumentParser) -> None:
    """How a backbone's weights are held; see `weights_of`."""
    rules = {f.name: f for f in fields(WeightsOptions)}
    command.add_argument(
        "--weights",
        default="as-is",
        choices=get_args(Weights),
        help=f"{help_of(rules['weights'])} (default: as-is)",
    )
    command.add_argument("--offload", action="store_true", help=help_of(rules["offload"]))
    command.add_argument(
        "--dtype",
        default="auto",
        choices=get_args(Dtype),
        help=f"{help_of(rules['dtype'])} (default: auto, bfloat16 on a GPU, float32 on a CPU)",
    )


def weights_of(args: argparse.Namespace) -> WeightsOptions:
    """How a parsed command has weights held. Raises OptionError for what excludes each other."""
    hashed = getattr(args, "hash_weights", False)
    return WeightsOptions(args.weights, args.offload, hashed, args.dtype)


def add_target(command: argparse.ArgumentParser, text: str) -> None:
    """--out of a command that makes a new trace of a saved one."""
    command.add_argument("--out", type=Path, metavar="NEW.macd", help=text)


def tell(line: str) -> None:
    """Prints a line on stderr. Where nobody reads it any more the work continues."""
    try:
        print(line, file=sys.stderr, flush=True)
    except BrokenPipeError:  # what is left in the buffer cannot be written at the end either
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def print_json(value: Any) -> None:
    """One JSON object, in ASCII where the output knows nothing else."""
    wide = (sys.stdout.encoding or "").lower().startswith("utf")
    print(visible_json(json.dumps(value, ensure_ascii=not wide, allow_nan=False)))


Options = TypeVar("Options", bound=Checked)


@dataclass(frozen=True)
class ClassFlags(Generic[Options]):
    """A flag for each field of an option class of its own, such as `EvidenceOptions`.

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
