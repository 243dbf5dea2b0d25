"""The commands and the Python that run a trace's clip again with the same settings."""

from __future__ import annotations

import shlex
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from pprint import pformat
from typing import Any, get_args

from macd_studio.commands import called
from macd_studio.core.backbones.weights_options import Dtype, WeightsOptions
from macd_studio.core.cli.flags import words
from macd_studio.core.embedded import AUTO, SHIPPED, backbone_for, detector_for
from macd_studio.core.errors import OptionError
from macd_studio.core.objects.edits import edit_words
from macd_studio.core.options import RunOptions, VideoOptions
from macd_studio.core.records import BackboneRecord, DetectorRecord
from macd_studio.core.types import Trace
from macd_studio.core.whatif.edits import check_options


def command(trace: Trace) -> str:
    """The command line that computes the trace, with only the options that are not the default.

    A second command makes the changes by hand and measures the occlusion report and the controls,
    where the trace has them.
    Raises OptionError for a trace that another program computed.
    """
    _check_repeatable(trace)
    further = _further(trace)
    run = [*called("core").split(), "compare" if further else "trace"]
    clip = [_clip(trace), trace.question]
    title = trace.clip.title
    named = _model("--backbone", trace.backbone, backbone_for(AUTO, title))
    backbone = [*named, *_held(trace).words]
    usual = "" if trace.detector.is_file else detector_for(AUTO, title)
    objects = _model("--tracks" if trace.detector.is_file else "--detector", trace.detector, usual)
    flags = [*backbone, *objects, *words(_options(trace))]
    if partner := _partner(trace):
        flags += ["--counterpart", partner]
    if further:
        flags += ["--methods", ",".join(further)]
    edits = [word for edit in trace.edits for word in edit_words(edit)]
    edits += ["--measure"] * (trace.occlusion is not None)
    edits += ["--controls"] * (trace.controls is not None)
    stem = f"./{_stem(trace)}" if _stem(trace).startswith("-") else _stem(trace)
    if edits:
        flags += ["--out", f"{stem}.macd"]
    # after -- argparse takes a word that begins with a dash for what it is
    dashed = any(word.startswith("-") for word in clip)
    line = shlex.join([*run, *flags, "--", *clip] if dashed else [*run, *clip, *flags])
    if not edits:
        return line
    again = [*called("core").split(), "edit", f"{stem}.macd", *backbone, *edits]
    return f"{line} && \\\n{shlex.join([*again, '--out', f'{stem}-edited.macd'])}"


def _model(flag: str, model: BackboneRecord | DetectorRecord, usual: str) -> list[str]:
    return [] if model.name == usual else [flag, model.name]


def _partner(trace: Trace) -> str:
    """The file of the clip's partner; "" where it had none."""
    views = (second.view for a in trace.answers.values() for second in a.second_views)
    return next((str(v.extra["file"]) for v in views if "file" in v.extra), "")


def _held(trace: Trace) -> WeightsOptions:
    """How the weights were held, where loading chose it: other checkpoints are quantised files."""
    chosen = {"nf4": "nf4", "int8": "int8"}.get(trace.backbone.quantised, "as-is")
    model = trace.backbone
    usual = "bfloat16" if model.device == "cuda" and model.name not in SHIPPED else "float32"
    dtype = model.dtype if model.dtype in get_args(Dtype) and model.dtype != usual else "auto"
    return WeightsOptions(chosen, bool(model.offloaded), dtype=dtype)  # type: ignore[arg-type]


def _stem(trace: Trace) -> str:
    return Path(_clip(trace)).stem or "clip"


def snippet(trace: Trace) -> str:
    """Python that computes the trace again, with its changes by hand and its occlusion report.

    Raises OptionError for a trace that another program computed.
    """
    _check_repeatable(trace)
    options = _options(trace)
    names = sorted({"RunOptions", *_classes(options)})
    backbone, detector = trace.backbone.name, trace.detector.name
    further, held = _further(trace), _held(trace)
    how = f", weights={held.weights!r}" if held.weights != "as-is" else ""
    how += ", offload=True" if held.offload else ""
    how += f", dtype={held.dtype!r}" if held.dtype != "auto" else ""
    imported = ["from macd_studio.core.objects.detect import load_detector"]
    made, placed = f"load_detector({detector!r})", list[str]()
    if trace.detector.is_file:
        imported = ["from macd_studio.core.objects.reading import read_tracks"]
        made = repr(detector)
        placed = ["    tracks=lambda clip: read_tracks(detector, clip, options.track),"]
    if partner := _partner(trace):
        imported.append("from macd_studio.core.media.video import read_clip")
        placed.append(f"    counterpart=lambda: read_clip({partner!r}, options.video),")
    lines = [
        "from macd_studio.core.backbones import load_backbone",
        *imported,
        f"from macd_studio.core.options import {', '.join(names)}",
        "from macd_studio.core.run.pipeline import run",
        "",
        f"lm, detector = load_backbone({backbone!r}{how}), {made}",
        f"options = {_expression(options)}",
        "*_, last = run(",
        f"    {_clip(trace)!r},",
        f"    {trace.question!r},",
        "    lambda: lm,",
        "    lambda: detector,",
        "    options,",
        *placed,
        *([f"    methods={further!r},"] if further else []),
        ")",
        "trace = last.trace",
    ]
    edits = [edit.as_dict() for edit in trace.edits]
    measured = {"occlusion": trace.occlusion, "controls": trace.controls}
    calls = [f"bench.measure_{n}()" for n, report in measured.items() if report is not None]
    if edits:
        calls = [
            f"for edit in {pformat(edits, width=90, sort_dicts=False)}:",
            "    *_, last = bench.change(read_edit(edit, bench.trace))",
            *calls,
        ]
    if calls:
        lines += [
            "",
            "from macd_studio.core.whatif.workbench import Workbench, read_edit",
            "",
            "bench = Workbench(trace, lm)",
            *calls,
            "trace = bench.trace",
        ]
    return "\n".join([*lines, 'print(trace.answers["macd"].text)'])


def _check_repeatable(trace: Trace) -> None:
    if trace.backbone.is_recorded:
        raise OptionError(
            "another program computed this trace", "Run that program to compute it again"
        )
    check_options(trace)


def _clip(trace: Trace) -> str:
    return trace.clip.name or "clip.mp4"


def _options(trace: Trace) -> RunOptions:
    """Those of the trace. A bound on files that its clip kept is needed only where it was raised
    above the default: it changes nothing that is computed.
    """
    video, usual = trace.options.video, VideoOptions().max_megabytes
    kept = replace(video, max_megabytes=max(usual, video.max_megabytes))
    return replace(trace.options, video=kept)


def _further(trace: Trace) -> list[str]:
    return [m for m in trace.answers if m not in ("baseline", "macd")]


def _classes(options: Any) -> set[str]:
    """Names of the option classes that `_expression` writes."""
    default = type(options)()
    names: set[str] = set()
    for field in fields(options):
        value = getattr(options, field.name)
        if value != getattr(default, field.name) and is_dataclass(value):
            names |= {type(value).__name__} | _classes(value)
    return names


def _expression(options: Any) -> str:
    default = type(options)()
    changed = []
    for field in fields(options):
        value = getattr(options, field.name)
        if value != getattr(default, field.name):
            changed.append(
                f"{field.name}={_expression(value) if is_dataclass(value) else repr(value)}"
            )
    return f"{type(options).__name__}({', '.join(changed)})"
