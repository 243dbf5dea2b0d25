"""Commands that neither run nor measure: `tracks`, `render`, `export`, `plan` and `probe`.

What needs torch or a video library is imported when its command runs.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from macd_studio.core.backbones.remote_address import read_address
from macd_studio.core.cli.flags import FLAGS, add_some_flags, print_json, some_options, tell
from macd_studio.core.cli.measuring import check_out
from macd_studio.core.embedded import EMBEDDED
from macd_studio.core.errors import OptionError
from macd_studio.core.measurements import VIEWS
from macd_studio.core.objects.formats import WRITERS
from macd_studio.core.options import PlanOptions, RunOptions, VideoOptions, options_from
from macd_studio.core.report.export import What, export_tracks
from macd_studio.core.text.words import count
from macd_studio.core.traces.bundle import load

if TYPE_CHECKING:
    from macd_studio.core.figures.drawing import Shots
    from macd_studio.core.types import Trace

NAMES = [
    flag.name
    for flag in FLAGS
    if flag.part == "track" and flag.field.startswith(("file_", "max_tracks"))
] + ["--frames", "--start", "--end", "--max-seconds", "--max-megabytes"]


EXPORTED = (".json", ".xml", ".zip")
"""Endings of files that an export may replace."""


def add_tracks(commands: Any) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "tracks", help="see the objects of a file on their clip, before a run",
        description="Reads a file of tracks or masks as `trace --tracks` does, says how, and draws"
        " three frames with its objects: a wrong rate or first frame is seen at once.",
    )  # fmt: skip
    command.add_argument("video", metavar="CLIP")
    command.add_argument("tracks", metavar="FILE")
    command.add_argument("--out", type=Path, metavar="SHEET.png", help="where the frames go")
    add_some_flags(command, NAMES)
    command.add_argument("--json", action="store_true", help="print one JSON object")


def tracks(args: argparse.Namespace) -> None:
    """Prints what was read, and writes the sheet."""
    check_out(args.out, (args.video, args.tracks), (".png",))
    options = options_from(some_options(args, NAMES))
    from macd_studio.core.figures.tracks import CHOICES, lines_of, sheet
    from macd_studio.core.media.video import read_clip
    from macd_studio.core.objects.reading import check_there, read_tracks

    check_there(args.tracks)
    clip = read_clip(args.video, options.video)
    found = read_tracks(args.tracks, clip, options.track)
    if args.json:
        rows = [
            {"id": t.id, "label": t.label, "confidence": t.confidence, "state": t.state.tolist(),
             "boxes": [b.tolist() if b[0] == b[0] else None for b in t.boxes]}
            for t in found.tracks
        ]  # fmt: skip
        record = found.record.as_dict()
        print_json({"record": record, "times": clip.times.tolist(), "tracks": rows,
                    "notes": list(found.notes)})  # fmt: skip
    else:
        print("\n".join(lines_of(found, clip)))
        print("choose otherwise: " + ", ".join(f"{what} {flag}" for what, flag in CHOICES.items()))
    if args.out:
        args.out.write_bytes(sheet(found, clip))
        tell(f"saved {args.out}")


def add_render(commands: Any) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "render",
        description="Draws boxes, paths, levels and, where it was measured, a token's evidence over"
        " the frames of a trace, or over its whole clip, as a film.",
        help="draw a trace over its video, as mp4",
    )
    command.add_argument("file", metavar="FILE.macd")
    command.add_argument("--out", type=Path, required=True, metavar="CLIP.mp4", help="the film")
    command.add_argument(
        "--video", help="the clip that the trace was made from, to draw over all of it"
    )
    command.add_argument(
        "--kind", default="", help="which evidence map (default: the first that was measured)"
    )
    command.add_argument("--view", default="video", choices=VIEWS, help="under which view")
    command.add_argument(
        "--evidence", type=int, default=0, metavar="N",
        help="which token's evidence, counted from 1 as in the JSON (default: the last)",
    )  # fmt: skip
    command.add_argument("--no-evidence", action="store_true", help="draw levels instead of a map")


def render(args: argparse.Namespace) -> None:
    """Writes the film; what can be refused is, before a picture is drawn."""
    if args.out.suffix.lower() != ".mp4":
        raise OptionError(f"{args.out.name!r} is not a name for a film", "End it in .mp4")
    check_out(args.out, (args.file, args.video), (".mp4",))
    trace = load(args.file)
    from macd_studio.core.figures.drawing import choose_map, drawn_frames, sampled_shots
    from macd_studio.core.media.film import write_film

    chosen = None if args.no_evidence else choose_map(trace, args.kind, args.view, args.evidence)
    shots = _shots_of(trace, args.video) if args.video else sampled_shots(trace)
    spacing = (shots.times[-1] - shots.times[0]) / max(1, len(shots.times) - 1)
    last = float(spacing) or float(trace.to_dict()["clip"].get("duration", 1.0)) or 1.0
    write_film(drawn_frames(trace, shots, chosen), shots.times, args.out, last)
    size = args.out.stat().st_size / 1000
    tell(f"  saved   {args.out} ({count(len(shots.times), 'picture')}, {size:.0f} kB)")


def _shots_of(trace: Trace, video: str) -> Shots:
    """The clip's dense frames, or the sampled ones where it has no others."""
    from macd_studio.core.figures.drawing import Shots
    from macd_studio.core.media.video import read_clip

    summary: dict[str, Any] = trace.to_dict()
    video_options = summary["options"].get("video", {})
    options: RunOptions = options_from({"video": video_options} if video_options else {})
    clip = read_clip(video, options.video or VideoOptions())
    if clip.sha256 != summary["clip"].get("sha256"):
        raise OptionError(
            f"{Path(video).name!r} is not the clip that the trace was made from",
            "Give that clip, or leave --video out",
        )
    if not len(clip.dense_frames):
        return Shots(clip.frames, clip.times)
    return Shots(clip.dense_frames, clip.dense_times)


