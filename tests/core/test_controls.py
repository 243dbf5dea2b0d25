"""Controls beside MACD's masks agree with the methods of the same name, run one by one."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.masking.controls import random_place
from macd_studio.core.methods import METHODS
from macd_studio.core.run.order import run_method
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Answer
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.table import hidden_pixels_of
from macd_studio.core.whatif.constant import first_divergence, smallest_constant
from macd_studio.core.whatif.controls import count_same, measure_controls
from macd_studio.core.whatif.workbench import Workbench
from tests.opening import AFTER, BEFORE
from tests.small_trace import small_trace


def opened(name, lm):
    trace = load(assets() / "examples" / f"{name}.macd")
    return trace, Workbench(trace, lm)


def measured(trace, context, **how):
    answers = trace.answers
    return measure_controls(
        context, trace.steps, trace.counterfactual, answers["baseline"], answers["macd"], **how
    )


@pytest.mark.parametrize("name", ["repaired", "question-prior"])
def test_every_control_is_the_method_of_its_name(name, toyworld):
    trace, bench = opened(name, toyworld)
    report = measured(trace, bench.context, draws=2)
    macd = [step.token for step in trace.answers["macd"].tokens]
    compared = len(macd) if report.index is None else report.index + 1
    for outcome in report.outcomes[1:]:
        method = "random-place" if outcome.name == "random" else outcome.name
        options = bench.options
        if outcome.name == "random":  # the second draw
            options = replace(options, seed=options.seed + 1)
        context = MethodContext(toyworld, bench.encoded, trace.tracks, options)
        tokens = run_method(context, METHODS[method]).tokens
        assert outcome.same == ([t.token for t in tokens][:compared] == macd[:compared])
        if not outcome.same:
            assert outcome.text == tokens[outcome.index].text
    assert [o.name for o in report.outcomes] == ["random"] * 2 + ["mask-all", "reversed", "blank"]


def test_masks_that_are_counted_are_judged_as_those_of_the_report(toyworld):
    trace, bench = opened("question-prior", toyworld)
    context, answers = bench.context, trace.answers
    report = measured(trace, context, draws=9)  # more than one batch
    hidden = hidden_pixels_of(context, trace.counterfactual)
    drawn = [random_place(hidden, context.options.seed + n) for n in range(9)]
    same = [o.same for o in report.outcomes if o.name == "random"]
    for masks, expected in ((drawn, same), (drawn[3:5], same[3:5]), ([], [])):
        assert count_same(context, answers["baseline"], answers["macd"], masks) == sum(expected)


def test_the_report_is_about_where_the_answers_diverge(toyworld):
    trace, bench = opened("repaired", toyworld)
    report = measured(trace, bench.context, draws=1)
    assert (report.index, report.macd, report.baseline) == (0, AFTER, BEFORE)
    step = trace.answers["baseline"].tokens[0]
    chosen = trace.answers["macd"].tokens[0].token
    logit = dict(zip(step.candidates.tolist(), step.base.tolist(), strict=True))
    assert report.constant == pytest.approx(max(logit.values()) - logit[chosen], abs=1e-5)
    assert report.random()[1] == 1


def test_answers_that_agree_need_no_constant(toyworld):
    trace, _ = opened("unchanged", toyworld)
    answers = trace.answers
    assert first_divergence(answers["baseline"], answers["macd"]) is None
    assert smallest_constant(answers["baseline"], answers["macd"]) == 0


def test_an_answer_that_ends_earlier_diverges_at_its_end():
    tokens = small_trace().answers["baseline"].tokens
    assert len(tokens) > 1
    short = Answer("macd", "", tokens[:1], False)
    assert first_divergence(Answer("baseline", "", tokens, True), short) == 0


def test_what_cannot_be_compared_is_refused(toyworld):
    trace, bench = opened("repaired", toyworld)
    kept = (
        np.zeros_like(trace.counterfactual.level),
        np.zeros_like(trace.counterfactual.frame_level),
    )
    nothing = replace(trace.counterfactual, level=kept[0], frame_level=kept[1])
    with pytest.raises(OptionError, match="nothing was masked"):
        measured(replace(trace, counterfactual=nothing), bench.context)
    decode = replace(bench.options.decode, search="vote")
    bench.context.options = replace(bench.options, decode=decode)
    with pytest.raises(OptionError, match="greedy"):
        measured(trace, bench.context)
