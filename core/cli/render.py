"""`python -m core render FILE.macd --out clip.mp4`. Imports neither torch nor a video library."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macd_studio.core.cli.flags import tell
from macd_studio.core.errors import OptionError
from macd_studio.core.measurements import VIEWS
from macd_studio.core.options import RunOptions, VideoOptions, options_from
from macd_studio.core.traces.bundle import check_target

if TYPE_CHECKING:
    from macd_studio.core.figures.drawing import Shots
    from macd_studio.core.types import Trace

DESCRIPTION = (
    "Draws boxes, paths, levels and, where it was measured, a token's evidence over the frames of a"
    " trace, or over its whole clip, as a film."
)


def add_render(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    command = commands.add_parser(
        "render", description=DESCRIPTION, help="draw a trace over its video, as mp4"
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


def check_film(out: Path) -> None:
    """Raises OptionError where no film can be put."""
    if out.suffix.lower() != ".mp4":
        raise OptionError(f"{out.name!r} is not a name for a film", "End it in .mp4")
    check_target(out)


def render(trace: Trace, args: argparse.Namespace) -> None:
    """Writes the film; what can be refused is, before a picture is drawn."""
    from macd_studio.core.figures.drawing import choose_map, drawn_frames, sampled_shots
    from macd_studio.core.media.film import write_film

    chosen = None if args.no_evidence else choose_map(trace, args.kind, args.view, args.evidence)
    shots = _shots_of(trace, args.video) if args.video else sampled_shots(trace)
    spacing = (shots.times[-1] - shots.times[0]) / max(1, len(shots.times) - 1)
    last = float(spacing) or float(trace.to_dict()["clip"].get("duration", 1.0)) or 1.0
    write_film(drawn_frames(trace, shots, chosen), shots.times, args.out, last)
    size = args.out.stat().st_size / 1000
    tell(f"  saved   {args.out} ({len(shots.times)} pictures, {size:.0f} kB)")


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
