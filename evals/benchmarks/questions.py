"""One's own videos and questions, from a CSV or JSONL file, run and scored like the rest.

First how a file may write what is right, and when: yes and no, letters of options, minutes.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.text.question import clean_question
from macd_studio.core.text.words import count
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks.base import LETTERS, LONG, Item, Kind
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark, letter_of
from macd_studio.evals.benchmarks.layout import Reader, place, read_table, require_videos

YES, NO = ("yes", "true", "1", "y"), ("no", "false", "0", "n")
"""Words of a truth, in any case. 1 and 0 may be numbers that were asked for, too."""
NUMBERS = ("1", "0")
WORDS_FILE = "words.csv"
MAX_WORDS, LONGEST = 100, 60
WORDS_REMEDY = "Write the columns yes and no, a word of a language in each, such as oui and non"
_MARKED = r"\s*[(（]?{}\s*(?:[.):]\s+|[、．）：]\s*)"
_MARKS = (LETTERS, LETTERS.lower(), "123456789")
_SENTENCE = re.compile(r"(yes|no)\s*[,;.!:]\s")
_CLOCK = re.compile(r"(?:(\d+):)?([0-5]?\d):([0-5]?\d(?:\.\d+)?)")

Words = tuple[tuple[str, str], ...]
"""(yes, no) of further languages, in lower case."""


def read_words(folder: Path) -> Words:
    """The words of `words.csv` beside the questions; () without one. Raises BenchmarkError."""
    path = folder / WORDS_FILE
    if not path.is_file():
        return ()
    rows = read_table(path, WORDS_REMEDY, largest_mb=1)
    if not 1 <= len(rows) <= MAX_WORDS:
        raise BenchmarkError(f"{place(path)} holds {len(rows)} rows", WORDS_REMEDY)
    pairs: list[tuple[str, str]] = []
    for where, record in rows:
        reader = Reader(path, where, record)
        yes, no = (reader.text(name).casefold() for name in ("yes", "no"))
        if yes == no or max(len(yes), len(no)) > LONGEST:
            raise reader.fail("yes and no are the same, or too long")
        pairs.append((yes, no))
    sides = [set(z) for z in zip(*pairs, strict=True)]
    if both := (sides[0] | {"yes"}) & (sides[1] | {"no"}):
        raise BenchmarkError(f"{place(path)} has {min(both)!r} for yes and for no", WORDS_REMEDY)
    return tuple(pairs)


def yes_or_no(answer: str, words: Words, numbers: bool) -> tuple[str, tuple[str, ...]] | None:
    """ "yes" or "no", and the words of the language that says so; None for an open answer.

    numbers: whether 1 and 0 mean yes and no. Where one language is given, it holds for all
    questions of the file.

    >>> yes_or_no("Oui.", (("oui", "non"),), True), yes_or_no("TRUE", (), True)
    (('yes', ('oui', 'non')), ('yes', ()))
    >>> yes_or_no("1", (), False) is None
    True
    """
    plain = answer.strip().rstrip(".").strip().casefold()
    for pair in words:
        if plain in pair:
            return ("yes", "no")[pair.index(plain)], pair
    only = words[0] if len(words) == 1 else ()
    if plain in NUMBERS and not numbers:
        return None
    if sentence := _SENTENCE.match(plain):  # "Yes, it is."
        return sentence[1], only
    if plain in YES:
        return "yes", only
    return ("no", only) if plain in NO else None


def numbers_are_yes_and_no(answers: Iterable[str]) -> bool:
    """Whether 1 and 0 mean yes and no: not where other numbers are answers too.

    >>> numbers_are_yes_and_no(["1", "0", "dog"]), numbers_are_yes_and_no(["1", "2"])
    (True, False)
    """
    plain = {a.strip().rstrip(".") for a in answers}
    return not any(a.isdecimal() and a not in NUMBERS for a in plain)


def without_letters(options: Sequence[str]) -> tuple[str, ...]:
    """Options without the letter or number that each carries; as they are where not all do.

    >>> without_letters(["A. up", "B. down"]), without_letters(["(1) up", "(2) down"])
    (('up', 'down'), ('up', 'down'))
    >>> without_letters(["A、上", "B、下"]), without_letters(["1.5 m", "2.5 m"])
    (('上', '下'), ('1.5 m', '2.5 m'))
    >>> without_letters(["A. Milne", "a bear"])
    ('A. Milne', 'a bear')
    """
    marks = marks_of(options)
    if not marks:
        return tuple(options)
    return tuple(
        re.sub(f"^{_MARKED.format(mark)}", "", option).strip()
        for mark, option in zip(marks, options, strict=False)
    )


def marks_of(options: Sequence[str]) -> str:
    """The letters or digits that all options carry, in order; "" where not all do.

    >>> marks_of(["a) up", "b) down"]), marks_of(["up", "down"])
    ('ab', '')
    """
    for marks in _MARKS:
        if 0 < len(options) <= len(marks) and all(
            re.match(_MARKED.format(mark), option)
            for mark, option in zip(marks, options, strict=False)
        ):
            return marks[: len(options)]
    return ""


def seconds(reader: Reader, name: str) -> float | None:
    """Seconds, as a number or as mm:ss or hh:mm:ss; None where there is none.

    Raises BenchmarkError for anything else.
    """
    value = reader.record.get(name)
    if not isinstance(value, str) or ":" not in value:
        return reader.number(name)
    match = _CLOCK.fullmatch(value.strip())
    if match is None:
        raise reader.fail(f"{name!r} is {value[:40]!r} instead of seconds, mm:ss or hh:mm:ss")
    hours, minutes, rest = match.groups()
    return 3600.0 * int(hours or 0) + 60.0 * int(minutes) + float(rest)


_LETTERED_ANSWER = re.compile(r"\s*\(?([A-Z])\s*[.):]\s+(.+)")
NAMES = tuple(f"questions.{z}" for z in ("csv", "jsonl", "tsv", "parquet", "xlsx"))
REMEDY = (
    "Give a CSV, TSV, XLSX, JSONL or Parquet file, or a folder with questions.csv or"
    " questions.jsonl"
)
_OPTION = re.compile(r"(?:option|choice)?[ _-]?([A-Z])", re.IGNORECASE)
ALIASES = {"index": "id", "question_id": "id", "candidates": "options"}
"""Columns of other harnesses, where the file has none of the own name."""
FIELDS = (
    "id", "video", "question", "answer", "answer_by", "options", "type", "cluster", "group",
    "start", "end", "regime", "counterpart", "removed", "added",
)  # fmt: skip
WORD_MARK = "|"
"""Between the right answers of an open question."""
LONGEST_LIST = 20_000
"""Characters of a list of options in one cell."""
AFTER_OPTIONS = "Answer with the option's letter from the given choices directly."
AFTER_SEVERAL = "Answer with the letters of all right options, such as AC."


@dataclass(frozen=True)
class Counterpart:
    """The partner of a question's clip. key: of that clip; removed, added: see `Questions`."""

    key: str
    removed: tuple[str, ...]
    added: tuple[str, ...]


