"""A model's repetition penalty, taken after the contrast, beside transformers' own processor."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import GenerationConfig, RepetitionPenaltyLogitsProcessor

from macd_studio.core.backbones import load_backbone
from macd_studio.core.backbones.generation import NEUTRAL, end_tokens, repetition_penalty
from macd_studio.core.decoding.answers import decode, decode_from, find_answer, redecode
from macd_studio.core.decoding.batch import ViewBatch
from macd_studio.core.decoding.contrast import flip_points, kept_candidates, score
from macd_studio.core.errors import UnsupportedBackbone
from macd_studio.core.evidence.case import EvidenceCase
from macd_studio.core.evidence.layers import answered
from macd_studio.core.evidence.options import EvidenceOptions
from macd_studio.core.measurements import Target
from macd_studio.core.options import ContrastOptions, DecodeOptions, RunOptions
from macd_studio.core.repeats import Repeats, penalised
from macd_studio.core.report.summary import as_json
from macd_studio.core.rules import Linear, Olm, Plain, score_token
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.traces.write import drop_candidates
from macd_studio.core.views.context import MethodContext
from macd_studio.core.whatif.constant import equivalent_constant
from macd_studio.core.whatif.controls import _choose
from macd_studio.core.whatif.redecoding import _kept_until
from tests.fakes import ByteLM
from tests.families import make_clip, tiny
from tests.small_trace import small_trace, token
from tests.universal_models import universal

CONTRAST = ContrastOptions(2.0, 0.05)


def reference(scores, ids, penalty):
    """transformers' processor on one row of scores (V,), after the tokens `ids`."""
    processor = RepetitionPenaltyLogitsProcessor(penalty)
    return processor(torch.tensor([ids]), torch.tensor(scores)[None])[0].numpy()


@pytest.fixture
def lm():
    """A model over bytes with a penalty, its prompt and two views."""
    model = ByteLM(seed=3, answer_length=12)
    model.info = replace(model.info, repetition_penalty=1.4)
    return model


def views(lm, question="which animals are there, and what do they do?"):
    encoded = lm.encode(make_clip(), question)
    return encoded, lm.prefill(encoded, encoded.video), lm.prefill(encoded, encoded.video * 0)


@pytest.mark.parametrize("penalty", [0.7, 1.05, 1.5])
def test_scores_are_those_of_transformers(penalty):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=50) * 3
    scores[[4, 9]] = -np.inf
    scores[7] = 0.0
    ids = [*rng.integers(0, 50, 20).tolist(), 4, 7]
    ours = penalised(scores, Repeats(penalty, np.isin(np.arange(50), ids)))
    np.testing.assert_array_equal(ours, reference(scores, ids, penalty))
    assert penalised(scores, None) is not None


def chosen_by_reference(lm, encoded, second, contrast, count):
    """Tokens by prefills and single steps of each view, and transformers' processor."""
    states = [lm.prefill(encoded, encoded.video)]
    states += [lm.prefill(encoded, second)] if second is not None else []
    ids, tokens = encoded.input_ids[0].tolist(), []
    while len(tokens) < count:
        rows = [s.logits[0].double().numpy() for s in states]
        plain = rows[0] if second is None else score(*rows, contrast.alpha, contrast.beta)
        tokens.append(int(reference(plain, ids + tokens, lm.info.repetition_penalty).argmax()))
        if tokens[-1] in lm.end_tokens:
            break
        states = [lm.step(s, [tokens[-1]]) for s in states]
    return tokens


@pytest.mark.parametrize("contrast", [None, ContrastOptions(0.0, 0.0), CONTRAST])
def test_the_loop_penalises_prompt_and_answer_after_the_contrast(lm, contrast):
    encoded, base, other = views(lm)
    others, rule = ([], Plain()) if contrast is None else ([other], Linear(contrast))
    options = DecodeOptions(max_tokens=12)
    ours = [s.token for s in decode(lm, base, others, rule, options)]
    second = None if contrast is None else encoded.video * 0
    assert ours == chosen_by_reference(lm, encoded, second, contrast, 12)
    lm.info = replace(lm.info, repetition_penalty=1.0)
    free = list(decode(lm, base, others, rule, options))
    assert [s.token for s in free] != ours
    assert all(s.repeats is None for s in free)


