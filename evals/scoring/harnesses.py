"""How other programs read answers, each at one version, oddities included.

`tests/evals/data/rules` holds what they themselves say of several hundred answers. Where a newer
version reads otherwise, change the rule, the version and those files together.

VideoHallucer (patrick-tssn/VideoHallucer) was scored in three ways one after the other; VidHalluc
(CyL97/VidHalluc, e753864); VidPair-Halluc (JethroJames/VidPair-Halluc, evaluate/ at c2e0da5 and its
multiple choice at b2ac63b). Parts that need a language model as a judge, or sentence embeddings,
are not among them.
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


# VideoHallucer


def names_truth(text: str, item: Item) -> bool:
    """The right word is somewhere in the answer, whatever else is.

    At ae4c2f2, since c95ca4b of May 2024.
    """
    return re.search(rf"\b{re.escape(item.truth)}\b", text, re.IGNORECASE) is not None


def begins_with_truth(text: str, item: Item) -> bool:
    """The answer begins with the right word (7503b14, until May 2024)."""
    return re.match(rf"{re.escape(item.truth)}\b", text, re.IGNORECASE) is not None


def truth_before_stop(text: str, item: Item) -> bool:
    """What stands before the first full stop is the right word and nothing else.

    At 0949046 of April 2024.
    """
    return text.split(".")[0].strip().lower() == item.truth.lower()


# VidHalluc


def word_before_comma(text: str, item: Item) -> str | None:
    """What stands before the first full stop and comma, where it is yes or no."""
    word = text.strip().split(".")[0].split(",")[0].strip().lower()
    return word if word in ("yes", "no") else None


def letters_a_to_d(text: str, item: Item) -> str | None:
    """All capitals A to D that are words; without any the first option whose text is named."""
    found = set(re.findall(r"\b[A-D]\b", text))
    if not found:
        lower = text.lower()
        named = (LETTERS[i] for i, o in enumerate(item.options) if o.lower() in lower)
        found = set(next(named, ""))
    return "".join(sorted(found)) or None


_ACTION = r"(action [ab]|[ab][\.\)])"
_ORDERS = ("before", "then", "after")


def order_of_actions(text: str, item: Item) -> str | None:
    """A, B, AB or BA: which of two actions an answer names, and in which order; None where unclear.

    Where both are named, the first of the words before, then, after decides, in the authors' own
    patterns: their `[^before]` excludes the letters of the word and not the word itself.
    """
    lower = text.lower()
    if lower in ("a", "b", "ab", "ba"):
        return lower.upper()
    if "not clear" in lower or "no clear" in lower:
        return None
    named = ["action a" in lower, "action b" in lower]
    if not all(named):
        return {(True, False): "A", (False, True): "B"}.get((named[0], named[1]))
    word = next((w for w in _ORDERS if w in lower), None)
    if word is not None:
        match = re.search(rf"{_ACTION}[^{word}]+{word}[^action]*?{_ACTION}", lower)
        if match:
            first, second = (match.group(k)[-1].upper() for k in (1, 2))
            # the authors take the last sign of a match, which of "a." is the stop
            return second + first if word == "after" else first + second
    return "".join(m.group(1)[-1].upper() for m in re.finditer(_ACTION, lower))


# VidPair-Halluc

INVALID = (
    "", "unknown", "error", "file not found", "video not found", "cannot process",
    "inference failed", "\u6587\u4ef6\u672a\u627e\u5230", "\u65e0\u6cd5\u5904\u7406",
    "\u63a8\u7406\u5931\u8d25",
)  # fmt: skip
"""Answers that count as none: errors that the authors' own programs write."""


def yes_somewhere(text: str, item: Item) -> str | None:
    """What the answer begins with, else "yes" where these letters are anywhere in it, else "no"."""
    lower = text.strip().lower()
    if lower in INVALID:
        return None
    for begins in (True, False):
        for word in ("yes", "no"):
            if lower.startswith(word) if begins else word in lower:
                return word
    return None


def letters_without_blanks(text: str, item: Item) -> str | None:
    """The whole answer in capitals without blanks, which has to be the right letters."""
    return "".join(text.upper().split()) or None


def first_letter(text: str, item: Item) -> str | None:
    """The first letter of the answer, in capitals."""
    return next((z.upper() for z in text if z.isalpha()), None)
