"""`python -m core evidence` and `enough FILE.macd`: flags, and the runs behind them. No torch."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from macd_studio.core.backbones.weights_options import WeightsOptions
from macd_studio.core.cli.flags import add_model, add_target, print_json, tell
from macd_studio.core.evidence.options import EnoughOptions, EvidenceOptions
from macd_studio.core.evidence.report import as_json, as_text, enough_as_json, enough_as_text

if TYPE_CHECKING:
    from macd_studio.core.types import Trace

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
    command.add_argument(
        "--token", type=int, default=1, help="the answer's token, counted from 1 (default: 1)"
    )
    command.add_argument(
        "--answer", default="macd", help="macd or baseline: whose token (default: macd)"
    )
    command.add_argument(
        "--against", default="", metavar="TEXT",
        help="the text of another candidate: evidence for the token rather than for that one"
        " (default: the token by itself)",
    )  # fmt: skip
    command.add_argument(
        "--kinds", default="gradient,attention,occlusion", metavar="KIND,…",
        help="gradient, attention, occlusion (by object) and occlusion-grid (by patch)"
        " (default: the first three)",
    )  # fmt: skip
    command.add_argument(
        "--layers", default="", metavar="1-3,8",
        help="layers whose attention is averaged, counted from 1 (default: all)",
    )  # fmt: skip
    command.add_argument(
        "--patches", default="4x4", metavar="ROWSxCOLUMNS",
        help="patches of occlusion-grid (default: 4x4)",
    )  # fmt: skip
    command.add_argument(
        "--knock-out", action="append", default=[], metavar="ID",
        help="an object whose vision tokens the answer cannot attend to; may be given again",
    )  # fmt: skip
    command.add_argument(
        "--knock-out-box", action="append", default=[], metavar="X0,Y0,X1,Y1",
        help="block a region in the same way, in shares of the frame",
    )  # fmt: skip
    command.add_argument(
        "--knock-out-layers", default="", metavar="3-6",
        help="the layers to block, counted from 1 (default: all)",
    )  # fmt: skip
    command.add_argument(
        "--curves", action="store_true",
        help="score each map by insertion and deletion, beside random orders",
    )  # fmt: skip
    command.add_argument("--no-lens", action="store_true", help="leave the layers' read-outs out")
    command.add_argument(
        "--no-sanity", action="store_true", help="no comparison with a head of random weights"
    )
    command.add_argument(
        "--low-memory", action="store_true", help="less memory for more time in the gradient"
    )
    add_model(command)
    add_target(command, "save the trace with the evidence in it")
    command.add_argument("--json", action="store_true", help="print one JSON object")


def evidence_options(args: argparse.Namespace) -> EvidenceOptions:
    """The options of a parsed command. Raises OptionError."""
    return EvidenceOptions(
        token=args.token,
        answer=args.answer,
        against=args.against,
        kinds=tuple(kind.strip() for kind in args.kinds.split(",")),
        layers=args.layers,
        patches=args.patches,
        knock_out=tuple(args.knock_out),
        boxes=tuple(args.knock_out_box),
        knock_out_layers=args.knock_out_layers,
        lens=not args.no_lens,
        curves=args.curves,
        sanity=not args.no_sanity,
        low_memory=args.low_memory,
    )


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
    command.add_argument(
        "--token", type=int, default=1, help="the answer's token, counted from 1 (default: 1)"
    )
    command.add_argument(
        "--same", default="answer", metavar="WHAT",
        help="what must stay: the whole answer, or the token alone (default: answer)",
    )  # fmt: skip
    command.add_argument(
        "--margin", type=float, default=0.0, metavar="LOGITS",
        help="how far the token must lead the best other one where pieces are kept (default: 0)",
    )  # fmt: skip
    command.add_argument(
        "--spans", type=int, default=0, metavar="N",
        help="runs that the frames are cut into (default: as many as leave 8 pieces at most)",
    )  # fmt: skip
    command.add_argument(
        "--box", action="append", default=[], metavar="X0,Y0,X1,Y1",
        help="a region of its own, in shares of the frame; may be given again",
    )  # fmt: skip
    command.add_argument(
        "--keep", action="append", default=[], metavar="PIECE",
        help="also read what the model says given this alone: an object's id, background or box1,"
        " with frames if not all, as in 2:1-4; may be given again",
    )  # fmt: skip
    command.add_argument(
        "--no-search", action="store_true", help="read what --keep names, and look for no set"
    )
    command.add_argument(
        "--budget", type=int, default=512, metavar="VIEWS",
        help="sets of pieces that are read at most (default: 512)",
    )  # fmt: skip
    add_model(command)
    add_target(command, "save the trace with the result in it")
    command.add_argument("--json", action="store_true", help="print one JSON object")


def enough_options(args: argparse.Namespace) -> EnoughOptions:
    """The options of a parsed command. Raises OptionError."""
    return EnoughOptions(
        token=args.token,
        same=args.same,
        margin=args.margin,
        spans=args.spans,
        boxes=tuple(args.box),
        budget=args.budget,
        search=not args.no_search,
        keep=tuple(args.keep),
    )


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
