"""SEASON: frames mixed inside the vision tower, and weights that follow from attention."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import softmax

from macd_studio.core.backbones.contract import eager_attention
from macd_studio.core.backbones.load import load_backbone
from macd_studio.core.backbones.mixing import mixed_frames, vision_layers
from macd_studio.core.decoding.batch import ViewBatch
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.media.video import read_clip
from macd_studio.core.methods import METHODS, contrast_of, find_method, own_part, with_contrast
from macd_studio.core.options import (
    ContrastOptions,
    DecodeOptions,
    RuleOptions,
    RunOptions,
    SeasonOptions,
)
from macd_studio.core.rules import Season, season_layers
from macd_studio.core.run.order import decoding_views, run_method
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.table import alphas_bar
from macd_studio.core.whatif.edits import why_not_redecode
from macd_studio.viewer.payload import payload
from tests.core.test_methods import a_case
from tests.families import NAMES, make_clip, tiny
from tests.small_trace import small_trace

QUESTION = "What is in the video?"
SEASON = METHODS["season"]


def a_context(lm, seen, **parts):
    options = RunOptions(**{"decode": DecodeOptions(max_tokens=4, keep=4096)} | parts)
    return MethodContext(lm, lm.encode(seen, QUESTION), (), options)


@pytest.fixture(scope="module")
def everyday():
    return load_backbone("everyday", "cpu")


@pytest.fixture(scope="module")
def toy_clip(toy_mp4):
    return read_clip(toy_mp4)


# the temporal view


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_over_frames_goes_into_every_layer_of_every_family(name):
    """Share 0 changes nothing; share 1 leaves one picture, whatever the layers do after it."""
    lm = tiny(name)
    encoded = lm.encode(make_clip(6), QUESTION)
    plain = lm.prefill(encoded, encoded.video)
    groups = len(encoded.groups)
    assert groups > 1

    def features(share):
        return lm.prefill_mixed(encoded, encoded.video, share).vision.features

    for mine, own in zip(features(0.0), plain.vision.features, strict=True):
        torch.testing.assert_close(mine, own)
    for mixed, own in zip(features(1.0), plain.vision.features, strict=True):
        torch.testing.assert_close(mixed, mixed[:, :1].expand_as(mixed), rtol=1e-3, atol=1e-4)
        assert not torch.allclose(own, own[:, :1].expand_as(own), rtol=1e-2, atol=1e-2)
    part = features(0.33)[0]
    spread = [float(z.std(1).mean()) for z in (part, plain.vision.features[0])]
    assert 0 < spread[0] < spread[1]
    again = lm.prefill(encoded, encoded.video)
    assert torch.equal(again.logits, plain.logits)  # nothing is left behind


def test_the_mixed_tower_is_the_formula_layer_by_layer():
    """CLIP's tower of LLaVA-NeXT-Video by hand: embeddings, then each layer and its mean."""
    lm, b = tiny("llava_next_video"), 0.4
    encoded = lm.encode(make_clip(4), QUESTION)
    tower, config = lm.model.model.vision_tower, lm.model.config
    embeddings = getattr(tower, "vision_model", tower)
    with torch.no_grad():
        h = embeddings.pre_layrnorm(embeddings.embeddings(encoded.video.to(lm.dtype)))
        states = [h]
        for layer in embeddings.encoder.layers:
            frames = [layer(frame[None], attention_mask=None)[0] for frame in h]
            mean = sum(frames) / len(frames)
            h = torch.stack([(1 - b) * frame + b * mean for frame in frames])
            states.append(h)
        with mixed_frames(vision_layers(lm.model), len(encoded.groups), b):
            given = tower(encoded.video.to(lm.dtype), output_hidden_states=True).hidden_states
    at = config.vision_feature_layer
    torch.testing.assert_close(given[at], states[at], rtol=1e-4, atol=1e-5)


def test_the_hooks_go_where_the_tower_fails(toyworld):
    layers = vision_layers(toyworld.model)
    assert len(layers) == toyworld.model.model.visual.config.depth
    with pytest.raises(ZeroDivisionError), mixed_frames(layers, 2, 0.5):
        raise ZeroDivisionError
    assert not any(layer._forward_hooks for layer in layers)


def test_a_model_without_a_tower_that_is_known_is_left_out(toyworld, monkeypatch):
    with pytest.raises(NotApplicable, match="vision tower of bytes cannot be changed"):
        find_method("season-temporal+linear").build(a_case())
    monkeypatch.setattr(toyworld.model.model.visual.config, "depth", 99)
    with pytest.raises(NotApplicable, match="are not known"):
        vision_layers(toyworld.model)


def test_the_temporal_view_takes_the_share_of_the_options(toyworld, toy_clip):
    case = a_context(toyworld, toy_clip, season=SeasonOptions(share=0.8))
    (second,) = find_method("season-temporal+linear").build(case)
    expected = toyworld.prefill_mixed(case.encoded, case.encoded.video, 0.8)
    assert torch.equal(second.state.logits, expected.logits)
    assert not torch.allclose(expected.logits, case.base.logits, atol=0.01)
    assert second.record.caption.endswith("with 0.8 of the mean over frames")
    for wrong in (-0.1, 1.1):
        with pytest.raises(OptionError):
            SeasonOptions(share=wrong)


