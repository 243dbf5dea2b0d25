"""Forced choices: an answer is the option whose first token scores highest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from macd_studio.core.backbones.base import VideoLM
from macd_studio.core.decoding.contrast import cut_floor, weighted
from macd_studio.core.repeats import penalised
from macd_studio.core.types import Answer, StepWeights, TokenStep


def first_tokens(lm: VideoLM, option: str) -> tuple[int, ...]:
    """First tokens of an option, written small and with a capital."""
    return tuple(dict.fromkeys(lm.tokens(w)[0] for w in (option, option.capitalize())))


def only_options(lm: VideoLM, step: TokenStep, options: Sequence[str]) -> TokenStep | None:
    """The first token's step with the options' tokens as its only candidates.

    An option that is not among the stored candidates is less likely than all of them, and cannot
    win. None where no option is among them.
    """
    option_tokens = {token for option in options for token in first_tokens(lm, option)}
    at = [i for i, token in enumerate(step.candidates.tolist()) if token in option_tokens]
    if not at:
        return None
    return replace(
        step,
        candidates=step.candidates[at],
        texts=tuple(step.texts[i] for i in at),
        base=step.base[at],
        counter=None if step.counter is None else step.counter[at],
        further=tuple(row[at] for row in step.further),
        repeats=step.repeats and step.repeats.among(np.array(at)),
    )


def pick_option(step: TokenStep, answer: Answer) -> str:
    """The option that the answer's own rule scores highest; step: from `only_options`.

    The plausibility cut compares options with the best option, not with the whole vocabulary.
    """
    own = step.weights or StepWeights(1 + answer.alpha, (-answer.alpha,))
    floor = own.floor
    if answer.rule == "linear":
        floor = cut_floor(step.base, answer.beta, "raw" if answer.head == "raw" else "probability")
    scores = weighted(step.base, step.others, replace(own, floor=floor), step.candidates)
    scores = penalised(scores, step.repeats)
    return step.texts[int(scores.argmax())].strip().lower()
