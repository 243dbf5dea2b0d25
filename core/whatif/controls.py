"""Would any mask do the same? MACD's choice beside random masks, other controls and every subset.

At the first token where MACD's answer leaves the baseline's, every control decides anew, after the
same tokens and with the same α and β; one batched prefill over all controls.

The choice map decodes every subset of up to `MAX_MAPPED` objects; of more those with the largest
measured effects. Each is masked at level 1, once with MACD's frame mask and once without it where
it has one. A view is read once: for the tokens up to the one where MACD's answer parts from the
baseline's and, where it makes the answer leave the baseline before, for that answer to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.base import Handle
from macd_studio.core.backbones.local import DecodeState
from macd_studio.core.decoding.answers import answer_in_batch, find_answer
from macd_studio.core.decoding.views import Scored, adjust_logits, score_views
from macd_studio.core.description import LARGE
from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.macd import finalize_ascent
from macd_studio.core.masking.ascent import reverse_step
from macd_studio.core.masking.controls import ControlMask, random_place
from macd_studio.core.measurements import (
    MAX_MAPPED,
    RANDOM_MASKS,
    ChoiceMap,
    ControlOutcome,
    ControlReport,
    Subset,
)
from macd_studio.core.methods import masked_answer
from macd_studio.core.repeats import repeats_of
from macd_studio.core.rules import Linear
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.types import Answer, AscentStep, Counterfactual, Trace
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.measured import measured_changes, measured_levels
from macd_studio.core.views.table import hidden_pixels_of
from macd_studio.core.whatif.constant import first_divergence, smallest_constant
from macd_studio.core.whatif.verdict import check_choices, masks_frames

BATCH = 8
"""Views that are read together."""


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
    masks, hidden = context.masks(mask), hidden_pixels_of(context, counterfactual)
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
    lm, base = context.lm, context.base
    video = lm.forced(context.encoded, context.encoded.video[None], tokens, base)
    seconds = lm.forced(context.encoded, videos, tokens, base)
    chosen = [(len(tokens), tokens[-1])] * len(videos)
    for index, token in enumerate(tokens):
        (own,) = video.rows(index, ())
        for n, other in enumerate(seconds.rows(index, _ids(own))):
            if chosen[n][0] == len(tokens):
                scored = _scored(context, own, other, tokens[:index])
                best = scored.choose(int(scored.scores.argmax()))
                if best != token:
                    chosen[n] = index, best
    return chosen


def _ids(own: NextTokenLogits) -> list[int]:
    """The tokens that another view is asked for, beside a row of the video; [] for all."""
    return [] if own.ids is None else own.ids.tolist()


def _scored(
    context: MethodContext, own: NextTokenLogits, other: NextTokenLogits, tokens: Sequence[int]
) -> Scored:
    """What follows `tokens`, as MACD scores it. own: of the video; other: of another view."""
    lm, options = context.lm, context.options
    if own.ids is not None:
        other = other.among(own.ids)
    repeats = repeats_of(lm.info.repetition_penalty, own, [*lm.prompt_of(context.base), *tokens])
    own, other = (
        adjust_logits(row, len(tokens), tokens, lm, options.decode) for row in (own, other)
    )
    return score_views(Linear(options.contrast), own, [other], len(tokens), repeats)


def measure_choices(
    context: MethodContext, trace: Trace, stopped: Callable[[], bool] = lambda: False
) -> Generator[tuple[int, int], None, ChoiceMap]:
    """Reads every subset in batches; yields how many views were read, of how many.

    stopped: asked between batches. Raises Cancelled; OptionError where the answer was not decoded
    greedily, where there is no object, and where there is no answer to compare with.
    """
    began = time.perf_counter()
    check_choices(trace)
    objects, left_out = _objects(context, trace)
    effects = measured_levels(measured_changes(context), context.options.ascent.r0)
    measured = tuple(t.id for t, level in zip(trace.tracks, effects, strict=True) if level >= 1)
    tokens = _tokens(trace)
    levels = trace.counterfactual
    assert levels is not None
    ids = [t.id for t in trace.tracks]
    sets = [
        (chosen, frames)
        for frames in ((False, True) if masks_frames(trace) else (False,))
        for size in range(len(objects) + 1)
        for chosen in combinations(objects, size)
    ]
    masks, none = context.masks(context.options.mask), np.zeros_like(levels.frame_level)

    masked = tuple(i for i, level in zip(ids, levels.level, strict=True) if level > 0)
    wanted: list[tuple[tuple[int, ...], bool]] = [*sets, (masked, masks_frames(trace))]

    def drawn(n: int) -> Tensor:
        if n == len(sets):
            return context.composite(masks, levels.level, levels.frame_level)
        chosen, frames = sets[n]
        level = np.array([float(i in chosen) for i in ids])
        return context.composite(masks, level, levels.frame_level if frames else none)

    lm, base = context.lm, context.base
    plain = [lm.next_logits(base, tokens[:n], [token])[0] for n, token in enumerate(tokens)]
    found: list[Subset] = []
    for at in range(0, len(wanted), BATCH):
        if stopped():
            raise Cancelled("stopped while subsets were read", "What was there before is kept")
        batch = torch.stack([drawn(n) for n in range(at, min(at + BATCH, len(wanted)))])
        views = context.prefill(batch)
        leads = _leads(context, plain, views, tokens)
        flips = [n for n, (lead, _) in enumerate(leads) if lead > 0]
        answers = dict(zip(flips, _answers(context, views, batch, flips), strict=True))
        for n, (asked, (lead, token)) in enumerate(
            zip(wanted[at : at + BATCH], leads, strict=True)
        ):
            margin, text = lead if np.isfinite(lead) else None, lm.token_text(token)
            found.append(Subset(*asked, lead > 0, margin, text, answers.get(n)))
        yield min(at + BATCH, len(sets)), len(sets)
    spent = round(1000 * (time.perf_counter() - began), 1)
    return ChoiceMap(
        len(tokens) - 1, objects, left_out, tuple(found[:-1]), found[-1], spent, measured
    )


def _leads(
    context: MethodContext, plain: Sequence[NextTokenLogits], views: Handle, tokens: Sequence[int]
) -> list[tuple[float, int]]:
    """Of each view how far the best other token leads, where it leads most, and the choice there.

    A view that leaves `tokens` is not asked about those after that place. plain: a row of the video
    for each of `tokens`.
    """
    leads: dict[int, tuple[float, int]] = {}
    for index, (token, own) in enumerate(zip(tokens, plain, strict=True)):
        place = token if own.ids is None else _ids(own).index(token)
        for n, row in enumerate(context.lm.next_logits(views, tokens[:index], _ids(own))):
            before, _ = leads.setdefault(n, (-np.inf, tokens[-1]))
            if before > 0:
                continue
            scored = _scored(context, own, row, tokens[:index])
            # a penalty may leave the baseline's token below the cut
            lead = min(LARGE, float(np.delete(scored.scores, place).max() - scored.scores[place]))
            choice = scored.choose(int(scored.scores.argmax())) if lead > 0 else tokens[-1]
            leads[n] = max(before, lead), choice
    return [leads[n] for n in range(len(leads))]


def _answers(
    context: MethodContext, views: Handle, videos: Tensor, flips: Sequence[int]
) -> list[str]:
    """The whole answers of some of the views that were read together, each contrasted by itself."""
    lm, rule = context.lm, Linear(context.options.contrast)
    greedy = replace(context.options.decode, search="greedy")
    if isinstance(views, DecodeState) and isinstance(context.base, DecodeState):
        return answer_in_batch(context.local, context.base, views, flips, rule, greedy)
    return [
        find_answer(lm, "subset", context.base, [context.prefill(videos[n])], rule, greedy).text
        for n in flips
    ]


def _objects(context: MethodContext, trace: Trace) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of the objects whose subsets are read, in the trace's order, and of the others."""
    ids = [t.id for t in trace.tracks]
    if len(ids) <= MAX_MAPPED:
        return tuple(ids), ()
    strongest = np.argsort(-measured_changes(context), kind="stable")[:MAX_MAPPED]
    kept = sorted(int(k) for k in strongest)
    return tuple(ids[k] for k in kept), tuple(i for k, i in enumerate(ids) if k not in kept)


def _tokens(trace: Trace) -> list[int]:
    """The baseline's tokens up to the one where MACD's answer parts from it, else the first."""
    baseline, macd = trace.answers["baseline"], trace.answers[masked_answer(trace)]
    parts = first_divergence(baseline, macd)
    last = 0 if parts is None else min(parts, len(baseline.tokens) - 1)
    return [step.token for step in baseline.tokens[: last + 1]]
