"""*everyday*: real clips of public repositories, with questions answered by looking at the frames.

What ships lies in `assets/everyday-clips`: `clips.json` says where each clip is cut from,
`questions.jsonl` what is asked and right, and the clips whose footage may be passed on lie beside
them. `python -m evals fetch` gets the others (`evals/commands/fetch.py`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.text.words import count
from macd_studio.evals.benchmarks import SHIPPED
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark
from macd_studio.evals.benchmarks.layout import note_file, place, require_folder
from macd_studio.evals.benchmarks.questions import WORD_MARK

CLIPS = SHIPPED["everyday"]
QUESTIONS = CLIPS / "questions.jsonl"
Row = dict[str, Any]
FETCH = "python -m evals fetch --to FOLDER"


@dataclass(frozen=True)
class Source:
    """Where a clip is cut from, a line of `clips.json`.

    repository: OWNER/NAME on GitHub. path: of the video at `commit`; of a row of pictures a
    pattern of their numbers, as `{:05d}.jpg`. sha256: of the file, or of the pictures' bytes one
    after another. first, frames: of the source's frames from 0 on, or the pictures' numbers; the
    clip shows `frames` of them at `fps` a second, width × height `size` pixels, after `crop_left`
    columns were cut off. footage: the licence of what is seen, "" where none is stated: then the
    clip is not passed on. part: in which round the clip was added: 1, whose errors shaped the
    simulation that trained the model; 2; and 3, of which nothing was known when
    docs/registration-everyday.md was written.
    """

    name: str
    repository: str
    commit: str
    path: str
    sha256: str
    licence: str
    first: int
    frames: int
    fps: float
    size: tuple[int, int]
    crop_left: int = 0
    footage: str = ""
    part: int = 1

    @property
    def files(self) -> list[str]:
        """The files at `commit`: one video, or each picture."""
        if "{" not in self.path:
            return [self.path]
        return [self.path.format(self.first + i) for i in range(self.frames)]


def sources(path: Path = CLIPS / "clips.json") -> list[Source]:
    """Every clip of the set, in its order."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [Source(**(row | {"size": tuple(row["size"])})) for row in rows]


def questions(path: Path = QUESTIONS) -> dict[str, Row]:
    """CLIP/NUMBER → the question, with "clip", "kind", "question", "answer", and where there are
    any "also", other right answers. Of *exists*, "negative" tells why a thing that is not there
    was asked for: it usually stands beside what is there ("co-occurring"), or is random.
    """
    number, found = Counter[str](), dict[str, Row]()
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        number[row["clip"]] += 1
        found[f"{row['clip']}/{number[row['clip']]}"] = row
    return found


class Everyday(FileBenchmark):
    """Questions of the clips that a folder holds; those of the others are left out, and counted.
    Where no videos are needed, as to score answers, all are there.

    The regime is the kind of question. Clips of one source are one cluster. Frames keep their
    shape, as on the page: the model was trained so.
    """

    name = "everyday"
    limits = MappingProxyType({"fit": "pad"})
    _absent = 0

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "clips")
        of_name = {source.name: source for source in sources()}
        there = set(of_name)
        if self.with_videos:
            there = {name for name in of_name if (data / f"{name}.mp4").is_file()}
        if not there:
            raise BenchmarkError(f"{place(data)} holds no clip of everyday", f"Get them by {FETCH}")
        note_file(QUESTIONS)
        for key, question in questions().items():
            clip, answer = question["clip"], question["answer"]
            if clip not in there:
                self._absent += 1
                continue
            source = of_name[clip]
            yield Asked(
                id=key,
                video=data / f"{clip}.mp4",
                regime=question["kind"],
                kind="yes-no" if answer in ("yes", "no") else "word",
                question=question["question"],
                truth=WORD_MARK.join((answer, *question.get("also", ()))),
                cluster=f"{source.repository}/{source.path}",
            )

    def check_sizes(self) -> list[str]:
        """Questions whose clips are not in the folder."""
        if not self._absent:
            return []
        whole = count(self._absent + len(self.asked), "question")
        return [f"{self._absent} of {whole} are left out, as their clips are not here ({FETCH})"]