class Questions(FileBenchmark):
    """video, question, answer; and, where wanted, options, type, cluster, group, id, start, end.

    Further columns are left alone, but for names that are nearly one of these. Case does not count.

    options: a list in JSONL and Parquet; in CSV separated by "|", or a list as JSON or Python
    writes it; or columns A, B, C and so on, as VLMEvalKit has them. The answer of a question with
    options is one of them or its letter; answer_by, "text" or "letter", says which where it could
    be both, as "A" of B|A|C. Several right options are a list in JSONL, separated by "|" in CSV; an
    answer is then right where it names these and no other. A letter or number that every option
    carries is taken
    away.
    Without options, yes, no, true, false, 1 and 0 in any case make a yes/no question, and words of
    other languages where `words.csv` beside the file gives them; anything else is an open question,
    right by the same words. type: a label to report by, the regime of the question. cluster: what
    belongs together, such as videos of one scene; the video itself without it. group: questions
    that count as right only together. counterpart: another clip of the same scene, in which the
    classes of `removed` are not and those of `added` are, with commas. start, end: seconds, mm:ss
    or hh:mm:ss. Videos lie beside the file, or where an absolute path says.
    """

    name = "questions"
    limits = LONG
    strict = True
    """Whether a column that is nearly one of these is refused."""

    def reader(self, file: Path, where: str, record: Mapping[str, Any]) -> Reader:
        """A record by its names here."""
        return Reader(file, where, named(record))

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        file = _file(data)
        self._unused: dict[str, None] = {}
        self._partners: dict[str, tuple[Path, tuple[str, ...], tuple[str, ...]]] = {}
        records = read_table(file, REMEDY)
        if not records:
            raise BenchmarkError(f"{place(file)} holds no question", REMEDY)
        self._words = read_words(file.parent)
        readers = [self.reader(file, where, record) for where, record in records]
        missing = [c for c in ("video", "question", "answer") if c not in readers[0].record]
        if missing:
            raise BenchmarkError(
                f"{place(file)} has no column {' and no '.join(missing)}; it has"
                f" {', '.join(map(shown, readers[0].record))}",
                "Name its columns video, question, answer, and where wanted options",
            )
        open_answers = [_answer(r) for r in readers if not _written(r)]
        self._numbers = numbers_are_yes_and_no(a for a in open_answers if isinstance(a, str))
        for number, reader in enumerate(readers, 1):
            for column in reader.record:
                if (
                    self.strict
                    and column not in FIELDS
                    and not _OPTION.fullmatch(column)
                    and (meant := get_close_matches(column.lower(), FIELDS, 1, 0.8))
                ):
                    raise reader.fail(f"{column!r} is not a column; is {meant[0]!r} meant?")
            self._unused |= dict.fromkeys(
                c for c in reader.record if c not in FIELDS and not _OPTION.fullmatch(c)
            )
            asked = self._asked(file.parent, reader, number)
            if partner := reader.text("counterpart", default=""):
                removed, added = _listed(reader, "removed"), _listed(reader, "added")
                self._partners[asked.id] = (file.parent / partner, removed, added)
            yield asked

    def _asked(self, root: Path, reader: Reader, number: int) -> Asked:
        options = _options(reader)
        kind, truth, options = self._truth(reader, options)
        start, end = seconds(reader, "start") or 0.0, seconds(reader, "end")
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
            group=reader.text("group", default=""),
        )

    def _truth(self, reader: Reader, options: tuple[str, ...]) -> tuple[Kind, str, tuple[str, ...]]:
        """Kind, truth, and options; of yes and no those of another language, if any."""
        answer = _answer(reader)
        if not options:
            if not isinstance(answer, str):
                raise reader.fail("'answer' is a list without options")
            found = yes_or_no(answer, self._words, self._numbers)
            return ("word", answer, ()) if found is None else ("yes-no", *found)
        if isinstance(answer, str):
            parts = [p.strip() for p in answer.split("|")]
            if answer in options or len(parts) < 2:
                return "choice", _letter(reader, options, answer), options
            answer = parts
        letters = [_letter(reader, options, a) for a in answer]
        if not letters or len(set(letters)) < len(letters):
            raise reader.fail("an option is right twice, or none is")
        return "choices", "".join(sorted(letters)), options

    @cached_property
    def counterparts(self) -> dict[str, Counterpart]:
        """Question → the partner of its clip. Raises BenchmarkError where one is missing."""
        require_videos(self.data, [video for video, *_ in self._partners.values()])
        found = {}
        for asked in self.asked:
            if asked.id in self._partners:
                video, removed, added = self._partners[asked.id]
                key = self.add_clip(replace(asked, video=video))
                found[asked.id] = Counterpart(key, removed, added)
        return found

    def partner(self, item: Item) -> str | None:
        """The clip that the column counterpart names."""
        found = self.counterparts.get(item.id)
        return None if found is None else found.key

    def check_sizes(self) -> list[str]:
        """Open questions, groups of one, and columns that mean nothing here."""
        notes = []
        if spoken := [a for a in self.asked if a.kind == "word"]:
            first = spoken[0]
            notes.append(
                f"{len(spoken)} of {count(len(self.asked), 'question')} are open: an answer counts"
                f" only where it is the same words, such as {shown(first.truth)} for"
                f" {shown(first.id)}"
            )
        if not self._numbers:
            notes.append("1 and 0 are taken as numbers, because other numbers are answers too")
        sizes = Counter(a.group for a in self.asked if a.group)
        if alone := [g for g, n in sizes.items() if n == 1]:
            notes.append(
                f"{len(alone)} of {count(len(sizes), 'group')} have one question, such as"
                f" {shown(alone[0])}"
            )
        names = ", ".join(map(shown, self._unused))
        return notes + (
            [f"not used: {count(len(self._unused), 'column')}, {names}"] if names else []
        )

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """The options as "A. …"; yes/no and open questions are asked as they are."""
        if asked.kind not in ("choice", "choices"):
            return "", ""
        after = AFTER_SEVERAL if asked.kind == "choices" else AFTER_OPTIONS
        return "", f"\n{lettered(asked.options)}\n{after}"


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


