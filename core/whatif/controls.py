"""Would any mask do the same? MACD's choice of masks beside random ones and other controls.

At the first token where MACD's answer leaves the baseline's, every control decides anew, after the
same tokens and with the same α and β; one batched prefill over all controls.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.decoding.views import score_rows
from macd_studio.core.errors import OptionError
from macd_studio.core.macd import finalize_ascent
from macd_studio.core.masking.ascent import reverse_step
from macd_studio.core.masking.controls import ControlMask, random_place
from macd_studio.core.measurements import RANDOM_MASKS, ControlOutcome, ControlReport
from macd_studio.core.repeats import repeats_of
from macd_studio.core.rules import Linear
from macd_studio.core.types import Answer, AscentStep, Counterfactual
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.table import hidden_by
from macd_studio.core.whatif.constant import first_divergence, smallest_constant

BATCH = 8


@torch.no_grad()
def measure_controls(
    context: MethodContext,
    steps: Sequence[AscentStep],
    counterfactual: Counterfactual,
    baseline: Answer,
    macd: Answer,
    draws: int = RANDOM_MASKS,
) -> ControlReport:
    """Prefills every control in batches and lets each choose under MACD's α and β.

    steps: of the ascent that led to the counterfactual; with none there is no reversed control.
    Raises OptionError where an answer was not decoded greedily or nothing was masked.
    """
    began = time.perf_counter()
    if context.options.decode.search != "greedy":
        raise OptionError(
            "controls are compared for greedy answers only", "Choose the greedy search"
        )
    if not np.any(counterfactual.level) and not np.any(counterfactual.frame_level):
        raise OptionError("nothing was masked, so there is nothing to compare", "Set a level")
    if not macd.tokens or not baseline.tokens:
        raise OptionError("there is no answer to compare with", "Run the clip again")
    index = first_divergence(baseline, macd)
    last = len(macd.tokens) - 1 if index is None else index
    tokens = [step.token for step in macd.tokens[: last + 1]]
    names, videos = zip(*_controls(context, steps, counterfactual, draws), strict=True)
    choices = _choices(context, videos, tokens)
    outcomes = tuple(
        ControlOutcome(name, context.lm.token_text(token), place > last, min(place, last))
        for name, (place, token) in zip(names, choices, strict=True)
    )
    return ControlReport(
        index=index,
        macd=macd.tokens[last].text,
        baseline=baseline.tokens[min(last, len(baseline.tokens) - 1)].text,
        outcomes=outcomes,
        constant=smallest_constant(baseline, macd),
        milliseconds=round(1000 * (time.perf_counter() - began), 1),
    )


@torch.no_grad()
def count_same(
    context: MethodContext, baseline: Answer, macd: Answer, drawn: Sequence[ControlMask]
) -> int:
    """How many drawn masks do what MACD does in the context's trace, see `measure_controls`."""
    index = first_divergence(baseline, macd)
    last = len(macd.tokens) - 1 if index is None else index
    tokens = [step.token for step in macd.tokens[: last + 1]]
    mask = context.options.mask
    videos = (
        context.composite(context.masks(mask, one.tracks), one.level, one.frame_level)
        for one in drawn
    )
    return sum(place > last for place, _ in _choices(context, videos, tokens))


def _controls(
    context: MethodContext,
    steps: Sequence[AscentStep],
    counterfactual: Counterfactual,
    draws: int,
) -> Iterator[tuple[str, Tensor]]:
    """The name and the video of every control: random masks, all objects, reversed, blank."""
    mask = context.options.mask
    masks, hidden = context.masks(mask), hidden_by(context, counterfactual)
    for seed in range(draws):
        drawn = random_place(hidden, context.options.seed + seed)
        moved = context.masks(mask, drawn.tracks)
        yield "random", context.composite(moved, drawn.level, drawn.frame_level)
    if context.tracks:
        nothing = np.zeros_like(counterfactual.frame_level)
        video = context.composite(masks, np.ones(len(context.tracks)), nothing)
        yield "mask-all", video
    if steps:
        opposite = finalize_ascent(reverse_step(steps[-1]), context.options.ascent)
        yield "reversed", context.composite(masks, opposite.level, opposite.frame_level)
    yield "blank", torch.zeros_like(context.encoded.video)


def _choices(
    context: MethodContext, videos: Iterable[Tensor], tokens: Sequence[int]
) -> list[tuple[int, int]]:
    """Those of `_choose` for any number of videos, BATCH at a time."""
    waiting, choices = iter(videos), []
    while batch := list(islice(waiting, BATCH)):
        choices += _choose(context, torch.stack(batch), tokens)
    return choices


def _choose(context: MethodContext, videos: Tensor, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """For each of the videos (B, T, 3, h, w) where it first leaves `tokens`, and its token there.

    Every view is fed `tokens`. A view that never leaves them gives their number, and the last one.
    """
    lm, rule, base = context.lm, Linear(context.options.contrast), context.base
    video = lm.forced(context.encoded, context.encoded.video[None], tokens, base)
    seconds = lm.forced(context.encoded, videos, tokens, base)
    prompt = lm.prompt_of(base)
    chosen = [(len(tokens), tokens[-1])] * len(videos)
    for index, token in enumerate(tokens):
        (own,) = video.rows(index, ())
        ids = np.arange(len(own.values)) if own.ids is None else own.ids
        repeats = repeats_of(lm.info.repetition_penalty, own, [*prompt, *tokens[:index]])
        for n, other in enumerate(seconds.rows(index, () if own.ids is None else ids.tolist())):
            if chosen[n][0] == len(tokens):
                scored = score_rows(rule, own, [other.among(ids)], index, repeats)
                best = scored.choose(int(scored.scores.argmax()))
                if best != token:
                    chosen[n] = index, best
    return chosen
