"""The choice map: every subset of a trace's objects, decoded, so that MACD's choice has a rank.

Up to `MOST_OBJECTS` objects; of more those with the largest measured effects. Each subset is masked
at level 1, once with MACD's frame mask and once without it where it has one. A view is read once:
for the tokens up to the one where MACD's answer parts from the baseline's and, where it makes the
answer leave the baseline before, for that answer to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.base import Handle
from macd_studio.core.backbones.local import DecodeState
from macd_studio.core.decoding.answers import answers_together, find_answer
from macd_studio.core.decoding.views import score_rows
from macd_studio.core.description import LARGE
from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.measurements import MOST_OBJECTS, ChoiceMap, Subset
from macd_studio.core.methods import masked_answer
from macd_studio.core.repeats import repeats_of
from macd_studio.core.rows import Row
from macd_studio.core.rules import Linear
from macd_studio.core.types import Trace
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.measured import measured_changes, measured_levels
from macd_studio.core.whatif.constant import first_divergence
from macd_studio.core.whatif.verdict import masks_frames

BATCH = 8
"""Views that are read together."""


def measure_choices(
    context: MethodContext, trace: Trace, stopped: Callable[[], bool] = lambda: False
) -> Generator[tuple[int, int], None, ChoiceMap]:
    """Reads every subset in batches; yields how many views were read, of how many.

    stopped: asked between batches. Raises Cancelled; OptionError where the answer was not decoded
    greedily, where there is no object, and where there is no answer to compare with.
    """
    began = time.perf_counter()
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

    def video(chosen: Sequence[int], frames: bool) -> Tensor:
        level = np.array([float(i in chosen) for i in ids])
        return context.composite(masks, level, levels.frame_level if frames else none)

    masked = tuple(i for i, level in zip(ids, levels.level, strict=True) if level > 0)
    wanted: list[tuple[tuple[int, ...], bool]] = [*sets, (masked, masks_frames(trace))]

    def drawn(n: int) -> Tensor:
        if n < len(sets):
            return video(*sets[n])
        return context.composite(masks, levels.level, levels.frame_level)

    lm, base = context.lm, context.base
    plain = [lm.next_rows(base, tokens[:n], [token])[0] for n, token in enumerate(tokens)]
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
    context: MethodContext, plain: Sequence[Row], views: Handle, tokens: Sequence[int]
) -> list[tuple[float, int]]:
    """Of each view how far the best other token leads, where it leads most, and the choice there.

    A view that leaves `tokens` is not asked about those after that place. plain: a row of the video
    for each of `tokens`.
    """
    lm, rule = context.lm, Linear(context.options.contrast)
    prompt = lm.prompt_of(context.base)
    leads: dict[int, tuple[float, int]] = {}
    for index, (token, own) in enumerate(zip(tokens, plain, strict=True)):
        ids = np.arange(len(own.values)) if own.ids is None else own.ids
        repeats = repeats_of(lm.info.repetition_penalty, own, [*prompt, *tokens[:index]])
        place = int(np.flatnonzero(ids == token)[0])
        asked = () if own.ids is None else ids.tolist()
        for n, row in enumerate(lm.next_rows(views, tokens[:index], asked)):
            before, _ = leads.setdefault(n, (-np.inf, tokens[-1]))
            if before > 0:
                continue
            scored = score_rows(rule, own, [row.among(ids)], index, repeats)
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
        return answers_together(context.local, context.base, views, flips, rule, greedy)
    return [
        find_answer(lm, "subset", context.base, [context.prefill(videos[n])], rule, greedy).text
        for n in flips
    ]


def _objects(context: MethodContext, trace: Trace) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ids of the objects whose subsets are read, in the trace's order, and of the others."""
    ids = [t.id for t in trace.tracks]
    if not ids:
        raise OptionError("there is no object to choose", "Add one, or run another clip")
    if len(ids) <= MOST_OBJECTS:
        return tuple(ids), ()
    strongest = np.argsort(-measured_changes(context), kind="stable")[:MOST_OBJECTS]
    kept = sorted(int(k) for k in strongest)
    return tuple(ids[k] for k in kept), tuple(i for k, i in enumerate(ids) if k not in kept)


def _tokens(trace: Trace) -> list[int]:
    """The baseline's tokens up to the one where MACD's answer parts from it, else the first."""
    if trace.options.decode.search != "greedy":
        raise OptionError(
            "subsets are compared for greedy answers only", "Choose the greedy search"
        )
    baseline, macd = trace.answers["baseline"], trace.answers.get(masked_answer(trace))
    if macd is None or not macd.tokens or not baseline.tokens:
        raise OptionError("there is no answer to compare with", "Run the clip again")
    parts = first_divergence(baseline, macd)
    last = 0 if parts is None else min(parts, len(baseline.tokens) - 1)
    return [step.token for step in baseline.tokens[: last + 1]]
