"""Perception Test: multiple-choice questions of the validation split.

github.com/google-deepmind/perception_test: mc_question_valid.json holds, by video, its metadata and
mc_question: [{id, question, options, answer_id, area, reasoning, tag}]. Videos of cup games are cut
where cut_frame_mapping_valid.json says, since the answer is seen afterwards. The prompt is that of
lmms-eval 0.7.3 (lmms_eval/tasks/perceptiontest/val).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.base import LETTERS
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark
from macd_studio.evals.benchmarks.layout import Reader, place, read_json, require_folder
from macd_studio.evals.benchmarks.questions import AFTER_OPTIONS, lettered

FILES = (
    "mc_question_valid.json",
    "mc_question_valid_annotations/mc_question_valid.json",
    "annotations/mc_question_valid.json",
    "all_valid.json",
)
CUTS = "cut_frame_mapping_valid.json"
VIDEOS = ("videos", "valid/videos", "valid_videos/videos", "valid")
PUBLISHED = 19_140


class PerceptionTest(FileBenchmark):
    """By area; reasoning and tags are labels."""

    name = "perception-test"

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "Perception Test")
        path = next((data / f for f in FILES if (data / f).is_file()), None)
        if path is None:
            raise BenchmarkError(
                f"{place(data)} holds no {FILES[0]}",
                "Give the folder with annotations and videos; docs/benchmarks.md shows it",
            )
        videos = read_json(path)
        if not isinstance(videos, Mapping):
            raise BenchmarkError(f"{place(path)} holds no object of videos", "Download it again")
        cuts = _cuts(data)
        for name, entry in videos.items():
            reader = Reader(path, str(name), entry)
            end = _end(reader, cuts.get(name, 0))
            for i, question in enumerate(reader.list("mc_question")):
                one = Reader(path, f"{name}, question {i + 1}", question)
                yield self._asked(data, str(name), one, end)

    def _asked(self, data: Path, name: str, one: Reader, end: float | None) -> Asked:
        options, answer = one.texts("options"), one.number("answer_id")
        if answer is None or answer != int(answer) or not 0 <= answer < len(options):
            raise one.fail(f"'answer_id' is not one of the {len(options)} options")
        labels = [("reasoning", one.text("reasoning", default="none"))]
        labels += [("tag", tag) for tag in one.texts("tag")]
        return Asked(
            id=f"{name}/{one.text('id')}",
            video=_video(data, name),
            regime=one.text("area"),
            kind="choice",
            question=one.text("question"),
            truth=LETTERS[int(answer)],
            options=options,
            end=end,
            labels=tuple(labels),
        )

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """As in lmms-eval."""
        return "", f"\n{lettered(asked.options)}\n{AFTER_OPTIONS}"

    def check_sizes(self) -> list[str]:
        """See `FileBenchmark.check_sizes`."""
        n = len(self.asked)
        return [] if n == PUBLISHED else [f"{n} questions; published: {PUBLISHED}"]


def _video(data: Path, name: str) -> Path:
    tried = [data / folder / f"{name}.mp4" for folder in VIDEOS]
    return next((p for p in tried if p.is_file()), tried[0])


def _cuts(data: Path) -> Mapping[str, Any]:
    paths = [p for f in (CUTS, f"annotations/{CUTS}") if (p := data / f).is_file()]
    cuts = read_json(paths[0]) if paths else {}
    if not isinstance(cuts, Mapping):
        raise BenchmarkError(f"{place(paths[0])} holds no object of frames", "Download it again")
    return cuts


def _end(reader: Reader, frame: Any) -> float | None:
    """Seconds at which the video is cut; a frame of 0 or below means that it is not."""
    if not isinstance(frame, int | float) or frame <= 0:
        return None
    metadata = Reader(reader.path, reader.where, reader.record.get("metadata") or {})
    rate = metadata.number("frame_rate")
    if not rate or rate <= 0:
        raise reader.fail("'frame_rate' is missing, and the video has to be cut at a frame")
    return float(frame) / rate
