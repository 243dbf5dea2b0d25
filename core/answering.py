"""Runs methods: from the prefilled video to answers, as events, with what each took.

MACD itself is `core.macd`; here its steps are taken with what `core.context` keeps, measured,
and passed on. The pipeline, changes by hand, comparisons and evaluations all take this path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from macd_studio.core.backbones.base import DecodeState, Encoded, to_pixels
from macd_studio.core.backbones.host import to_float
from macd_studio.core.context import MethodContext
from macd_studio.core.decoding.batch import (
    LazyViewBatch,
    SecondStates,
    ViewBatch,
    answer,
    begins_thought,
    chooser,
    continue_decoding,
    think,
    thought_of,
)
from macd_studio.core.decoding.search import hypotheses, search
from macd_studio.core.macd import finalize_ascent, loss_of, no_masks
from macd_studio.core.metering import Cost
from macd_studio.core.methods import METHODS, Method
from macd_studio.core.options import MaskOptions
from macd_studio.core.records import Thought
from macd_studio.core.rules import ScoreRule
from macd_studio.core.types import Answer, AscentStep, Counterfactual, Pixels, ShownView, TokenStep
from macd_studio.core.views import SecondView, masked_view


@dataclass(frozen=True, eq=False)
class DecodingViews:
    """What a method decodes from: the views, prefilled, and the rule that scores them.

    seconds: at least one, the first without a state where there is no second view. build: of a lazy
    run, whose `seconds` is empty: builds them, passing on events, with what they cost beside the
    pieces that are shared.
    """

    base: DecodeState
    seconds: tuple[SecondView, ...]
    rule: ScoreRule
    build: Callable[[], Building] | None = None

    @property
    def others(self) -> tuple[DecodeState, ...]:
        """The second views' states, in order."""
        return _states(self.seconds)

    @property
    def for_search(self) -> SecondStates:
        """As `find_answer` takes them: the states, or a call that builds them."""
        return self.others if self.build is None else partial(_built, self.build())


@dataclass(frozen=True, eq=False)
class ContrastNeeded:
    """Of a lazy run: a token came that the second views can change; objects are needed from here.

    method: whose token it is.
    """

    method: Method


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
    *_, last = method_events(context, method)
    assert isinstance(last, AnswerUpdate)
    return last.answer


def method_events(context: MethodContext, method: Method) -> Iterator[MacdEvent]:
    """The same with what comes before; the last event holds the answer."""
    began = time.perf_counter()
    context.cache.start_method()
    if method.fixed is not None:
        yield AnswerUpdate(Answer(method.name, method.fixed, (), True), None, True)
        return
    with context.meter.measure() as cost:
        views = decoding_views(context, method)
    for event in answer_events(context, method.name, views, cost, context.cache.needs()):
        if isinstance(event, AnswerUpdate) and event.finished:
            spent = round(1000 * (time.perf_counter() - began), 1)
            event = replace(event, answer=replace(event.answer, ms=spent))
        yield event


def decoding_views(
    context: MethodContext, method: Method, second: SecondView | None = None
) -> DecodingViews:
    """The views of a method that has some; second: its second view, where it was built already.

    In a lazy run second views are built when they are needed, if the rule's cut can tell.
    """
    rule = method.rule_for(context)  # before anything is computed: it may not apply
    if second is None and context.options.lazy and rule.cuts_by_video:
        return DecodingViews(context.base, (), rule, lambda: _build(context, method))
    seconds = method.build(context) if second is None else (second,)
    return DecodingViews(base=seconds[0].base or context.base, seconds=seconds, rule=rule)


def _build(context: MethodContext, method: Method) -> Building:
    """The method's second views, after the event that says they are needed."""
    yield ContrastNeeded(method)
    with context.meter.measure() as cost:
        seconds = method.build(context)
    return seconds, cost


