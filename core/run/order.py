"""Runs methods: from the prefilled video to answers, as events, with what each took.

MACD itself is `core.macd`; here its steps are taken with what `core.views.context` keeps, measured,
and passed on. The pipeline, changes by hand, comparisons and evaluations all take this path.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from macd_studio.core.backbones.base import Handle, to_pixels
from macd_studio.core.backbones.host import to_float
from macd_studio.core.decoding.answers import answer_events, hypotheses
from macd_studio.core.decoding.batch import open_views
from macd_studio.core.decoding.views import DecodedViews, ViewsNeeded
from macd_studio.core.errors import NotApplicable
from macd_studio.core.macd import empty_counterfactual, finalize_ascent
from macd_studio.core.methods import METHODS, Method
from macd_studio.core.options import MaskOptions
from macd_studio.core.rules import ScoreRule
from macd_studio.core.system.cost import Cost
from macd_studio.core.types import Answer, AscentStep, Counterfactual, Pixels, ShownView
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.second_view import SecondView, masked_view


@dataclass(frozen=True, eq=False)
class VideoPrefilled:
    """The video was prefilled."""


@dataclass(frozen=True, eq=False)
class ContrastNeeded:
    """Of a lazy run: a token came that the second views can change; objects are needed from here.

    method: whose token it is.
    """

    method: Method


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


@dataclass(frozen=True, eq=False)
class AnswerUpdate:
    """An answer as far as it is. views: with its tokens in them, None after a search."""

    answer: Answer
    views: DecodedViews | None
    finished: bool


MacdEvent = VideoPrefilled | ContrastNeeded | AscentUpdate | CounterfactualPrefilled | AnswerUpdate


@dataclass(frozen=True, eq=False)
class Built:
    """Second views, prefilled, and what they took beside the pieces that are shared."""

    seconds: tuple[SecondView, ...]
    cost: Cost

    @property
    def states(self) -> tuple[Handle, ...]:
        """The second views' handles, in order."""
        return tuple(state for second in self.seconds for state in second.states)


Building = Generator[MacdEvent, None, Built]
"""Builds second views, with the events on the way."""


@dataclass(frozen=True, eq=False)
class DecodingViews:
    """What a method decodes from: the video, its second views, and the rule that scores them.

    base: the first view, prefilled. built: the second views; None in a lazy run, where `build`
    gives them once a token needs them.
    """

    base: Handle
    rule: ScoreRule
    built: Built | None
    build: Callable[[], Building]

    @property
    def seconds(self) -> tuple[SecondView, ...]:
        """The second views; none in a lazy run."""
        return () if self.built is None else self.built.seconds

    @property
    def others(self) -> tuple[Handle, ...]:
        """Their handles, in order."""
        return () if self.built is None else self.built.states


def finish(building: Building) -> Built:
    """What is built, without the events."""
    while True:
        try:
            next(building)
        except StopIteration as end:
            built: Built = end.value
            return built


def run_method(context: MethodContext, method: Method) -> Answer:
    """One method's answer, with its own time, the time from clip to answer, and peak memory.

    Raises NotApplicable where the method cannot answer the question.
    """
    *_, last = method_events(context, method)
    assert isinstance(last, AnswerUpdate)
    return last.answer


def method_events(context: MethodContext, method: Method) -> Iterator[MacdEvent]:
    """One method from the video to its answer, as events; the last one holds the answer."""
    began = time.perf_counter()
    context.cache.start_method()
    if method.fixed is not None:
        yield AnswerUpdate(Answer(method.name, method.fixed, (), True), None, True)
        return
    views = decoding_views(context, method)
    for event in decoded(context, method.name, views, context.cache.needs()):
        if isinstance(event, AnswerUpdate) and event.finished:
            spent = round(1000 * (time.perf_counter() - began), 1)
            event = replace(event, answer=replace(event.answer, ms=spent))
        yield event


def decoding_views(
    context: MethodContext, method: Method, second: SecondView | None = None
) -> DecodingViews:
    """The views of a method that has some; second: its second view, where it was built already.

    In a lazy run second views are built when they are needed, if the rule's cut can tell. Raises
    NotApplicable for another first view than the plain video, where a server reads it.
    """
    rule = method.rule_for(context)  # before anything is computed: it may not apply

    def build() -> Building:
        yield ContrastNeeded(method)
        return made()

    def made() -> Built:
        with context.meter.measure() as cost:
            seconds = method.build(context) if second is None else (second,)
        return Built(seconds, cost)

    if second is None and context.options.lazy and rule.cuts_by_video:
        return DecodingViews(context.base, rule, None, build)
    built = made()
    base = built.seconds[0].base or context.base
    if not context.lm.has_plain_prompt(base):
        raise NotApplicable(
            f"the first view of {method.name} is not the video as it is, and certificates of what a"
            " server says take it to be",
            "Make it the second view, or hold the model in this process",
        )
    return DecodingViews(base, rule, built, build)


