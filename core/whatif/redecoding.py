"""Another α and β for a finished answer: decodes it on from the first token that they change."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from macd_studio.core.backbones.base import Handle
from macd_studio.core.decoding.answers import redecode
from macd_studio.core.decoding.batch import open_views
from macd_studio.core.decoding.steps import answer
from macd_studio.core.decoding.views import DecodedViews
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.methods import (
    Method,
    contrast_of,
    find_method,
    masked_answer,
    with_contrast,
)
from macd_studio.core.options import ContrastOptions
from macd_studio.core.rules import Linear, ScoreRule, score_token
from macd_studio.core.run.order import decoding_views
from macd_studio.core.types import Answer, TokenStep, Trace
from macd_studio.core.view_records import View
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.second_view import masked_view
from macd_studio.core.whatif.edits import redecodable

CLOSE = 1e-3
"""Levels and shares of a view that is built again are equal up to this."""


class Redecoder:
    """Keeps the caches of the answers that are decoded on, each as its present tokens leave it.

    context: of the trace that is given to `redecode`; its options are changed with the answers.
    """

    def __init__(self, context: MethodContext) -> None:
        self.context = context
        self._views: dict[str, DecodedViews] = {}

    def keep(self, name: str, views: DecodedViews | None) -> None:
        """The caches of an answer that was just decoded."""
        self._views = {} if views is None else {name: views}

    def redecode(self, trace: Trace, name: str, alpha: float, beta: float) -> Trace:
        """The trace with one answer under another α and β.

        Views that share the contrast of the run share its α and β: MACD's answer follows, and
        other answers that these values would change are left out, as is what was measured on them.
        Raises OptionError for α or β out of range, and for an answer that cannot be decoded on.
        """
        method, shown = redecodable(trace, name), masked_answer(trace)
        previous = self.context.options
        contrast = replace(contrast_of(method.view, previous), alpha=alpha, beta=beta)
        options = with_contrast(method.view, previous, contrast)
        before = self._rules(trace)
        self.context.options = options
        try:
            after = self._rules(trace)
            answers: dict[str, Answer] = {}
            for other, old in trace.answers.items():
                same = after[other] is not None and before[other] == after[other]
                if other == name or (other == shown and not same):
                    answers[other] = self._decode_on(trace, redecodable(trace, other), contrast)
                elif other == "baseline" or same:
                    answers[other] = old
        except BaseException:  # the next change starts from the options of the trace
            self.context.options, self._views = previous, {}
            raise
        self._views = {n: b for n, b in self._views.items() if n in answers}
        if answers.get(shown) is trace.answers.get(shown):
            evidence = tuple(e for e in trace.evidence if e.target.answer != name)
            return replace(trace, evidence=evidence, answers=answers, options=options)
        return replace(
            trace, controls=None, choice_map=None, evidence=(), answers=answers, options=options
        )

    def _rules(self, trace: Trace) -> dict[str, ScoreRule | str | None]:
        """How each answer is scored under the present options; None where that is not known."""
        rules: dict[str, ScoreRule | str | None] = {}
        for name in trace.answers:
            try:
                method = find_method(name)
                rules[name] = method.fixed or method.rule_for(self.context)
            except (OptionError, NotApplicable):
                rules[name] = None
        return rules

    def _decode_on(self, trace: Trace, method: Method, contrast: ContrastOptions) -> Answer:
        """The answer under the new contrast: kept as far as that chooses the same tokens.

        What changes is judged on the candidates that the trace holds.
        """
        began = time.monotonic()
        lm, previous, rule = self.context.lm, trace.answers[method.name], Linear(contrast)
        steps = list(previous.tokens)
        kept, token = _kept_until(steps, rule)
        if token is not None:
            views = self._standing_views(trace, method)
            changed = replace(steps[kept], token=token, text=lm.token_text(token))
            after = redecode(views, kept, token, rule)
            steps = [*steps[:kept], changed, *after]
        spent = round(1000 * (time.monotonic() - began), 1)
        return replace(
            answer(lm, method.name, steps, rule),
            second_views=previous.second_views,
            ms=spent,
            total_ms=spent,
        )

    def _standing_views(self, trace: Trace, method: Method) -> DecodedViews:
        """Both views' caches with the present answer in them; made once, then only cropped."""
        if method.name not in self._views:
            base, second = self._prefilled(trace, method)
            views = open_views(self.context.lm, base, [second], self.context.options.decode)
            for step in trace.answers[method.name].tokens:
                if step.token not in self.context.lm.end_tokens:
                    views.step([step.token])
            self._views[method.name] = views
        return self._views[method.name]

    def _prefilled(self, trace: Trace, method: Method) -> tuple[Handle, Handle]:
        """The video and the method's second view, prefilled. Raises OptionError, see `redecode`."""
        context = self.context
        if method.name == masked_answer(trace):
            assert trace.counterfactual is not None
            second = masked_view(context, trace.counterfactual, context.options.mask)
            assert second.state is not None
            return context.base, second.state
        context.cache.start_method()
        if trace.steps and not trace.edits:  # the ascent of the run need not be taken again
            key = (context.options.mask, context.options.ascent)
            context.cache.put("ascent", key, trace.steps)
        views = decoding_views(context, method)
        (built,), (stored,) = views.seconds, trace.answers[method.name].second_views
        if not _is_same_view(built.record, stored.view):
            raise OptionError(
                f"the second view of {method.name} cannot be built again as the trace has it",
                "Run the clip again with the new α and β",
            )
        (state,) = views.others
        return views.base, state


def _kept_until(steps: list[TokenStep], rule: Linear) -> tuple[int, int | None]:
    """How many tokens the rule leaves unchanged, and the one that it chooses next."""
    for step in steps:
        scores = score_token(rule, step.base, step.others, step.index, step.repeats)[1]
        token = int(step.candidates[int(scores.argmax())])
        if token != step.token:
            return step.index, token
    return len(steps), None


def _is_same_view(one: View, other: View) -> bool:
    """Whether two views are of one kind, with the same levels and frames up to rounding."""
    a, b = one.as_dict(), other.as_dict()
    if a.keys() != b.keys():
        return False
    for name, value in a.items():
        if name in ("level", "frame_level", "similarity"):
            levels = np.asarray(value), np.asarray(b[name])
            if levels[0].shape != levels[1].shape or not np.allclose(*levels, atol=CLOSE):
                return False
        elif name not in ("boxes", "random") and value != b[name]:
            return False
    return True
