"""`python -m evals label FOLDER`: what a detector's tracks say is in each clip, for Video-POPE."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from core.errors import BenchmarkError, OptionError
from core.objects.detect import check_detector
from core.options import DetectOptions, RunOptions, VideoOptions
from evals.benchmarks.layout import place, require_folder

ENDINGS = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v")
NAME = "labels.jsonl"


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("label", help="write labels.jsonl of a folder of clips")
    parser.set_defaults(run=run)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--detector", default="toyworld")
    parser.add_argument("--confidence", type=float, default=0.5)
    parser.add_argument("--force", action="store_true", help="write over labels that are there")


def run(args: argparse.Namespace) -> int:
    """Detects and tracks every clip, and writes the tracks."""
    require_folder(args.folder, "clips")
    check_detector(args.detector)
    options = RunOptions(
        video=VideoOptions(frames=8), detect=DetectOptions(confidence=args.confidence)
    )
    path = args.folder / NAME
    if path.exists() and not args.force:
        raise OptionError(f"{place(path)} is there already", "Give --force to write over it")
    clips = sorted(p for p in args.folder.rglob("*") if p.suffix.lower() in ENDINGS)
    if not clips:
        raise BenchmarkError(f"{place(args.folder)} holds no clip", "Choose another folder")
    lines = []
    for video, objects in label_clips(args.folder, clips, args.detector, options):
        lines.append(json.dumps({"video": video, "objects": objects}, ensure_ascii=False))
        print(f"{len(lines)} of {len(clips)}: {video}", file=sys.stderr, flush=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"written to {path}")
    return 0


def label_clips(root: Path, clips: list[Path], detector: str, options: RunOptions) -> Any:
    """(name below the folder, labels of its tracks) of each clip. Raises MacdError."""
    from core.backbones.base import device_of
    from core.objects.detect import load_detector
    from evals.benchmarks.files import Asked, FileBenchmark, Sampling
    from evals.tracks import Preparing

    class Clips(FileBenchmark):
        """Every clip, with nothing asked of it."""

        name = "clips"

        def read(self, data: Path) -> Any:
            for clip in clips:
                yield Asked(str(clip.relative_to(data)), clip, "all", "word", "", "")

    benchmark = Clips(root, Sampling(options.video))
    loaded = load_detector(detector, str(device_of()))
    preparing = Preparing(benchmark, loaded, options)
    keys = [item.clip for item in benchmark.everything]
    for key, prepared in zip(keys, preparing.ahead((k, (), True) for k in keys), strict=True):
        if prepared.error is not None:
            raise prepared.error
        yield key, sorted({t.label for t in prepared.tracks or ()})
