"""MACD once, from the prefilled video to both answers, as a generator of events.

The pipeline, changes by hand, comparisons and evaluations all take this path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from macd_studio.core.backbones.base import DecodeState, Encoded
from macd_studio.core.backbones.host import to_float
from macd_studio.core.context import MethodContext
from macd_studio.core.macd import finalize_ascent, loss_of, no_masks
from macd_studio.core.metering import Cost
from macd_studio.core.methods import METHODS
from macd_studio.core.methods.run import Decoding, answer_events, decoding_views
from macd_studio.core.options import MaskOptions
from macd_studio.core.types import AscentStep, Counterfactual
from macd_studio.core.views import masked_view


@dataclass(frozen=True, eq=False)
class BaseRead:
    """The video was prefilled."""


@dataclass(frozen=True, eq=False)
class Ascending:
    """A step of the ascent was taken; counterfactual: where it would end now."""

    step: AscentStep
    counterfactual: Counterfactual


@dataclass(frozen=True, eq=False)
class CounterfactualRead:
    """V_d was prefilled. masked: mean of the mask over all pixels, [0, 1]."""

    counterfactual: Counterfactual
    masked: float


MacdEvent = BaseRead | Ascending | CounterfactualRead | Decoding


def macd_events(
    context: MethodContext,
    *,
    counterfactual: Counterfactual | None = None,
    adjust: Callable[[Counterfactual], Counterfactual] = lambda ascended: ascended,
    answers: Sequence[str] = ("baseline", "macd"),
) -> Iterator[MacdEvent]:
    """Base prefill → ascent → counterfactual → decode; docs/methods.md has the steps.

    counterfactual: levels already decided, so that no ascent is needed. adjust: changes where
    the ascent ended, for levels set by hand. answers: of "baseline" and "macd", which to decode.
    """
    context.start_method()
    base = decoding_views(context, METHODS["baseline"])
    base_needs = context.needs()
    yield BaseRead()
    context.start_method()
    mask, options = context.options.mask, context.options.ascent
    if counterfactual is None:
        ended = no_masks()
        for step in context.ascent_steps(mask, options):
            ended = finalize_ascent(step, options)
            yield Ascending(step, ended)
        counterfactual = adjust(ended)
    with context.meter.measure() as cost:
        second = masked_view(context, counterfactual, mask)
        views = decoding_views(context, METHODS["macd"], second)
    needs = context.needs()
    yield CounterfactualRead(
        with_losses(counterfactual, context.encoded, *(views.base, *views.others, views.base)[:2]),
        masked_share(context, counterfactual, mask),
    )
    read_s = context.whole_cost(Cost(), base_needs).seconds
    for name in answers:
        if name == "baseline":
            yield from answer_events(context, name, base, Cost(), base_needs)
        else:
            yield from answer_events(context, name, views, cost, needs, paid_s=read_s)


def masked_share(
    context: MethodContext, counterfactual: Counterfactual, mask: MaskOptions
) -> float:
    """Mean of the mask over frames and pixels, [0, 1]."""
    masks = context.masks(mask)
    if not len(masks.objects) and masks.outside is None:
        return 0.0
    device = masks.objects.device
    levels = (counterfactual.level, counterfactual.frame_level)
    with torch.no_grad():
        return to_float(masks.mask(*(torch.as_tensor(z, device=device) for z in levels)).mean())


def with_losses(
    counterfactual: Counterfactual, encoded: Encoded, base: DecodeState, counter: DecodeState
) -> Counterfactual:
    """The levels with the query loss given V and given V_d."""
    assert base.query_logits is not None
    assert counter.query_logits is not None
    return replace(
        counterfactual,
        base_loss=to_float(loss_of(base.query_logits[0], encoded)),
        loss=to_float(loss_of(counter.query_logits[0], encoded)),
    )
