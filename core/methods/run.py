"""Runs one method: from its views to its answer, with its cost."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

from macd_studio.core.backbones.base import DecodeState, to_pixels
from macd_studio.core.context import MethodContext
from macd_studio.core.decoding.batch import ViewBatch, answer, continue_decoding
from macd_studio.core.decoding.search import find_answer
from macd_studio.core.metering import Cost
from macd_studio.core.methods import Method
from macd_studio.core.rules import ScoreRule
from macd_studio.core.types import Answer, Pixels, ShownView, TokenStep
from macd_studio.core.views import SecondView


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


@dataclass(frozen=True)
class FixedAnswer:
    """An answer that needs neither a view nor the model."""

    text: str


@dataclass(frozen=True, eq=False)
class Decoding:
    """An answer as far as it is. batch: the views' caches with its tokens, None after a search."""

    answer: Answer
    batch: ViewBatch | None
    finished: bool


def run_method(context: MethodContext, method: Method) -> Answer:
    """One method's answer, with its own time, the time from clip to answer, and peak memory.

    Raises NotApplicable where the method cannot answer the question.
    """
    began = time.perf_counter()
    context.start_method()
    with context.meter.measure() as cost:
        views = prepare(context, method)
    if isinstance(views, FixedAnswer):
        return Answer(method.name, views.text, (), True)
    *_, last = answer_events(context, method.name, views, cost, context.needs())
    return replace(last.answer, ms=round(1000 * (time.perf_counter() - began), 1))


def prepare(context: MethodContext, method: Method) -> DecodingViews | FixedAnswer:
    """The views and the rule of a method. Raises NotApplicable, see `ScoreRule.create`."""
    if method.fixed is not None:
        return FixedAnswer(method.fixed)
    return decoding_views(context, method)


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
) -> Iterator[Decoding]:
    """The answer token by token; beam search and voting give it at once. At least one event.

    cost, needs: of the views, and the shared pieces they are made of. paid_s: seconds of those that
    another answer pays for.
    """
    options, own, needs = context.options.decode, replace(cost), frozenset(needs)
    second_views = tuple(
        ShownView(z.record, shown(context, z)) for z in views.seconds if z.state is not None
    )

    def signed(unsigned: Answer) -> Answer:
        whole = context.whole_cost(own, needs)
        return replace(
            unsigned,
            second_views=second_views,
            ms=round(1000 * (whole.seconds - paid_s), 1),
            total_ms=round(1000 * whole.seconds, 1),
            memory_mb=context.memory_mb(whole),
        )

    lm, rule = context.lm, views.rule
    if options.search in ("beam", "vote"):
        with context.meter.measure() as spent:
            decoded = find_answer(lm, name, views.base, views.others, rule, options)
        own.add(spent)
        yield Decoding(signed(decoded), None, True)
        return
    with context.meter.measure() as spent:
        batch = ViewBatch(lm, views.base, views.others)
    own.add(spent)
    steps: list[TokenStep] = []
    for step in context.meter.each(continue_decoding(batch, rule, options), own):
        steps.append(step)
        yield Decoding(signed(answer(lm, name, steps, rule)), batch, False)
    yield Decoding(signed(answer(lm, name, steps, rule)), batch, True)


def shown(context: MethodContext, second: SecondView) -> Pixels | None:
    """A second view's frames as the model read them, (T, h, w, 3)."""
    if second.video is None:
        return None
    return to_pixels(second.video, context.encoded.mean, context.encoded.std)
