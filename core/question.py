"""The question as typed → the question as asked, or a QuestionError that says why not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from core.errors import QuestionError

MAX_LENGTH = 2000
_BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


def clean_question(text: str) -> str:
    """The question without surrounding blanks; raises QuestionError if it cannot be asked."""
    question = text.strip()
    if not question:
        raise QuestionError("the question is blank", "Type a question about the video")
    if len(question) > MAX_LENGTH:
        raise QuestionError(
            f"the question has {len(question)} characters, more than {MAX_LENGTH}", "Shorten it"
        )
    for c in question:
        if c in _BIDI or (unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"):
            raise QuestionError(
                f"the question holds an invisible control character (U+{ord(c):04X})",
                "Type it anew instead of pasting it",
            )
    return question


_NO_NOUNS = set(
    "a an and are at be behind can come comes did do does during first for from going happen"
    " happens has have he her his how i in is it its many more most move moves much near no not"
    " of on or other people's scene see she still than that the their them there these they this"
    " those to two video was way were what when where which while who whose why will with yes"
    " you".split()
)


def nouns(question: str) -> tuple[str, ...]:
    """The words of a question that may name things, in order: what is left without small words.

    >>> nouns("Is there a dog or an umbrella in the video?")
    ('dog', 'umbrella')
    """
    words = re.findall(r"[^\W\d_][\w'-]*", question.lower())
    return tuple(dict.fromkeys(w for w in words if w not in _NO_NOUNS))


def refuse_special(question: str, special: Iterable[str]) -> None:
    """Raises QuestionError if the question holds one of a tokenizer's special strings."""
    for token in special:
        if token and token in question:
            raise QuestionError(
                f"the question holds {token!r}, which steers the model's prompt", "Take it out"
            )