@pytest.mark.parametrize("family", ["qwen2_5_vl", "internvl"])
def test_answers_are_those_of_generate(family):
    lm = tiny(family)
    lm = type(lm)(lm.model, lm.processor, lm.info)
    encoded = lm.encode(make_clip(), "Is there a dog in the video?")
    given = dict(encoded.inputs)
    if family == "qwen2_5_vl":
        given["mm_token_type_ids"] = torch.where(encoded.input_ids == lm.vision_token, 2, 0).int()
    answers = []
    for penalty in (1.0, 1.5):
        lm.info = replace(lm.info, repetition_penalty=penalty)
        base = lm.prefill(encoded, encoded.video)
        ours = [s.token for s in decode(lm, base, [], Plain(), DecodeOptions(max_tokens=16))]
        own = lm.model.generate(
            input_ids=encoded.input_ids,
            max_new_tokens=16,
            do_sample=False,
            repetition_penalty=penalty,
            **{lm.pixels: encoded.layout(encoded.video)},
            **given,
        )
        assert own[0, encoded.input_ids.shape[1] :].tolist() == ours
        answers.append(ours)
    assert answers[0] != answers[1]


@pytest.mark.parametrize("family", ["qwen2_5_vl", "internvl"])
def test_beams_are_those_of_generate(family):
    """There the penalty is taken on log-probabilities, which are not normalised again."""
    lm = tiny(family)
    lm = type(lm)(lm.model, lm.processor, lm.info)
    for penalty in (1.05, 1.5):
        lm.info = replace(lm.info, repetition_penalty=penalty)
        for question in ("Is there a dog in the video?", "yes no", "from user assistant"):
            encoded = lm.encode(make_clip(), question)
            base = lm.prefill(encoded, encoded.video)
            given = dict(encoded.inputs)
            if family == "qwen2_5_vl":
                is_video = encoded.input_ids == lm.vision_token
                given["mm_token_type_ids"] = torch.where(is_video, 2, 0).int()
            options = DecodeOptions(max_tokens=8, search="beam", beams=4)
            ours = [s.token for s in find_answer(lm, "x", base, [], Plain(), options).tokens]
            own = lm.model.generate(
                input_ids=encoded.input_ids,
                max_new_tokens=8,
                do_sample=False,
                num_beams=4,
                repetition_penalty=penalty,
                pad_token_id=0,
                **{lm.pixels: encoded.layout(encoded.video)},
                **given,
            )[0, encoded.input_ids.shape[1] :].tolist()
            assert [t for t in own if t] == ours


@pytest.mark.parametrize("family", ["qwen2_5_vl", "internvl", "universal"])
def test_the_answer_that_an_ascent_climbs_is_the_baseline_s(family):
    tiny_lm = universal("llava_onevision") if family == "universal" else tiny(family)
    lm = type(tiny_lm)(tiny_lm.model, tiny_lm.processor, tiny_lm.info)
    lm.info = replace(lm.info, repetition_penalty=1.5)
    differ = 0
    for question in ("Is there a dog in the video?", "Which way does it move?"):
        encoded = lm.encode(make_clip(), question)
        options = RunOptions(decode=DecodeOptions(max_tokens=10))
        context = MethodContext(lm, encoded, (), options)
        state = lm.join([lm.prefill(encoded, encoded.video)])
        base = [s.token for s in decode(lm, state, [], Plain(), options.decode)]
        assert state.prompt_tokens == tuple(encoded.input_ids[0].tolist())
        assert list(context.own_answer().tokens) == [t for t in base if t not in lm.end_tokens]
        assert base == chosen_by_reference(lm, encoded, None, CONTRAST, 10)
        unaware = replace(state, prompt_tokens=())
        differ += base != [s.token for s in decode(lm, unaware, [], Plain(), options.decode)]
    assert differ or family != "qwen2_5_vl"  # the prompt's tokens matter


@pytest.mark.parametrize(
    "search", [{"search": "beam", "beams": 1}, {"search": "vote", "samples": 3,
     "top_p": 0.01, "temperature": 0.05},
               {"search": "sample", "top_p": 0.01, "temperature": 0.05}]
)  # fmt: skip
def test_every_search_penalises_alike(lm, search):
    _, base, other = views(lm)
    rule = Linear(CONTRAST)
    greedy = [s.token for s in decode(lm, base, [other], rule, DecodeOptions(max_tokens=12))]
    options = DecodeOptions(max_tokens=12, **search)
    answer = find_answer(lm, "x", base, [other], rule, options)
    assert [s.token for s in answer.tokens] == greedy


def test_each_beam_is_penalised_for_its_own_tokens(lm):
    encoded, base, other = views(lm)
    options = DecodeOptions(max_tokens=8, search="beam", beams=4)
    answer = find_answer(lm, "x", base, [other], Linear(CONTRAST), options)
    before = set(encoded.input_ids[0].tolist())
    greedy = [s.token for s in decode(lm, base, [other], Linear(CONTRAST), options)]
    assert [s.token for s in answer.tokens] != greedy[: len(answer.tokens)]
    for step in answer.tokens:
        np.testing.assert_array_equal(step.repeats.at, np.isin(step.candidates, list(before)))
        before.add(step.token)


