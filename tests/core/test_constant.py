"""The smallest constant that does the same, against plain decoding with that constant."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macd_studio.core.report.summary import as_json, as_table, as_text
from macd_studio.core.types import Answer, TokenStep
from macd_studio.core.whatif.constant import equivalent_constant, first_difference, first_divergence
from macd_studio.core.whatif.verdict import verdict_of
from macd_studio.viewer import payload
from tests.small_trace import small_trace


def step(texts, logits, chosen, index=0):
    order = np.argsort(-np.array(logits), kind="stable")
    return TokenStep(
        index=index,
        token=chosen,
        text=texts[chosen],
        candidates=order.astype(np.int64),
        texts=tuple(texts[i] for i in order),
        base=np.array(logits, np.float32)[order],
        base_log_z=5.0,
    )


def answer(*steps, method="macd"):
    return Answer(method, "", steps, True)


WORDS = ["Yes", "No", "Maybe", "yes"]


@given(st.lists(st.integers(-40, 40), min_size=4, max_size=4), st.integers(0, 3))
def test_plain_decoding_with_a_little_more_says_the_same(halves, wanted):
    logits = [h / 2 for h in halves]
    plain = int(np.argmax(logits))
    same = equivalent_constant(
        answer(step(WORDS, logits, wanted)), answer(step(WORDS, logits, plain))
    )
    if wanted == plain:
        assert same is None
        return
    moved = np.array(logits)
    moved[wanted] += same.delta + 0.01
    assert moved.argmax() == wanted
    moved[wanted] -= 0.02
    assert moved.argmax() != wanted


def test_a_constant_on_yes_takes_off_or_adds():
    said_yes, said_no = ([step(WORDS, [2.0, 0.5, -3.0, 1.0], i)] for i in (0, 1))
    off = equivalent_constant(answer(*said_no), answer(*said_yes))
    assert (off.delta, off.on_yes) == (1.5, -1.5)
    assert "−1.50 on the logit of “yes”" in off.sentence
    leaning = [2.0, 4.0, -3.0, 3.5]  # "yes" in lower case is the nearest
    on = equivalent_constant(answer(step(WORDS, leaning, 0)), answer(step(WORDS, leaning, 1)))
    assert (on.delta, on.on_yes) == (2.0, 0.5)


def test_where_another_word_would_win_no_constant_on_yes_is_named():
    plain, other = (step(WORDS, [3.0, 1.0, 2.0, 0.0], i) for i in (0, 1))
    same = equivalent_constant(answer(other), answer(plain))
    assert same.on_yes is None
    assert same.delta == 2.0


def test_the_first_difference_counts_and_a_missing_logit_is_said():
    first = step(WORDS, [1.0, 0.0, 0.0, 0.0], 0)
    plain, other = (step(WORDS, [1.0, 0.0, 0.5, 0.0], i, index=1) for i in (0, 2))
    same = equivalent_constant(answer(first, other), answer(first, plain))
    assert (same.index, same.token, same.instead_of, same.delta) == (1, "Maybe", "Yes", 0.5)

    def alone(step):
        """The step with the first candidate alone, as `--keep 1` stores the baseline's."""
        own = step.candidates == step.token
        kept = {name: getattr(step, name)[own] for name in ("candidates", "base")}
        return replace(step, texts=(step.text,), **kept)

    again = equivalent_constant(answer(first, other), answer(first, alone(plain)))
    assert again == same  # the answer's own step holds both tokens
    none = equivalent_constant(answer(first, alone(other)), answer(first, alone(plain)))
    assert none.delta is None
    assert none.sentence == "No stored logit tells which constant would make token 2 the same."


def parted(search="greedy"):
    """A trace whose answers differ in their first token, the second-best of the baseline's."""
    trace = small_trace()
    token = trace.answers["baseline"].tokens[0]
    best, second = (
        replace(token, token=int(token.candidates[i]), text=token.texts[i]) for i in (0, 1)
    )
    answers = {
        name: replace(trace.answers[name], tokens=(one,))
        for name, one in (("baseline", best), ("macd", second))
    }
    decode = replace(trace.options.decode, search=search)
    return replace(trace, answers=answers, options=replace(trace.options, decode=decode))


def test_json_text_and_page_say_it():
    trace = parted()
    token = trace.answers["baseline"].tokens[0]
    summary = as_json(trace)["answers"]
    json.dumps(summary, allow_nan=False)
    assert summary["baseline"]["constant"] is None
    expected = float(token.base[0] - token.base[1])
    assert summary["macd"]["constant"]["delta"] == pytest.approx(expected)
    assert "without a second view" in as_text(trace)
    assert "without a second view" in payload(trace)["trace"]["answers"]["macd"]["constant"]
    assert payload(trace)["trace"]["answers"]["baseline"]["constant"] == ""


@pytest.mark.parametrize("search", ["sample", "vote", "beam"])
def test_no_constant_is_stated_where_no_token_had_to_be_the_best(search):
    trace = parted(search)
    assert as_json(trace)["answers"]["macd"]["constant"] is None
    assert "Constant" not in as_text(trace)
    assert payload(trace)["trace"]["answers"]["macd"]["constant"] == ""


def test_no_constant_is_stated_where_the_baseline_did_not_take_its_best_token():
    drawn, other = (step(WORDS, [1.0, 0.0, 3.0, 0.0], i) for i in (0, 1))
    assert equivalent_constant(answer(other), answer(drawn)) is None


def test_one_answer_is_the_beginning_of_the_other():
    first, more = step(WORDS, [1.0, 0.0, 0.0, 0.0], 0), step(WORDS, [0.0, 1.0, 0.0, 0.0], 1, 1)
    short, long = (replace(answer(*steps), finished=False) for steps in ((first,), (first, more)))
    assert first_difference(short, short) is None
    assert first_difference(short, replace(long, finished=True)) is None  # no word differs
    assert first_difference(short, long) == first_difference(long, short) == 1
    assert first_divergence(short, long) == first_divergence(long, short) == 0
    assert equivalent_constant(long, short) is None
    trace = parted()
    answers = {"baseline": replace(short, method="baseline"), "macd": long}
    rows = [row.split() for row in as_table(replace(trace, answers=answers)).splitlines()]
    assert next(row for row in rows if row[:1] == ["macd"])[-3] == "2"  # where it diverges


@pytest.mark.parametrize(("first", "then"), [(0, 1), (1, 0)])
def test_the_verdict_names_what_a_small_constant_is_added_to(first, then):
    """Less for yes is what makes it no: the sign is that of the token that is named."""
    leads = {0: 0.1, 1: 0.0} if first == 0 else {0: 0.0, 1: 0.1}
    logits = [2.0 + leads[0], 2.0 + leads[1], -3.0, -4.0]
    plain, other = (answer(step(WORDS, logits, i)) for i in (first, then))
    trace = small_trace()
    trace = replace(trace, answers={"baseline": replace(plain, method="baseline"), "macd": other})
    found = verdict_of(trace)
    assert found.name == "a constant does it"
    sign = "−" if first == 0 else "+"
    given = f"constant of {sign}0.10 on the logit of “yes” does the same, without any mask."
    assert found.reason == f"A {given}"
    assert any(f"{sign}0.10 logits on “yes”" in figure for figure in found.figures)


def test_a_small_constant_is_not_rounded_to_zero():
    plain, other = (step(WORDS, [1.0, 1.0 - 2**-8, -5.0, -5.0], i) for i in (0, 1))
    same = equivalent_constant(answer(other), answer(plain))
    assert "A constant of −3.9e−3 on the logit of “yes”" in same.sentence
