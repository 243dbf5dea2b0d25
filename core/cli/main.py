"""`python -m core` with `trace`, `compare`, `tracks`, `show`, `edit`, `evidence`, `enough`,
`choices`, `verdict`, `render`, `export`, `plan` or `probe`.

Exit codes: 0 done, 2 bad input, 130 interrupted. Progress and errors go to stderr.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from macd_studio.commands import parser as command_line
from macd_studio.commands import pipe_closed
from macd_studio.core.api import COMPARED, check_run, run_video
from macd_studio.core.cli import commands, measuring
from macd_studio.core.cli.flags import (
    FLAGS,
    add_device,
    add_flags,
    add_version,
    options_of,
    print_json,
    tell,
    weights_of,
)
from macd_studio.core.embedded import AUTO
from macd_studio.core.errors import MacdError
from macd_studio.core.methods import METHODS
from macd_studio.core.objects.formats import FORMATS
from macd_studio.core.objects.registry import listed, named
from macd_studio.core.options import RunOptions
from macd_studio.core.rules import RULES
from macd_studio.core.system.process import configure_process
from macd_studio.core.text.words import visible
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.views.table import VIEWS

if TYPE_CHECKING:
    from macd_studio.core.run.state import Event
    from macd_studio.core.types import Trace


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    _write_what_can_be_written()
    configure_process()
    args = _parser().parse_args(argv)
    try:
        if args.command in _WITHOUT_TRACE:
            _WITHOUT_TRACE[args.command](args)
        else:
            readers = {"show": lambda args: load(args.file), "edit": measuring.edited}
            readers |= dict.fromkeys(measuring.COMMANDS, measuring.measured)
            trace = readers.get(args.command, _trace)(args)
            if args.command != "show" and args.out:  # the reader of the pipe may stop early
                save(trace, args.out)
                commands.tell_saved(args.out)
            if args.command in measuring.COMMANDS:
                measuring.print_measured(trace, args)
            else:
                _print(trace, args)
        sys.stdout.flush()
    except MacdError as error:
        if args.verbose:
            traceback.print_exception(error)
        tell(f"error: {visible(str(error))}")
        return 2
    except KeyboardInterrupt:
        tell("\ninterrupted")
        return 130
    except BrokenPipeError:
        return pipe_closed()
    except OSError as error:
        why = f"the summary cannot be written ({error.strerror})"
        tell(f"error: {why}. Free space, or write it elsewhere.")
        # what is left in the buffer cannot be written at the end of the process either
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 2
    return 0


def _write_what_can_be_written() -> None:
    """Writes characters that the terminal cannot show as escapes instead of failing, and nothing
    where a stream was closed before the start.
    """
    # such a stream is None, for which print would take stdout
    sys.stdout = sys.stdout or open(os.devnull, "w")
    sys.stderr = sys.stderr or open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _parser() -> argparse.ArgumentParser:
    parser = command_line("core", __doc__)
    add_version(parser)
    added = parser.add_subparsers(dest="command", required=True)
    usage = "%(prog)s [option …] VIDEO QUESTION"
    trace = added.add_parser("trace", usage=usage, help="run MACD on one clip and one question")
    compare = added.add_parser("compare", usage=usage, help="run several methods on them")
    compare.add_argument(
        "--methods",
        type=lambda names: names.split(","),
        default=list(COMPARED),
        metavar="NAME,…",
        help=f"all, or of {', '.join(METHODS)}; baseline and macd are always among them"
        f" (default: {','.join(COMPARED)}). Or VIEW+RULE, such as vcd+code, of the views"
        f" {', '.join(sorted(VIEWS))} and the rules {', '.join(sorted(RULES))};"
        " VIEW/VIEW+RULE for a rule over two second views, such as vcd/tcd+mean-views",
    )
    for command in (trace, compare):
        _add_run(command)
    commands.add_tracks(added)
    show = added.add_parser("show", help="print the summary of a saved trace")
    show.add_argument("file", metavar="FILE.macd")
    show.add_argument(
        "--again", action="store_true", help="print the command that runs it again instead"
    )
    for command in (trace, compare, show):
        command.add_argument("--json", action="store_true", help="print one JSON object")
    measuring.add_edit(added)
    measuring.add_measuring(added)
    commands.add_render(added)
    commands.add_export(added)
    commands.add_plan(added)
    commands.add_probe(added)
    for command in added.choices.values():
        command.add_argument(
            "--verbose", action="store_true", help="show where an error rose, as Python prints it"
        )
    return parser


_WITHOUT_TRACE = {
    "plan": commands.plan, "probe": commands.probe, "tracks": commands.tracks,
    "export": commands.export, "render": commands.render,
}  # fmt: skip
_READ = [one.title for one in FORMATS.values()]


def _add_run(trace: argparse.ArgumentParser) -> None:
    trace.add_argument("video", metavar="VIDEO")
    trace.add_argument("question", metavar="QUESTION")
    trace.add_argument(
        "--backbone", default=AUTO,
        help="auto: everyday, or toyworld for a drawn clip (default); a folder, a hub id, or a"
        " vLLM server: vllm:http://HOST:PORT[/MODEL]",
    )  # fmt: skip
    trace.add_argument(
        "--detector",
        default=AUTO,
        help=f"auto: yolo11n, or toyworld for a drawn clip (default); {listed()}"
        f" ({' and '.join(named('nothing'))}: regions without a class), a file or folder",
    )
    trace.add_argument(
        "--tracks", metavar="FILE",
        help=f"the clip's objects instead of a detector's: {', '.join(_READ)}"
        " (a file, a folder or a zip); --tracks-fps, --tracks-start and --first-frame say how it"
        " counts frames, --track-source which of its videos is meant",
    )  # fmt: skip
    trace.add_argument(
        "--counterpart", metavar="FILE",
        help="another clip of the same scene, of which another thing is true: contrasted with as"
        " the method pair, beside MACD and random places",
    )  # fmt: skip
    add_device(trace)
    add_flags(trace)
    trace.add_argument("--out", type=Path, metavar="FILE.macd", help="save the trace")


def _trace(args: argparse.Namespace) -> Trace:
    options = options_of(args)
    methods: list[str] = args.methods if args.command == "compare" else []
    _tell_unused(args)
    measuring.check_out(args.out, (args.video, args.tracks, args.counterpart))
    held = weights_of(args)
    check_run(args.question, args.backbone, args.detector, args.device, methods)
    gc.disable()  # until the models are loaded: collecting amid the imports costs half a second
    tell("  video   Reading the video")
    printer = _EventPrinter()
    try:
        return run_video(
            args.video,
            args.question,
            options,
            backbone=args.backbone,
            detector=args.detector,
            device=args.device,
            methods=methods,
            tracks=args.tracks,
            counterpart=args.counterpart,
            held=held,
            on_event=printer.show,
        )
    finally:
        gc.enable()


OF_DETECTIONS = (("track", "min_seen"), ("track", "smoothing"))
"""What is done with a detector's boxes, and not with those of a file."""
OTHER_METHODS = ("vcd", "sid", "tcd", "ssacd", "season", "rules")
"""Parts of the options that only methods beside MACD read."""
_SEARCH, _DRAWN = ("decode", "search"), ("sample", "vote")
COUNTED_WITH: dict[tuple[str, str], tuple[tuple[str, str], tuple[str, ...]]] = {
    ("decode", "temperature"): (_SEARCH, _DRAWN),
    ("decode", "top_p"): (_SEARCH, _DRAWN),
    ("decode", "seed"): (_SEARCH, _DRAWN),
    ("decode", "samples"): (_SEARCH, ("vote",)),
    ("decode", "beams"): (_SEARCH, ("beam",)),
    ("decode", "length_penalty"): (_SEARCH, ("beam",)),
    ("mask", "fill_seed"): (("mask", "fill"), ("noise",)),
    ("ascent", "difference_step"): (("ascent", "gradient"), ("difference",)),
}
"""Option → another option, and the values of that one with which it has an effect."""