def test_a_replaced_token_is_the_one_that_is_penalised(lm):
    _, base, other = views(lm)
    rule, options = Linear(CONTRAST), DecodeOptions(max_tokens=12)
    batch = ViewBatch(lm, base, [other], 1, options)
    first = [s.token for s in decode_from(batch, rule)]
    after = list(redecode(batch, 2, 65, rule))
    fresh = ViewBatch(lm, base, [other], 1, options)
    for one in (*first[:2], 65):
        fresh.step([one])
    expected = list(decode_from(fresh, rule, 3))
    assert [s.token for s in after] == [s.token for s in expected]
    for ours, own in zip(after, expected, strict=True):
        np.testing.assert_array_equal(ours.repeats.at, own.repeats.at)


def test_the_choice_among_the_stored_is_that_of_the_vocabulary():
    rng = np.random.default_rng(1)
    for _ in range(60):
        base, counter = rng.normal(size=(2, 12)) * 2
        whole = Repeats(float(rng.choice([0.6, 1.3, 3.0])), rng.random(12) < 0.5)
        stored = kept_candidates([base, counter], 1, -np.inf, 0, whole)
        for alpha in (0, 0.3, 1, 4, 20):
            for beta in (0, 0.05, 0.5, 1):
                scores = penalised(score(base, counter, alpha, beta), whole)
                assert scores[stored].max() == scores.max()


def test_flips_are_where_the_choice_changes():
    rng = np.random.default_rng(2)
    bends = 0
    for _ in range(40):
        base, counter = rng.normal(size=(2, 9)) * 2
        repeats = Repeats(float(rng.choice([0.5, 1.3, 3.0])), rng.random(9) < 0.5)
        flips = flip_points(base, counter, 0.01, 8.0, repeats)
        starts = np.array([alpha for alpha, _ in flips])
        assert starts[0] == 0
        assert (np.diff(starts) > 0).all()
        bends += [i for _, i in flips] != [i for _, i in flip_points(base, counter, 0.01, 8.0)]
        for alpha in np.linspace(0, 8, 161):
            scores = penalised(score(base, counter, alpha, 0.01), repeats)
            at = int(np.searchsorted(starts, alpha, "right")) - 1
            assert scores[flips[at][1]] >= scores.max() - 1e-9
    assert bends > 10


def with_repeats(trace):
    """The trace with a penalty on the first candidate of every token, three times its weight."""
    at = np.array([True, False, False])
    answers = {
        name: replace(
            a, tokens=tuple(replace(t, repeats=Repeats(3.0, at)) for t in a.tokens)
        )
        for name, a in trace.answers.items()
    }  # fmt: skip
    return replace(trace, answers=answers)


def test_a_trace_holds_what_was_penalised(tmp_path):
    trace = with_repeats(small_trace())
    trace = replace(trace, backbone=replace(trace.backbone, repetition_penalty=3.0))
    path = save(trace, tmp_path / "a.macd")
    again = load(path)
    assert again.backbone.repetition_penalty == 3.0
    for name, answer in again.answers.items():
        for step, own in zip(answer.tokens, trace.answers[name].tokens, strict=True):
            assert step.repeats.penalty == 3.0
            np.testing.assert_array_equal(step.repeats.at, own.repeats.at)
    assert load(save(small_trace(), tmp_path / "b.macd")).answers["macd"].tokens[0].repeats is None
    rows = as_json(again)["answers"]["macd"]["tokens"]
    free = as_json(small_trace())["answers"]["macd"]["tokens"]
    # the chosen token is the second candidate; the first one, 2.0, is best until it is penalised
    assert {r["repeated"] for r in rows} == {False}
    assert {r["base_choice"] for r in free} == {"yes"}
    assert {r["base_choice"] for r in rows} == {"no"}


def test_fewer_candidates_keep_the_choice(lm):
    _, base, other = views(lm)
    steps = tuple(decode(lm, base, [other], Linear(CONTRAST), DecodeOptions(max_tokens=12)))
    trace = small_trace()
    answer = replace(trace.answers["macd"], tokens=steps)
    small = drop_candidates(replace(trace, answers={"macd": answer}, evidence=()), 1)
    for step, own in zip(small.answers["macd"].tokens, steps, strict=True):
        assert len(step.repeats.at) == len(step.candidates) < len(own.candidates)
        before = dict(zip(own.candidates.tolist(), own.repeats.at.tolist(), strict=True))
        assert step.repeats.at.tolist() == [before[i] for i in step.candidates.tolist()]
        for alpha in (0, 1, 5):
            best = [
                s.candidates[penalised(score(s.base, s.others[0], alpha, 0.05), s.repeats).argmax()]
                for s in (step, own)
            ]
            assert best[0] == best[1]


