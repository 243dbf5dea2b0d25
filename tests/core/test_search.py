from itertools import product

import numpy as np
import pytest
import torch

from macd_studio.core.decoding.answers import decode, find_answer
from macd_studio.core.decoding.contrast import score
from macd_studio.core.decoding.search import normalised
from macd_studio.core.media.video import read_clip
from macd_studio.core.options import ContrastOptions, DecodeOptions
from macd_studio.core.rules import Linear
from macd_studio.core.token_logits import NextTokenLogits
from tests.fakes import END, ByteLM, clip
from tests.samples import sampled


@pytest.fixture
def views():
    lm = ByteLM(seed=3)
    encoded = lm.encode(clip(), "is there a dog?")
    return lm, lm.prefill(encoded, encoded.video), lm.prefill(encoded, 0 * encoded.video + 0.9)


RULE = Linear(ContrastOptions(1.0, 0.1))


def ids(steps):
    return [s.token for s in steps]


def log_probabilities(a, b, contrast):
    """(token, log p) of every token that may follow two views, by the contrast of their logits."""
    s = score(a.logits[0].numpy(), b.logits[0].numpy(), contrast.alpha, contrast.beta)
    p = s - np.log(np.exp(s - s.max()).sum()) - s.max()
    return [(int(t), p[t]) for t in np.flatnonzero(np.isfinite(p))]


def whole_search(lm, base, counter, contrast, most, penalty):
    """Σ log p / length**penalty of every answer that ends, or is cut off at `most` tokens."""
    ranks = {}

    def walk(a, b, tokens, log_p):
        for t, p in log_probabilities(a, b, contrast):
            grown = (*tokens, t)
            if t in lm.end_tokens or len(grown) == most:
                ranks[grown] = (log_p + p) / len(grown) ** penalty
            else:
                walk(lm.step(a, [t]), lm.step(b, [t]), grown, log_p + p)

    walk(base, counter, (), 0.0)
    return ranks


class EndsEarly(ByteLM):
    """Its answers may end at any token."""

    def _logits(self, features, tokens):
        logits = super()._logits(features, tokens)
        logits[:, END] += 8
        return logits


def beams_by_definition(lm, base, counter, contrast, most, beams, penalty):
    """What `beam` describes, written once more without its batches."""

    def rank(tokens, log_p):
        return log_p / len(tokens) ** penalty

    running, complete = [((), 0.0, base, counter)], []
    for _ in range(most):
        extensions = [
            ((*tokens, t), log_p + p, a, b)
            for tokens, log_p, a, b in running
            for t, p in log_probabilities(a, b, contrast)
        ]
        extensions = sorted(extensions, key=lambda e: -e[1])[: 2 * beams]
        ended = [e for e in extensions[:beams] if e[0][-1] in lm.end_tokens]
        complete += [e[:2] for e in ended]
        running = [e for e in extensions if e[0][-1] not in lm.end_tokens][:beams]
        if not running:
            break
        ranks = sorted(rank(*c) for c in complete)[-beams:]
        if len(ranks) == beams and rank(*running[0][:2]) <= ranks[0]:
            break
        running = [
            (z, log_p, lm.step(a, [z[-1]]), lm.step(b, [z[-1]])) for z, log_p, a, b in running
        ]
    else:
        complete += [e[:2] for e in running]
    return max(complete or [e[:2] for e in running], key=lambda c: rank(*c))[0]


@pytest.mark.parametrize("beams", [1, 2, 3])
def test_beams_are_those_of_the_definition(beams):
    lengths = set()
    for seed, penalty in product((3, 4, 5), (0.0, 1.0, 3.0)):
        lm = EndsEarly(seed=seed, answer_length=9)
        encoded = lm.encode(clip(seed=2), "what?")
        base, counter = lm.prefill(encoded, encoded.video), lm.prefill(encoded, -encoded.video)
        contrast = ContrastOptions(0.7, 0.001)
        options = DecodeOptions(search="beam", beams=beams, max_tokens=5, length_penalty=penalty)
        found = ids(find_answer(lm, "x", base, [counter], Linear(contrast), options).tokens)
        expected = beams_by_definition(lm, base, counter, contrast, 5, beams, penalty)
        assert tuple(found) == expected, (seed, penalty)
        lengths.add(len(found))
    assert len(lengths) > 1


@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0])
@pytest.mark.parametrize(("seed", "length", "most"), [(11, 2, 3), (27, 9, 3)])
def test_beams_find_what_a_whole_search_finds(seed, length, most, penalty):
    """Answers that all end, and some that end and others that are cut off at the last token."""
    lm = ByteLM(seed=seed, answer_length=length)
    encoded = lm.encode(clip(seed=2), "what?")
    base, counter = lm.prefill(encoded, encoded.video), lm.prefill(encoded, -encoded.video)
    contrast = ContrastOptions(0.7, 0.01)
    ranks = whole_search(lm, base, counter, contrast, most, penalty)
    options = DecodeOptions(search="beam", beams=32, max_tokens=most, length_penalty=penalty)
    found = find_answer(lm, "x", base, [counter], Linear(contrast), options).tokens
    assert tuple(ids(found)) == max(ranks, key=ranks.get)


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


def tokens(lm, base, others, alpha=1.0, beta=0.1, **options):
    steps = decode(lm, base, others, Linear(ContrastOptions(alpha, beta)), DecodeOptions(**options))
    return list(steps)


def test_a_token_knows_how_deep_its_candidates_go(views):
    lm, base, *others = views
    step = tokens(lm, base, others, keep=4)[0]
    logits = base.logits[0].numpy()
    left = np.setdiff1d(np.arange(len(logits)), step.candidates)
    assert len(left)
    assert logits[left].max() < step.floor <= logits[step.candidates].max()
    assert tokens(lm, base, others, keep=400)[0].floor == -np.inf


@pytest.mark.parametrize("floor", [-np.inf, -4.0, -2.5, 0.5])
def test_of_some_tokens_a_row_leaves_out_no_larger_value_than_its_floor(floor):
    """Its own floor stays; what is left out now may raise it, and never lowers it."""
    row = NextTokenLogits(np.array([-1.0, -2.0, -3.0]), np.array([7, 3, 5]), floor, 0.25)
    some = row.among(np.array([3, 7]))
    assert (some.ids.tolist(), some.values.tolist()) == ([3, 7], [-2.0, -1.0])
    assert (some.floor, some.log_partition) == (max(floor, -3.0), 0.25)
    assert row.among(row.ids).floor == floor
    assert NextTokenLogits(row.values, None, floor).among(np.array([1, 0])).floor == max(
        floor, -3.0
    )
    with pytest.raises(KeyError):
        row.among(np.array([4]))
