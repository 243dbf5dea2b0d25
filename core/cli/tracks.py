"""`python -m core tracks CLIP FILE`: what a file of objects says, seen on its clip before a run."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from macd_studio.core.cli.flags import FLAGS, add_some_flags, print_json, some_options, tell
from macd_studio.core.cli.measuring import check_out
from macd_studio.core.options import options_from

NAMES = [
    flag.name
    for flag in FLAGS
    if flag.part == "track" and flag.field.startswith(("file_", "max_tracks"))
] + ["--frames", "--start", "--end", "--max-seconds", "--max-megabytes"]


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
    if args.out:
        check_out(args.out)
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