@pytest.mark.parametrize("question", ["what is there?", "".join(map(chr, range(33, 127)))])
def test_what_is_decided_anew_is_penalised_too(lm, question):
    """Another α on stored tokens, and the controls that choose in MACD's place."""
    encoded, base, other = views(lm, question)
    steps = list(decode(lm, base, [other], Linear(CONTRAST), DecodeOptions(max_tokens=12)))
    assert _kept_until(steps, Linear(CONTRAST)) == (len(steps), None)
    context = SimpleNamespace(
        lm=lm, encoded=encoded, base=base, options=RunOptions(contrast=CONTRAST)
    )
    tokens = [s.token for s in steps]
    videos = torch.stack([encoded.video * 0, encoded.video])
    same, plain = _choose(context, videos, tokens)
    assert same == (len(tokens), tokens[-1])
    free = chosen_by_reference(lm, encoded, None, None, 12)
    at = next(i for i, (a, b) in enumerate(zip(tokens, free, strict=False)) if a != b)
    assert plain == (at, free[at])


@pytest.mark.parametrize("penalty", [0.8, 1.05, 1.5])
@pytest.mark.parametrize("logits", [[4.0, 1.0, 0.5], [-1.0, -3.0, -5.0], [2.0, -2.0, 0.0]])
def test_a_stated_constant_just_changes_the_choice(penalty, logits):
    """It is added to the logit, as `yes-bias` does, before the penalty of what came before."""
    words, at = ["no", "yes", "Yes"], np.array([True, True, False])
    logits = np.array(logits)
    made = replace(token(0), candidates=np.arange(3), texts=tuple(words), base=logits.astype("f4"),
                   repeats=Repeats(penalty, at), token=0, text="no")  # fmt: skip
    said = replace(made, token=1, text="yes")
    plain = replace(small_trace().answers["baseline"], tokens=(made,))
    same = equivalent_constant(replace(plain, tokens=(said,)), plain)
    for given, spellings in ((same.delta, [1]), (same.on_yes, [1, 2])):
        for shift, turned in ((1e-4, True), (-1e-4, False)):
            moved = logits.copy()
            moved[spellings] += given + shift
            best = int(penalised(moved, made.repeats).argmax())
            assert (best in spellings) is turned or (not turned and best == 2)


@pytest.mark.parametrize("penalty", [0.7, 1.0, 1.05, 2.0])
@pytest.mark.parametrize("top", [30.0, 0.5, -4.0])
def test_a_rule_that_says_yes_says_it_after_the_penalty(penalty, top):
    rule = Olm(yes=(1,), no=(2,), penalty=penalty)
    base = np.array([top - 9, top - 0.1, top, top - 8, top - 9])
    for at in ([0, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]):
        _, scores = score_token(rule, base, [], 0, Repeats(penalty, np.array(at, bool)))
        assert int(scores.argmax()) == 1


def test_knocked_out_answers_are_penalised_too(lm):
    encoded, base, _ = views(lm)
    options = RunOptions(decode=DecodeOptions(max_tokens=12))
    context = MethodContext(lm, encoded, (), options)
    case = EvidenceCase(context, Target("baseline", 0, 5, "t", None), (),
                        {"video": encoded.video}, EvidenceOptions(), (0,))  # fmt: skip
    tokens = [s.token for s in decode(lm, base, [], Plain(), options.decode)]
    assert answered(case).text == lm.text([t for t in tokens if t not in lm.end_tokens])


