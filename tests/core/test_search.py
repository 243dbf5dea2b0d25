import numpy as np
import pytest
import torch

from macd_studio.core.decoding.answers import decode, find_answer
from macd_studio.core.decoding.contrast import nucleus, plausibility_mask, score
from macd_studio.core.decoding.search import normalised
from macd_studio.core.media.video import read_clip
from macd_studio.core.options import ContrastOptions, DecodeOptions
from macd_studio.core.rules import Linear
from tests.fakes import ByteLM, clip
from tests.samples import sampled


@pytest.fixture
def views():
    lm = ByteLM(seed=3)
    encoded = lm.encode(clip(), "is there a dog?")
    return lm, lm.prefill(encoded, encoded.video), lm.prefill(encoded, 0 * encoded.video + 0.9)


RULE = Linear(ContrastOptions(1.0, 0.1))


def ids(steps):
    return [s.token for s in steps]


def test_sampling_repeats_from_its_seed(views):
    lm, base, *others = views

    def sample(seed):
        options = DecodeOptions(search="sample", temperature=5.0, top_p=1.0, seed=seed)
        return ids(decode(lm, base, others, RULE, options))

    assert sample(1) == sample(1)
    assert len({tuple(sample(s)) for s in range(8)}) > 1


def test_a_cold_nucleus_is_greedy(views):
    lm, base, *others = views
    cold = DecodeOptions(search="sample", temperature=0.01, top_p=0.5)
    assert ids(decode(lm, base, others, RULE, cold)) == ids(
        decode(lm, base, others, RULE, DecodeOptions())
    )


def test_the_nucleus_is_the_smallest_set_of_that_mass():
    p = np.array([0.5, 0.25, 0.15, 0.1])
    np.testing.assert_allclose(nucleus(np.log(p), 1.0, 0.75), [2 / 3, 1 / 3, 0, 0])
    np.testing.assert_allclose(
        nucleus(np.log(p), 1.0, 0.76), p[:3].tolist() / p[:3].sum() @ np.eye(3, 4)
    )
    np.testing.assert_allclose(nucleus(np.log(p), 1.0, 1.0), p)
    assert nucleus(np.array([1.0, -np.inf]), 1.0, 0.9).tolist() == [1.0, 0.0]


def test_one_beam_is_greedy(views):
    lm, base, *others = views
    options = DecodeOptions(search="beam", beams=1)
    assert ids(find_answer(lm, "x", base, others, RULE, options).tokens) == ids(
        decode(lm, base, others, RULE, DecodeOptions())
    )


def test_beams_find_what_a_whole_search_finds():
    lm = ByteLM(seed=11, answer_length=2)
    encoded = lm.encode(clip(seed=2), "what?")
    base, counter = lm.prefill(encoded, encoded.video), lm.prefill(encoded, -encoded.video)
    best = {}
    rule = Linear(ContrastOptions(0.7, 0.01))

    def walk(a, b, tokens, log_p):
        s = score(a.logits[0].numpy(), b.logits[0].numpy(), rule.contrast.alpha, rule.contrast.beta)
        p = s - np.log(np.exp(s - s.max()).sum()) - s.max()
        for t in np.flatnonzero(np.isfinite(p)):
            if int(t) in lm.end_tokens:
                best[(*tokens, int(t))] = (log_p + p[t]) / (len(tokens) + 1)
            elif len(tokens) < 2:
                walk(lm.step(a, [int(t)]), lm.step(b, [int(t)]), (*tokens, int(t)), log_p + p[t])

    walk(base, counter, (), 0.0)
    options = DecodeOptions(search="beam", beams=32, max_tokens=3)
    found = find_answer(lm, "x", base, [counter], rule, options).tokens
    assert tuple(ids(found)) == max(best, key=best.get)


def test_votes_are_counted_over_normalised_answers(views):
    lm, base, *others = views
    options = DecodeOptions(search="vote", samples=7, temperature=3.0, top_p=1.0)
    said = find_answer(lm, "macd", base, others, RULE, options)
    assert sum(said.votes.values()) == 7
    assert said.votes[normalised(said.text)] == max(said.votes.values())
    again = find_answer(lm, "macd", base, others, RULE, options)
    assert again.votes == said.votes
    one = DecodeOptions(search="vote", samples=3, temperature=0.01)
    sure = find_answer(lm, "macd", base, others, RULE, one)
    assert list(sure.votes.values()) == [3]
    assert ids(sure.tokens) == ids(decode(lm, base, others, RULE, DecodeOptions()))


