"""Commands that read a saved trace again with its model: `edit`, `evidence`, `enough`, `choices`,
`verdict`. Imports no torch.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from macd_studio.core.api import check_measurable, open_workbench
from macd_studio.core.cli.flags import (
    ClassFlags,
    add_edit_flags,
    add_model,
    add_target,
    print_json,
    tell,
    weights_of,
)
from macd_studio.core.description import as_row
from macd_studio.core.embedded import SHIPPED
from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.options import EnoughOptions, EvidenceOptions
from macd_studio.core.methods import contrast_of
from macd_studio.core.objects.edits import read_edit_flag
from macd_studio.core.objects.registry import check_segmenter
from macd_studio.core.options import ContrastOptions
from macd_studio.core.report.evidence import as_json, as_text, enough_as_json, enough_as_text
from macd_studio.core.traces.bundle import check_target, load
from macd_studio.core.types import Trace
from macd_studio.core.validation import shown
from macd_studio.core.whatif.edits import check_changeable, read_edits, redecodable
from macd_studio.core.whatif.verdict import as_text as verdict_as_text
from macd_studio.core.whatif.verdict import check_choices, map_as_text, verdict_of

if TYPE_CHECKING:
    from macd_studio.core.records import Edit
    from macd_studio.core.whatif.workbench import Workbench

EVIDENCE = ClassFlags(
    EvidenceOptions,
    names={"boxes": "--knock-out-box"},
    metavars={
        "token": "N", "against": "TEXT", "kinds": "KIND", "layers": "1-3,8", "knock_out": "ID",
        "patches": "ROWSxCOLUMNS", "boxes": "X0,Y0,X1,Y1", "knock_out_layers": "3-6",
    },
    lists=("kinds",),
    off={
        "lens": "no read-outs of the token after each layer",
        "sanity": "no comparison of maps with those of a head of random weights",
        "maps": "no further maps: knock-outs and read-outs of a token whose maps the trace holds",
    },
)  # fmt: skip
"""The flags of `evidence`."""
SEARCH = ClassFlags(
    EnoughOptions,
    names={"boxes": "--box"},
    metavars={
        "token": "N", "margin": "LOGITS", "spans": "N", "boxes": "X0,Y0,X1,Y1", "budget": "VIEWS",
        "keep": "PIECE",
    },
    off={"search": "read what --keep names, and look for no set"},
)  # fmt: skip
"""The flags of `enough`."""
COMMANDS = {
    "evidence": (
        "where a token's evidence lies in the video",
        "Where the evidence for one token of an answer lies: maps over every frame, under the video"
        " and under the counterfactual; what the answer becomes without an object; and the token's"
        " probability after each layer.",
    ),
    "enough": (
        "how little of the video is enough for a token",
        "How little of the video is enough for a token of the model's answer to the video alone:"
        " the smallest set of objects and runs of frames that keeps the answer, and the smallest"
        " whose removal changes it. Up to 8 pieces every set that could be smaller is read, and the"
        " result is certified; above, as far as the budget goes.",
    ),
    "choices": (
        "what every subset of the objects does to the answer",
        "Masks every subset of the objects at level 1, up to 6 of them, with MACD's frame mask and"
        " without it, and says what MACD's contrast answers then: where MACD's own choice ranks,"
        " and whether any damage does the same.",
    ),
    "verdict": (
        "whether the choice of masks matters, in a few lines",
        "Whether the choice of masks matters for this answer, with the figures and the rule that"
        " say so, as text to be pasted. Measures what is missing: the choice map and the controls.",
    ),
}
"""Command → what it says in a line, and at length."""


def add_measuring(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the commands that measure."""
    for name, (line, description) in COMMANDS.items():
        command = commands.add_parser(name, description=description, help=line)
        command.add_argument("file", metavar="FILE.macd")
        if name in ("evidence", "enough"):
            (EVIDENCE if name == "evidence" else SEARCH).add(command)
        add_model(command)
        add_target(command, "save the trace with the result in it")
        if name != "verdict":
            command.add_argument("--json", action="store_true", help="print one JSON object")


