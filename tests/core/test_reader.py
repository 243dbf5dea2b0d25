"""The seam behind which any process may hold the model: a reader without gradient or whole rows."""

import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.backbones.base import Reader
from macd_studio.core.decoding.answers import find_answer
from macd_studio.core.decoding.asked import AskedViews
from macd_studio.core.decoding.batch import open_views
from macd_studio.core.errors import NotApplicable
from macd_studio.core.methods import masked_answer
from macd_studio.core.options import ContrastOptions, DecodeOptions
from macd_studio.core.rules import Linear, Plain
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.whatif.edits import read_edit
from macd_studio.core.whatif.workbench import Workbench
from tests.fakes import BoxDetector, ByteLM, clip

QUESTION = "is there a dog in it?"
SEED = 24  # of a model whose levels are 0.75 and 1, and whose masks change the answer


class FarReader(Reader):
    """ByteLM as a server would give it: log-probabilities of the best tokens and of named ones.

    A handle holds nothing but what was asked; it has no logits, no cache and no gradient.
    """

    capabilities = frozenset({"times"})
    best = 12

    def __init__(self, seed=SEED):
        self._lm = ByteLM(seed)
        self.info = self._lm.info
        self.asked = 0

    def __getattr__(self, name):
        if name in ("query_logits", "join", "select", "crop", "step", "advance", "answer_hidden"):
            raise AssertionError(f"{name} was asked of a reader that has none")
        return getattr(self._lm, name)

    def preprocess(self, clip, fit="pad"):
        return self._lm.preprocess(clip, fit)

    def encode_frames(self, frames, question, suffix="", before=""):
        return self._lm.encode_frames(frames, question, suffix, before)

    def text(self, tokens):
        return self._lm.text(tokens)

    def tokens(self, text):
        return self._lm.tokens(text)

    def token_text(self, token):
        return self._lm.token_text(token)

    @property
    def end_tokens(self):
        return self._lm.end_tokens

    def prefill(self, encoded, video, prune=None, reuse=None):
        assert prune is None
        return ("views", encoded, video if video.ndim == 5 else video[None])

    def prefill_text(self, question, thought=()):
        return ("text", question, None)

    def _state(self, handle):
        kind, asked, videos = handle
        if kind == "text":
            return self._lm.prefill_question(asked)
        return self._lm.prefill(asked, videos)

    def question_log_p(self, encoded, views):
        return self._lm.question_log_p(encoded, self._state(views))

    def prompt_of(self, views):
        return self._state(views).prompt_tokens

    def next_logits(self, views, tokens=(), ids=(), whole=False):
        assert not whole, "it cannot"
        self.asked += 1
        rows = []
        for whole in self._lm.next_logits(self._state(views), tokens):
            log_p = whole.values - whole.log_partition
            best = np.argsort(-log_p)[: self.best]
            told = np.array(sorted({*best.tolist(), *ids}))
            left = np.delete(log_p, best)
            rows.append(NextTokenLogits(log_p[told], told, float(left.max()), 0.0))
        return rows


def two_objects():
    return BoxDetector((("dog", 0.9, (0.1, 0.1, 0.4, 0.5)), ("cup", 0.8, (0.5, 0.5, 0.9, 0.9))))


def run(lm, methods=("mask-all", "vcd"), beta=0.3, **more):
    return macd.compare(
        clip(4, 32), QUESTION, list(methods), backbone=lm, detector=two_objects(),
        contrast={"alpha": 1.5, "beta": beta}, decode={"max_tokens": 5}, **more,
    )  # fmt: skip


class Blind(ByteLM):
    """The same model in this process, without its gradient."""

    def __init__(self, seed=SEED):
        super().__init__(seed)

    capabilities = ByteLM.capabilities - {"gradient"}


@pytest.fixture(scope="module")
def pair():
    """The trace of a far reader, and that of the same model in this process."""
    return run(FarReader()), run(Blind())


def steps_of(trace, name):
    return [(s.token, s.index) for s in trace.answers[name].tokens]


def test_it_answers_as_the_model_itself(pair):
    far, near = pair
    assert set(far.answers) == set(near.answers) == {"baseline", "macd-measured", "mask-all", "vcd"}
    for name in near.answers:
        assert steps_of(far, name) == steps_of(near, name)
        assert far.answers[name].text == near.answers[name].text
        for one, other in zip(far.answers[name].tokens, near.answers[name].tokens, strict=True):
            at = {int(t): i for i, t in enumerate(other.candidates)}
            for place, token in enumerate(one.candidates.tolist()):
                if token in at:
                    log_p = other.base[at[token]] - other.base_log_z
                    assert one.base[place] - one.base_log_z == pytest.approx(log_p, abs=1e-4)
            assert one.floor > -np.inf
    assert far.counterfactual.level.tolist() == near.counterfactual.level.tolist() == [0.75, 1.0]
    assert far.answers["macd-measured"].text != far.answers["baseline"].text
    assert "gradient" in far.backbone.lacks
    assert "rows" in far.backbone.lacks


def test_lazy_runs_ask_for_second_views_only_where_they_count(pair):
    lazy = run(FarReader(), lazy=True)
    for name in ("baseline", "macd-measured", "vcd"):
        assert steps_of(lazy, name) == steps_of(pair[0], name)


