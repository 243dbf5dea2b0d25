"""One's own videos and questions, from a CSV or JSONL file, run and scored like the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.question import clean_question
from macd_studio.core.validation import shown
from macd_studio.core.words import count
from macd_studio.evals.benchmarks.base import LETTERS, LONG, Kind
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark, letter_of
from macd_studio.evals.benchmarks.layout import Reader, place, read_table

NAMES = ("questions.csv", "questions.jsonl")
REMEDY = "Give a CSV or JSONL file, or a folder with questions.csv or questions.jsonl"
FIELDS = (
    "id", "video", "question", "answer", "answer_by", "options", "type", "cluster", "start", "end",
    "regime",
)  # fmt: skip
AFTER_OPTIONS = "Answer with the option's letter from the given choices directly."


class Questions(FileBenchmark):
    """video, question, answer; and, where wanted, options, type, cluster, id, start, end.

    Further columns are left alone, but for names that are nearly one of these.

    options: a list in JSONL; in CSV separated by "|". The answer of a question with options is one
    of them or its letter; answer_by, "text" or "letter", says which where it could be both, as "A"
    of B|A|C. type: a label to report by, the regime of the question. cluster: what
    belongs together, such as videos of one scene; the video itself without it. Videos lie beside
    the file, or where an absolute path says.
    """

    name = "questions"
    limits = LONG

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        file = _file(data)
        self._unused: dict[str, None] = {}
        records = read_table(file, REMEDY)
        if not records:
            raise BenchmarkError(f"{place(file)} holds no question", REMEDY)
        for number, (where, record) in enumerate(records, 1):
            reader = Reader(file, where, record)
            for column in record:
                if column not in FIELDS and (
                    meant := get_close_matches(column.lower(), FIELDS, 1, 0.8)
                ):
                    raise reader.fail(f"{column!r} is not a column; is {meant[0]!r} meant?")
            self._unused |= dict.fromkeys(c for c in record if c not in FIELDS)
            yield self._asked(file.parent, reader, record, number)

    def _asked(self, root: Path, reader: Reader, record: dict[str, Any], number: int) -> Asked:
        options = _options(reader, record)
        kind, truth = _truth(reader, options)
        start, end = reader.number("start") or 0.0, reader.number("end")
        if start < 0 or (end is not None and end <= start):
            raise reader.fail(f"the clip starts at {start:g} s and ends at {end} s")
        try:
            question = clean_question(reader.text("question"))
        except Exception as error:
            raise reader.fail(str(error).rstrip(".")) from None
        return Asked(
            id=reader.text("id", default=str(number)),
            video=root / reader.text("video"),
            regime=reader.text("type", "regime", default="all"),
            kind=kind,
            question=question,
            truth=truth,
            options=options,
            start=start,
            end=end,
            cluster=reader.text("cluster", default=""),
        )

    def check_sizes(self) -> list[str]:
        """Columns that mean nothing here."""
        names = ", ".join(map(shown, self._unused))
        return [f"not used: {count(len(self._unused), 'column')}, {names}"] if names else []

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """The options as "A. …"; yes/no and open questions are asked as they are."""
        return ("", f"\n{lettered(asked.options)}\n{AFTER_OPTIONS}") if asked.options else ("", "")


def lettered(options: Sequence[str]) -> str:
    """One option a line.

    >>> lettered(["left", "right"])
    'A. left\\nB. right'
    """
    return "\n".join(f"{LETTERS[i]}. {o}" for i, o in enumerate(options))


def _file(data: Path) -> Path:
    if data.is_dir():
        for name in NAMES:
            if (data / name).is_file():
                return data / name
        raise BenchmarkError(f"{place(data)} holds neither {' nor '.join(NAMES)}", REMEDY)
    return data


def _options(reader: Reader, record: dict[str, Any]) -> tuple[str, ...]:
    value = record.get("options")
    if isinstance(value, str):
        options = tuple(o.strip() for o in value.split("|")) if value.strip() else ()
    else:
        options = reader.texts("options")
    if options and not 2 <= len(options) <= len(LETTERS):
        raise reader.fail(f"there are {len(options)} options; give 2 to {len(LETTERS)}")
    if len(set(options)) < len(options) or not all(options):
        raise reader.fail("an option is empty, or there twice")
    return options


def _letter(reader: Reader, options: Sequence[str], answer: str) -> str:
    """Of the right option, which the answer names by its text or by its letter."""
    by = reader.text("answer_by", default="")
    if by not in ("", "text", "letter"):
        raise reader.fail(f"answer_by is {by!r}; give text or letter")
    by_text, letter = letter_of(options, answer), answer.strip("(). ").upper()
    by_letter = letter if letter in tuple(LETTERS[: len(options)]) else None
    if not by and by_text and by_letter and by_text != by_letter:
        raise reader.fail(
            f"the answer {answer!r} is the text of option {by_text} and the letter of another; say"
            ' which by a column answer_by, "text" or "letter"'
        )
    found = {"text": by_text, "letter": by_letter}.get(by, by_text or by_letter)
    if found is None:
        raise reader.fail(f"the answer {answer!r} is not one of the options")
    return found


def _truth(reader: Reader, options: Sequence[str]) -> tuple[Kind, str]:
    answer = reader.text("answer")
    if options:
        return "choice", _letter(reader, options, answer)
    plain = answer.lower().rstrip(".")
    return ("yes-no", plain) if plain in ("yes", "no") else ("word", answer)
