"""EventHallusion: yes/no questions on events that a language model expects wrongly.

github.com/Stevetich/EventHallusion, read at 3c7efa1: questions/SPLIT_questions.json, the prompt of
run_gpt4o.py, the scorer of eval.py; videos lie as SPLIT/ID.mp4. `mix` is the former third split
(questions/mix_questions.json at d7939e7: 193 questions, 137 yes and 56 no), about the same clips as
`interleave`, which replaced it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark
from macd_studio.evals.benchmarks.layout import (
    Reader,
    place,
    read_json,
    require_folder,
    require_unique,
)

SPLITS = ("entire", "misleading", "interleave", "mix")
RELEASED = {"entire": (114, 0), "misleading": (102, 0), "interleave": (193, 193), "mix": (193, 137)}
"""Questions of each published split, and how many of them have the answer yes."""
VIDEO_ROOTS = ("", "videos")


class EventHallusion(FileBenchmark):
    """The splits whose question files are there; those of the current release, or `mix` too."""

    name = "eventhallusion"
    max_tokens = 32

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "EventHallusion")
        n_files = 0
        for split in SPLITS:
            paths = [data / f"{sub}{split}_questions.json" for sub in ("questions/", "")]
            path = next((p for p in paths if p.is_file()), None)
            if path is None:
                continue
            n_files += 1
            yield from self._split(data, split, path)
        if not n_files:
            raise BenchmarkError(
                f"{place(data)} holds no question file of EventHallusion, such as"
                " questions/entire_questions.json",
                "Give the folder of the clone; docs/benchmarks.md shows it",
            )

    def _split(self, data: Path, split: str, path: Path) -> Iterator[Asked]:
        entries = read_json(path)
        if not isinstance(entries, list):
            raise BenchmarkError(f"{place(path)} holds no list of videos", "Download it again")
        readers = [Reader(path, f"entry {i}", entry) for i, entry in enumerate(entries, 1)]
        require_unique(path, (r.text("id") for r in readers))
        for reader in readers:
            name = reader.text("id")
            questions = reader.list("questions")
            if not questions:
                raise reader.fail("'questions' is empty")
            for i, question in enumerate(questions):
                one = Reader(path, f"{name}, question {i + 1}", question)
                truth = one.text("answer").lower().rstrip(".")
                if truth not in ("yes", "no"):
                    raise one.fail(f"the answer is {truth!r} instead of yes or no")
                yield Asked(
                    id=f"{name}/{i}",
                    video=_video(data, split, name),
                    regime=split,
                    kind="yes-no",
                    question=one.text("question"),
                    truth=truth,
                    labels=(("category", reader.text("category", default="none")),),
                )

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """As in run_gpt4o.py of the authors."""
        return "", "\nPlease answer yes or no:"

    def check_sizes(self) -> list[str]:
        """See `FileBenchmark.check_sizes`."""
        notes = []
        for split in self.regimes:
            of_split = [a for a in self.asked if a.regime == split]
            counts = len(of_split), sum(a.truth == "yes" for a in of_split)
            if counts != RELEASED[split]:
                n, yes = RELEASED[split]
                notes.append(
                    f"{split}: {counts[0]} questions, {counts[1]} yes; published: {n}, {yes} yes"
                )
        return notes


def _video(data: Path, split: str, name: str) -> Path:
    """SPLIT/ID.mp4; a clip of `mix` may lie under its name in `interleave`."""
    tried = [data / root / split / f"{name}.mp4" for root in VIDEO_ROOTS]
    if split == "mix":
        now = name.replace("mix", "interleave")
        tried += [data / root / "interleave" / f"{now}.mp4" for root in VIDEO_ROOTS]
    return next((p for p in tried if p.is_file()), tried[0])