def test_controls_occlusion_and_edits_are_those_of_the_model_itself(pair):
    far, near = (
        Workbench(trace, lm) for trace, lm in zip(pair, (FarReader(), Blind()), strict=True)
    )
    one, other = far.measure_occlusion().occlusion, near.measure_occlusion().occlusion
    np.testing.assert_allclose(one.loss_change, other.loss_change, atol=1e-9)
    np.testing.assert_allclose(one.token_change, other.token_change, atol=1e-9)
    for bench in (far, near):
        bench.measure_controls(3)
    assert far.trace.controls.outcomes == near.trace.controls.outcomes
    assert {o.name for o in far.trace.controls.outcomes} == {"random", "mask-all", "blank"}
    for change in (
        {"kind": "level", "track": 1, "level": 0.0},
        {"kind": "drop", "track": 2},
        {"kind": "add", "box": [0.0, 0.0, 0.5, 0.5], "label": "hat"},
    ):
        for bench in (far, near):
            list(bench.change(read_edit(change, bench.trace)))
        assert steps_of(far.trace, "macd-measured") == steps_of(near.trace, "macd-measured")
        np.testing.assert_allclose(far.trace.counterfactual.level, near.trace.counterfactual.level)
        assert masked_answer(far.trace) == "macd-measured"
    assert far.trace.counterfactual.level[0] == 0.0  # set by hand, and kept
    for bench in (far, near):
        bench.redecode(3.0, 0.3)
    assert steps_of(far.trace, "macd-measured") == steps_of(near.trace, "macd-measured")


def test_what_is_enough_is_that_of_the_model_itself(pair):
    far, near = (
        macd.enough(trace, backbone=lm, budget=16, spans=1).enough[0]
        for trace, lm in zip(pair, (FarReader(), Blind()), strict=True)
    )
    for one, other in ((far.keep, near.keep), (far.remove, near.remove)):
        assert (one.pieces, one.lower, one.alike) == (other.pieces, other.lower, other.alike)
    assert far.whole.margin == pytest.approx(near.whole.margin, abs=1e-9)
    assert far.whole.probability == pytest.approx(near.whole.probability, abs=1e-9)


def test_what_needs_every_logit_is_refused_with_its_reason(pair):
    trace = run(FarReader(), ["vcd+code", "vcd+only", "tcd", "olm", "vcd+crg"])
    for name in ("vcd+code", "vcd+only", "olm"):
        assert "logit of every token" in trace.skipped[name]
    assert "zero of the logits" in trace.skipped["tcd"]
    assert "cut lets more through" in trace.skipped["vcd+crg"]
    with pytest.raises(NotApplicable, match="cannot be mapped"):
        macd.evidence(pair[0], backbone=FarReader())


def test_a_head_that_reaches_below_what_is_told_is_no_answer():
    """A token that was not told of could win, so none is chosen."""
    trace = run(FarReader(), beta=1e-9)
    for name in ("macd-measured", "mask-all"):
        assert "cut lets more through" in trace.skipped[name]
    assert set(trace.answers) == {"baseline", "vcd"}  # whose own cut is higher


def test_a_lazy_run_does_not_take_a_short_row_for_a_decided_one():
    """A reader that tells the best token alone says nothing about what else passes the cut."""
    lm = FarReader()
    lm.best = 1
    trace = run(lm, lazy=True)
    for name in ("macd-measured", "mask-all"):
        assert name in trace.skipped or trace.answers[name].tokens[0].others


def test_a_penalty_for_repeats_needs_logits():
    lm = FarReader()
    lm.info = type(lm.info)("bytes", "fake", 1, "cpu", "float64", repetition_penalty=1.2)
    encoded = lm.encode(clip(), QUESTION)
    with pytest.raises(NotApplicable, match="repetition penalty"):
        open_views(lm, lm.prefill(encoded, encoded.video), [], DecodeOptions())


@pytest.mark.parametrize("search", ["beam", "vote", "sample"])
def test_searches_run_over_a_cut_that_was_told(search):
    how = DecodeOptions(search=search, beams=2, samples=3, max_tokens=4, temperature=2.0)
    rule, answers = Linear(ContrastOptions(1.5, 0.3)), []
    for lm in (FarReader(), Blind()):
        encoded = lm.encode(clip(4, 32), QUESTION)
        base, other = (lm.prefill(encoded, v) for v in (encoded.video, encoded.video * 0.3))
        answers.append(find_answer(lm, "x", base, [other], rule, how))
        lazy = find_answer(lm, "x", base, lambda views=(other,): views, rule, how)
        assert lazy.text == answers[-1].text
    far, near = answers
    assert (far.text, far.votes) == (near.text, near.votes)
    with pytest.raises(NotApplicable, match="cut lets more through"):
        find_answer(FarReader(), "x", FarReader().prefill(encoded, encoded.video), [], Plain(), how)


def test_views_are_asked_for_the_tokens_of_the_video():
    lm = FarReader()
    encoded = lm.encode(clip(), QUESTION)
    base, other = (lm.prefill(encoded, v) for v in (encoded.video, encoded.video * 0.3))
    views = open_views(lm, base, [other], DecodeOptions())
    assert isinstance(views, AskedViews)
    video, second = views.next_logits(0, Linear(ContrastOptions(1.5, 0.3)))
    assert second[0].ids.tolist() == video[0].ids.tolist()
    whole = lm._lm.next_logits(lm._lm.prefill(encoded, encoded.video * 0.3))[0]
    expected = whole.values[video[0].ids] - whole.log_partition
    np.testing.assert_allclose(second[0].values, expected, atol=1e-12)
