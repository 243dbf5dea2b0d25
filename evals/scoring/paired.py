"""Scoring rules of benchmarks of pairs, as their authors' programs have them, oddities included.

VideoHallucer (patrick-tssn/VideoHallucer) was scored in three ways one after the other; VidHalluc
(CyL97/VidHalluc, e753864); VidPair-Halluc (JethroJames/VidPair-Halluc, evaluate/ at c2e0da5 and its
multiple choice at b2ac63b). Parts that need a language model as a judge, or sentence embeddings,
are not among them.
"""

from __future__ import annotations

import re

from macd_studio.evals.benchmarks.base import LETTERS, Item

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
