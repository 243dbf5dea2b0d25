"""A rule over two second views, from the method's name to the file and the page."""

import json
import shlex
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

import macd_studio as macd
from macd_studio.core.decoding.answers import decode, find_answer
from macd_studio.core.decoding.search import normalised
from macd_studio.core.errors import OptionError
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import find_method
from macd_studio.core.options import ContrastOptions, DecodeOptions, RunOptions
from macd_studio.core.rules import MeanViews
from macd_studio.core.run.order import run_method
from macd_studio.core.views.context import MethodContext
from macd_studio.viewer.payload import payload
from tests.core.test_methods import a_case
from tests.core.test_recording import logits, told
from tests.fakes import FOUND, ByteLM, clip
from tests.small_trace import small_trace

ALPHA, BETA = 1.5, 0.05
RULE = MeanViews(ContrastOptions(ALPHA, BETA))
OPTIONS = RunOptions(contrast=ContrastOptions(ALPHA, BETA))


def chosen_one_by_one(lm, states, most):
    """The reference: every view on its own, and the formula as it is published."""
    states = [lm.join([s]) for s in states]
    tokens, rows = [], []
    while len(tokens) < most:
        z, a, b = (s.logits[0].double().numpy() for s in states)
        score = (1 + ALPHA) * z - ALPHA * (a + b) / 2
        score[z < z.max() + np.log(BETA)] = -np.inf
        tokens.append(int(score.argmax()))
        rows.append((z, a, b))
        if tokens[-1] in lm.end_tokens:
            break
        states = [lm.step(s, [tokens[-1]]) for s in states]
    return tokens, rows


def check(lm, base, others):
    own, rows = chosen_one_by_one(lm, [base, *others], 6)
    steps = list(decode(lm, base, others, RULE, DecodeOptions(max_tokens=6, keep=30)))
    assert [s.token for s in steps] == own
    for step, (z, a, b) in zip(steps, rows, strict=True):
        for mine, theirs in zip((step.base, *step.others), (z, a, b), strict=True):
            np.testing.assert_allclose(mine, theirs[step.candidates], atol=2e-4)
        sums = [np.log(np.exp(z).sum()) for z in (a, b)]
        assert step.others_log_z == pytest.approx(sums, abs=1e-3)
        assert step.weights.others == (-ALPHA / 2, -ALPHA / 2)
    return steps


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_real_loop_chooses_as_the_formula_over_views_of_two_lengths(toyworld, toy_mp4, order):
    encoded = toyworld.encode(read_clip(toy_mp4), "What is in the video?")
    fewer = toyworld.encode_frames(encoded.frames.subset((0, 3)), encoded.question)
    base = toyworld.prefill(encoded, encoded.video)
    noise = torch.randn(encoded.video.shape, generator=torch.Generator().manual_seed(0))
    seconds = [toyworld.prefill(encoded, noise), toyworld.prefill(fewer, fewer.video)]
    assert seconds[0].length == base.length > seconds[1].length  # one joins its cache, one cannot
    steps = check(toyworld, base, [seconds[i] for i in order])
    assert not np.allclose(*steps[0].others, atol=0.1)


def test_each_sample_of_a_vote_follows_its_own_views():
    """Against samples that are drawn one by one, each from states of its own."""
    context = a_case()
    lm, video = context.lm, context.encoded.video
    seconds = [lm.prefill(context.encoded, z) for z in (-video, 0 * video + 0.9)]
    options = DecodeOptions(
        search="vote", samples=5, temperature=8.0, top_p=1.0, max_tokens=4, seed=3
    )
    rule = MeanViews(ContrastOptions(0.5, 0.0))
    texts = []
    for i in range(options.samples):
        rng, tokens = np.random.default_rng([options.seed, i]), []
        states = [lm.join([s]) for s in (context.base, *seconds)]
        while len(tokens) < options.max_tokens and not set(tokens) & lm.end_tokens:
            z, a, b = (s.logits[0].numpy() for s in states)
            p = np.exp((1.5 * z - 0.25 * a - 0.25 * b) / options.temperature)
            tokens.append(int(rng.choice(len(p), p=p / p.sum())))
            states = [lm.step(s, [tokens[-1]]) for s in states]
        texts.append(normalised(lm.text([t for t in tokens if t not in lm.end_tokens])))
    assert len(set(texts)) > 1
    found = find_answer(lm, "x", context.base, seconds, rule, options)
    assert found.votes == Counter(texts)


# names


