"""The question as typed → the question as asked, or a QuestionError that says why not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from core.errors import QuestionError

MAX_LENGTH = 2000
_BIDI = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


def clean_question(text: object) -> str:
    """The question without surrounding blanks; raises QuestionError if it cannot be asked."""
    if not isinstance(text, str):
        raise QuestionError("the question is no text", "Type a question about the video")
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


_PLAIN = re.compile(r"[\w\s.,;:!?'\"’-]*")


def control_strings(
    special: Iterable[str], added: Iterable[str], placeholders: Iterable[str] = ()
) -> tuple[str, ...]:
    """What no question may hold, longest first, so that an error names the whole string.

    special: the tokenizer's special tokens. added: all it was given beside its vocabulary, of which
    words and runs of blanks are plain text. placeholders: what the processor replaces in a prompt.

    >>> control_strings(["<|end|>"], ["<think>", "  ", "hello"], ["<video>"])
    ('<think>', '<video>', '<|end|>')
    """
    found = [*special, *placeholders, *(t for t in added if not _PLAIN.fullmatch(t))]
    return tuple(sorted({t for t in found if t.strip()}, key=lambda t: (-len(t), t)))


def refuse_special(
    question: str,
    special: Iterable[str],
    ids: Iterable[int] = (),
    control_ids: Mapping[int, str] | None = None,
) -> None:
    """Raises QuestionError if the question holds a string that steers the model's prompt.

    special: such strings, see `control_strings`. ids: the question's tokens; control_ids: tokens
    that no question may become, with their text, for tokenizers that read other spellings alike.
    """
    held = [token for token in special if token and token in question]
    held += [(control_ids or {})[i] for i in ids if i in (control_ids or {})]
    if held:
        raise QuestionError(
            f"the question holds {held[0]!r}, which steers the model's prompt", "Take it out"
        )