def test_views_of_different_length_are_decoded_beside_each_other(views):
    lm, base, _ = views
    longer = lm.encode(clip(seed=4), "is there a dog in it?")
    counter = lm.prefill(longer, longer.video)
    a, b = base, counter
    for step in decode(lm, base, [counter], RULE, DecodeOptions()):
        np.testing.assert_allclose(step.base, a.logits[0].numpy()[step.candidates], rtol=1e-6)
        np.testing.assert_allclose(step.others[0], b.logits[0].numpy()[step.candidates], rtol=1e-6)
        a, b = lm.step(a, [step.token]), lm.step(b, [step.token])


def test_the_raw_head_falls_back_to_the_argmax():
    assert plausibility_mask(np.array([-1.0, -2.0]), 0.5, "raw").tolist() == [True, False]
    assert plausibility_mask(np.array([4.0, 2.1, 1.9]), 0.5, "raw").tolist() == [True, True, False]


@pytest.mark.parametrize("beams", sampled([2, 3], [3]))
def test_beam_search_equals_generate_with_a_logits_processor(toyworld, toy_mp4, beams):
    """The counterfactual's logits come from whole forward passes inside transformers' own loop."""
    encoded = toyworld.encode(read_clip(toy_mp4), "What is in the video?")
    hidden = torch.zeros_like(encoded.video)
    base, counter = toyworld.prefill(encoded, encoded.video), toyworld.prefill(encoded, hidden)
    rule = Linear(ContrastOptions(1.0, 0.1))
    video_token = toyworld.model.config.video_token_id

    def logits_of(rows, video):
        n = len(rows)
        return toyworld.model(
            input_ids=rows,
            pixel_values_videos=encoded.layout(video).repeat(n, 1),
            video_grid_thw=encoded.inputs["video_grid_thw"].repeat(n, 1),
            mm_token_type_ids=torch.where(rows == video_token, 2, 0).int(),
            second_per_grid_ts=torch.ones(n),
        ).logits[:, -1]

    def processor(rows, _):
        with torch.no_grad():
            views = [logits_of(rows, v).numpy() for v in (encoded.video, hidden)]
        s = torch.from_numpy(
            np.stack(
                [
                    score(a, b, rule.contrast.alpha, rule.contrast.beta)
                    for a, b in zip(*views, strict=True)
                ]
            )
        )
        return s.log_softmax(-1).float()

    inputs = {k: v for k, v in encoded.inputs.items() if k != "position_ids"}
    with torch.no_grad():
        own = toyworld.model.generate(
            input_ids=encoded.input_ids,
            pixel_values_videos=encoded.layout(encoded.video),
            second_per_grid_ts=torch.ones(1),
            num_beams=beams,
            do_sample=False,
            max_new_tokens=24,
            logits_processor=[processor],
            **inputs,
        )[0, encoded.input_ids.shape[1] :].tolist()
    options = DecodeOptions(search="beam", beams=beams, max_tokens=24)
    assert ids(find_answer(toyworld, "x", base, [counter], rule, options).tokens) == own


def test_redecoding_after_a_crop_equals_decoding_anew(toyworld, toy_mp4):
    from macd_studio.core.decoding.answers import decode_from, redecode
    from macd_studio.core.decoding.batch import ViewBatch

    encoded = toyworld.encode(read_clip(toy_mp4), "What is in the video?")
    base = toyworld.prefill(encoded, encoded.video)
    counter = toyworld.prefill(encoded, torch.zeros_like(encoded.video))
    pair = ViewBatch(toyworld, base, [counter])
    first = list(decode_from(pair, RULE, DecodeOptions()))
    for index in (1, 3):
        other = next(int(c) for c in first[index].candidates if c != first[index].token)
        cropped = list(redecode(pair, index, other, RULE, DecodeOptions()))
        anew = ViewBatch(toyworld, base, [counter])
        for token in [s.token for s in first[:index]] + [other]:
            anew.step([token])
        whole = list(decode_from(anew, RULE, DecodeOptions(), first=index + 1))
        assert ids(cropped) == ids(whole)
        np.testing.assert_allclose(cropped[0].base, whole[0].base, atol=1e-4)
        pair = ViewBatch(toyworld, base, [counter])
        list(decode_from(pair, RULE, DecodeOptions()))


def test_two_rows_of_the_embedded_model_equal_two_caches(toyworld, toy_mp4):
    encoded = toyworld.encode(read_clip(toy_mp4), "What is in the video?")
    a = toyworld.prefill(encoded, encoded.video)
    b = toyworld.prefill(encoded, torch.zeros_like(encoded.video))
    for step in decode(toyworld, a, [b], RULE, DecodeOptions()):
        for state, logits in ((a, step.base), (b, step.others[0])):
            np.testing.assert_allclose(logits, state.logits[0][step.candidates], atol=2e-4)
        a, b = toyworld.step(a, [step.token]), toyworld.step(b, [step.token])
