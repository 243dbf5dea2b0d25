"""What decoder layers do with the video: attention knock-out, and the logit lens.

Knock-out: the answer's tokens cannot attend to a region's vision tokens. Blocked are the rows of
the last prompt token, which predicts the answer's first, and of every token of the answer; the
question still sees the whole video, and what it took from there stays (Geva et al. 2023, arXiv
2304.14767).

Lens: the token's probability as read out after each decoder layer. Each layer's hidden state goes
through the model's final norm and head (nostalgebraist 2020). Early layers were never trained to be
read that way, so only the later ones can be taken at their word.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import torch

from macd_studio.core.backbones.host import to_float, to_host
from macd_studio.core.backbones.local import DecodeState, Watch
from macd_studio.core.decoding.views import adjust_logits
from macd_studio.core.errors import OptionError
from macd_studio.core.evidence.case import EvidenceCase
from macd_studio.core.measurements import KnockOut, Lens
from macd_studio.core.repeats import penalised, repeats_of
from macd_studio.core.token_logits import NextTokenLogits


@dataclass(frozen=True)
class Blocked:
    """What is blocked: an object by id, or a box; its vision tokens; in which layers, from 0."""

    track: int | None
    box: tuple[float, float, float, float] | None
    tokens: tuple[int, ...]
    layers: tuple[int, ...]


@dataclass(frozen=True)
class Answered:
    """The greedy answer, and the target's number and probability after its prefix."""

    text: str
    score: float
    probability: float


def knock_out(case: EvidenceCase, blocked: Blocked, before: Answered | None = None) -> KnockOut:
    """The answer to the video and the target's number, before and after.

    before: what `answered` gave for the case, where it is known already. Raises OptionError for a
    region that holds no vision token.
    """
    if not blocked.tokens:
        raise OptionError("the region holds no vision token", "Choose one that is seen")
    before = before or answered(case)
    after = answered(case, Watch(blocked=blocked.tokens, blocked_layers=blocked.layers))
    return KnockOut(
        track=blocked.track,
        box=blocked.box,
        layers=(blocked.layers[0], blocked.layers[-1]),
        tokens=len(blocked.tokens),
        before=before.text,
        after=after.text,
        score=(before.score, after.score),
        probability=(before.probability, after.probability),
    )


@torch.no_grad()
def answered(case: EvidenceCase, watch: Watch | None = None) -> Answered:
    """The answer to the video, with what `watch` blocks blocked."""
    lm, start = case.lm, case.state("video")
    last = int(to_host(case.encoded.input_ids[0, -1]))
    with lm.watching(start, watch) if watch else nullcontext():
        opened = lm.step(lm.crop(start, start.prompt - 1), [last])
        text = _decoded(case, opened)
        state = lm.crop(opened, opened.length)
        for token in case.prefix:
            state = lm.step(state, [token])
    logits = state.logits[0].double()
    number = logits[case.target.token]
    if case.target.against is not None:
        number = number - logits[case.target.against]
    chance = to_float(torch.softmax(logits, -1)[case.target.token])
    return Answered(text, to_float(number), chance)


def _decoded(case: EvidenceCase, opened: DecodeState) -> str:
    lm, tokens = case.lm, list[int]()
    state = lm.crop(opened, opened.length)
    for _ in range(case.context.options.decode.max_tokens):
        row = NextTokenLogits(to_host(state.logits[0].double()))
        row = adjust_logits(row, len(tokens), tokens, lm, case.context.options.decode)
        before = [*state.prompt_tokens, *tokens]
        repeats = repeats_of(lm.info.repetition_penalty, row, before)
        token = int(penalised(row.values, repeats).argmax())
        if token in lm.end_tokens:
            break
        tokens.append(token)
        state = lm.step(state, [token])
    return lm.text(tokens)


def read_layers_out(case: EvidenceCase) -> Lens:
    """Under both views; the last layer's probability is the model's own."""
    return Lens(*(_probabilities(case, view) for view in case.views))


def _probabilities(case: EvidenceCase, view: str) -> tuple[float, ...]:
    state, token = case.before_last(view)
    with case.lm.watching(state, Watch(lens=True)) as seen:
        case.lm.step(state, [token])
    return tuple(
        to_float(torch.softmax(logits[0].double(), -1)[case.target.token]) for logits in seen.lens
    )
