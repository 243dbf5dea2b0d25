"""Video-MME: four options, short, medium and long videos.

github.com/BradyFU/Video-MME, hub dataset lmms-lab/Video-MME: videomme/test-00000-of-00001.parquet,
or the nested JSON of evaluation/output_test_template.json; videos as data/ID.mp4. The prompt is
that of the authors' README, without subtitles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.base import LETTERS, LONG
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark
from macd_studio.evals.benchmarks.layout import Reader, note_file, place, read_json, require_folder

NAMES = ("videomme/test-00000-of-00001.parquet", "test-00000-of-00001.parquet", "video_mme.json",
         "output_test_template.json", "evaluation/output_test_template.json")  # fmt: skip
VIDEOS = ("data", "video", "videos", "")
ENDINGS = (".mp4", ".MP4", ".mkv")
DURATIONS = ("short", "medium", "long")
BEFORE = (
    "Select the best answer to the following multiple-choice question based on the video. Respond"
    " with only the letter (A, B, C, or D) of the correct option.\n"
)
PUBLISHED = 2700


class VideoMME(FileBenchmark):
    """By duration; domain, sub-category and task type are labels."""

    name = "video-mme"
    limits = LONG

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "Video-MME")
        path = next((data / f for f in NAMES if (data / f).is_file()), None)
        if path is None:
            raise BenchmarkError(
                f"{place(data)} holds none of {', '.join(NAMES[:1] + NAMES[2:4])}",
                "Give the folder of the dataset; docs/benchmarks.md shows it",
            )
        records = _parquet(path) if path.suffix == ".parquet" else read_json(path)
        if not isinstance(records, list):
            raise BenchmarkError(f"{place(path)} holds no list of videos", "Download it again")
        for i, record in enumerate(records, 1):
            reader = Reader(path, f"entry {i}", record)
            questions = reader.list("questions") if "questions" in reader.record else [record]
            for question in questions:
                yield self._asked(data, path, reader, question)

    def _asked(self, data: Path, path: Path, video: Reader, question: Any) -> Asked:
        one = Reader(path, f"{video.where}, video {video.text('video_id', 'videoID')}", question)
        options, truth = one.texts("options"), one.text("answer").strip("(). ").upper()
        if truth not in LETTERS[: len(options)] or not truth:
            raise one.fail(f"the answer {truth!r} is not one of the {len(options)} options")
        duration = video.text("duration", "duration_category").lower()
        if duration not in DURATIONS:
            raise video.fail(f"'duration' is {duration!r} instead of {', '.join(DURATIONS)}")
        return Asked(
            id=one.text("question_id"),
            video=_video(data, video),
            regime=duration,
            kind="choice",
            question=one.text("question"),
            truth=truth,
            options=tuple(re.sub(r"^\(?[A-Z][.)]\s*", "", o) for o in options),
            labels=(
                ("domain", video.text("domain", "video_category", default="none")),
                ("sub-category", video.text("sub_category", "video_subcategory", default="none")),
                ("task", one.text("task_type", default="none")),
            ),
        )

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """As in the authors' README."""
        options = "\n".join(f"{LETTERS[i]}. {o}" for i, o in enumerate(asked.options))
        return BEFORE, f"\n{options}\nThe best answer is:"

    def check_sizes(self) -> list[str]:
        """See `FileBenchmark.check_sizes`."""
        n = len(self.asked)
        return [] if n == PUBLISHED else [f"{n} questions; published: {PUBLISHED}"]


def _video(data: Path, reader: Reader) -> Path:
    names = dict.fromkeys(n for k in ("videoID", "video_id") if (n := reader.text(k, default="")))
    tried = [data / f / f"{n}{e}" for n in names for f in VIDEOS for e in ENDINGS]
    return next((p for p in tried if p.is_file()), tried[0])


def _parquet(path: Path) -> list[dict[str, Any]]:
    import polars

    try:
        note_file(path)
        return polars.read_parquet(path).to_dicts()
    except Exception as error:
        raise BenchmarkError(
            f"{place(path)} is not valid parquet ({type(error).__name__})", "Download it again"
        ) from None