def test_evaluations_score_after_the_penalty(lm):
    from macd_studio.evals.benchmarks.base import Item
    from macd_studio.evals.running.answer import PendingAnswer, answer_clip

    item = Item("1", "c", "all", "", "yes-no", "Is there yarn, yes or no?", "yes")
    wanted = [PendingAnswer(item, m, p, m) for m, p in (("baseline", (1.0, 0.0)), ("blank", None))]
    rows = {}
    for penalty in (1.0, 1.4):
        lm.info = replace(lm.info, repetition_penalty=penalty)
        for row in answer_clip(wanted, lm, make_clip(), None, RunOptions()):
            assert not row.error
            rows[row.method, penalty] = row
    assert rows["baseline", 1.4].penalty == 1.4
    assert rows["baseline", 1.0].penalty is None
    encoded = lm.encode(make_clip(), item.question)
    logits = lm.prefill(encoded, encoded.video).logits[0].numpy()
    own = reference(logits, encoded.input_ids[0].tolist(), 1.4)
    y, n = ord("y"), ord("n")
    assert rows["baseline", 1.4].margin == pytest.approx(
        max(own[y], own[ord("Y")]) - max(own[n], own[ord("N")]), abs=1e-5
    )
    told = rows["baseline", 1.4].scores
    letters = {
        z: [o for o in range(256) if chr(o).strip().lower() == z] for z in told if z.isascii()
    }
    assert len(letters) > 3
    for letter, places in letters.items():
        assert told[letter] == pytest.approx(max(own[places]), abs=1e-5)
    from macd_studio.evals.scoring.report import _penalty_note

    assert "1.4, is applied" in _penalty_note({("1", "b"): rows["baseline", 1.4]})
    assert _penalty_note({("1", "b"): rows["baseline", 1.0]}) == ""
    assert rows["blank", 1.4].grid != rows["blank", 1.0].grid
    assert 0 < rows["baseline", 1.4].probability <= 1


def test_what_real_families_ship_is_followed():
    shipped = {
        "do_sample": True,
        "temperature": 0.7,
        "top_k": 20,
        "top_p": 0.8,
        "eos_token_id": [7],
    }
    for penalty in (1.0, 1.05):
        config = GenerationConfig(**shipped, repetition_penalty=penalty)
        assert repetition_penalty(config, "m") == penalty
    assert repetition_penalty(GenerationConfig(**shipped), "m") == 1.0
    assert repetition_penalty(GenerationConfig(), "m") == 1.0
    lm = tiny("qwen2_vl")
    config = lm.model.generation_config
    try:
        config.repetition_penalty = 1.05
        assert type(lm)(lm.model, lm.processor, lm.info).info.repetition_penalty == 1.05
    finally:
        config.repetition_penalty = None


@pytest.mark.parametrize("field", NEUTRAL)
def test_what_cannot_be_followed_is_refused_by_its_name(field):
    config = GenerationConfig()
    for neutral in (None, *NEUTRAL[field]):
        setattr(config, field, neutral)
        assert repetition_penalty(config, "m") == 1.0
    setattr(config, field, [[3]] if field.endswith("ids") else 2)
    with pytest.raises(UnsupportedBackbone, match=rf"of m sets {field} to .* Take {field} out of"):
        repetition_penalty(config, "m")


@pytest.mark.parametrize(("said", "own", "ends"), [
    (5, 7, {5, 7}), ([5, 6], 7, {5, 6, 7}), ([5, 7], 7, {5, 7}), (None, 7, {7}), ([], 7, {7}),
    ([5], None, {5}), (None, None, set()), (0, 0, {0}),
])  # fmt: skip
def test_an_answer_ends_at_what_either_file_calls_an_end(said, own, ends):
    assert end_tokens(SimpleNamespace(eos_token_id=said), own) == ends


def test_a_generation_config_is_refused_before_the_weights_are_read(tmp_path, monkeypatch):
    def read(*_, **__):
        raise RuntimeError("the weights are read")

    (tmp_path / "config.json").write_text(json.dumps({"model_type": "qwen2_5_vl"}))
    for name in (
        "load._Source._check_weight_files", "load.needed_gb", "load.check_memory",
        "processor.AutoProcessor.from_pretrained", "processor.media_part",
        "processor.check_template",
    ):  # fmt: skip
        monkeypatch.setattr(f"macd_studio.core.backbones.{name}", lambda *_, **__: None)
    monkeypatch.setattr("transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained", read)
    with pytest.raises(UnsupportedBackbone, match="are read"):  # a model may have no such file
        load_backbone(str(tmp_path))
    config = {"repetition_penalty": 1.05, "do_sample": True, "temperature": 1e-6}
    for values, refused in ((config, False), (config | {"no_repeat_ngram_size": 3}, True)):
        (tmp_path / "generation_config.json").write_text(json.dumps(values))
        kind, told = (
            (UnsupportedBackbone, "sets no_repeat_ngram_size to 3")
            if refused
            else (UnsupportedBackbone, "are read")
        )
        with pytest.raises(kind, match=told):
            load_backbone(str(tmp_path))


@pytest.mark.parametrize("value", [0, -1, float("nan"), "1.05", True, 1000])
def test_a_penalty_that_is_none_is_refused(value):
    config = GenerationConfig()
    config.repetition_penalty = value
    with pytest.raises(UnsupportedBackbone, match="repetition_penalty"):
        repetition_penalty(config, "m")
