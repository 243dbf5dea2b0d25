"""Score rules against references of a few lines, written from their published formulas."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from macd_studio.core.decoding.answers import decode
from macd_studio.core.decoding.contrast import score
from macd_studio.core.decoding.steps import make_answer, make_token_step
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.macd import plausibility_threshold, weighted
from macd_studio.core.methods import METHODS, Method, find_method, find_methods
from macd_studio.core.options import ContrastOptions, DecodeOptions, RuleOptions
from macd_studio.core.rules import RULES, Linear, Setting, find_rule, score_token
from macd_studio.core.run.order import run_method
from macd_studio.core.text.question import asks_yes_no
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.types import StepWeights
from macd_studio.core.views.table import VIEWS
from tests.core.test_methods import a_case
from tests.fakes import ByteLM

LOGITS = arrays(np.float64, 12, elements=st.floats(-8, 8))
PAIRS = st.tuples(LOGITS, LOGITS)


def make(name, question="Is there a dog?", **options):
    rules = RuleOptions(**options)
    setting = Setting(ContrastOptions(), rules, lambda text: [ord(text[0]) % 12], question)
    return find_rule(name).create(setting)


def scores(rule, base, other, index=0):
    return weighted(base, [other], rule.weigh(base, [other], index))


def softmax(z):
    p = np.exp(z - z.max())
    return p / p.sum()


def cut(z, beta):
    """Where log z ≥ max + log β, the argmax always."""
    inside = z >= z.max() + np.log(beta)
    inside[z.argmax()] = True
    return inside


def assert_same(found, expected, inside):
    """Equal scores inside, up to a constant that changes no choice, and −inf outside."""
    assert np.isfinite(found).tolist() == inside.tolist()
    shift = (found - expected)[inside]
    np.testing.assert_allclose(shift, shift[0], atol=1e-9)


@given(PAIRS)
def test_code(views):
    z, c = views
    p, q = softmax(z), softmax(c)
    d = sum(0.5 * np.log2(abs(a - b) ** 0.2 + 1) * (a + b) for a, b in zip(p, q, strict=True))
    found = scores(make("code"), z, c)
    assert 0 <= d <= 1 + 1e-9
    near = np.abs(p - d * p.max()) < 1e-3 * p.max()  # on the cut itself rounding decides
    expected = np.where(p >= d * p.max(), (2 - d) * z - (1 - d) * c, -np.inf)
    expected[p.argmax()] = (2 - d) * z[p.argmax()] - (1 - d) * c[p.argmax()]
    # the power 0.2 makes 1e-3 of a rounding error of 1e-15
    np.testing.assert_allclose(found[~near], expected[~near], atol=0.05)


@given(PAIRS, st.floats(0.01, 2))
def test_only(views, gamma):
    z, c = views
    near = sum(abs(a - b) for a, b in zip(softmax(z), softmax(c), strict=True)) < gamma
    found = scores(make("only", only_threshold=gamma), z, c)
    assert_same(found, z + 3 * c if near else 2 * z - c, cut(z, 0.1))


@given(PAIRS, st.integers(0, 60))
def test_m3id(views, index):
    z, c = views
    gamma = np.exp(-0.02 * (index + 1))
    lc, lu = np.log(softmax(z)), np.log(softmax(c))
    found = scores(make("m3id"), z, c, index)
    assert_same(found, lc + (1 - gamma) / gamma * (lc - lu), cut(z, 0.1))


@given(PAIRS, st.floats(0, 3))
def test_log_linear_and_crg(views, strength):
    z, c = views
    found = scores(make("log-linear", log_lambda=strength, beta=0.2), z, c)
    assert_same(found, np.log(softmax(z)) - strength * np.log(softmax(c)), cut(z, 0.2))
    np.testing.assert_allclose(scores(make("crg"), z, c), 2 * z - c)


@given(st.tuples(LOGITS, LOGITS, LOGITS), st.floats(0, 5), st.floats(0.01, 1))
def test_mean_views(views, alpha, beta):
    z, a, b = views
    rule = find_rule("mean-views").create(replace(SETTING, contrast=ContrastOptions(alpha, beta)))
    found = weighted(z, [a, b], rule.weigh(z, [a, b], 0))
    assert_same(found, (1 + alpha) * z - alpha * (a + b) / 2, cut(z, beta))


@given(PAIRS, st.floats(0, 20), st.floats(0, 1.5), st.sampled_from(["probability", "raw"]))
def test_linear(views, alpha, beta, head):
    z, c = views
    rule = find_rule("linear").create(replace(SETTING, contrast=ContrastOptions(alpha, beta, head)))
    found = scores(rule, z, c)
    np.testing.assert_array_equal(found, score(z, c, alpha, beta, head))
    p = softmax(z)
    inside = p >= beta * p.max() if head == "probability" else z >= beta * z.max()
    near = np.abs(z - plausibility_threshold(z, beta, head)) < 1e-9 * (1 + np.abs(z))
    inside[z.argmax()] = True
    assert np.isfinite(found)[~near].tolist() == inside[~near].tolist()
    np.testing.assert_allclose(
        found[np.isfinite(found)], ((1 + alpha) * z - alpha * c)[np.isfinite(found)]
    )


SETTING = Setting(ContrastOptions(), RuleOptions(), lambda text: [1], "Is it?")


@given(PAIRS, st.floats(-5, 5))
def test_a_constant_on_yes(views, delta):
    z, c = views
    rule = make("yes-bias", delta=delta)
    expected = z.copy()
    for token in {ord("y") % 12, ord("Y") % 12}:
        expected[token] += delta
    np.testing.assert_allclose(scores(rule, z, c), expected)
    np.testing.assert_array_equal(scores(rule, z, c, 1), z)


@given(PAIRS)
def test_the_output_layer_rule(views):
    z, c = views
    p = softmax(z)
    yes = max((ord(w) % 12 for w in "yY"), key=lambda i: p[i])
    no = max((ord(w) % 12 for w in "nN"), key=lambda i: p[i])
    close = p[yes] + p[no] > 0.2 and abs(p[yes] - p[no]) < 0.5
    found = scores(make("olm"), z, c)
    assert int(found.argmax()) == (yes if close else int(z.argmax()))
    np.testing.assert_array_equal(scores(make("olm"), z, c, 1), z)


def test_the_cut_alone_and_no_rule_at_all():
    z = np.array([2.0, 1.9, 1.2])  # the last is kept by the β of other rules
    alone = find_rule("cut-only").create(replace(SETTING, contrast=ContrastOptions(1.0, 0.5)))
    assert weighted(z, [], alone.weigh(z, [], 0)).tolist() == [2.0, 1.9, -np.inf]
    assert weighted(z, [], make("plain").weigh(z, [], 0)).tolist() == z.tolist()


@pytest.mark.parametrize(("question", "expected"), [
    ("Is there a dog in the video?", True),
    ("Does the dog run? Please answer yes or no.", True),
    ("What happens? Answer yes or no:", True),
    ("Isn’t it a cat?", True),
    ("Look closely. Was it raining?", True),
    ("Is it a dog or a cat?", False),
    ("What is in the video?", False),
    ("Isle of Man or not?", False),
    ("Which animal is it?", False),
])  # fmt: skip
def test_yes_no_questions_are_told_apart(question, expected):
    assert asks_yes_no(question) is expected
    for name in ("yes-bias", "olm"):
        if expected:
            make(name, question)
        else:
            with pytest.raises(NotApplicable, match=name):
                make(name, question)


def test_the_guide_names_every_method_view_and_rule():
    guide = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    for name in (*METHODS, *VIEWS, *RULES):
        assert f"`{name}`" in guide, name


@pytest.mark.parametrize(("weights", "cause"), [
    (StepWeights(1.0, ()), "gave 0 weights"), (StepWeights(1.0, (1.0, 2.0)), "gave 2 weights"),
    (StepWeights(1.0, (np.nan,)), "not a number"), (StepWeights(np.inf, (1.0,)), "not a number"),
    (StepWeights(1.0, (1.0,), floor=np.nan), "not a number"),
    (StepWeights(1.0, (1.0,), bias=((9, 1.0),)), "bias on token 9 of 2"),
    (StepWeights(1.0, (1.0,), bias=((0, np.nan),)), "not a number"),
    (None, "gave a NoneType"), (np.zeros(2), "gave a ndarray"),
])  # fmt: skip
def test_what_cannot_be_the_weights_of_a_rule_is_refused(weights, cause):
    class Odd(Linear):
        def weigh(self, base, others, index):
            return weights

    with pytest.raises(OptionError, match=cause):
        score_token(Odd(ContrastOptions()), np.array([1.0, 2.0]), [np.array([2.0, 1.0])], 0)


def test_a_rule_derived_from_linear_keeps_its_weights():
    class Sharpened(Linear):
        def weigh(self, base, others, index):
            return StepWeights(3.0, (-1.0,))

    rule = Sharpened(ContrastOptions())
    base, other = np.array([1.0, 2.0]), np.array([2.0, 1.0])
    weights, _ = score_token(rule, base, [other], 0)
    step = make_token_step(
        str, 0, 1, NextTokenLogits(base), [NextTokenLogits(other)], weights, rule, keep=2
    )
    assert step.weights == weights
    assert make_answer("x", "x", [step], (), rule).alpha == 0


def test_a_view_s_bare_name_is_told_from_an_unknown_one():
    with pytest.raises(OptionError, match="'no-video' is a view"):
        find_method("no-video")


def test_any_view_runs_under_any_rule():
    assert find_method("macd+code").title == "MACD + CODE"
    assert find_method("output-bias") is METHODS["yes-bias"]
    assert [m.name for m in find_methods(["vcd", "vcd+only", "vcd"])] == ["vcd", "vcd+only"]
    for name, told in (("macd+x", "no rule 'x'"), ("x+code", "no view 'x'"),
                       ("video+code", "needs a second view"), ("macd+", "no rule ''"),
                       ("x", "VIEW+RULE")):  # fmt: skip
        with pytest.raises(OptionError, match=told.replace("+", r"\+")):
            find_method(name)
    context = a_case()
    rules = [r for r in RULES if find_rule(r).second_views and not find_rule(r).needs]
    for view in ("macd", "vcd", "no-video", "mask-all", "tcd", "sid"):
        for rule in rules:
            views = "/".join([view] * find_rule(rule).second_views)
            answer = run_method(context, find_method(f"{views}+{rule}"))
            assert (answer.rule, bool(answer.text)) == (rule, True)
            for token in answer.tokens:
                assert (token.weights is None) == (rule == "linear")


@pytest.mark.parametrize(
    "name", ["macd+code", "vcd+m3id", "baseline", "yes-bias", "olm", "crg", "macd/tcd+mean-views"]
)
def test_weights_are_saved_and_tell_the_choice(name):
    from tests.small_trace import small_trace

    method = Method("crg", "x", "mask-all", "crg") if name == "crg" else find_method(name)
    answer = run_method(a_case(), method)
    unseen = tuple(replace(second, shown=None) for second in answer.second_views)
    trace = replace(small_trace(), answers={name: replace(answer, second_views=unseen)})
    again = unpack(pack(trace)).answers[name]
    assert again.rule == method.rule
    assert [t.weights for t in again.tokens] == [t.weights for t in answer.tokens]
    for token in again.tokens:
        found = weighted(token.base, token.others, token.weights, token.candidates)
        assert int(token.candidates[found.argmax()]) == token.token


def test_no_video_reads_the_question_alone():
    lm = ByteLM(seed=5)
    context = a_case()
    found = run_method(context, find_method("no-video+m3id"))
    assert [(z.view.kind, z.shown) for z in found.second_views] == [("no-video", None)]
    alone = decode(lm, lm.prefill_text("is there a dog?"), [], make("plain"), DecodeOptions())
    first = next(alone)
    expected = dict(zip(first.candidates.tolist(), first.base.tolist(), strict=True))
    mine = found.tokens[0]
    for token, logit in zip(mine.candidates.tolist(), mine.others[0].tolist(), strict=True):
        assert expected.get(token, logit) == pytest.approx(logit, rel=1e-5)
    assert len(expected) > 200


@pytest.mark.parametrize(("module", "method"), [
    ("rules", "macd+average"), ("views/table", "upside-down+linear"),
])  # fmt: skip
def test_the_documented_example_is_one_definition_and_its_row(module, method, monkeypatch):
    from macd_studio.core import rules
    from macd_studio.core.views import table

    text = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    code, row = re.search(
        rf"In `core/{module}\.py`:\n\n```python\n(.*?)```.*?row `(.*?),`", text, re.S
    ).groups()
    within = dict(vars({"rules": rules, "views/table": table}[module]))  # what the file defines
    exec(f"from __future__ import annotations\n{code}", within)
    if module == "rules":
        monkeypatch.setitem(rules.RULES, within[row].name, within[row])
    else:
        name, build = eval(f"{{{row}}}", within).popitem()
        monkeypatch.setitem(table.VIEWS, name, build)
    context = a_case()
    answer = run_method(context, find_method(method))
    assert answer.text
    assert answer.rule == method.split("+")[1]
    if module == "rules":
        for token in answer.tokens:
            mean = weighted(token.base, token.others, StepWeights(0.5, (0.5,)))
            assert token.candidates[mean.argmax()] == token.token
    else:
        flipped = context.encoded.frames.pixels[:, ::-1]
        np.testing.assert_array_equal(answer.second_views[0].shown, flipped)
        assert answer.second_views[0].view.as_dict() == {
            "kind": "upside-down", "caption": "the video upside down"
        }  # fmt: skip