def decoded(
    context: MethodContext,
    name: str,
    views: DecodingViews,
    needs: Iterable[Hashable],
    paid_s: float = 0.0,
) -> Iterator[MacdEvent]:
    """The answer token by token; beam search and voting give it at once. At least one event.

    needs: the shared pieces that the views are made of. paid_s: seconds of those that another
    answer pays for. In a lazy run the events of building the second views come between.
    """
    options, own, needs = context.options.decode, Cost(), set(needs)
    built = views.built
    pictures = _shown_views(context, views.seconds)
    if built is not None:
        own.add(built.cost)
    with context.meter.measure() as spent:
        others = None if built is None else built.states
        batch = open_views(context.lm, views.base, others, options, hypotheses(options))
    own.add(spent)
    growing = answer_events(batch, name, views.rule)
    for event in context.meter.each(growing, own):
        if isinstance(event, ViewsNeeded):
            built = yield from views.build()
            own.add(built.cost)
            needs |= context.cache.needs()
            batch.open(built.states)
            pictures = _shown_views(context, built.seconds)
            continue
        whole = context.cache.whole_cost(own, needs)
        answer = replace(
            event.answer,
            second_views=pictures,
            ms=round(1000 * (whole.seconds - max(0.0, paid_s)), 1),
            total_ms=round(1000 * whole.seconds, 1),
            memory_mb=round((context.lm.info.weight_bytes + whole.rise_bytes) / 2**20, 1),
        )
        searched = options.search in ("beam", "vote")
        yield AnswerUpdate(answer, None if searched else batch, event.finished)


def _shown_views(context: MethodContext, seconds: Iterable[SecondView]) -> tuple[ShownView, ...]:
    """As the trace keeps them."""
    return tuple(ShownView(z.record, shown(context, z)) for z in seconds if z.state is not None)


def shown(context: MethodContext, second: SecondView) -> Pixels | None:
    """A second view's frames as the model read them, (T, h, w, 3)."""
    if second.video is None:
        return None
    return to_pixels(second.video, context.encoded.mean, context.encoded.std)


def macd_events(
    context: MethodContext,
    *,
    counterfactual: Counterfactual | None = None,
    adjust: Callable[[Counterfactual], Counterfactual] = lambda ascended: ascended,
    answers: Sequence[str] = ("baseline", "macd"),
) -> Iterator[MacdEvent]:
    """Base prefill → ascent → counterfactual → decode; docs/methods.md has the steps.

    counterfactual: levels already decided, so that no ascent is needed. adjust: changes where the
    ascent ended, for levels set by hand. answers: of "baseline" and "macd", which to decode. In a
    lazy run the ascent and V_d are computed during MACD's answer, once a token needs them, if at
    all.
    """
    context.cache.start_method()
    base = decoding_views(context, METHODS["baseline"])
    base_needs = context.cache.needs()
    yield VideoPrefilled()
    read_s = context.cache.whole_cost(Cost(), base_needs).seconds
    build = partial(_build_macd, context, base.base, counterfactual, adjust)
    waits = counterfactual is None and macd_waits(context)
    context.cache.start_method()
    base = replace(base, base=context.base)  # which MACD needs too
    built = None if waits else (yield from build())
    views = DecodingViews(base.base, METHODS["macd"].rule_for(context), built, build)
    needs = context.cache.needs()
    for name in answers:
        if name == "baseline":
            yield from decoded(context, name, base, base_needs)
        else:
            yield from decoded(context, name, views, needs, paid_s=read_s)


def macd_waits(context: MethodContext) -> bool:
    """Whether MACD's second view is built in a lazy run, once a token needs it."""
    return context.options.lazy and METHODS["macd"].rule_for(context).cuts_by_video


def _build_macd(
    context: MethodContext,
    base: Handle,
    counterfactual: Counterfactual | None,
    adjust: Callable[[Counterfactual], Counterfactual],
) -> Building:
    """MACD's second view; base: the video's. With levels that were decided no ascent is taken."""
    mask = context.options.mask
    if counterfactual is None:
        if macd_waits(context):
            yield ContrastNeeded(METHODS["macd"])
        ended = empty_counterfactual()
        for step in context.ascent_steps(mask):
            ended = finalize_ascent(step, context.options.ascent)
            yield AscentUpdate(step, ended)
        counterfactual = adjust(ended)
    with context.meter.measure() as cost:
        second = masked_view(context, counterfactual, mask)
    losses = replace(
        counterfactual, base_loss=context.loss(base), loss=context.loss(second.states[0])
    )
    yield CounterfactualPrefilled(losses, masked_share(context, losses, mask))
    return Built((second,), cost)


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
