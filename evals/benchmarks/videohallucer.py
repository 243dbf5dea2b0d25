"""VideoHallucer: pairs of a basic question and one about what is not there.

github.com/patrick-tssn/VideoHallucer, read at ae4c2f2, hub dataset bigai-nlco/VideoHallucer:
TASK/TASK.json of [{basic, hallucination, type}], each of them {video, question, answer}; videos in
TASK/videos. The prompt is that of evaluation_utils.py. A pair is right where both answers are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark, Official
from macd_studio.evals.benchmarks.layout import Reader, place, read_json, require_folder

TASKS = ("object_relation", "temporal", "semantic_detail", "interaction", "external_factual",
         "external_nonfactual", "fact_detect")  # fmt: skip
IN_OVERALL = ("object_relation", "temporal", "semantic_detail", "external_factual",
              "external_nonfactual")  # fmt: skip
"""Tasks whose pairs make the leaderboard's overall figure."""
RELEASED = {"object_relation": 200, "temporal": 176, "semantic_detail": 200, "interaction": 124,
            "external_factual": 200, "external_nonfactual": 200, "fact_detect": 50}  # fmt: skip
"""Pairs of each task at ae4c2f2; the paper counts 200 of temporal."""
SIDES = ("basic", "hallucination")
SHARED_SCENE = ("semantic_detail",)
"""Tasks whose two questions are one question about two clips."""


class VideoHallucer(FileBenchmark):
    """The tasks whose files are there, each a split."""

    name = "videohallucer"

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "VideoHallucer")
        found = [t for t in TASKS if (data / t / f"{t}.json").is_file()]
        if not found:
            raise BenchmarkError(
                f"{place(data)} holds no file of VideoHallucer, such as"
                " object_relation/object_relation.json",
                "Give the folder of the tasks; docs/benchmarks.md shows it",
            )
        for task in found:
            path = data / task / f"{task}.json"
            entries = read_json(path)
            if not isinstance(entries, list):
                raise BenchmarkError(f"{place(path)} holds no list of pairs", "Download it again")
            for i, entry in enumerate(entries):
                yield from self._pair(data, task, path, i, entry)

    def _pair(self, data: Path, task: str, path: Path, i: int, entry: object) -> Iterator[Asked]:
        pair = Reader(path, f"pair {i + 1}", entry)
        for side in SIDES:
            one = Reader(path, f"pair {i + 1}, {side}", pair.record.get(side))
            truth = one.text("answer").lower()
            if truth not in ("yes", "no"):
                raise one.fail(f"the answer is {truth!r} instead of yes or no")
            yield Asked(
                id=f"{task}/{i}/{side}",
                video=data / task / "videos" / one.text("video"),
                regime=task,
                kind="yes-no",
                question=one.text("question"),
                truth=truth,
                labels=(("type", pair.text("type", default=task)), ("side", side)),
                group=f"{task}/{i}",
            )

    def partner(self, item: Item) -> str | None:
        """The clip of the pair's other question, where both are one question about two clips."""
        head, _, side = item.id.rpartition("/")
        other = self._by_id.get(f"{head}/{SIDES[side == SIDES[0]]}")
        shared = other is not None and other.question == item.question
        return other.clip if other is not None and shared and item.regime in SHARED_SCENE else None

    @cached_property
    def _by_id(self) -> dict[str, Item]:
        return {i.id: i for i in self.everything}

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """As in evaluation_utils.py of the authors."""
        return "", "\nAnswer the question using 'yes' or 'no'."

    def check_sizes(self) -> list[str]:
        """See `FileBenchmark.check_sizes`."""
        notes = []
        for task in self.regimes:
            pairs = sum(a.regime == task for a in self.asked) // 2
            if pairs != RELEASED[task]:
                notes.append(f"{task}: {pairs} pairs; published: {RELEASED[task]}")
        return notes

    def official(self, items: Sequence[Item], right: Mapping[str, bool | None]) -> list[Official]:
        """Basic, hallucination and pairs of each task, and the mean of pairs over tasks."""
        rows: list[Official] = []
        pairs: dict[str, float] = {}
        for task in dict.fromkeys(i.regime for i in items):
            of_task = [i for i in items if i.regime == task]
            for side in SIDES:
                own = [bool(right[i.id]) for i in of_task if i.id.endswith(f"/{side}")]
                if own:
                    rows.append(Official(f"{task}, {side}", 100 * sum(own) / len(own), len(own)))
            groups: dict[str, bool] = {}
            for i in of_task:
                groups[self.group(i)] = groups.get(self.group(i), True) and bool(right[i.id])
            pairs[task] = 100 * sum(groups.values()) / len(groups)
            rows.append(Official(f"{task}, pairs", pairs[task], len(groups)))
        if all(t in pairs for t in IN_OVERALL):
            mean = sum(pairs[t] for t in IN_OVERALL) / len(IN_OVERALL)
            rows.append(Official("overall, mean of five tasks' pairs", mean, len(IN_OVERALL)))
        return rows