# the spatial view


def test_the_spatial_view_has_vcds_noise_of_its_own_step():
    case = a_case(options=RunOptions(season=SeasonOptions(step=900), seed=4))
    (second,) = find_method("season-spatial+linear").build(case)
    kept = alphas_bar()[900]
    expected = kept**0.5 * case.encoded.video + (1 - kept) ** 0.5 * case.noise()
    torch.testing.assert_close(second.video, expected.to(second.video.dtype))
    assert second.record.scale == pytest.approx((1 - kept) ** 0.5)


# the weights


def by_the_book(attention, frames):
    """The published formula with SciPy: w for each second view, from (N,) attention sums."""
    p = [softmax([part.sum() for part in np.split(np.float64(z), frames)]) for z in attention]
    apart = [jensenshannon(p[0], q) ** 2 for q in p[1:]]
    return np.array(apart) / sum(apart)


def test_the_weights_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    rule = Season(ContrastOptions(1.5, 0.0), (0,), frames=5)
    z = rng.normal(size=(3, 9))
    for _ in range(20):
        attention = [rng.dirichlet(np.full(30, 0.3)) * rng.uniform(0.5, 8) for _ in range(3)]
        weights = rule.attending(attention).weigh(z[0], z[1:], 0)
        shares = by_the_book(attention, 5)
        assert (weights.base, weights.floor) == (2.5, -np.inf)
        np.testing.assert_allclose(weights.others, -1.5 * shares, rtol=1e-6)
    assert abs(shares[0] - 0.5) > 0.01


def test_views_that_move_no_attention_weigh_the_same():
    rule, same = Season(ContrastOptions(), (0,), frames=2), np.ones(4) / 4
    assert rule.attending([same, same, same]).shares == (0.5, 0.5)
    assert rule.attending([same, same, np.array([0.7, 0.1, 0.1, 0.1])]).shares == (0.0, 1.0)


def test_a_cut_is_made_only_where_it_is_asked_for():
    z = np.array([3.0, 1.0, 0.0])
    cut = Season(ContrastOptions(1.0, 0.5), (0,), 1, shares=(0.5, 0.5)).weigh(z, [z, z], 0)
    assert cut.floor == pytest.approx(3.0 + np.log(0.5))


def test_weights_that_are_not_known_are_refused():
    rule, z = Season(ContrastOptions(), (0,), frames=2), np.zeros(3)
    with pytest.raises(NotApplicable, match="attention, which is not known here"):
        rule.weigh(z, [z, z], 0)
    for views in ([np.ones(4), np.ones(4), np.ones(2)], [np.ones(0)] * 3, [np.ones(5)] * 3):
        with pytest.raises(NotApplicable, match="the same frames"):
            rule.attending(views)


def test_the_layers_keep_their_place_and_may_be_chosen(toyworld, toy_clip):
    assert season_layers(28) == (20, 21, 22, 23)
    assert season_layers(36) == (25, 26, 27, 28, 29)
    assert all(0 <= min(season_layers(n)) <= max(season_layers(n)) < n for n in range(1, 100))
    case = a_context(toyworld, toy_clip, rules=RuleOptions(season_layer=1))
    assert SEASON.rule_for(case).layers == (1, 2, 3)
    case.options = RunOptions(rules=RuleOptions(season_layer=4))
    with pytest.raises(NotApplicable, match="has 4 layers, and SEASON is to read those from 4 on"):
        SEASON.rule_for(case)


# the loop


def eager_rows(lm, state, token, layers):
    """Logits after a token, and its attention to vision tokens as transformers itself gives it."""
    rows = {}

    def keep(module, _, out):
        rows[module.layer_idx] = out[1][0, :, -1].float().mean(0)

    handles = [z.self_attn.register_forward_hook(keep) for z in lm.decoder.layers]
    try:
        with eager_attention(lm.decoder):
            after = lm.step(state, [token])
    finally:
        for handle in handles:
            handle.remove()
    vision = state.inputs["vision"]
    return after, sum(rows[i] for i in layers)[vision].numpy()


def one_by_one(lm, encoded, states, alpha, layers, most):
    """The reference: every view on its own, its last token read once more for its attention."""
    states = [lm.join([s]) for s in states]
    last, tokens, shares = int(encoded.input_ids[0, -1]), [], []
    states = [lm.crop(s, s.length - 1) for s in states]
    while len(tokens) < most:
        read = [eager_rows(lm, s, last, layers) for s in states]
        states = [after for after, _ in read]
        w = by_the_book([row for _, row in read], len(encoded.groups))
        z, spatial, temporal = (s.logits[0].double().numpy() for s in states)
        score = (1 + alpha) * z - alpha * (w[0] * spatial + w[1] * temporal)
        last = int(score.argmax())
        tokens.append(last)
        shares.append(w)
        if last in lm.end_tokens:
            break
    return tokens, shares