def test_the_views_are_written_with_a_slash():
    method = find_method("vcd/tcd+mean-views")
    assert method.views == ("vcd", "tcd")
    assert method.second_views == 2
    assert method.title == "VCD / TCD + Mean of views"
    assert "VCD (Leng" in method.source
    assert "TCD (" in method.source
    assert shlex.quote(method.name) == method.name  # and a comma separates methods


@pytest.mark.parametrize(("name", "message"), [
    ("vcd+mean-views", "takes 2 to 8 second views, and 'vcd' names 1"),
    ("/".join(["vcd"] * 9) + "+mean-views", "names 9"),
    ("vcd/tcd+code", "takes 1 second view, and 'vcd/tcd' names 2"),
    ("vcd/tcd+plain", "takes 0 second views"),
    ("vcd/video+mean-views", "'video' has none"),
    ("vcd/x+mean-views", "no view 'x'"),
    ("vcd/+mean-views", "no view ''"),
])  # fmt: skip
def test_what_names_other_views_than_the_rule_takes_is_refused(name, message):
    with pytest.raises(OptionError, match=message):
        find_method(name)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_an_average_of_random_masks_draws_each_anew_and_weighs_them_alike(count):
    lm = ByteLM(seed=3)
    context = MethodContext(lm, lm.encode(clip(), "is it?"), FOUND, OPTIONS)
    answer = run_method(context, find_method(f"random-average-{count}"))
    boxes = [second.view.boxes for second in answer.second_views]
    assert len(set(boxes)) == len(boxes) == count
    alone = run_method(context, find_method("random-place"))
    assert boxes[0] == alone.second_views[0].view.boxes
    token = answer.tokens[0]
    score = (1 + ALPHA) * token.base - ALPHA * np.mean(np.float64(token.others), 0)
    score[token.base < token.base.max() + np.log(BETA)] = -np.inf
    assert token.candidates[score.argmax()] == token.token


# files and the page


def a_trace():
    answer = run_method(a_case(options=OPTIONS), find_method("vcd/tcd+mean-views"))
    small = small_trace()
    shown = 255 - small.model_frames.pixels, small.model_frames.pixels // 2
    pairs = zip(answer.second_views, shown, strict=True)
    answer = replace(answer, second_views=tuple(replace(z, shown=s) for z, s in pairs))
    return replace(small, answers=small.answers | {answer.method: answer}), answer


def test_the_summary_and_the_payload_hold_every_view():
    trace, answer = a_trace()
    row = trace.to_dict()["answers"][answer.method]
    assert row["second_views"] == [second.view.as_dict() for second in answer.second_views]
    token = answer.tokens[0]
    at = token.candidates.tolist().index(token.token)
    z, a, b = (float(view[at]) for view in (token.base, *token.others))
    assert row["tokens"][0]["second_logits"] == [a, b]
    expected = (1 + ALPHA) * z - ALPHA * (a + b) / 2
    assert row["tokens"][0]["score"] == pytest.approx(float(expected), rel=1e-5)
    shown = json.loads(json.dumps(payload(trace), allow_nan=False))["trace"]["answers"]
    pictures = [second["shown"][0] for second in shown[answer.method]["second_views"]]
    assert all(picture.startswith("data:image/webp") for picture in pictures)
    assert len(set(pictures)) == 2
    assert shown[answer.method]["tokens"][0]["weights"]["others"] == [-ALPHA / 2] * 2
    assert shown["baseline"]["second_views"] == []


def test_another_program_may_record_several_views():
    base, counter, third = logits(0), logits(1), logits(2)
    scores = (1 + ALPHA) * base - ALPHA * (counter + third) / 2
    scores[base < base.max() + np.log(BETA)] = -np.inf
    answer = {
        "name": "x", "rule": "mean-views", "tokens": [int(scores.argmax())],
        "base": base[None], "others": [counter[None], third[None]],
    }  # fmt: skip
    contrast = {"alpha": ALPHA, "beta": BETA}
    trace = macd.record(**told(answers=[answer], contrast=contrast))
    assert trace.warnings == ()
    (token,) = trace.answers["x"].tokens
    np.testing.assert_array_equal(token.others[1], third[token.candidates])
    assert len(trace.answers["x"].second_views) == 2
    for change, message in (
        ({"rule": "linear"}, "has 2 second views"),
        ({"others": [counter[None]]}, "has a second view"),
        ({"others": [counter[None], third]}, "400 rows"),
        ({"others": 3}, "others is no list"),
    ):
        with pytest.raises(OptionError, match=message):
            macd.record(**told(answers=[answer | change], contrast=contrast))