def _answer(reader: Reader) -> str | list[str]:
    """The answer as the file has it; JSON's true and false as words. Raises BenchmarkError."""
    value = reader.record.get("answer")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return [str(z).strip() for z in reader.texts("answer")]
    return reader.text("answer")


def _listed(reader: Reader, name: str) -> tuple[str, ...]:
    parts = (p.strip() for p in reader.text(name, default="").split(","))
    return tuple(p for p in parts if p)


def named(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose columns have their names here, whatever their case."""
    lower = {c.lower(): c for c in record}
    renamed = {lower[f]: f for f in FIELDS if f in lower and f not in record}
    renamed |= {lower[a]: f for a, f in ALIASES.items() if a in lower and f not in lower}
    return {renamed.get(c, c): v for c, v in record.items()}


def _written(reader: Reader) -> tuple[str, ...]:
    """The options as the file writes them; empty where it has none."""
    value = reader.record.get("options")
    if isinstance(value, str) and value.strip():
        if value.strip().startswith("[") and (listed := _as_list(value)) is not None:
            return tuple(str(o).strip() for o in listed)
        return tuple(o.strip() for o in value.split("|"))
    if value not in (None, ""):
        return reader.texts("options")
    columns = {m[1].upper(): c for c in reader.record if (m := _OPTION.fullmatch(c))}
    if not {"A", "B"} <= columns.keys():
        return ()
    cells = [reader.text(columns[letter], default="") for letter in sorted(columns)]
    while cells and not cells[-1]:
        cells.pop()
    return tuple(cells)


def _as_list(text: str) -> list[Any] | None:
    """A list as JSON or Python writes it; None for another text."""
    if len(text) > LONGEST_LIST:
        return None
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            found = read(text.strip())
            if isinstance(found, list) and all(isinstance(o, str | int | float) for o in found):
                return found
    return None


def _options(reader: Reader) -> tuple[str, ...]:
    options = _written(reader)
    if options and not 2 <= len(options) <= len(LETTERS):
        raise reader.fail(f"there are {len(options)} options; give 2 to {len(LETTERS)}")
    options = without_letters(options)
    if len(set(options)) < len(options) or not all(options):
        raise reader.fail("an option is empty, or there twice")
    return options


def _letter(reader: Reader, options: Sequence[str], answer: str) -> str:
    """Of the right option, which the answer names by its text or by its letter."""
    by = reader.text("answer_by", default="")
    if by not in ("", "text", "letter"):
        raise reader.fail(f"answer_by is {by!r}; give text or letter")
    by_text, letter = letter_of(options, answer), answer.strip("(). ").upper()
    if letter.isdecimal() and letter in marks_of(_written(reader)):  # options are numbered
        letter = LETTERS[int(letter) - 1]
    if by_text is None and (match := _LETTERED_ANSWER.match(answer)):
        # as the file writes its options, with their letter
        carried, text = match.groups()
        by_text = carried if letter_of(options, text.strip()) == carried else None
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
