"""Would a bias do the same? The smallest constant with which plain decoding says it, too.

Pure functions of stored logits; imports no torch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.repeats import penalised, undo_repetition_penalty
from macd_studio.core.text.words import signed, visible
from macd_studio.core.types import Answer, TokenStep, Trace

YES, NO = "yes", "no"
ROUNDED = 1e-4
"""More than stored logits are rounded by."""


@dataclass(frozen=True)
class EquivalentConstant:
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
    def amount(self) -> float | None:
        """On "yes" where that is what differs, else on the token."""
        return self.delta if self.on_yes is None else self.on_yes

    @property
    def of(self) -> str:
        """The text of what it is added to."""
        return visible(self.token) if self.on_yes is None else YES

    @property
    def sentence(self) -> str:
        """For a person."""
        if self.amount is None:
            return (
                f"No stored logit tells which constant would make token {self.index + 1} the same."
            )
        return (
            f"A constant of {signed(self.amount)} on the logit of “{self.of}” would do the same at"
            f" token {self.index + 1}, without a second view."
        )


def first_difference(one: Answer, other: Answer) -> int | None:
    """Index of the first token that differs, None where none does.

    Where one is the beginning of the other, the first token that it lacks, unless that only ends
    the longer one.
    """
    index = _first_unlike(one, other)
    shorter, longer = sorted((one, other), key=lambda answer: len(answer.tokens))
    more = len(longer.tokens) - len(shorter.tokens)
    if index is not None or more == 0 or (more == 1 and longer.finished):
        return index
    return len(shorter.tokens)


def _first_unlike(one: Answer, other: Answer) -> int | None:
    pairs = zip(one.tokens, other.tokens, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.token != b.token), None)


def first_divergence(baseline: Answer, answer: Answer) -> int | None:
    """The first token at which two answers differ; None where they agree in full.

    Where one is the beginning of the other, the last token that both have.
    """
    index = _first_unlike(baseline, answer)
    if index is not None or len(baseline.tokens) == len(answer.tokens):
        return index
    return min(len(baseline.tokens), len(answer.tokens)) - 1


def smallest_constant(baseline: Answer, macd: Answer) -> float:
    """The smallest amount on the logit of MACD's token, given V, that changes the baseline to it.

    From stored logits at the first divergence; 0 where the answers agree. The token that MACD chose
    is always among the stored candidates of its own step.
    """
    index = first_divergence(baseline, macd)
    if index is None:
        return 0.0
    lead = _lead_over(macd.tokens[index], macd.tokens[index].token)
    assert lead is not None
    return lead


def constant_of_answer(trace: Trace, answer: Answer) -> EquivalentConstant | None:
    """The constant that does what an answer of the trace does.

    None where it was not decoded greedily as the baseline.
    """
    baseline = trace.answers.get("baseline")
    greedy = trace.options.decode.search == "greedy"
    return equivalent_constant(answer, baseline) if baseline and greedy else None


def equivalent_constant(answer: Answer, baseline: Answer) -> EquivalentConstant | None:
    """The smallest constant that makes plain decoding choose the answer's token where they differ.

    What comes before is equal, so the baseline's logits there are those of the same prefix; what
    follows is another path, about which they say nothing. Where the baseline's step does not hold
    the token, the answer's own step may. None where no token differs, or the baseline's token
    there is not its best one, so that it was not decoded greedily.
    """
    index = first_difference(baseline, answer)
    if index is None or index >= min(len(baseline.tokens), len(answer.tokens)):
        return None
    plain, other = baseline.tokens[index], answer.tokens[index]
    if (_lead_over(plain, plain.token) or 0.0) > ROUNDED:
        return None
    both = [plain.token, other.token]
    held = next((s for s in (plain, other) if np.isin(both, s.candidates).all()), None)
    delta = on_yes = None
    if held is not None:
        delta, on_yes = _lead_over(held, other.token), _on_yes(held, plain.text, other.text)
    return EquivalentConstant(plain.index, other.text, plain.text, delta, on_yes)


def _lead_over(step: TokenStep, token: int) -> float | None:
    """What must be added to a token's logit given the video, before the model's repetition penalty,
    so that it ties with the first; None where it is not stored.
    """
    places = np.flatnonzero(step.candidates == token)
    return float(_missing(step, float(_scores(step).max()))[places[0]]) if len(places) else None


def _scores(step: TokenStep) -> NDArray[np.float64]:
    return penalised(step.base, step.repeats)


def _missing(step: TokenStep, score: float) -> NDArray[np.float64]:
    """What must be added to each candidate's logit so that its score, penalised, is this one."""
    return undo_repetition_penalty(np.full(len(step.base), score), step.repeats) - step.base


def _on_yes(step: TokenStep, baseline: str, answer: str) -> float | None:
    """step: holds the logits given the video. baseline, answer: the token of each there."""
    words = [text.strip().lower() for text in step.texts]
    now, then = baseline.strip().lower(), answer.strip().lower()
    yes = np.array([w == YES for w in words])
    if {now, then} != {YES, NO} or not yes.any():
        return None
    rest = np.where(yes, -np.inf, _scores(step))
    rival = int(rest.argmax())
    if words[rival] != NO:  # another word than no would win
        return None
    return float(_missing(step, float(rest[rival]))[yes].min())
