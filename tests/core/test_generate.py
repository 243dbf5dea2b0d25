"""A decoder for transformers' own `generate` gives the tokens of `compare`."""

import inspect
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import generation as hf

import macd_studio as macd
from macd_studio.core import generate
from macd_studio.core.backbones import generation
from macd_studio.core.errors import MacdError, NotApplicable, OptionError
from macd_studio.evals.benchmarks import find_benchmark
from tests.fakes import clip as drawn_clip
from tests.families import NAMES, tiny

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


class Streamer(hf.BaseStreamer):
    """Of which nothing may be printed, not even the prompt."""

    def put(self, value):
        raise AssertionError("something was streamed")

    def end(self):
        pass


NOT_FOLLOWED = {
    "repetition_penalty": {"repetition_penalty": 2.0},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 1},
    "bad_words_ids is": {"bad_words_ids": [[10]]},
    "sequence_bias": {"sequence_bias": [[[10], 1.0]]},
    "min_new_tokens=2": {"min_new_tokens": 2},
    "min_length": {"min_length": 1000, "max_new_tokens": 1000},
    "eos_token_id=48": {"eos_token_id": 48},
    "eos_token_id is": {"eos_token_id": [1, 48]},
    "eos_token_id=None": {"eos_token_id": None},
    "num_return_sequences": {"num_beams": 3, "num_return_sequences": 3},
    "early_stopping": {"num_beams": 3, "early_stopping": True},
    "length_penalty": {"num_beams": 3, "length_penalty": 9.0},
    "max_new_tokens=1024": {"max_new_tokens": 1025},
    "max_time": {"max_time": 60.0},
    "stop_strings is not": {"stop_strings": ["a"], "tokenizer": None},
    "output_scores": {"return_dict_in_generate": True, "output_scores": True},
    "top_p is 0.0": {"do_sample": True, "top_k": 0, "top_p": 0.0},
    "min_p": {"do_sample": True, "top_k": 0, "min_p": 0.9},
    "top_h": {"do_sample": True, "top_k": 0, "top_h": 0.5},
    "typical_p": {"do_sample": True, "top_k": 0, "typical_p": 0.1},
    "epsilon_cutoff": {"do_sample": True, "top_k": 0, "epsilon_cutoff": 0.1},
    "eta_cutoff": {"do_sample": True, "top_k": 0, "eta_cutoff": 0.1},
    "NoRepeatNGram": {"logits_processor": [hf.NoRepeatNGramLogitsProcessor(1)]},
    "RepetitionPenaltyLogits": {"logits_processor": [hf.RepetitionPenaltyLogitsProcessor(2.0)]},
    "Temperature": {"num_beams": 3, "logits_processor": [hf.TemperatureLogitsWarper(0.5)]},
    "TopPLogitsWarper": {
        "do_sample": True, "top_k": 0, "top_p": 0.8, "logits_processor": [hf.TopPLogitsWarper(0.8)]
    },
    "prefix_allowed_tokens_fn": {"prefix_allowed_tokens_fn": lambda row, ids: [10]},
    "MaxTimeCriteria": {"stopping_criteria": [hf.MaxTimeCriteria(60.0)]},
    "MaxLengthCriteria": {"stopping_criteria": [hf.MaxLengthCriteria(3)]},
    "EosTokenCriteria": {"stopping_criteria": [hf.EosTokenCriteria(48)]},
    "streamer": {"streamer": Streamer()},
    "negative_prompt_ids": {"negative_prompt_ids": torch.ones(1, 3, dtype=torch.long)},
    "negative_prompt_attention_mask": {
        "negative_prompt_attention_mask": torch.ones(1, 3, dtype=torch.long)
    },
    "synced_gpus": {"synced_gpus": True},
    "position_ids": {"position_ids": torch.zeros(3, 1, 3, dtype=torch.long)},
    "prompt_lookup_num_tokens": {"prompt_lookup_num_tokens": 3},
}  # fmt: skip
"""What a refusal names → the settings of a call."""


def called(world, item, decoder, lm=None, **how):
    """New tokens of the model's own generate with a decoder, by row."""
    lm, clip = lm or world.lm, world.bench.clip(item.clip)
    encoded = lm.encode(clip, item.question)
    ids = lm.model.generate(
        input_ids=encoded.input_ids, pixel_values_videos=encoded.layout(encoded.video),
        video_grid_thw=encoded.inputs["video_grid_thw"], custom_generate=decoder,
        **({"max_new_tokens": 4, "do_sample": False} | how),
    )  # fmt: skip
    return ids[:, encoded.input_ids.shape[1] :].tolist()


@pytest.mark.parametrize("named", NOT_FOLLOWED)
def test_settings_are_refused_before_anything_is_read(world, named):
    item = items(world.bench, 1)[0]
    how = NOT_FOLLOWED[named]
    lists = {
        "logits_processor": hf.LogitsProcessorList,
        "stopping_criteria": hf.StoppingCriteriaList,
    }
    how = {k: lists[k](v) if k in lists else v for k, v in how.items()}
    decoder = macd.decoder(world.lm, None, "none.mp4", item.question)
    with pytest.raises(OptionError, match=named):
        called(world, item, decoder, **how)


