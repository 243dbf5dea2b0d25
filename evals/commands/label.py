"""`python -m evals label FOLDER`: what a detector says is in each clip, for Video-POPE."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macd_studio.core.embedded import REAL_DETECTOR
from macd_studio.core.errors import BenchmarkError, OptionError
from macd_studio.core.objects.detect import check_detector
from macd_studio.core.options import DetectOptions, TrackOptions, VideoOptions
from macd_studio.core.text.words import count
from macd_studio.core.validation import Number
from macd_studio.evals.benchmarks.layout import place
from macd_studio.evals.benchmarks.video_pope import VideoPope

if TYPE_CHECKING:
    from macd_studio.core.objects.detect import Detector

ENDINGS = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v")
NAME = "labels.jsonl"
FRAMES = 8
"""Frames sampled of a clip; the detector looks at all the frames that a tracker needs."""


@dataclass(frozen=True)
class Labels:
    """What is in one clip, each name once, in alphabetical order.

    objects: names of the tracks. unsure: other names that were detected at least once with the
    lower confidence; neither "there" nor "not there" is a safe truth for them.
    """

    video: str
    objects: tuple[str, ...]
    unsure: tuple[str, ...]


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("label", help="write labels.jsonl of a folder of clips")
    parser.set_defaults(run=run)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--detector", default=REAL_DETECTOR)
    parser.add_argument(
        "--confidence", type=float, default=0.5, help="an object tracked from here is there"
    )
    parser.add_argument(
        "--absent-below",
        type=float,
        default=0.3,
        help="an object never detected with this confidence is absent; between the two it is"
        " unsure, and Video-POPE does not ask about it",
    )
    parser.add_argument("--force", action="store_true", help="write over labels that are there")


def run(args: argparse.Namespace) -> int:
    """Detects and tracks every clip, and writes what is there and what is unsure."""
    if not args.folder.is_dir():
        raise BenchmarkError(f"there is no folder {place(args.folder)}", "Give a folder of clips")
    check_detector(args.detector)
    options = DetectOptions(confidence=args.confidence)
    Number(0.01, 0.99).read(args.absent_below, "--absent-below")
    if args.absent_below >= args.confidence:
        raise OptionError(
            f"--absent-below {args.absent_below:g} is not lower than --confidence"
            f" {args.confidence:g}",
            "Give a lower --absent-below, so that two thresholds have to agree on what is absent",
        )
    path = args.folder / NAME
    if path.exists() and not args.force:
        raise OptionError(f"{place(path)} is there already", "Give --force to write over it")
    clips = sorted(p for p in args.folder.rglob("*") if p.suffix.lower() in ENDINGS)
    if not clips:
        raise BenchmarkError(f"{place(args.folder)} holds no clip", "Choose another folder")
    labelled = []
    for labels in label_clips(args.folder, clips, args.detector, options, args.absent_below):
        labelled.append(labels)
        print(f"{len(labelled)} of {len(clips)}: {labels.video}", file=sys.stderr, flush=True)
    lines = (
        {"video": z.video, "objects": list(z.objects), "unsure": list(z.unsure)} for z in labelled
    )
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    path.write_text(text, encoding="utf-8")
    there, unsure = sum(len(z.objects) for z in labelled), sum(len(z.unsure) for z in labelled)
    print(
        f"{count(there, 'object')} in {count(len(labelled), 'clip')}; {unsure} more detected from"
        f" {args.absent_below:g} but not tracked from {args.confidence:g}: unsure, not asked about"
    )
    print(f"written to {path}")
    return 0


def label_clips(
    root: Path, clips: Sequence[Path], detector: str, options: DetectOptions, absent_below: float
) -> Iterator[Labels]:
    """The labels of each clip below `root`, in order. Raises MacdError.

    absent_below: confidence in (0, 1) that no detection of an absent object reaches.
    """
    from macd_studio.core.backbones.local import device_of
    from macd_studio.core.media.video import read_clip
    from macd_studio.core.objects.detect import load_detector

    loaded = load_detector(detector, str(device_of()))
    if loaded.open_vocabulary:
        raise OptionError(
            f"{detector} looks for what a question names, and nothing is asked here",
            "Choose a --detector of fixed classes, such as yolo11n",
        )
    lowest = min(options.low, absent_below)
    options = DetectOptions(confidence=options.confidence, low=lowest)
    for path in clips:
        clip = read_clip(path, VideoOptions(frames=FRAMES, **VideoPope.limits))  # type: ignore[arg-type]
        yield _labels(str(path.relative_to(root)), clip, loaded, options, absent_below)


def _labels(
    video: str, clip: Any, detector: Detector, options: DetectOptions, absent_below: float
) -> Labels:
    from macd_studio.core.objects.track import track

    single = len(clip.dense_frames) == 0
    frames = clip.frames if single else clip.dense_frames
    times = clip.times if single else clip.dense_times
    detections = list(detector.detect(frames, options))
    aspect = frames.shape[2] / frames.shape[1]
    tracks, _ = track(detections, times, clip.times, TrackOptions(), options, aspect=aspect)
    there = {t.label for t in tracks}
    seen = {
        label
        for d in detections
        for label, score in zip(d.labels, d.scores, strict=True)
        if score >= absent_below
    }
    return Labels(video, tuple(sorted(there)), tuple(sorted(seen - there)))
