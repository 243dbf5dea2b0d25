"""The question as typed → the question as asked, or a QuestionError that says why not."""

from __future__ import annotations

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


def refuse_special(question: str, special: Iterable[str]) -> None:
    """Raises QuestionError if the question holds one of a tokenizer's special strings."""
    for token in special:
        if token and token in question:
            raise QuestionError(
                f"the question holds {token!r}, which steers the model's prompt", "Take it out"
            )