@pytest.mark.parametrize("named", [n for n in NOT_FOLLOWED if n != "streamer"])
def test_nothing_is_streamed_of_a_call_that_is_refused(world, named):
    how = {k: v for k, v in NOT_FOLLOWED[named].items() if k != "num_beams"}
    item = items(world.bench, 1)[0]
    decoder = macd.decoder(world.lm, None, "none.mp4", item.question)
    with pytest.raises(OptionError):
        called(world, item, decoder, **{**how, "streamer": Streamer()})


def test_a_cache_that_rounds_is_refused(world):
    config = deepcopy(world.lm.model.generation_config)
    config.cache_implementation = "quantized"  # `generate` itself asks for another package first
    with pytest.raises(OptionError, match="cache_implementation='quantized' is not followed"):
        generation.check_call(config, 3, config, world.lm.end_tokens, 1.0)


def test_another_model_that_drafts_is_refused(world):
    item = items(world.bench, 1)[0]
    decoder = macd.decoder(world.lm, None, "none.mp4", item.question)
    with pytest.raises(OptionError, match="assistant_model is not followed"):
        called(world, item, decoder, assistant_model=world.lm.model)


COST_ALONE = frozenset({
    "use_cache", "cache_config", "max_cache_len", "compile_config", "disable_compile", "low_memory",
    "prefill_chunk_size", "continuous_batching_config", "max_matching_ngram_size",
    "num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold",
    "assistant_lookbehind", "target_lookbehind", "assistant_ensemble_weight", "speculation_type",
})  # fmt: skip
"""Fields that change no answer: what it costs, and how another model would draft it, which is
refused itself."""
FOLLOWED = frozenset({
    "max_length", "max_new_tokens", "do_sample", "num_beams", "temperature", "top_p",
    "length_penalty", "repetition_penalty", "eos_token_id", "num_return_sequences",
    "early_stopping", "max_time", "return_dict_in_generate",
})  # fmt: skip
"""Fields that an answer follows, or that `check_call` refuses where it does not."""
WITHOUT_EFFECT = frozenset({
    "renormalize_logits", "pad_token_id", "bos_token_id", "decoder_start_token_id",
    "transformers_version",
})  # fmt: skip
"""Fields that change nothing about one answer of one prompt."""


def test_every_field_and_argument_of_generate_is_known():
    fields = {k for k in vars(hf.GenerationConfig()) if not k.startswith("_")}
    known = FOLLOWED | COST_ALONE | WITHOUT_EFFECT
    assert not known & refused_fields()
    assert fields <= known | refused_fields()
    arguments = set(inspect.signature(hf.GenerationMixin.generate).parameters)
    followed = {"self", "inputs", "generation_config", "custom_generate", "kwargs"}
    by_processors = {"logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn"}
    assert arguments <= followed | by_processors | set(generate.NOT_FOLLOWED)


def refused_fields():
    sets = (generation.NEUTRAL, generation._SAMPLING, generation._CALL, generation._RETURNED)
    return {name for names in sets for name in names}


@pytest.mark.parametrize(
    "how",
    [
        {"renormalize_logits": True, "min_new_tokens": 0, "min_length": 2, "temperature": 0.5},
        {"logits_processor": hf.LogitsProcessorList(), "suppress_tokens": [], "streamer": None},
        {"do_sample": True, "top_k": 0, "top_p": 0.01, "temperature": 0.5, "min_p": 0.0},
    ],
    ids=["greedy", "lists", "sample"],
)
def test_settings_without_effect_are_taken(world, how):
    item = items(world.bench, 1)[0]
    clip = world.bench.clip(item.clip)
    decoder = macd.decoder(world.lm, None, clip, item.question, method="baseline")
    assert called(world, item, decoder, **how) == called(world, item, None)


def test_zero_is_no_missing_value(world):
    item, traces = items(world.bench, 1)[0], []
    clip = world.bench.clip(item.clip)
    decoder = macd.decoder(
        world.lm, None, clip, item.question, method="baseline", on_trace=traces.append
    )
    called(world, item, decoder, num_beams=2, length_penalty=0.0)
    assert traces[0].options.decode.length_penalty == 0.0
    assert traces[0].options.decode.beams == 2


def test_a_penalty_of_the_model_is_followed(world):
    model = deepcopy(world.lm.model)
    model.generation_config.repetition_penalty = 5.0
    lm = macd.wrap(model, world.lm.processor, "mine")
    item = next(i for i in items(world.bench, 6) if i.kind == "caption")
    clip = world.bench.clip(item.clip)
    decoder = macd.decoder(lm, None, clip, item.question, method="baseline")
    how = {"max_new_tokens": 8}
    answered = called(world, item, decoder, lm, **how)
    assert answered == called(world, item, None, lm, **how)
    assert answered != called(world, item, None, **how)
    with pytest.raises(OptionError, match="repetition_penalty=1"):
        called(world, item, decoder, lm, repetition_penalty=1.0)
    spared = hf.RepetitionPenaltyLogitsProcessor(5.0, prompt_ignore_length=3)
    with pytest.raises(OptionError, match="RepetitionPenaltyLogitsProcessor"):
        called(world, item, decoder, lm, logits_processor=hf.LogitsProcessorList([spared]))