def answer_events(
    context: MethodContext,
    name: str,
    views: DecodingViews,
    cost: Cost,
    needs: Iterable[Hashable],
    paid_s: float = 0.0,
) -> Iterator[MacdEvent]:
    """The answer token by token; beam search and voting give it at once. At least one event.

    cost, needs: of the views, and the shared pieces they are made of. paid_s: seconds of those that
    another answer pays for. In a lazy run the events of building the second views come between.
    """
    options, own, needs = context.options.decode, replace(cost), set(needs)
    second_views = _shown_views(context, views.seconds)

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

    def build(building: Building) -> Generator[MacdEvent, None, tuple[DecodeState, ...]]:
        nonlocal second_views
        seconds, spent = yield from building
        own.add(spent)
        needs.update(context.cache.needs())
        second_views = _shown_views(context, seconds)
        return _states(seconds)

    rows, lazy = hypotheses(options), None
    with context.meter.measure() as spent:
        if views.build is not None:
            lazy = LazyViewBatch(lm, views.base, rows=rows)
        batch = lazy or ViewBatch(lm, views.base, views.others, rows)
    own.add(spent)
    if options.search in ("beam", "vote"):
        searching = search(name, batch, rule, options)
        while (decoded := _searched(context, searching, own)) is None:
            assert lazy is not None
            assert views.build is not None
            lazy.open((yield from build(views.build())))
        yield AnswerUpdate(with_cost(decoded), None, True)
        return
    steps: list[TokenStep] = []
    thought: Thought | None = None
    if options.contrast_thought and lm.thought_marks is not None:
        likeliest = int(batch.logits(0)[0][0].argmax())
        if begins_thought(lm, views.base.prompt_tokens, likeliest):
            written: list[int] = []
            thinking = think(batch, rule, options)
            while (step_or_end := _thought_step(context, thinking, own))[0] is not None:
                written.append(step_or_end[0].token)
                yield AnswerUpdate(with_cost(answer(lm, name, steps, rule)), batch, False)
            thought = thought_of(lm, written, step_or_end[1])

    def so_far() -> Answer:
        return replace(answer(lm, name, steps, rule), thought=thought)

    choose = chooser(options)
    while True:
        decoding = continue_decoding(batch, rule, options, len(steps), choose)
        for step in context.meter.each(decoding, own):
            steps.append(step)
            yield AnswerUpdate(with_cost(so_far()), batch, False)
        done = bool(steps) and (
            steps[-1].token in lm.end_tokens or len(steps) == options.max_tokens
        )
        if done or lazy is None or not lazy.waits:
            break
        assert views.build is not None
        lazy.open((yield from build(views.build())))
    yield AnswerUpdate(with_cost(so_far()), batch, True)


def _thought_step(
    context: MethodContext, thinking: Generator[TokenStep, None, bool], own: Cost
) -> tuple[TokenStep | None, bool]:
    """The next token of a thought; None at its end, and whether the model closed it itself."""
    step, closed = None, True
    with context.meter.measure() as spent:
        try:
            step = next(thinking)
        except StopIteration as end:
            closed = end.value
    own.add(spent)
    return step, closed


def _states(seconds: Iterable[SecondView]) -> tuple[DecodeState, ...]:
    return tuple(state for second in seconds for state in second.states)


def _built(building: Building) -> tuple[DecodeState, ...]:
    """The second views' states, without the events."""
    while True:
        try:
            next(building)
        except StopIteration as end:
            return _states(end.value[0])


def _shown_views(context: MethodContext, seconds: Iterable[SecondView]) -> tuple[ShownView, ...]:
    """As the trace keeps them."""
    return tuple(ShownView(z.record, shown(context, z)) for z in seconds if z.state is not None)


def _searched(
    context: MethodContext, searching: Generator[None, None, Answer], own: Cost
) -> Answer | None:
    """The answer of a search that goes on; None where it waits again. own: takes in its cost."""
    found: Answer | None = None
    with context.meter.measure() as spent:
        try:
            next(searching)
        except StopIteration as end:
            found = end.value
    own.add(spent)
    return found


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


MacdEvent = VideoPrefilled | ContrastNeeded | AscentUpdate | CounterfactualPrefilled | AnswerUpdate
Building = Generator[MacdEvent, None, tuple[tuple[SecondView, ...], Cost]]


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
    In a lazy run what MACD does not need is left out, and comes when the first token needs it.
    """
    if counterfactual is None and macd_waits(context):
        yield from _lazy_macd_events(context, adjust, answers)
        return
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


def macd_waits(context: MethodContext) -> bool:
    """Whether MACD's second view is built in a lazy run, once a token needs it."""
    return context.options.lazy and METHODS["macd"].rule_for(context).cuts_by_video


def _lazy_macd_events(
    context: MethodContext,
    adjust: Callable[[Counterfactual], Counterfactual],
    answers: Sequence[str],
) -> Iterator[MacdEvent]:
    """The answers one after the other; ascent and counterfactual amid MACD's, if at all."""
    context.cache.start_method()
    base = decoding_views(context, METHODS["baseline"])
    base_needs = context.cache.needs()
    yield VideoPrefilled()
    read_s = context.cache.whole_cost(Cost(), base_needs).seconds

    def build() -> Building:
        yield ContrastNeeded(METHODS["macd"])
        ended, mask = no_masks(), context.options.mask
        for step in context.ascent_steps(mask):
            ended = finalize_ascent(step, context.options.ascent)
            yield AscentUpdate(step, ended)
        levels = adjust(ended)
        with context.meter.measure() as cost:
            second = masked_view(context, levels, mask)
        states = (base.base, *second.states, base.base)[:2]
        yield CounterfactualPrefilled(
            with_losses(levels, context.encoded, *states), masked_share(context, levels, mask)
        )
        return (second,), cost

    for name in answers:
        context.cache.start_method()
        if name == "baseline":
            yield from answer_events(context, name, base, Cost(), base_needs)
            continue
        views = replace(decoding_views(context, METHODS["macd"]), build=build)
        needs = context.cache.needs()
        yield from answer_events(context, name, views, Cost(), needs, paid_s=read_s)


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
