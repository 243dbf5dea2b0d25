"""How a file may write what is right, and when: yes and no, letters of options, minutes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.base import LETTERS
from macd_studio.evals.benchmarks.layout import Reader, place, read_table

YES, NO = ("yes", "true", "1", "y"), ("no", "false", "0", "n")
"""Words of a truth, in any case. 1 and 0 may be numbers that were asked for, too."""
NUMBERS = ("1", "0")
WORDS_FILE = "words.csv"
MOST_WORDS, LONGEST = 100, 60
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
    if not 1 <= len(rows) <= MOST_WORDS:
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
