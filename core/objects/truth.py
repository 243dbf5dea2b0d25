"""Whether an answer is right, where the right one is known."""

from __future__ import annotations

import re

OUTSIDE = "demo model, outside its training data"
"""The badge of an answer, or of masks, that mean nothing; see `Trace.outside_domain`."""

_LEADING_ARTICLE = re.compile(r"^(?:a|an|the)\s+")


def normalized(text: str) -> str:
    """Lower case, one blank between words, without a leading article or marks at the end.

    >>> normalized(" The  Dog. ")
    'dog'
    """
    plain = " ".join(text.lower().split()).strip(" .!?,;:'\"")
    return _LEADING_ARTICLE.sub("", plain)


def is_right(text: str, truth: str) -> bool | None:
    """Whether an answer says the truth; None where no truth is known.

    Yes and no are compared by the answer's first word, anything else as a whole.

    >>> is_right("Yes, there is.", "yes"), is_right("dogs", "dog"), is_right("dog", "")
    (True, False, None)
    """
    right = normalized(truth)
    if not right:
        return None
    answer = normalized(text)
    if right in ("yes", "no"):
        return bool(re.match(rf"{right}\b", answer))
    return answer == right
