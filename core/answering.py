"""Runs methods: from the prefilled video to answers, as events, with what each took.

MACD itself is `core.macd`; here its steps are taken with what `core.context` keeps, measured,
and passed on. The pipeline, changes by hand, comparisons and evaluations all take this path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from macd_studio.core.backbones.base import DecodeState, Encoded, to_pixels
from macd_studio.core.backbones.host import to_float
from macd_studio.core.context import MethodContext
from macd_studio.core.decoding.batch import ViewBatch, answer, continue_decoding
from macd_studio.core.decoding.search import find_answer
from macd_studio.core.macd import finalize_ascent, loss_of, no_masks
from macd_studio.core.metering import Cost
from macd_studio.core.methods import METHODS, Method
from macd_studio.core.options import MaskOptions
from macd_studio.core.rules import ScoreRule
from macd_studio.core.types import Answer, AscentStep, Counterfactual, Pixels, ShownView, TokenStep
from macd_studio.core.views import SecondView, masked_view


@dataclass(frozen=True, eq=False)
class DecodingViews:
    """What a method decodes from: the views, prefilled, and the rule that scores them.

    seconds: at least one, the first without a state where there is no second view.
    """

    base: DecodeState
    seconds: tuple[SecondView, ...]
    rule: ScoreRule

    @property
    def others(self) -> tuple[DecodeState, ...]:
        """The second views' states, in order."""
        return tuple(state for second in self.seconds for state in second.states)


@dataclass(frozen=True, eq=False)
class AnswerUpdate:
    """An answer as far as it is. batch: the views' caches with its tokens, None after a search."""

    answer: Answer
    batch: ViewBatch | None
    finished: bool


def run_method(context: MethodContext, method: Method) -> Answer:
    """One method's answer, with its own time, the time from clip to answer, and peak memory.

    Raises NotApplicable where the method cannot answer the question.
    """
    began = time.perf_counter()
    context.cache.start_method()
    if method.fixed is not None:
        return Answer(method.name, method.fixed, (), True)
    with context.meter.measure() as cost:
        views = decoding_views(context, method)
    *_, last = answer_events(context, method.name, views, cost, context.cache.needs())
    return replace(last.answer, ms=round(1000 * (time.perf_counter() - began), 1))


def decoding_views(
    context: MethodContext, method: Method, second: SecondView | None = None
) -> DecodingViews:
    """The views of a method that has some; second: its second view, where it was built already."""
    rule = method.rule_for(context)  # before anything is computed: it may not apply
    seconds = method.build(context) if second is None else (second,)
    return DecodingViews(base=seconds[0].base or context.base, seconds=seconds, rule=rule)


def answer_events(
    context: MethodContext,
    name: str,
    views: DecodingViews,
    cost: Cost,
    needs: Iterable[Hashable],
    paid_s: float = 0.0,
) -> Iterator[AnswerUpdate]:
    """The answer token by token; beam search and voting give it at once. At least one event.

    cost, needs: of the views, and the shared pieces they are made of. paid_s: seconds of those that
    another answer pays for.
    """
    options, own, needs = context.options.decode, replace(cost), frozenset(needs)
    second_views = tuple(
        ShownView(z.record, shown(context, z)) for z in views.seconds if z.state is not None
    )

    def with_cost(decoded: Answer) -> Answer:
        whole = context.cache.whole_cost(own, needs)
        return replace(
            decoded,
            second_views=second_views,
            ms=round(1000 * (whole.seconds - paid_s), 1),
            total_ms=round(1000 * whole.seconds, 1),
            memory_mb=round((context.lm.info.weight_bytes + whole.rise_bytes) / 2**20, 1),
        )

    lm, rule = context.lm, views.rule
    if options.search in ("beam", "vote"):
        with context.meter.measure() as spent:
            decoded = find_answer(lm, name, views.base, views.others, rule, options)
        own.add(spent)
        yield AnswerUpdate(with_cost(decoded), None, True)
        return
    with context.meter.measure() as spent:
        batch = ViewBatch(lm, views.base, views.others)
    own.add(spent)
    steps: list[TokenStep] = []
    for step in context.meter.each(continue_decoding(batch, rule, options), own):
        steps.append(step)
        yield AnswerUpdate(with_cost(answer(lm, name, steps, rule)), batch, False)
    yield AnswerUpdate(with_cost(answer(lm, name, steps, rule)), batch, True)


def shown(context: MethodContext, second: SecondView) -> Pixels | None:
    """A second view's frames as the model read them, (T, h, w, 3)."""
    if second.video is None:
        return None
    return to_pixels(second.video, context.encoded.mean, context.encoded.std)


@dataclass(frozen=True, eq=False)
class VideoPrefilled:
    """The video was prefilled."""


@dataclass(frozen=True, eq=False)
class AscentUpdate:
    """A step of the ascent was taken; counterfactual: where it would end now."""

    step: AscentStep
    counterfactual: Counterfactual


@dataclass(frozen=True, eq=False)
class CounterfactualPrefilled:
    """V_d was prefilled. masked: mean of the mask over all pixels, [0, 1]."""

    counterfactual: Counterfactual
    masked: float


MacdEvent = VideoPrefilled | AscentUpdate | CounterfactualPrefilled | AnswerUpdate


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
    context.cache.start_method()
    base = decoding_views(context, METHODS["baseline"])
    base_needs = context.cache.needs()
    yield VideoPrefilled()
    context.cache.start_method()
    mask, options = context.options.mask, context.options.ascent
    if counterfactual is None:
        ended = no_masks()
        for step in context.ascent_steps(mask, options):
            ended = finalize_ascent(step, options)
            yield AscentUpdate(step, ended)
        counterfactual = adjust(ended)
    with context.meter.measure() as cost:
        second = masked_view(context, counterfactual, mask)
        views = decoding_views(context, METHODS["macd"], second)
    needs = context.cache.needs()
    yield CounterfactualPrefilled(
        with_losses(counterfactual, context.encoded, *(views.base, *views.others, views.base)[:2]),
        masked_share(context, counterfactual, mask),
    )
    read_s = context.cache.whole_cost(Cost(), base_needs).seconds
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
