"""Would a bias do the same? The smallest constant with which plain decoding says it, too.

Pure functions of stored logits; imports no torch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from core.types import Answer, TokenStep
from core.words import visible

YES, NO = "yes", "no"


@dataclass(frozen=True)
class SameByConstant:
    """Where two answers part, and the constant that would have done it without a second view.

    index: the first token that differs, from 0. token, instead_of: its text in the method's answer
    and in plain decoding's. delta: logits to add to that token, at this place, so that plain
    decoding ties with it; any more makes it the choice. None where the trace does not hold its
    logit. on_yes: the same as a constant on every spelling of "yes", only where one of the two is
    yes and the other no, and such a constant leads from one to the other.
    """

    index: int
    token: str
    instead_of: str
    delta: float | None
    on_yes: float | None

    def as_dict(self) -> dict[str, Any]:
        """As it stands in the JSON summary."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """For a person."""
        if self.delta is None:
            return (
                f"No stored logit tells which constant would make token {self.index + 1} the same."
            )
        amount, place = self.delta, visible(self.token)
        if self.on_yes is not None:
            amount, place = self.on_yes, YES
        shown = f"{amount:+.2f}".replace("-", "−")
        return (
            f"A constant of {shown} on the logit of “{place}” would do the same at token"
            f" {self.index + 1}, without a second view."
        )


def same_by_constant(answer: Answer, baseline: Answer) -> SameByConstant | None:
    """The smallest constant that makes plain decoding choose the answer's token where they part.

    What comes before is equal, so the baseline's logits there are those of the same prefix; what
    follows is another path, about which they say nothing. None where no token differs.
    """
    for plain, other in zip(baseline.tokens, answer.tokens, strict=False):
        if plain.token != other.token:
            return _at(plain, other)
    return None


def _at(plain: TokenStep, other: TokenStep) -> SameByConstant:
    places = np.flatnonzero(plain.candidates == other.token)
    delta = None
    if len(places):
        delta = float(plain.base.max()) - float(plain.base[int(places[0])])
    return SameByConstant(plain.index, other.text, plain.text, delta, _on_yes(plain, other))


def _on_yes(plain: TokenStep, other: TokenStep) -> float | None:
    words = [text.strip().lower() for text in plain.texts]
    now, then = plain.text.strip().lower(), other.text.strip().lower()
    yes = np.array([w == YES for w in words])
    if {now, then} != {YES, NO} or not yes.any():
        return None
    best_yes = float(plain.base[yes].max())
    rest = np.where(yes, -np.inf, plain.base)
    rival = int(rest.argmax())
    if words[rival] != NO:  # another word than no would win
        return None
    return float(rest[rival]) - best_yes
