"""MVBench: 20 tasks of multiple choice about time.

Hub dataset OpenGVLab/MVBench: json/TASK.json of {video, question, candidates, answer}, some with
start and end in seconds, and the unpacked archives of video/. Where each task's videos lie, and
which of them are cut, is as in video_chat2/mvbench.ipynb of github.com/OpenGVLab/Ask-Anything. The
prompt is that of lmms-eval 0.7.3 (lmms_eval/tasks/mvbench).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.base import LETTERS
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark, letter_of
from macd_studio.evals.benchmarks.layout import Reader, place, read_json, require_folder

TASKS: dict[str, tuple[str, ...]] = {
    "action_sequence": ("star/Charades_v1_480", "star/Charades_segment"),
    "action_prediction": ("star/Charades_v1_480", "star/Charades_segment"),
    "action_antonym": ("ssv2_video", "ssv2_video_mp4"),
    "fine_grained_action": ("Moments_in_Time_Raw/videos",),
    "unexpected_action": ("FunQA_test/test",),
    "object_existence": ("clevrer/video_validation",),
    "object_interaction": ("star/Charades_v1_480", "star/Charades_segment"),
    "object_shuffle": ("perception/videos",),
    "moving_direction": ("clevrer/video_validation",),
    "action_localization": ("sta/sta_video", "sta/sta_video_segment"),
    "scene_transition": ("scene_qa/video",),
    "action_count": ("perception/videos",),
    "moving_count": ("clevrer/video_validation",),
    "moving_attribute": ("clevrer/video_validation",),
    "state_change": ("perception/videos",),
    "fine_grained_pose": ("nturgbd", "nturgbd_convert"),
    "character_order": ("perception/videos",),
    "egocentric_navigation": ("vlnqa",),
    "episodic_reasoning": ("tvqa/frames_fps3_hq", "tvqa/video_fps3_hq_segment"),
    "counterfactual_inference": ("clevrer/video_validation",),
}
"""Task → folders below video/ where its videos may lie, the published one first."""
CUT = ("action_sequence", "action_prediction", "object_interaction", "action_localization",
       "episodic_reasoning")  # fmt: skip
"""Tasks about a part of their videos; folders named …_segment hold that part already."""
PICTURE_FPS = 3.0
ROOTS = ("video", "", "video/data0613", "data0613")


class MVBench(FileBenchmark):
    """The tasks whose JSON files are there."""

    name = "mvbench"

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "MVBench")
        folder = data / "json"
        tasks = [t for t in TASKS if (folder / f"{t}.json").is_file()]
        if not tasks:
            raise BenchmarkError(
                f"{place(folder)} holds none of MVBench's 20 question files, such as"
                " action_sequence.json",
                "Give the folder of the dataset; docs/benchmarks.md shows it",
            )
        for task in tasks:
            yield from self._task(data, task, folder / f"{task}.json")

    def _task(self, data: Path, task: str, path: Path) -> Iterator[Asked]:
        entries = read_json(path)
        if not isinstance(entries, list):
            raise BenchmarkError(f"{place(path)} holds no list of questions", "Download it again")
        for i, entry in enumerate(entries):
            reader = Reader(path, f"entry {i + 1}", entry)
            options, answer = reader.texts("candidates"), reader.text("answer")
            truth = letter_of(options, answer) or letter_of([o.strip() for o in options], answer)
            if truth is None:
                raise reader.fail(f"the answer {answer!r} is not one of the candidates")
            video = _video(data, task, reader.text("video"))
            start, end = reader.number("start"), reader.number("end")
            whole = task not in CUT or any(p.endswith("_segment") for p in video.parts)
            if not whole and start is not None and end is not None and end <= start:
                raise reader.fail(f"the clip starts at {start:g} s and ends at {end:g} s")
            yield Asked(
                id=f"{task}/{i}",
                video=video,
                regime=task,
                kind="choice",
                question=reader.text("question"),
                truth=truth,
                options=options,
                start=0.0 if whole else start or 0.0,
                end=None if whole else end,
                picture_fps=PICTURE_FPS,
            )

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """As in lmms-eval."""
        options = "".join(f"({LETTERS[i]}) {o}\n" for i, o in enumerate(asked.options))
        return "Question:", f"\nOption:\n{options}Only give the best option.\n"

    def check_sizes(self) -> list[str]:
        """See `FileBenchmark.check_sizes`."""
        missing = [t for t in TASKS if t not in self.regimes]
        few = {t: sum(a.regime == t for a in self.asked) for t in self.regimes}
        notes = [f"{t}: {n} questions; published: 200" for t, n in few.items() if n != 200]
        if missing:
            notes.append(f"{len(missing)} of {len(TASKS)} tasks are missing: {', '.join(missing)}")
        return notes


def _video(data: Path, task: str, name: str) -> Path:
    tried = [data / root / folder / name for root in ROOTS for folder in TASKS[task]]
    return next((p for p in tried if p.exists()), tried[0])
