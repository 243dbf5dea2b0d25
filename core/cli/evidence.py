"""`python -m core evidence` and `enough FILE.macd`: flags, and the runs behind them. No torch."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from macd_studio.core.backbones.weights_options import WeightsOptions
from macd_studio.core.cli.class_flags import ClassFlags
from macd_studio.core.cli.flags import add_model, add_target, print_json, tell
from macd_studio.core.evidence.options import EnoughOptions, EvidenceOptions
from macd_studio.core.report.evidence import as_json, as_text, enough_as_json, enough_as_text

if TYPE_CHECKING:
    from macd_studio.core.types import Trace

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
        "maps": "no maps: knock-outs and the read-outs alone",
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
DESCRIPTION = (
    "Where the evidence for one token of an answer lies: maps over every frame, under the video and"
    " under the counterfactual; what the answer becomes without an object; and the token's"
    " probability after each layer."
)


def add_evidence(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "evidence", description=DESCRIPTION, help="where a token's evidence lies in the video"
    )
    command.add_argument("file", metavar="FILE.macd")
    EVIDENCE.add(command)
    add_model(command)
    add_target(command, "save the trace with the evidence in it")
    command.add_argument("--json", action="store_true", help="print one JSON object")


def run_evidence(
    trace: Trace, options: EvidenceOptions, backbone: str, device: str, held: WeightsOptions
) -> Trace:
    """Loads the model and measures; progress goes to stderr."""
    from macd_studio.core.backbones import open_backbone
    from macd_studio.core.evidence.run import add_evidence as measure

    tell(f"  load    {backbone}")
    lm = open_backbone(backbone, device, **asdict(held))
    tell(f"  measure {', '.join(options.chosen_kinds)}")
    return measure(trace, lm, options)


def print_evidence(trace: Trace, as_one_object: bool) -> None:
    """The evidence that was measured last."""
    if as_one_object:
        print_json(as_json(trace.evidence[-1], trace))
    else:
        print(as_text(trace.evidence[-1], trace))


ENOUGH = (
    "How little of the video is enough for a token of the model's answer to the video alone: the"
    " smallest set of objects and runs of frames that keeps the answer, and the smallest whose"
    " removal changes it. Up to 8 pieces every set that could be smaller is read, and the result is"
    " certified; above, as far as the budget goes."
)


def add_enough(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "enough", description=ENOUGH, help="how little of the video is enough for a token"
    )
    command.add_argument("file", metavar="FILE.macd")
    SEARCH.add(command)
    add_model(command)
    add_target(command, "save the trace with the result in it")
    command.add_argument("--json", action="store_true", help="print one JSON object")


def run_enough(
    trace: Trace, options: EnoughOptions, backbone: str, device: str, held: WeightsOptions
) -> Trace:
    """Loads the model and searches; progress goes to stderr."""
    from macd_studio.core.backbones import open_backbone
    from macd_studio.core.evidence.enough import enough_events
    from macd_studio.core.whatif.workbench import Workbench

    tell(f"  load    {backbone}")
    bench = Workbench(trace, open_backbone(backbone, device, **asdict(held)))
    for event in enough_events(bench, options):
        if event.stage != "done":
            tell(f"  search  {event.message}")
    return bench.trace


def print_enough(trace: Trace, as_one_object: bool) -> None:
    """What was found last."""
    if as_one_object:
        print_json(enough_as_json(trace.enough[-1], trace))
    else:
        print(enough_as_text(trace.enough[-1], trace))
