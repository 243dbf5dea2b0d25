"""A decoder for transformers' own `generate` gives the tokens of `compare`."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import macd_studio as macd
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.evals.benchmarks import find_benchmark

SHORT = {"ascent": {"steps": 1}}


@pytest.fixture(scope="module")
def world(toyworld, toy_detector):
    return SimpleNamespace(lm=toyworld, detector=toy_detector, bench=find_benchmark("toyworld"))


def items(bench, n):
    """Questions of every regime in turn."""
    regimes, each = len(bench.regimes), -(-n // len(bench.regimes))
    by_regime = {r: [] for r in bench.regimes}
    for item in bench.items("test", each):
        by_regime[item.regime].append(item)
    return [by_regime[bench.regimes[i % regimes]][i // regimes] for i in range(n)]


def generated(world, item, method="macd", seed=0, **how):
    """Tokens of the model's own generate with our decoder, and those of compare."""
    clip = world.bench.clip(item.clip)
    traces = []
    decode = {"seed": seed}
    decoder = macd.decoder(
        world.lm, None, clip, item.question, method=method, detector=world.detector,
        on_trace=traces.append, decode=decode, **SHORT,
    )  # fmt: skip
    encoded = world.lm.encode(clip, item.question)
    pixels = encoded.layout(encoded.video)
    given = {k: v for k, v in encoded.inputs.items() if k == "video_grid_thw"}
    ids = world.lm.model.generate(
        input_ids=encoded.input_ids, pixel_values_videos=pixels, **given,
        custom_generate=decoder, max_new_tokens=12, **how,
    )  # fmt: skip
    return ids[0, encoded.input_ids.shape[1] :].tolist(), traces[0]


def compared(world, item, method="macd", **decode):
    clip = world.bench.clip(item.clip)
    trace = macd.compare(
        clip, item.question, () if method in ("macd", "baseline") else [method],
        backbone=world.lm, detector=world.detector, decode={"max_tokens": 12, **decode}, **SHORT,
    )  # fmt: skip
    return [step.token for step in trace.answers[method].tokens]


GREEDY = {"do_sample": False}
NUCLEUS = {"do_sample": True, "top_k": 0, "top_p": 0.8, "temperature": 1.5}
BEAM = {"do_sample": False, "num_beams": 3}


@pytest.mark.parametrize("n", [3, pytest.param(200, marks=pytest.mark.long)])
def test_the_tokens_are_those_of_compare(world, n):
    ways = [
        (GREEDY, {}),
        (NUCLEUS, {"search": "sample", "top_p": 0.8, "temperature": 1.5, "seed": 7}),
        (BEAM, {"search": "beam", "beams": 3}),
    ]
    for i, item in enumerate(items(world.bench, n)):
        how, decode = ways[i % len(ways)]
        method = ("macd", "vcd", "blank+linear")[(i + i // len(ways)) % 3]
        tokens, _ = generated(world, item, method, seed=7, **how)
        assert tokens == compared(world, item, method, **decode), (item, how)
        assert tokens


def test_it_stops_where_generate_would(world):
    item = items(world.bench, 1)[0]
    tokens, trace = generated(world, item, **GREEDY)
    assert tokens[-1] in world.lm.end_tokens
    assert trace.answers["macd"].text == world.lm.text(tokens)


def test_what_is_not_followed_is_refused(world):
    item = items(world.bench, 1)[0]
    with pytest.raises(OptionError, match="top_k"):
        generated(world, item, do_sample=True, top_k=5)
    with pytest.raises(OptionError, match="beams"):
        generated(world, item, do_sample=True, num_beams=2, top_k=0)
    caption = next(i for i in items(world.bench, 6) if i.kind == "caption")
    with pytest.raises(NotApplicable, match="yes-no questions only"):
        generated(world, caption, "yes-bias", **GREEDY)


def test_another_prompt_is_refused(world):
    item = items(world.bench, 1)[0]
    decoder = macd.decoder(world.lm, None, "none.mp4", item.question)
    other = torch.tensor([world.lm.tokens("Is there a boat in the video?")])
    with pytest.raises(OptionError, match="does not ask the question"):
        decoder(world.lm.model, other)
    both = torch.tensor([world.lm.tokens("Is there"), world.lm.tokens("a dog")])
    with pytest.raises(OptionError, match="several prompts"):
        decoder(world.lm.model, both)


def test_a_model_of_the_user_is_wrapped():
    from tests.universal_models import parts

    model, processor = parts("llava_onevision")
    lm = macd.wrap(model, processor, "mine")
    assert lm.info.name == "mine"
    assert lm.info.parameters == sum(p.numel() for p in model.parameters())
    assert not any(p.requires_grad for p in model.parameters())
    assert np.isfinite(lm.info.weight_bytes)