def add_export(commands: Any) -> None:
    """Adds the command."""
    export = commands.add_parser(
        "export", help="write a trace's objects or masked areas for annotation tools",
        description="Writes the objects of a trace, or what its levels mask, for other programs;"
        " --tracks reads each of these formats.",
    )  # fmt: skip
    export.add_argument("file", metavar="FILE.macd")
    export.add_argument("--format", choices=tuple(WRITERS), default="json",
                        help="png and yolo are zip archives (default: json, our own)")  # fmt: skip
    export.add_argument("--what", choices=get_args(What), default="tracks",
                        help="each object, or the areas that are masked and partly masked"
                        " (default: tracks)")  # fmt: skip
    export.add_argument("--out", type=Path, required=True, metavar="FILE")


def export(args: argparse.Namespace) -> None:
    """Writes the file."""
    check_out(args.out, (args.file,), EXPORTED)
    export_tracks(load(args.file), args.out, args.format, args.what)
    tell_saved(args.out)


def add_plan(commands: Any) -> None:
    """Adds the command."""
    plan = commands.add_parser("plan", help="what a backbone takes, without loading it")
    plan.add_argument(
        "--backbone",
        default=EMBEDDED,
        help="toyworld, a listed hub id, or a folder with the model's config.json",
    )
    plan.add_argument("--frames", type=int, default=8, help="frames sampled (default: 8)")
    plan.add_argument(
        "--frame-size", type=int, default=280, metavar="PIXELS",
        help="side of the square frames, where the family lets it vary (default: 280)",
    )  # fmt: skip
    plan.add_argument("--steps", type=int, default=1, help="ascent steps (default: 1)")
    plan.add_argument(
        "--open-share", type=float, metavar="SHARE",
        help="share of questions with a token that a contrast could change, 0 to 1: what a lazy run"
        " takes on average",
    )  # fmt: skip
    plan.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32",
        help="how a run on the CPU holds its numbers (default: float32)",
    )  # fmt: skip
    plan.add_argument("--json", action="store_true", help="print one JSON object")


def plan(args: argparse.Namespace) -> None:
    """Prints what a backbone takes."""
    # raises before torch is imported
    PlanOptions(args.frames, args.frame_size, args.steps, args.open_share)
    from macd_studio.core.planning.plan import (
        describe,
        describe_on_cpu,
        lazy_cost,
        on_cpu,
        tflops_a_second,
    )
    from macd_studio.core.planning.plan import plan as planned

    estimate = planned(args.backbone, args.frames, args.frame_size, args.steps)
    if args.json:
        more = {
            "lazy_tflops": lazy_cost(estimate, args.open_share),
            "cpu_gb": on_cpu(estimate, args.dtype),
        }
        print(json.dumps({**estimate, **more}))
    else:
        print(describe(estimate, args.open_share))
        print(f"\n{describe_on_cpu(estimate, tflops_a_second(args.dtype), args.dtype)}")


def tell_saved(out: Path) -> None:
    """That a file was written, and how large it is."""
    tell(f"  saved   {out} ({out.stat().st_size / 1000:.0f} kB)")


def add_probe(commands: Any) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "probe",
        help="what a vLLM server can do for a run, and what starting it otherwise would add",
    )
    command.add_argument("backbone", metavar="vllm:http://HOST:PORT[/MODEL]")
    command.add_argument("--json", action="store_true", help="print one JSON object")


def probe(args: argparse.Namespace) -> None:
    """Asks the server about a drawn clip, and prints what was found."""
    read_address(args.backbone)  # raises before torch is imported
    from macd_studio.core.backbones.remote.reader import open_server

    server = open_server(args.backbone).server
    if args.json:
        errors = {"error": server.error, "video_error": server.video_error}
        print(json.dumps(asdict(server) | errors))
    else:
        print("\n".join(server.lines()))
