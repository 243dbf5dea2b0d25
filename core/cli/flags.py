"""Every option as a flag of the command line: one table, from which three things follow.

The parser's arguments (`add_flags`), the options of a parsed command (`options_of`), and the words
of the command that gives certain options (`words`). Types, choices and defaults are those of the
option classes' fields. Imports no torch.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from core.options import PRESETS, VCD_PRESETS, RunOptions, options_from


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


FLAGS: tuple[Flag, ...] = (
    Flag("--frames", "video", "frames", "frames sampled for the backbone"),
    Flag("--start", "video", "start", "start of the range, seconds"),
    Flag("--end", "video", "end", "end of the range, seconds"),
    Flag("--dense-fps", "video", "dense_fps", "frames a second for the tracker, 0: none"),
    Flag("--dense-limit", "video", "dense_limit", "most frames for the tracker"),
    Flag("--max-megabytes", "video", "max_megabytes", "largest file that is read"),
    Flag("--max-seconds", "video", "max_seconds", "longest range that is read"),
    Flag("--fit", "video", "fit", "native: as the backbone's own processor does, stretching"),
    Flag("--confidence", "detect", "confidence", "what starts a track; weaker continue it"),
    Flag("--low", "detect", "low", "weakest detection that continues a track"),
    Flag("--image-size", "detect", "image_size", "long side the detector sees, pixels"),
    Flag("--max-detections", "detect", "max_per_frame", "most detections of one frame"),
    Flag("--classes", "detect", "classes", "only these labels, as in dog,cup"),
    Flag("--prompt", "detect", "prompt", "what an open-vocabulary detector looks for"),
    Flag("--max-gap", "track", "max_gap", "longest gap that is filled in, seconds"),
    Flag("--min-seen", "track", "min_seen", "fewest sightings of a track after its first"),
    Flag("--smoothing", "track", "smoothing", "width of the smoothing of boxes, seconds"),
    Flag("--max-tracks", "track", "max_tracks", "most tracks that are kept"),
    Flag("--fill", "mask", "fill", "what masked pixels become"),
    Flag("--fill-seed", "mask", "fill_seed", "seed of the noise in masked pixels"),
    Flag("--fusion", "mask", "fusion", "how masks join"),
    Flag("--overlap", "mask", "overlap", "strengths where masks overlap"),
    Flag("--frame-mask", "mask", "frame_mask", "what a frame mask hides"),
    Flag("--mask-shape", "mask", "shape", "outline: where the detector gives one"),
    Flag("--pad", "mask", "pad", "growth of every mask, share of the short side"),
    Flag("--feather", "mask", "feather", "softness of mask edges, share of the short side"),
    Flag("--swept", "mask", "swept", "sweep masks over time"),
    Flag("--steps", "ascent", "steps", "ascent steps"),
    Flag("--eta", "ascent", "eta", "ascent step size"),
    Flag("--r0", "ascent", "r0", "strength at which the ascent starts"),
    Flag("--tau", "ascent", "tau", "dead band around r0"),
    Flag("--levels", "ascent", "levels", "what strengths become"),
    Flag("--frame-fraction", "ascent", "frame_fraction", "largest share of frames that is hidden"),
    Flag("--memory", "ascent", "memory", "low: slower, with fewer activations kept"),
    Flag("--gradient", "ascent", "gradient", "base, half: cheaper approximations"),
    Flag("--alpha", "contrast", "alpha", "contrast strength"),
    Flag("--beta", "contrast", "beta", "plausibility head"),
    Flag("--head", "contrast", "head", "what the head compares; raw: logits"),
    Flag("--search", "decode", "search", "how the answer is searched"),
    Flag("--max-tokens", "decode", "max_tokens", "longest answer"),
    Flag("--temperature", "decode", "temperature", "for sample and vote"),
    Flag("--top-p", "decode", "top_p", "for sample and vote"),
    Flag("--length-penalty", "decode", "length_penalty", "of beam search"),
    Flag("--beams", "decode", "beams", "beam width"),
    Flag("--samples", "decode", "samples", "samples that vote"),
    Flag("--keep", "decode", "keep", "candidates of each token kept in the trace"),
    Flag("--search-seed", "decode", "seed", "seed of sample and vote"),
    Flag("--vcd-step", "vcd", "step", "noise step, of 1000"),
    Flag("--vcd-alpha", "vcd.contrast", "alpha", "VCD's α"),
    Flag("--vcd-beta", "vcd.contrast", "beta", "VCD's β"),
    Flag("--vcd-head", "vcd.contrast", "head", "VCD's head"),
    Flag("--sid-layer", "sid", "layer", "decoder layer that drops vision tokens"),
    Flag("--sid-ratio", "sid", "ratio", "share of vision tokens that stay"),
    Flag("--sid-alpha", "sid.contrast", "alpha", "SID's α"),
    Flag("--sid-beta", "sid.contrast", "beta", "SID's β"),
    Flag("--sid-head", "sid.contrast", "head", "SID's head"),
    Flag("--tcd-keep", "tcd", "keep", "frames in the reference view, default: as published"),
    Flag("--tcd-alpha", "tcd.contrast", "alpha", "TCD's α"),
    Flag("--tcd-beta", "tcd.contrast", "beta", "TCD's β"),
    Flag("--tcd-head", "tcd.contrast", "head", "TCD's head"),
    Flag("--delta", "rules", "delta", "yes-bias: what is added to the logit of yes"),
    Flag("--code-power", "rules", "code_power", "CODE's exponent a"),
    Flag("--only-threshold", "rules", "only_threshold", "ONLY's γ"),
    Flag("--m3id-decay", "rules", "m3id_decay", "M3ID's λ"),
    Flag("--log-lambda", "rules", "log_lambda", "log-linear's λ"),
    Flag("--rule-beta", "rules", "beta", "cut of ONLY, M3ID and log-linear"),
    Flag("--seed", "", "seed", "seed"),
)

GROUPS = {
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
    "rules": "other score rules",
    "": "seed",
}
"""Titles of the parts in the help."""

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
        groups[flag.part.split(".")[0]].add_argument(flag.name, **_how(flag))


def _how(flag: Flag) -> dict[str, Any]:
    """How argparse reads a flag."""
    kind = _kind(flag)
    default = None if _left_open(flag) else flag.value(RunOptions())
    if kind is bool:
        return {"action": "store_true", "help": flag.help}
    shown = _text(default) if default not in (None, (), "") else ""
    shown = _decided_by(flag) or shown
    told: dict[str, Any] = {
        "default": default,
        "help": f"{flag.help} (default: {shown})" if shown else flag.help,
    }
    if get_origin(kind) is Literal:
        return told | {"choices": get_args(kind)}
    if get_origin(kind) is tuple:
        return told | {"type": _names, "metavar": "NAME,…"}
    return told | {"type": kind}


@cache
def _kind(flag: Flag) -> Any:
    """The type of a flag's field, without None."""
    kind = get_type_hints(flag.owner)[flag.field]
    some = [k for k in get_args(kind) if k is not NoneType]
    return some[0] if NoneType in get_args(kind) else kind


def _left_open(flag: Flag) -> bool:
    return flag.part in SET_BY_PRESET or flag.name == "--search-seed"


def _decided_by(flag: Flag) -> str:
    if flag.name == "--search-seed":
        return "that of --seed"
    return f"that of {SET_BY_PRESET[flag.part]}" if flag.part in SET_BY_PRESET else ""


def _names(text: str) -> tuple[str, ...]:
    """Names apart by commas; one that holds a comma is quoted, as in a CSV file.

    >>> _names('dog,"cup, red"')
    ('dog', 'cup, red')
    """
    rows = list(csv.reader(io.StringIO(text, newline="")))
    return tuple(rows[0]) if rows else ()


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
    told = RunOptions(contrast=PRESETS[args.preset], vcd=VCD_PRESETS[args.vcd]).as_dict()
    for flag in FLAGS:
        value = getattr(args, flag.dest)
        if flag.name == "--search-seed" and value is None:
            value = args.seed
        if value is not None:
            owner = told
            for name in filter(None, flag.part.split(".")):
                owner = owner[name]
            owner[flag.field] = value
    return options_from(told)


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
