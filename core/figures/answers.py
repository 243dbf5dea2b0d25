"""Which answer, and which of its tokens, a figure of the contrast is about."""

from __future__ import annotations

from macd_studio.core.errors import OptionError
from macd_studio.core.types import Answer, Trace


def contrast_answer(trace: Trace, name: str | None) -> Answer:
    """The answer of that name, which must have a second view; MACD's or else the first by default.

    Raises OptionError where there is none.
    """
    several = {n: a for n, a in trace.answers.items() if a.tokens and a.tokens[0].others}
    if not several:
        raise OptionError(
            "no answer in this trace was contrasted with a second view", "Run one that is"
        )
    chosen = name if name is not None else ("macd" if "macd" in several else next(iter(several)))
    if chosen not in several:
        raise OptionError(
            f"there is no answer {chosen!r} with a second view",
            f"Choose one of {', '.join(several)}",
        )
    return several[chosen]


def token_index(trace: Trace, answer: Answer, index: int | None) -> int:
    """The token of that index from 0; by default the first that another answer does not share.

    The other is "baseline", or else the first of one view. Raises OptionError for one out of range.
    """
    if index is not None:
        if not 0 <= index < len(answer.tokens):
            raise OptionError(
                f"there is no token {index}", f"Choose from 0 to {len(answer.tokens) - 1}"
            )
        return index
    plain = [a for a in trace.answers.values() if a.tokens and not a.tokens[0].others]
    other = trace.answers.get("baseline") or next(iter(plain), None)
    pairs = zip(answer.tokens, other.tokens if other else (), strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.token != b.token), 0)