@pytest.mark.parametrize("name", ["toyworld", "everyday", "internvl", "qwen3_vl"])
def test_the_loop_weighs_each_token_by_attention_as_transformers_has_it(name, toy_clip, request):
    lm = request.getfixturevalue(name) if name in ("toyworld", "everyday") else tiny(name)
    case = a_context(lm, toy_clip)
    views = decoding_views(case, SEASON)
    layers = views.rule.reads_layers
    tokens, shares = one_by_one(lm, case.encoded, [views.base, *views.others], 1.0, layers, 4)
    answer = run_method(case, SEASON)
    assert [s.token for s in answer.tokens] == tokens
    for step, w in zip(answer.tokens, shares, strict=True):
        np.testing.assert_allclose(step.weights.others, -w, atol=5e-3)
        assert sum(step.weights.others) == pytest.approx(-1.0)


def test_attention_is_that_of_the_last_token_of_each_row(toyworld, toy_clip):
    """Asked for late, after a step, and after a choice of rows."""
    context, layers = a_context(toyworld, toy_clip), (1, 2)
    (second,) = find_method("blank+linear").build(context)
    batch = ViewBatch(toyworld, context.base, second.states, rows=2)

    def expected(*rows):
        """By view: each row's tokens from the prompt on, the last one read by transformers."""
        found = []
        for state in (context.base, *second.states):
            each = []
            for *before, last in rows:
                reached = toyworld.join([state])
                for token in before:
                    reached = toyworld.step(reached, [token])
                each.append(eager_rows(toyworld, reached, last, layers)[1])
            found.append(np.stack(each))
        return found

    def agrees(*rows):
        for mine, theirs in zip(batch.attention(layers), expected(*rows), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-5)

    a, b, c = toyworld.tokens("yes no dog")[:3]
    batch.step([a, b])
    agrees([a], [b])
    batch.step([c, a])
    agrees([a, c], [b, a])
    batch.select([1])
    agrees([b, a])
    assert not np.allclose(*expected([a, c], [b, a])[0])


@pytest.mark.parametrize("search", ["beam", "vote"])
def test_hypotheses_are_weighed_each_by_its_own_attention(toyworld, toy_clip, search):
    decode = DecodeOptions(
        search=search, max_tokens=5, beams=3, samples=3, temperature=6.0, top_p=1.0, keep=4096
    )
    case = a_context(toyworld, toy_clip, decode=decode)
    views = decoding_views(case, SEASON)
    answer = run_method(case, SEASON)
    assert len(answer.tokens) > 1
    states = [toyworld.join([s]) for s in (views.base, *views.others)]
    states = [toyworld.crop(s, s.length - 1) for s in states]
    last = int(case.encoded.input_ids[0, -1])
    for step in answer.tokens:
        read = [eager_rows(toyworld, s, last, views.rule.reads_layers) for s in states]
        states, last = [after for after, _ in read], step.token
        w = by_the_book([row for _, row in read], len(case.encoded.groups))
        np.testing.assert_allclose(step.weights.others, -w, atol=5e-3)


def test_views_of_other_frames_and_models_that_show_no_attention_are_left_out(toyworld, toy_clip):
    with pytest.raises(NotApplicable, match="the same frames"):
        run_method(a_context(toyworld, toy_clip), find_method("vcd/tcd+season"))
    case = a_case()
    case.lm.lose("attention", "none was found")
    with pytest.raises(NotApplicable, match=r"cannot be read \(none was found\)"):
        SEASON.rule_for(case)
    assert SEASON.needs == ("attention",)


def test_it_has_an_alpha_of_its_own():
    assert contrast_of(SEASON.view, RunOptions()) == ContrastOptions(1.0, 0.0)
    changed = with_contrast(SEASON.view, RunOptions(), ContrastOptions(0.5, 0.0))
    assert changed.season.contrast.alpha == 0.5
    assert own_part("random-place/random-place-2") == "random"
    assert contrast_of("vcd/tcd", changed) == changed.contrast


# files and the page


def test_the_trace_keeps_the_views_and_the_weights_of_each_token(toyworld, toy_clip):
    answer = run_method(a_context(toyworld, toy_clip), SEASON)
    small = small_trace()
    answer = replace(
        answer, second_views=tuple(replace(z, shown=None) for z in answer.second_views)
    )
    trace = replace(small, answers=small.answers | {"season": answer})
    read = unpack(pack(trace)).answers["season"]
    assert read.second_views[1].view == answer.second_views[1].view
    assert [t.weights.others for t in read.tokens] == [
        pytest.approx(t.weights.others) for t in answer.tokens
    ]
    drawn = json.loads(json.dumps(payload(trace)))["trace"]["answers"]["season"]
    assert drawn["moves"]
    assert not drawn["locks"]
    assert "0.33 of the mean over frames" in json.dumps(drawn)
    assert why_not_redecode(trace, "season")
