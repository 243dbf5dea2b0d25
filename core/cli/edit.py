"""`macd edit`: changes by hand to a saved trace."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from macd_studio.core.api import check_measurable, open_bench
from macd_studio.core.cli.flags import add_edit_flags, add_model, add_target, tell, weights_of
from macd_studio.core.errors import OptionError
from macd_studio.core.methods import contrast_of
from macd_studio.core.objects.edits import read_edit_flag
from macd_studio.core.objects.registry import check_segmenter
from macd_studio.core.options import ContrastOptions
from macd_studio.core.whatif.edits import read_edits
from macd_studio.core.whatif.redecodable import redecodable

if TYPE_CHECKING:
    from macd_studio.core.records import Edit
    from macd_studio.core.types import Trace
from macd_studio.core.cli.measuring import backbone_of, check_out
from macd_studio.core.traces.bundle import load

EDIT = (
    "Changes a finished trace, in the order of the flags, each of which may be given several times;"
    " then α and β, then --measure. What a change invalidates is computed again."
)


def add_edit(edit: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    edit.add_argument("file", metavar="FILE.macd")
    add_edit_flags(edit)
    edit.add_argument("--alpha", type=float, help="another contrast strength (greedy answers only)")
    edit.add_argument("--beta", type=float, help="another plausibility head (greedy answers only)")
    edit.add_argument(
        "--method",
        default="macd",
        metavar="NAME",
        help="whose α and β those are, of the trace's answers with two views under the linear rule"
        " (default: macd); MACD's answer follows where it shares them",
    )
    edit.add_argument(
        "--measure", action="store_true", help="measure what hiding each object alone does"
    )
    edit.add_argument(
        "--controls", action="store_true", help="compare the masks with random ones and others"
    )
    add_model(edit)
    add_target(edit, "save the changed trace")


def edited(args: argparse.Namespace) -> Trace:
    """The trace with the changes; all that can be refused is refused before a model is loaded."""
    check_out(args.out)
    held = weights_of(args)
    trace = load(args.file)
    backbone = backbone_of(trace, args.backbone)
    check_measurable(trace, backbone, args.device)
    raw_edits = [read_edit_flag(flag, text) for flag, text in args.edits]
    for (flag, _), raw in zip(args.edits, raw_edits, strict=True):
        if flag == "--point":
            raw["segmenter"] = args.segmenter
    edits = read_edits(raw_edits, trace)
    for edit in edits:
        if edit.kind == "point":
            check_segmenter(edit.segmenter)
    contrast = _contrast(args, trace, edits)
    tell(f"  load    {backbone}")
    bench = open_bench(trace, backbone, args.device, held)
    for edit in edits:
        tell(f"  edit    {json.dumps(edit.as_dict())[:200]}")
        *_, last = bench.change(edit)
        if last.message != "complete":
            tell(f"  edit    {last.message}")
    if contrast is not None:
        bench.redecode(contrast.alpha, contrast.beta, args.method)
    if args.measure:
        bench.measure_occlusion()
    if args.controls:
        bench.measure_controls()
    return bench.trace


def _contrast(
    args: argparse.Namespace, trace: Trace, edits: Sequence[Edit]
) -> ContrastOptions | None:
    """The α and β to decode an answer on with; None where neither was named."""
    if args.alpha is None and args.beta is None:
        if args.method != "macd":
            raise OptionError("--method was given without α and β", "Give --alpha or --beta too")
        return None
    method = redecodable(trace, args.method)
    if args.method != "macd" and any(edit.kind != "label" for edit in edits):
        raise OptionError(
            f"changes of masks and levels drop the answer of {args.method}",
            "Leave them out, or leave --method out",
        )
    previous = contrast_of(method.view, trace.options)
    named = {n: v for n in ("alpha", "beta") if (v := getattr(args, n)) is not None}
    return replace(previous, **named)  # raises where one is out of range