def _tell_unused(args: argparse.Namespace) -> None:
    """Names flags that have no effect: how a file of tracks is read without one, what a detector
    looks for where a file stands in for it, other methods' where MACD runs alone, and COUNTED_WITH.
    """
    plain, value = RunOptions(), {(f.part, f.field): getattr(args, f.dest) for f in FLAGS}
    names = {(f.part, f.field): f.name for f in FLAGS}
    for flag in FLAGS:
        if value[flag.part, flag.field] in (None, flag.value(plain)):
            continue
        if args.tracks is None and flag.part == "track" and flag.field.startswith("file_"):
            tell(f"note: {flag.name} has no effect without --tracks")
        found = flag.part == "detect" or (flag.part, flag.field) in OF_DETECTIONS
        if args.tracks is not None and found:
            tell(f"note: {flag.name} has no effect beside --tracks, which replaces the detector")
        if args.command == "trace" and flag.part.partition(".")[0] in OTHER_METHODS:
            tell(f"note: {flag.name} has no effect here: `compare` runs other methods than MACD")
        needed, values = COUNTED_WITH.get((flag.part, flag.field), (None, ()))
        if needed and value[needed] not in values:
            tell(f"note: {flag.name} has no effect without {names[needed]} {' or '.join(values)}")


class _EventPrinter:
    """Prints what changes from event to event, on stderr."""

    def __init__(self) -> None:
        self.last = ""

    def show(self, event: Event) -> None:
        """Prints one event, unless it reads as the one before."""
        if event.stage == "ascent":
            gc.enable()
        loaded = event.fraction if event.stage == "load" and event.fraction < 1 else 0
        if event.stage == "decode":  # an answer grows token by token; the summary has it whole
            event = replace(event, message=event.message.split(":")[0])
        percent = f", {10 * int(10 * loaded)} %" if loaded else ""
        line = f"  {event.stage:<7} {event.message}{percent}"
        if event.stage != "video" and line != self.last:
            tell(line)
        self.last = line


def _print(trace: Trace, args: argparse.Namespace) -> None:
    from macd_studio.core.report import summary

    if args.command == "show" and args.again:
        from macd_studio.core.cli.reproduce import command

        print(visible(command(trace)))
    elif args.json:
        print_json(summary.as_json(trace))
    elif args.command == "compare" or len(trace.answers) > 2:
        print(summary.as_table(trace))
    else:
        print(summary.as_text(trace))
