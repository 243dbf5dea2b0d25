"""How two evaluation harnesses read answers to multiple choice, each at one version.

`tests/evals/data/rules` holds what they themselves say of several hundred answers. Where a newer
version reads otherwise, change the rule, the version and those files together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

from macd_studio.evals.benchmarks.base import LETTERS, Item

LMMS_EVAL = "0.7.3"
"""EvolvingLMMs-Lab/lmms-eval."""
VLMEVALKIT = "e8e78f0"
"""A commit of open-compass/VLMEvalKit."""

Read = Callable[[str, Item], str | None]
Accept = Callable[[str, Item], bool]
Drop = Callable[[str, Item], bool]

PUNCTUATION = (";", "/", "[", "]", '"', "{", "}", "(", ")", "=", "+", "\\", "_", "-", ">", "<",
               "@", "`", ",", "?", "!")  # fmt: skip


def first_word(text: str, item: Item) -> str | None:
    """The letter that the answer begins with, in either case, a bracket before it or not."""
    match = re.match(r"\(?([a-z])(?![a-z])", text.lower())
    return match[1].upper() if match else None


def shares_first_word(text: str, item: Item) -> bool:
    """Whether the first word is a part of "(b)", the letter of the truth in brackets, or holds it.

    So nothing at all, a blank before the answer, "(" and ")" are right whatever the truth.
    """
    word = text.lower().split(" ")[0]
    truth = f"({item.truth.lower()})"
    return word.replace(".", "") in truth or truth in word


def letter_word(text: str, item: Item) -> str | None:
    """The first of A to D that is a word of its own, an article at the beginning included."""
    match = re.search(r"\b([A-D])\b", text)
    return match[1] if match else None


# lmms-eval


def mvbench_lmms(text: str, item: Item) -> str | None:
    """The letter of "b. …", else the first of A to E that is a word of its own, in either case.

    So the article of "There is a dog. The answer is C" is read as A.
    """
    plain = _mvbench_plain(text)
    return plain if len(plain) == 1 and plain in LETTERS[:5] else None


def mvbench_lmms_accepts(text: str, item: Item) -> bool:
    """Whether answer and truth come to the same, which is a small letter from F on."""
    return _mvbench_plain(text) == _mvbench_plain(item.truth)


def _mvbench_plain(text: str) -> str:
    text = text.strip()
    if listed := re.match(r"(?i)([A-E])\.\s*(.+)$", text):
        return listed[1].upper()
    plain = _without_punctuation(text.replace("\n", " ").replace("\t", " ").strip())
    for sign in "'\")(":
        plain = plain.strip(sign)
    plain = plain.strip().lower()
    letter = re.search(r"(?i)\b([A-E])\b", plain)
    return letter[1].upper() if letter else plain


def _without_punctuation(text: str) -> str:
    """Signs beside a blank are removed, others become a blank; stops go unless a digit follows."""
    vanish = bool(re.search(r"\d,\d", text))
    out = text
    for sign in PUNCTUATION:
        beside = f"{sign} " in text or f" {sign}" in text
        out = out.replace(sign, "" if beside or vanish else " ")
    return re.sub(r"\.(?!\d)", "", out, count=32)


_VERDICTS = ("answer is", "correct answer is", "best answer is", "correct option is",
             "best option is", "choice is", "correct choice is")  # fmt: skip
ANNOUNCEMENTS = (
    *("".join(pair) for pair in product(("the ", ""), _VERDICTS)),
    "i choose", "i select", "i pick", "my answer is", "my choice is",
    "옵션", "정답은", "답은", "답:", "答案是", "答案为", "选", "答えは",
)  # fmt: skip
"""After one of these, lmms-eval takes a letter for the answer wherever it stands."""
_MARKS = (("({})", 6), ("{}.", 5), ("{}:", 4), ("{})", 3), ("{} ", 2))
"""How an option may be written, and how much that says."""
_BEGINS, _ENDS, _ANNOUNCED = 10, 9, 7


def likeliest_letter(text: str, item: Item) -> str | None:
    """Of all places that name one of A to D, that in the most telling form, the last of equals.

    Most telling is a letter at the very beginning, then at the very end, then after an
    announcement; without any of these forms every capital counts, "Cannot tell" included.
    """
    core = text.strip()
    for sign in ",.!?;:'\"":
        core = core.strip(sign)
    padded, core = f" {core} ", core.strip()
    places: list[tuple[int, int, str]] = []
    for letter in "ABCD":
        for form, weight in _MARKS:
            if (at := padded.rfind(form.format(letter))) >= 0:
                places.append((weight, at, letter))
        for words in ANNOUNCEMENTS:
            begin = padded.lower().find(words)
            at = padded.find(letter, begin + len(words)) if begin >= 0 else -1
            if at >= 0:
                places.append((_ANNOUNCED, at, letter))
        if core.startswith(letter) and not core[1:2].isalpha():
            places.append((_BEGINS, 0, letter))
        if core.endswith(letter) and not core[-2:-1].isalpha():
            places.append((_ENDS, len(padded) - 1, letter))
    if not places:
        places = [(0, padded.rfind(letter), letter) for letter in "ABCD" if letter in padded]
    return max(places)[2] if places else None


# VLMEvalKit, which asks a language model where these rules read nothing; here it counts as wrong

REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_NONE_OF_THEM = "Z"
_SPLITTING = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_VERBOSE = re.compile(r"(?i)answer\s+is\s+\**([ABCD])")


def mvbench_kit_accepts(text: str, item: Item) -> bool:
    """The authors' rule without blanks around the answer, else what `_inferred` finds."""
    return shares_first_word(text.strip(), item) or _inferred(text, item) == item.truth


def mvbench_kit(text: str, item: Item) -> str | None:
    """The letter at the beginning, else what `_inferred` finds."""
    found = first_word(text.strip(), item) or _inferred(text, item)
    return found if found and found in LETTERS[: len(item.options)] else None


def _inferred(text: str, item: Item) -> str | None:
    """The one letter among the last words, else one after "answer is", else an option's words.

    After "answer is" a small letter counts, too, even if it is the first of a word. Of two options
    that are named none is taken, and of an answer twice as long as all options neither.
    """
    if any(refusal in text for refusal in REFUSALS):
        return _NONE_OF_THEM
    letters = LETTERS[: len(item.options)]
    parts = text.translate(_SPLITTING).split()
    named = [z for z in letters if z in parts]
    if len(named) == 1 and parts.index(named[0]) > len(parts) - 5:
        return named[0]
    if not named and _NONE_OF_THEM in parts:
        return _NONE_OF_THEM
    if (verbose := _VERBOSE.search(text)) and verbose[1].upper() in letters:
        return verbose[1].upper()
    if len(text) > 2 * sum(map(len, item.options)):
        return None
    lower = text.lower()
    said = [z for z, o in zip(letters, item.options, strict=False) if o.lower() in lower]
    return said[0] if len(said) == 1 else None