def test_another_prompt_is_refused(world):
    item = items(world.bench, 1)[0]
    decoder = macd.decoder(world.lm, None, "none.mp4", item.question)
    other = torch.tensor([world.lm.tokens("Is there a boat in the video?")])
    with pytest.raises(OptionError, match="does not ask the question"):
        decoder(world.lm.model, other)
    both = torch.tensor([world.lm.tokens("Is there"), world.lm.tokens("a dog")])
    alike = torch.tensor([world.lm.tokens(item.question)] * 2)  # of two clips
    for prompts in (both, alike):
        with pytest.raises(OptionError, match="several prompts"):
            decoder(world.lm.model, prompts)


@pytest.mark.parametrize("around", [
    ("{} Answer yes or no.", "says more"), ("Is there a dog? {}", "says more"),
    ("{}\nIs there a dog?", "says more"), ("{}", ""),
])  # fmt: skip
def test_a_prompt_that_says_more_than_the_question_is_refused(world, around):
    item = items(world.bench, 1)[0]
    words, refused = around
    clip = world.bench.clip(item.clip)
    decoder = macd.decoder(world.lm, None, clip, item.question, method="baseline")
    encoded = world.lm.encode(clip, words.format(item.question))
    if not refused:
        assert decoder(world.lm.model, encoded.input_ids).shape[1] > encoded.input_ids.shape[1]
        started = torch.cat([encoded.input_ids, encoded.input_ids.new_tensor([[50, 51]])], 1)
        with pytest.raises(OptionError, match="no beginning of an answer"):
            decoder(world.lm.model, started)
        return
    with pytest.raises(OptionError, match=refused):
        decoder(world.lm.model, encoded.input_ids)


def test_a_fragment_of_the_question_is_another_question(world):
    item = items(world.bench, 1)[0]
    fragment = " ".join(item.question.split()[-2:])
    decoder = macd.decoder(world.lm, None, "none.mp4", fragment)
    encoded = world.lm.encode(world.bench.clip(item.clip), item.question)
    with pytest.raises(OptionError, match="says more"):
        decoder(world.lm.model, encoded.input_ids)


def test_samples_follow_the_generator_of_torch_unless_a_seed_is_named(world):
    item = items(world.bench, 1)[0]
    clip = world.bench.clip(item.clip)

    def drawn(of_torch, **decode):
        traces = []
        decoder = macd.decoder(
            world.lm, None, clip, item.question, method="baseline", on_trace=traces.append,
            decode=decode,
        )  # fmt: skip
        torch.manual_seed(of_torch)
        for _ in range(2):
            called(world, item, decoder, **NUCLEUS)
        return [t.options.decode.seed for t in traces]

    first, again = drawn(1)
    assert first != again
    assert drawn(1) == [first, again]
    assert drawn(2) != [first, again]
    assert drawn(1, seed=7) == [7, 7]


@pytest.mark.parametrize(("change", "match"), [
    ({"method": None}, "method is None"), ({"method": "all"}, "method is 'all'"),
    ({"method": "mcad"}, "no method 'mcad'"), ({"question": None}, "not a text"),
    ({"video": 3}, "int is not a clip"), ({"detector": 5}, "not a detector"),
    ({"options": {"masks_only": True}}, "masks alone"), ({"processor": object}, None),
])  # fmt: skip
def test_a_decoder_refuses_at_once_what_it_can(world, change, match):
    good = {"video": "none.mp4", "question": "Is there a dog?"} | change
    more = {"masks_only": True} if "options" in change else {}
    good = {k: v for k, v in good.items() if k != "options"}
    if match is None:
        model, processor = world.lm.model, SimpleNamespace()
        with pytest.raises(OptionError, match="which has no tokenizer"):
            macd.decoder(model, processor, good["video"], good["question"])
        macd.decoder(model, world.lm, good["video"], good["question"])  # what `wrap` gave
        return
    with pytest.raises(MacdError, match=match):
        macd.decoder(world.lm, None, good.pop("video"), good.pop("question"), **good, **more)


def test_a_model_of_the_user_is_wrapped():
    from tests.universal_models import parts

    model, processor = parts("llava_onevision")
    lm = macd.wrap(model, processor, "mine")
    assert lm.info.name == "mine"
    assert lm.info.parameters == sum(p.numel() for p in model.parameters())
    assert not any(p.requires_grad for p in model.parameters())
    assert np.isfinite(lm.info.weight_bytes)


@pytest.mark.parametrize("name", NAMES)
def test_the_processor_of_the_user_stays_as_it_is(name):
    own = tiny(name)
    processor = deepcopy(own.processor)
    video = processor.video_processor
    if hasattr(video, "cap_pixels_per_frame"):
        video.cap_pixels_per_frame = None
    before = repr(vars(video)), dict(vars(processor))
    lm = macd.wrap(own.model, processor)
    lm.encode(drawn_clip(2, 64), "Is there a dog?")
    assert (repr(vars(video)), vars(processor)) == before
