"""A folder of clips and questions → the traces of a study: masks alone, no answers.

Torch and the models are imported by `macd.trace`, when the first clip is run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import macd_studio as macd
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.media.video import read_clip
from macd_studio.core.media.webp import encode_picture
from macd_studio.core.options import VideoOptions
from macd_studio.core.text.question import clean_question
from macd_studio.core.types import Trace
from macd_studio.ratings.errors import read_text

VIDEOS = (".mp4", ".mov", ".webm", ".mkv", ".avi", ".m4v")
TRACKS = (".xml", ".json", ".zip")
"""Files beside a clip, of its name, that hold its objects; so does a folder of its name."""
QUESTIONS = "questions.json"
MAX_CLIPS, MAX_TEXT = 1000, 2**20
LONG_S, MANY_FRAMES = 10.0, 24
"""Clips that last longer are read with so many frames, where the number is not given."""
MOTION_FPS, MAX_PICTURES = 5.0, 120
"""Pictures of a clip between its masked frames: a second, and in all."""


@dataclass(frozen=True)
class Job:
    """A clip with a question, and the file of its objects where there is one."""

    clip: Path
    question: str
    tracks: Path | None = None


def jobs_of(folder: Path, question: str = "") -> list[Job]:
    """What a folder asks for, by name.

    A clip's question stands in `questions.json` ({"clip.mp4": "Is …?"}, or a list of several), or
    in a text file of its name; `question` is for clips that have none. Raises OptionError for a
    folder without clips, for a clip without a question, and for a file that cannot be read.
    """
    if not folder.is_dir():
        raise OptionError(f"there is no folder {str(folder)[:200]!r}", "Give a folder of clips")
    clips = sorted(p for p in folder.iterdir() if p.suffix.lower() in VIDEOS)
    if not 1 <= len(clips) <= MAX_CLIPS:
        raise OptionError(
            f"{folder.name[:100]!r} holds {len(clips)} clips", f"Give a folder of 1 to {MAX_CLIPS}"
        )
    listed = _listed(folder / QUESTIONS)
    unknown = sorted(listed.keys() - {clip.name for clip in clips})
    if unknown:
        raise OptionError(
            f"{QUESTIONS} names {unknown[0][:100]!r}, which is not in the folder",
            "Name clips of the folder only",
        )
    jobs = []
    for clip in clips:
        asked = listed.get(clip.name) or _beside(clip) or ([question] if question else [])
        if not asked:
            raise OptionError(
                f"{clip.name[:100]!r} has no question",
                f"Write it into {QUESTIONS} or {clip.stem}.txt, or give --question for all clips",
            )
        jobs += [Job(clip, clean_question(one), _tracks(clip)) for one in asked]
    return jobs


@dataclass(frozen=True)
class Motion:
    """A clip between the frames that are masked: WebP pictures and their times (P,) in seconds.

    length: seconds of the chosen range.
    """

    pictures: tuple[bytes, ...]
    times: tuple[float, ...]
    length: float


def read_motion(clip: Path, video: Mapping[str, Any]) -> Motion:
    """Reads a clip as raters see it without a mask. video: start and end, of `VideoOptions`.

    At most MOTION_FPS pictures a second and MAX_PICTURES in all, long side at most 640 pixels.
    Raises a MacdError for what is no usable video.
    """
    options = VideoOptions(
        **{**video, "frames": 1, "dense_fps": MOTION_FPS, "dense_limit": MAX_PICTURES}
    )
    read = read_clip(clip, options)
    end = read.duration if options.end is None else min(options.end, read.duration)
    pictures = tuple(encode_picture(frame) for frame in read.dense_frames)
    times = tuple(float(t) for t in read.dense_times)
    return Motion(pictures, times, max(end - options.start, 0.0))


def trace_clips(
    jobs: Sequence[Job], video: Mapping[str, Any] | None = None, **how: Any
) -> Iterator[tuple[Job, Trace | MacdError, Motion | None]]:
    """The masks of each job, or why there are none, and the clip's motion.

    video: options of reading; where they name no `frames`, clips of more than LONG_S seconds are
    read with MANY_FRAMES. how: other arguments of `macd.trace`.
    """
    last: tuple[Path, Motion] | None = None
    for job in jobs:
        motion = None
        try:
            if last is None or last[0] != job.clip:
                last = job.clip, read_motion(job.clip, video or {})
            motion = last[1]
            many = {"frames": MANY_FRAMES} if motion.length > LONG_S else {}
            reading = {**many, **(video or {})}
            trace = macd.trace(
                job.clip, job.question, tracks=job.tracks, masks_only=True, video=reading, **how
            )
            yield job, trace, motion
        except MacdError as error:
            yield job, error, motion


def _listed(path: Path) -> dict[str, list[str]]:
    if not path.exists():
        return {}
    remedy = "Write JSON in UTF-8"
    text = read_text(path, QUESTIONS, remedy) if path.stat().st_size <= MAX_TEXT else ""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        cause = f"{QUESTIONS} cannot be read ({type(error).__name__})"
        raise OptionError(cause, remedy) from error
    questions: dict[str, list[str]] = {}
    for name, value in rows.items() if isinstance(rows, dict) else ():
        questions[name] = value if isinstance(value, list) else [value]
    if not questions or not all(isinstance(q, str) for row in questions.values() for q in row):
        raise OptionError(
            f"{QUESTIONS} does not name clips and questions",
            'Write {"clip.mp4": "Is there a dog?"}, with a list for several questions',
        )
    return questions


def _beside(clip: Path) -> list[str]:
    path = clip.with_suffix(".txt")
    if not path.is_file():
        return []
    lines = read_text(path, repr(path.name[:100]), "Write it in UTF-8")[:MAX_TEXT].splitlines()
    return [line.strip() for line in lines if line.strip()]


def _tracks(clip: Path) -> Path | None:
    beside = [clip.with_suffix(suffix) for suffix in TRACKS] + [clip.with_suffix("")]
    return next((path for path in beside if path.exists()), None)
