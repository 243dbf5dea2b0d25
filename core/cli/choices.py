"""`python -m core choices` and `verdict FILE.macd`: flags, and the runs behind them. No torch."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from macd_studio.core.backbones.weights_options import WeightsOptions
from macd_studio.core.cli.flags import add_model, add_target, print_json, tell
from macd_studio.core.description import as_row
from macd_studio.core.types import Trace
from macd_studio.core.whatif.verdict import as_text, map_as_text

CHOICES = (
    "Masks every subset of the objects at level 1, up to 6 of them, with MACD's frame mask and"
    " without it, and says what MACD's contrast answers then: where MACD's own choice ranks, and"
    " whether any damage does the same."
)
VERDICT = (
    "Whether the choice of masks matters for this answer, with the figures and the rule that say"
    " so, as text to be pasted. Measures what is missing: the choice map and the controls."
)


def add_choices(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds both commands."""
    choices = commands.add_parser(
        "choices", description=CHOICES, help="what every subset of the objects does to the answer"
    )
    verdict = commands.add_parser(
        "verdict", description=VERDICT, help="whether the choice of masks matters, in a few lines"
    )
    for command in (choices, verdict):
        command.add_argument("file", metavar="FILE.macd")
        add_model(command)
        add_target(command, "save the trace with the result in it")
    choices.add_argument("--json", action="store_true", help="print one JSON object")


def run_choices(
    trace: Trace, backbone: str, device: str, held: WeightsOptions, controls: bool
) -> Trace:
    """Loads the model and reads the subsets; progress goes to stderr. controls: compared too."""
    from macd_studio.core.backbones import open_backbone
    from macd_studio.core.whatif.workbench import Workbench

    tell(f"  load    {backbone}")
    bench = Workbench(trace, open_backbone(backbone, device, **asdict(held)))
    if trace.choice_map is None or not controls:
        for event in bench.choice_events():
            if event.stage != "done":
                tell(f"  choices {event.message}")
    if controls and bench.trace.controls is None:
        tell("  masks   random ones and other controls")
        bench.measure_controls()
    return bench.trace


def print_choices(trace: Trace, as_one_object: bool) -> None:
    """The map that was read."""
    assert trace.choice_map is not None
    if as_one_object:
        print_json(as_row(trace.choice_map))
    else:
        print(map_as_text(trace))


def print_verdict(trace: Trace) -> None:
    """The verdict as text."""
    print(as_text(trace))