def measured(args: argparse.Namespace) -> Trace:
    """The trace with what the command measures; progress goes to stderr.

    What can be refused is refused before a model is loaded, and a verdict measures only what is
    missing.
    """
    check_out(args.out)
    held, name = weights_of(args), args.command
    options: EvidenceOptions | EnoughOptions | None = None
    if name in ("evidence", "enough"):
        options = (EVIDENCE if name == "evidence" else SEARCH).options(args)
    trace = load(args.file)
    if name == "verdict" and (
        (trace.choice_map and trace.controls) or not verdict_of(trace).missing
    ):
        return trace
    check_changeable(trace)  # before a backbone is asked for that could not help
    if options is not None:
        options.check_of(trace)
    else:
        check_choices(trace)
    backbone = backbone_of(trace, args.backbone)
    check_measurable(trace, backbone, args.device)
    tell(f"  load    {backbone}")
    bench = open_workbench(trace, backbone, args.device, held)
    _measure(bench, name, options)
    return bench.trace


def _measure(bench: Workbench, name: str, options: EvidenceOptions | EnoughOptions | None) -> None:
    from macd_studio.core.evidence.enough import enough_events
    from macd_studio.core.evidence.run import evidence_events

    if isinstance(options, EvidenceOptions):
        tell(f"  measure {', '.join(options.chosen_kinds)}")
        for _ in evidence_events(bench, options):
            pass
        return
    if isinstance(options, EnoughOptions):
        events, verb = enough_events(bench, options), "search "
    else:
        events, verb = bench.choice_events(), "choices"
    if name != "verdict" or bench.trace.choice_map is None:
        for event in events:
            if event.stage != "done":
                tell(f"  {verb} {event.message}")
    if name == "verdict" and bench.trace.controls is None:
        tell("  masks   random ones and other controls")
        bench.measure_controls()


def print_measured(trace: Trace, args: argparse.Namespace) -> None:
    """What was measured last, as text or as one JSON object."""
    if args.command == "verdict":
        print(verdict_as_text(trace))
    elif args.command == "choices":
        assert trace.choice_map is not None
        print_json(as_row(trace.choice_map)) if args.json else print(map_as_text(trace))
    elif args.command == "enough":
        last = trace.enough[-1]
        print_json(enough_as_json(last, trace)) if args.json else print(enough_as_text(last, trace))
    else:
        one = trace.evidence[-1]
        print_json(as_json(one, trace)) if args.json else print(as_text(one, trace))


def backbone_of(trace: Trace, named: str | None) -> str:
    """What to load. A file is not trusted to name anything but what ships."""
    made_by = trace.backbone.name
    if named is None and made_by not in SHIPPED:
        raise OptionError(
            f"this trace was made by {shown(made_by)}, which a file cannot have loaded",
            f"Name it yourself: --backbone {shlex.quote(made_by[:200])}",
        )
    if named is not None and made_by in SHIPPED and named != made_by:
        raise OptionError(
            f"this trace was made by the embedded backbone {made_by}, not by {named!r}",
            "Leave --backbone out",
        )
    return named or made_by


def check_out(
    out: Path | None, reads: Sequence[str | None] = (), suffixes: tuple[str, ...] = (".macd",)
) -> None:
    """Raises where `--out` cannot be written, before anything is computed.

    reads: files that the command reads and must not replace. suffixes: see `check_target`.
    """
    if out is None:
        return
    for read in filter(None, reads):
        with suppress(OSError):  # what is not there is told by what reads it
            if out.samefile(read):
                raise OptionError(
                    f"--out {shown(str(out), 200)} is a file that this command reads",
                    "Choose another name: it would be lost",
                )
    check_target(out, suffixes)


def add_edit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command `edit`."""
    edit = commands.add_parser(
        "edit",
        description="Changes a finished trace, in the order of the flags, each of which may be"
        " given several times; then α and β, then --measure. What a change invalidates is computed"
        " again.",
        help="change a saved trace by hand, and answer again",
    )
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
    edit.add_argument("--json", action="store_true", help="print one JSON object")


def edited(args: argparse.Namespace) -> Trace:
    """The trace with the changes; all that can be refused is refused before a model is loaded."""
    check_out(args.out)
    held = weights_of(args)
    trace = load(args.file)
    check_changeable(trace)
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
    bench = open_workbench(trace, backbone, args.device, held)
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
    if gone := [name for name in trace.answers if name not in bench.trace.answers]:
        tell(f"  edit    left out, as the changes affect them: {', '.join(gone)}")
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
    if (
        args.method != "macd"
        and method.needs_objects
        and any(edit.kind != "label" for edit in edits)
    ):
        raise OptionError(
            f"changes of masks and levels drop the answer of {args.method}",
            "Leave them out, or leave --method out",
        )
    previous = contrast_of(method.view, trace.options)
    named = {n: v for n in ("alpha", "beta") if (v := getattr(args, n)) is not None}
    return replace(previous, **named)  # raises where one is out of range
