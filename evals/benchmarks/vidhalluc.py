"""VidHalluc: what happens in a clip, in one of its pair, and in which order.

github.com/CyL97/VidHalluc, read at e753864, hub dataset chaoyuli/VidHalluc: ach_binaryqa.json of
{pair: [{q, a: {clip: Yes or No}}]}, ach_mcq.json of {pair: {clip: {Question, Choices, Correct
Answer}}}, tsh.json of {key: {video, Question, Correct Answer}}; videos in data/ACH and data/TSH, or
anywhere below the folder. Prompts are those of eval/inference. Scene transition (sth.json) is left
out: its descriptions are scored by a model of sentence embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.base import LETTERS, Item
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark, Official
from macd_studio.evals.benchmarks.layout import Reader, place, read_json, require_folder

BINARY, CHOICE, ORDER = "binary", "choice", "order"
FILES = {BINARY: "ach_binaryqa.json", CHOICE: "ach_mcq.json", ORDER: "tsh.json"}
FOLDERS = {BINARY: "ACH", CHOICE: "ACH", ORDER: "TSH"}
LEFT_OUT = "sth.json"
MAX_FILES = 100_000
AFTER = {
    BINARY: " Only answer with a single word 'Yes' or 'No'.",
    ORDER: "Sort these two actions in the order they occur in the video, and return which action"
    " happen before which one. If you only detect one action, return that action.",
}
AFTER_CHOICE = (
    " Please select the correct answer (one or more options), only return your answer(s)."
    " (e.g., ABCD)\nChoices:\n"
)


class VidHalluc(FileBenchmark):
    """Binary questions, choices and the order of two actions, each a split."""

    name = "vidhalluc"

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "VidHalluc")
        self._root = data
        found = [split for split, name in FILES.items() if (data / name).is_file()]
        if not found:
            raise BenchmarkError(
                f"{place(data)} holds none of {', '.join(FILES.values())}",
                "Give the folder of the dataset; docs/benchmarks.md shows it",
            )
        for split in found:
            path = data / FILES[split]
            whole = Reader(path, "the file", read_json(path))
            for key, entry in whole.record.items():
                yield from self._of(split)(path, str(key), entry)

    def _of(self, split: str) -> Callable[[Path, str, object], Iterator[Asked]]:
        return {BINARY: self._binary, CHOICE: self._choices, ORDER: self._order}[split]

    @cached_property
    def _videos(self) -> dict[str, Path]:
        """Name of a clip → its file, wherever below the folder it lies."""
        found: dict[str, Path] = {}
        for n, path in enumerate(self._root.rglob("*.mp4")):
            if n >= MAX_FILES:
                break
            found.setdefault(path.stem, path)
        return found

    def _video(self, split: str, clip: str) -> Path:
        usual = self._root / "data" / FOLDERS[split] / f"{clip}.mp4"
        return usual if usual.is_file() else self._videos.get(clip, usual)

    def _binary(self, path: Path, key: str, entry: object) -> Iterator[Asked]:
        if not isinstance(entry, list):
            raise BenchmarkError(f"{place(path)}, {key[:40]} holds no list", "Download it again")
        for i, question in enumerate(entry):
            one = Reader(path, f"{key[:40]}, question {i + 1}", question)
            answers = Reader(path, f"{key[:40]}, question {i + 1}", one.record.get("a"))
            for clip in answers.record:
                truth = answers.text(clip).lower()
                if truth not in ("yes", "no"):
                    raise one.fail(f"the answer is {truth!r} instead of yes or no")
                yield Asked(
                    id=f"{BINARY}/{key}/{i}/{clip}",
                    video=self._video(BINARY, str(clip)),
                    regime=BINARY,
                    kind="yes-no",
                    question=one.text("q"),
                    truth=truth,
                    cluster=key,
                    group=f"{BINARY}/{key}/{i}",
                )

    def _choices(self, path: Path, key: str, entry: object) -> Iterator[Asked]:
        pair = Reader(path, key[:40], entry)
        for clip, question in pair.record.items():
            one = Reader(path, f"{key[:40]}, {str(clip)[:40]}", question)
            choices = Reader(path, one.where, one.record.get("Choices")).record
            letters = [str(z) for z in choices]
            if letters != list(LETTERS[: len(letters)]) or not 2 <= len(letters) <= 4:
                raise one.fail("'Choices' are not lettered A, B and so on, up to D")
            right = sorted({z for z in one.text("Correct Answer").upper() if z in LETTERS[:4]})
            if not right or not set(right) <= set(letters):
                raise one.fail("'Correct Answer' names no choice")
            yield Asked(
                id=f"{CHOICE}/{key}/{clip}",
                video=self._video(CHOICE, str(clip)),
                regime=CHOICE,
                kind="choices",
                question=one.text("Question"),
                truth="".join(right),
                options=tuple(str(v) for v in choices.values()),
                cluster=key,
                group=f"{CHOICE}/{key}",
            )

    def _order(self, path: Path, key: str, entry: object) -> Iterator[Asked]:
        one = Reader(path, key[:40], entry)
        yield Asked(
            id=f"{ORDER}/{key}",
            video=self._video(ORDER, one.text("video")),
            regime=ORDER,
            kind="word",
            question=one.text("Question"),
            truth=one.text("Correct Answer"),
        )

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """As in eval/inference of the authors."""
        if asked.regime != CHOICE:
            return "", AFTER[asked.regime]
        lines = "".join(f"{LETTERS[i]}. {o}\n" for i, o in enumerate(asked.options))
        return "", f"{AFTER_CHOICE}{lines}"

    def check_sizes(self) -> list[str]:
        """See `FileBenchmark.check_sizes`."""
        if not (self._root / LEFT_OUT).is_file():
            return []
        return [f"{LEFT_OUT} is left out: its answers are scored by a model of sentence embeddings"]

    def official(self, items: Sequence[Item], right: Mapping[str, bool | None]) -> list[Official]:
        """Binary questions right for every clip; choices and orders by themselves.

        As the authors count: a pair without any answer is left out.
        """
        rows: list[Official] = []
        groups: dict[str, list[bool | None]] = {}
        for i in items:
            if i.regime == BINARY:
                groups.setdefault(self.group(i), []).append(right[i.id])
        if groups:
            hits = [all(z) for z in groups.values()]
            rows.append(
                Official("binary, every clip right", 100 * sum(hits) / len(hits), len(hits))
            )
        for split, words in (
            (CHOICE, "choices, the same letters"),
            (ORDER, "order of actions"),
        ):
            own = [bool(right[i.id]) for i in items if i.regime == split]
            if own:
                rows.append(Official(words, 100 * sum(own) / len(own), len(own)))
        return rows
