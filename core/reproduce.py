"""The command and the Python that run a trace's clip again with the same settings."""

from __future__ import annotations

import shlex
from dataclasses import fields, is_dataclass
from pprint import pformat
from typing import Any

from core.options import RunOptions, options_from
from core.types import Trace

FLAGS: dict[str, tuple[str, str]] = {
    "--frames": ("video", "frames"),
    "--start": ("video", "start"),
    "--end": ("video", "end"),
    "--confidence": ("detect", "confidence"),
    "--steps": ("ascent", "steps"),
    "--eta": ("ascent", "eta"),
    "--tau": ("ascent", "tau"),
    "--levels": ("ascent", "levels"),
    "--memory": ("ascent", "memory"),
    "--gradient": ("ascent", "gradient"),
    "--alpha": ("contrast", "alpha"),
    "--beta": ("contrast", "beta"),
    "--fill": ("mask", "fill"),
    "--fusion": ("mask", "fusion"),
    "--frame-mask": ("mask", "frame_mask"),
    "--mask-shape": ("mask", "shape"),
    "--search": ("decode", "search"),
    "--max-tokens": ("decode", "max_tokens"),
    "--temperature": ("decode", "temperature"),
    "--top-p": ("decode", "top_p"),
    "--beams": ("decode", "beams"),
    "--length-penalty": ("decode", "length_penalty"),
    "--samples": ("decode", "samples"),
}


def command(trace: Trace) -> str:
    """The command line, with only what differs from its defaults.

    Options that have no flag, and changes by hand, are told after a #; the snippet has them.
    """
    options, default = options_from(trace.options), RunOptions()
    further = _further(trace)
    words = ["python", "-m", "core", "compare" if further else "trace", _clip(trace)]
    words.append(trace.question)
    for flag, model in (("--backbone", trace.backbone), ("--detector", trace.detector)):
        if model.get("name", "toyworld") != "toyworld":
            words += [flag, str(model["name"])]
    told: dict[str, Any] = {}
    for flag, (part, name) in FLAGS.items():
        value = getattr(getattr(options, part), name)
        if value != getattr(getattr(default, part), name):
            words += [flag, str(value)]
            told.setdefault(part, {})[name] = value
    if options.mask.swept:
        words.append("--swept")
        told.setdefault("mask", {})["swept"] = True
    if options.seed != default.seed:
        words += ["--seed", str(options.seed)]
    if further:
        words += ["--methods", ",".join(further)]
    told["decode"] = told.get("decode", {}) | {"seed": options.seed}
    rest = options_from({**told, "seed": options.seed}) != options
    line = shlex.join(words)
    notes = ["options without a flag"] * rest
    notes += ["changes by hand"] * bool(trace.options.get("edits"))
    return f"{line}  # without: {', '.join(notes)}" if notes else line


def snippet(trace: Trace) -> str:
    """Python that computes the trace again, changes by hand included."""
    options = options_from(trace.options)
    names = sorted({"RunOptions", *_classes(options)})
    backbone = str(trace.backbone.get("name", "toyworld"))
    detector = str(trace.detector.get("name", "toyworld"))
    further = _further(trace)
    lines = [
        "from core.backbones import load_backbone",
        "from core.detect import load_detector",
        f"from core.options import {', '.join(names)}",
        "from core.pipeline import run",
        "",
        f"lm, detector = load_backbone({backbone!r}), load_detector({detector!r})",
        f"options = {_told(options)}",
        "*_, last = run(",
        f"    {_clip(trace)!r},",
        f"    {trace.question!r},",
        "    lambda: lm,",
        "    lambda: detector,",
        "    options,",
        *([f"    methods={further!r},"] if further else []),
        ")",
        "trace = last.trace",
    ]
    if edits := trace.options.get("edits"):
        lines += [
            "",
            "from core.whatif import Workbench, read_edit",
            "",
            "bench = Workbench(trace, lm)",
            f"for edit in {pformat(list(edits), width=90, sort_dicts=False)}:",
            "    *_, last = bench.change(read_edit(edit, bench.trace))",
            "trace = last.trace",
        ]
    return "\n".join([*lines, 'print(trace.answers["macd"].text)'])


def _clip(trace: Trace) -> str:
    return str(trace.clip.get("name", "")) or "clip.mp4"


def _further(trace: Trace) -> list[str]:
    return [m for m in trace.answers if m not in ("baseline", "macd")]


def _classes(options: Any) -> set[str]:
    """Names of the option classes that `_told` writes."""
    default = type(options)()
    found: set[str] = set()
    for field in fields(options):
        value = getattr(options, field.name)
        if value != getattr(default, field.name) and is_dataclass(value):
            found |= {type(value).__name__} | _classes(value)
    return found


def _told(options: Any) -> str:
    default = type(options)()
    changed = []
    for field in fields(options):
        value = getattr(options, field.name)
        if value != getattr(default, field.name):
            changed.append(f"{field.name}={_told(value) if is_dataclass(value) else repr(value)}")
    return f"{type(options).__name__}({', '.join(changed)})"
