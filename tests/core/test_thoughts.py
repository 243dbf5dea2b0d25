"""Models that think before they answer: what they wrote is kept apart from the answer."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

import macd_studio as macd
from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.load import adapt
from macd_studio.core.errors import OptionError
from macd_studio.core.options import MaskOptions, options_from
from macd_studio.core.report.summary import as_json, as_text
from macd_studio.core.views.context import MethodContext
from macd_studio.core.whatif.edits import read_edit
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.evals.benchmarks.base import Item, evaluation_options
from macd_studio.evals.running.answer import PendingAnswer, answer_clip
from macd_studio.viewer.payload import payload
from tests.fakes import clip
from tests.families import tiny
from tests.universal_models import parts

QUESTION = "Is there a dog in the video?"
OPENS, CLOSES = "<think>", "</think>"
LONG = 7
"""Tokens of the thought that the models below write, with the mark that closes it."""
CLIP = clip(4, 64)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def thinking(name, template="{}<think>\n"):
    """Model and processor of a tiny random model that closes its thought at token LONG.

    template: what becomes of its chat template. No mark is ever a choice of the random weights, so
    the row of the head that wins at that token is exchanged with the closing mark's.
    """
    if name == "llava_onevision":
        model, processor = parts(name)
    else:
        own = tiny(name)
        model, processor = own.model, own.processor
    model, processor = deepcopy(model), deepcopy(processor)
    words = processor.tokenizer
    words.add_tokens([OPENS, CLOSES])
    processor.chat_template = template.format(processor.chat_template)
    return model, processor


def wrapped(model, processor):
    info = BackboneInfo("a thinker", model.config.model_type, 1, "cpu", "float32")
    return adapt(model, processor, info)


def close_at(lm, index, seen=CLIP):
    """Makes the closing mark the model's choice at `index`, counted from the answer's start."""
    encoded = lm.encode(seen, QUESTION)
    state, written = lm.prefill(encoded, encoded.video), []
    for _ in range(index + 1):
        written.append(int(state.logits[0].argmax()))
        state = lm.step(state, written[-1:])
    assert written[-1] not in written[:-1], "another index, or another seed"
    head = lm.model.get_output_embeddings().weight
    closes = lm.thought_marks[1]
    with torch.no_grad():
        head[[written[-1], closes]] = head[[closes, written[-1]]].clone()
    return written


@pytest.fixture(scope="module", params=["llava_onevision", "qwen2_5_vl"])
def thinker(request):
    """A model with, and one without code of its own, whose template begins a thought."""
    lm = wrapped(*thinking(request.param))
    close_at(lm, LONG - 1)
    return lm


def run(lm, detector, methods=("vcd", "tcd", "no-video+m3id", "prompt-bias"), **parts):
    given = {"decode": {"max_tokens": 3, **parts.pop("decode", {})}} | parts
    return macd.compare(
        CLIP, QUESTION, list(methods), backbone=lm, detector=detector,
        ascent={"steps": 1}, **given,
    )  # fmt: skip


def test_a_thought_is_kept_apart(thinker, toy_detector, tmp_path):
    trace = run(thinker, toy_detector)
    thought = trace.thought
    assert thought.closed
    assert thought.tokens[LONG - 1] == thinker.thought_marks[1]
    assert OPENS not in thought.text
    assert CLOSES not in thought.text
    assert {"baseline", "macd", "vcd", "tcd"} <= set(trace.answers)
    # `max_tokens` counts the answer alone
    assert {len(a.tokens) for a in trace.answers.values()} == {3}
    assert all(a.thought is None for a in trace.answers.values())
    # an independent loop, from the prompt on, writes the thought and plain decoding's answer
    encoded = thinker.encode(CLIP, QUESTION)
    state, written = thinker.prefill(encoded, encoded.video), []
    for _ in range(len(thought.tokens) + 3):
        written.append(int(state.logits[0].argmax()))
        state = thinker.step(state, written[-1:])
    assert tuple(written[: len(thought.tokens)]) == thought.tokens
    answer = trace.answers["baseline"]
    assert [t.token for t in answer.tokens] == written[len(thought.tokens) :]
    assert answer.text == thinker.text(written[len(thought.tokens) :])
    # a file keeps it, and everything else is computed from there on
    path = macd.save(trace, tmp_path / "run.macd")
    again = macd.load(path)
    assert again.thought == thought
    assert payload(again)["trace"]["thought"] == {
        "text": thought.text, "tokens": list(thought.tokens), "closed": True
    }  # fmt: skip
    assert as_json(again)["thought"]["text"] == thought.text
    assert f"Thought    {len(thought.tokens)} tokens before the answer" in as_text(again)
    seen = macd.evidence(again, token=1, answer="baseline", backbone=thinker, kinds="gradient")
    target = seen.evidence[0].target
    assert answer.tokens[target.index].token == target.token


@pytest.mark.parametrize("limit", [3, LONG, 12])
def test_a_thought_counts_within_the_tokens_of_generate(thinker, toy_detector, limit):
    whole = run(thinker, toy_detector, (), decode={"max_tokens": 12})
    answered = [step.token for step in whole.answers["macd"].tokens]
    encoded = thinker.encode(CLIP, QUESTION)
    decoder = macd.decoder(
        thinker, None, CLIP, QUESTION, detector=toy_detector, ascent={"steps": 1}
    )
    prompt = encoded.input_ids.shape[1]
    config = GenerationConfig(
        max_length=prompt + limit, eos_token_id=thinker.model.generation_config.eos_token_id
    )
    ids = decoder(thinker.model, encoded.input_ids, generation_config=config)
    assert ids[0, prompt:].tolist() == [*whole.thought.tokens, *answered][:limit]
    config.num_beams = 2
    with pytest.raises(OptionError, match="thought"):
        decoder(thinker.model, encoded.input_ids.repeat(2, 1), generation_config=config)


def test_what_is_recomputed_stands_on_the_same_thought(thinker, toy_detector):
    trace = run(thinker, toy_detector, ())
    bench = Workbench(trace, thinker)
    bench.check_weights()
    (level,) = trace.counterfactual.frame_level[:1].tolist()
    other = 0.0 if level else 1.0
    for wanted in (other, level):
        edit = read_edit({"kind": "frames", "track": 0, "level": wanted}, bench.trace)
        assert [e.stage for e in bench.change(edit)][-1] == "done"
    back = bench.trace.answers["macd"].tokens
    for one, two in zip(back, trace.answers["macd"].tokens, strict=True):
        assert one.token == two.token
        np.testing.assert_allclose(one.base, two.base, atol=1e-4)
    moved = bench.redecode(19.0, 0.0).answers["macd"]
    direct = run(thinker, toy_detector, (), contrast={"alpha": 19.0, "beta": 0.0})
    assert [t.token for t in moved.tokens] == [t.token for t in direct.answers["macd"].tokens]


def test_every_view_reads_the_thought(thinker):
    context = MethodContext(thinker, thinker.encode(CLIP, QUESTION), (), options_from({}))
    *_, written = context.think()
    thought = list(context.encoded.thought)
    assert len(thought) == written
    for encoded in (
        context.encoded,
        context.subset((0, 2)),
        context.encode_frames(context.encoded.frames),
    ):
        assert encoded.input_ids[0, -written:].tolist() == thought
        asked = encoded.input_ids[0][encoded.query].tolist()
        assert thinker.text(asked) == QUESTION
    if thinker.info.family == "qwen2_5_vl":  # the other reads frames of one size only
        half = context._half_size(MaskOptions()).encoded
        assert half.input_ids[0, -written:].tolist() == thought
    alone, text = thinker.prefill_text(QUESTION), context.prefill_text()
    for token in thought:
        alone = thinker.step(alone, [token])
    assert torch.allclose(alone.logits, text.logits, atol=1e-4)
    assert text.prompt == text.length == alone.length


def test_evaluations_score_what_follows_the_thought(thinker):
    item = Item("a", "c", "r", "", "yes-no", QUESTION, "yes")
    wanted = [PendingAnswer(item, m, (1.0, 0.1), m) for m in ("baseline", "blank")]
    for lazy in (False, True):
        options = options_from({"decode": {"max_tokens": 2}, "lazy": lazy})
        rows = list(answer_clip(wanted, thinker, CLIP, None, options))
        assert [row.error for row in rows] == ["", ""]
        assert {row.tokens for row in rows} <= {1, 2}
        for row in rows:
            assert OPENS not in row.text
            assert CLOSES not in row.text
        encoded = thinker.encode(CLIP, QUESTION)
        context = MethodContext(thinker, encoded, (), options)
        assert [*context.think()]
        first = int(context.base.logits[0].argmax())
        assert rows[0].first == thinker.token_text(first)


def test_a_thought_that_does_not_end_is_closed(thinker, toy_detector):
    trace = run(thinker, toy_detector, (), decode={"max_thought": 3})
    assert not trace.thought.closed
    assert len(trace.thought.tokens) >= 3
    assert trace.thought.tokens[2] == thinker.thought_marks[1]
    assert any("the thought was cut" in w for w in trace.warnings)
    assert len(trace.answers["macd"].tokens) == 3


def test_thoughts_are_contrasted_only_where_asked(thinker, toy_detector):
    trace = run(thinker, toy_detector, ("vcd",), contrast={"alpha": 19.0, "beta": 0.0},
                decode={"contrast_thought": True, "max_thought": 6})  # fmt: skip
    assert trace.thought is None
    thoughts = {name: a.thought for name, a in trace.answers.items()}
    plain = run(thinker, toy_detector, (), decode={"max_thought": 6}).thought
    assert thoughts["baseline"].tokens[:6] == plain.tokens[:6]
    assert thoughts["macd"].tokens != plain.tokens
    assert all(len(a.tokens) == 3 for a in trace.answers.values())
    with pytest.raises(OptionError, match="a thought of its own"):
        macd.evidence(trace, token=1, backbone=thinker)
    shown = payload(trace)["trace"]
    assert not shown["measurable"]
    assert "thoughts were contrasted" in shown["answers"]["macd"]["cannot_redecode"]
    for more in ({"lazy": True}, {"decode": {"search": "vote"}}):
        own = {"decode": {"contrast_thought": True} | more.pop("decode", {})} | more
        with pytest.raises(OptionError, match="cannot contrast a thought"):
            options_from(own)


def test_a_lazy_run_thinks_the_same(thinker, toy_detector):
    whole, lazy = (run(thinker, toy_detector, (), lazy=z) for z in (False, True))
    assert lazy.thought == whole.thought
    assert [t.token for t in lazy.answers["macd"].tokens] == [
        t.token for t in whole.answers["macd"].tokens
    ]


def test_a_template_that_can_is_told_not_to_think(toy_detector):
    """A closed thought in the prompt is none; neither is one that the model does not begin."""
    off = "{}{{% if enable_thinking is defined and not enable_thinking %}}<think></think>"
    off += "{{% else %}}<think>{{% endif %}}"
    for template in (off, "{}"):
        lm = wrapped(*thinking("llava_onevision", template))
        assert lm.thought_marks is not None
        assert lm.thinks == (template != off)  # it might begin one
        assert run(lm, toy_detector, ()).thought is None


def test_a_model_that_begins_a_thought_itself(toy_detector):
    model, processor = thinking("llava_onevision", "{}")
    lm = wrapped(model, processor)
    encoded = lm.encode(CLIP, QUESTION)
    first = int(lm.prefill(encoded, encoded.video).logits[0].argmax())
    opens = lm.thought_marks[0]
    head = model.get_output_embeddings().weight
    with torch.no_grad():
        head[[first, opens]] = head[[opens, first]].clone()
    trace = run(lm, toy_detector, (), decode={"max_thought": 4})
    assert trace.thought.tokens[0] == opens
    assert OPENS not in trace.thought.text


def test_evaluations_do_not_contrast_thoughts():
    with pytest.raises(OptionError, match="do not contrast thoughts"):
        evaluation_options({"decode": {"contrast_thought": True}})
