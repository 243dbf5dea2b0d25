"""Second views that are read only where a token needs them: the same answers, fewer reads."""

import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.base import Prune
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.decoding import batch as batches
from macd_studio.core.decoding.answers import decode_from, find_answer
from macd_studio.core.decoding.batch import LazyViewBatch, ViewBatch
from macd_studio.core.decoding.search import vote
from macd_studio.core.decoding.views import ViewsNeeded
from macd_studio.core.errors import OptionError
from macd_studio.core.macd import plausible
from macd_studio.core.methods import METHODS, find_method
from macd_studio.core.options import ContrastOptions, DecodeOptions, RuleOptions, RunOptions
from macd_studio.core.rules import CUT_BY_VIDEO, RULES, Linear, Setting, find_rule
from macd_studio.core.run.order import run_method
from macd_studio.core.run.pipeline import run
from macd_studio.core.views.context import MethodContext
from macd_studio.core.whatif.edits import check_changeable, why_not_redecode
from macd_studio.viewer.payload import payload, status
from tests.core.test_loop_reference import END, VIEWS, TableLM, rows_of
from tests.core.test_macd_events import tracks
from tests.fakes import BoxDetector, ByteLM, clip


class CountingLM(TableLM):
    """Logits of a spread of their own; counts passes, and tokens read, by the views of the rows."""

    def __init__(self, seed=0, spread=2.5, end_after=9):
        self.seed, self.spread, self.end_after = seed, spread, end_after
        self.passes, self.read = [], []

    def row(self, view, tokens):
        rng = np.random.default_rng([self.seed, ord(view), 17, *tokens])
        logits = rng.normal(size=9) * self.spread
        logits[END] = 100.0 if len(tokens) >= self.end_after else -50.0
        return logits

    def step(self, state, tokens):
        self.passes.append("".join(view for view, _ in state.cache))
        return super().step(state, tokens)

    def advance(self, state, tokens):
        if state.prune is not None:
            return LocalLM.advance(self, state, tokens)
        self.passes.append("".join(view for view, _ in state.cache))
        self.read.append(len(tokens[0]))
        for (_, own), more in zip(state.cache, tokens, strict=True):
            own.extend(more)
        return self.state(state.cache, state.prompt, state)


def rule_of(name, beta, head="probability", alpha=2.0):
    options = RuleOptions(beta=beta)
    return find_rule(name).create(Setting(ContrastOptions(alpha, beta, head), options, None, ""))


def views_of(lm, names):
    return [lm.prefill(name, **VIEWS[name]) for name in names]


def answers(lm, names, rule, options):
    """The answer with every view beside the video, and that of a lazy batch."""
    base, *others = views_of(lm, names)
    eager = find_answer(lm, "x", base, others, rule, options)
    lazy = find_answer(lm, "x", base, lambda: others, rule, options)
    assert all(own == [] for s in (base, *others) for _, own in s.cache)  # left as they were
    return eager, lazy


def check_same(eager, lazy, rule):
    """Equal tokens; equal logits of the video; those of second views where contrast counts."""
    assert [t.token for t in lazy.tokens] == [t.token for t in eager.tokens]
    assert (lazy.text, lazy.votes) == (eager.text, eager.votes)
    for one, other in zip(lazy.tokens, eager.tokens, strict=True):
        at = {int(token): z for token, z in zip(other.candidates, other.base, strict=True)}
        assert all(at[int(t)] == z for t, z in zip(one.candidates, one.base, strict=True))
        assert (one.base_log_z, one.floor >= other.floor) == (other.base_log_z, True)
        if one.others:
            assert one.candidates.tolist() == other.candidates.tolist()
            assert [z.tolist() for z in one.others] == [z.tolist() for z in other.others]
            assert one.weights == other.weights
        else:
            assert rule.decides(other.base)


@pytest.mark.parametrize("search", ["greedy", "sample", "beam", "vote"])
@pytest.mark.parametrize("name", CUT_BY_VIDEO)
def test_answers_are_the_same(name, search, monkeypatch):
    rng = np.random.default_rng([len(name), len(search)])
    pairs = ["bpq", "bqs", "brq"] if name == "mean-views" else ["bq", "bp", "br"]
    opened = []
    for seed in range(12):
        monkeypatch.setattr(batches, "IDLE_TOKENS", 1 + seed % 3)
        lm = CountingLM(seed, spread=float(rng.choice([1.0, 2.5, 6.0])))
        head = "raw" if name in ("linear", "mean-views") and seed % 4 == 0 else "probability"
        beta = float(rng.choice([0.0036, 0.1, 0.5, 0.9, 1.2]))
        rule = rule_of(name, beta, head, alpha=float(rng.uniform(0, 6)))
        options = DecodeOptions(
            search=search, temperature=2.0, top_p=0.95, seed=seed, beams=3, samples=3, keep=2,
            max_tokens=20,
        )  # fmt: skip
        eager, lazy = answers(lm, pairs[seed % 3], rule, options)
        check_same(eager, lazy, rule)
        opened += [bool(t.others) for t in lazy.tokens]
    assert 0.1 < np.mean(opened) < 0.95  # both kinds of tokens were there


@pytest.mark.parametrize("search", ["greedy", "sample", "beam", "vote"])
def test_every_search_sees_a_row_as_it_is_adjusted(search, monkeypatch):
    """No end before three tokens: of rows that say nothing else from the first on."""

    def adjusted(row, index, tokens, *_):
        assert index == len(tokens)
        values = row.values.copy()
        values[END] -= 1e4 * (index < 3)
        return replace(row, values=values)

    monkeypatch.setattr("macd_studio.core.decoding.views.adjust_logits", adjusted)
    lm, rule = CountingLM(end_after=0), rule_of("linear", 0.5)
    for answer in answers(lm, "bq", rule, DecodeOptions(search=search, keep=9, max_tokens=9)):
        assert [step.token == END for step in answer.tokens] == [False] * 3 + [True]
        step = answer.tokens[0]  # as what is scored again finds it
        assert dict(zip(step.candidates.tolist(), step.base, strict=True))[END] < -1e3


def test_every_rule_says_whether_the_video_decides():
    open_row, sure_row = np.array([1.0, 1.0, 0.0]), np.array([9.0, 1.0, 0.0])
    told = {}
    for name, rule in RULES.items():
        if name in ("yes-bias", "olm"):  # over words, without a second view
            assert not rule.second_views
            continue
        made = rule_of(name, 0.1)
        told[name] = made.cuts_by_video
        assert made.decides(sure_row) == (name in CUT_BY_VIDEO)
        assert not made.decides(open_row)
    assert {name for name, cuts in told.items() if cuts} == set(CUT_BY_VIDEO)
    assert not rule_of("linear", 0.0).cuts_by_video

    class Sharpened(Linear):
        pass

    assert not Sharpened(ContrastOptions(1.0, 0.5)).cuts_by_video


@pytest.mark.parametrize("beta", [0.0036, 0.1, 0.5, 0.999, 1.0, 1.2])
@pytest.mark.parametrize("head", ["probability", "raw"])
def test_the_edge_of_the_cut_is_that_of_the_scores(beta, head):
    """A runner-up one step of rounding below, at and above the cut, which contrast would choose."""
    for top in (3.0, 0.7, 1e-3, -2.0, 40.0):
        edge = np.float64(beta * top if head == "raw" else top + np.log(beta))
        rule = rule_of("linear", beta, head, alpha=20.0)
        for second in (np.nextafter(edge, -np.inf), edge, np.nextafter(edge, np.inf)):
            base = np.array([top, min(second, top), top - 60.0])
            other = np.array([0.0, -90.0, 0.0])
            weights = rule.weigh(base, [other], 0)
            passing = plausible(base, weights.floor)
            assert rule.decides(base) == (passing.sum() == 1)
            lm = CountingLM()
            lm.row = lambda view, tokens, b=base, o=other: np.pad(
                b if view == "b" else o, (0, 6), constant_values=-200.0
            )
            eager, lazy = answers(lm, "bq", rule, DecodeOptions(max_tokens=2))
            assert [t.token for t in lazy.tokens] == [t.token for t in eager.tokens]
            assert bool(lazy.tokens[0].others) == (passing.sum() > 1)


def test_where_all_is_decided_no_second_view_is_built_or_read():
    lm, rule = CountingLM(end_after=5), rule_of("linear", 1.2)

    def never():
        raise AssertionError("a second view was asked for")

    answer = find_answer(lm, "x", views_of(lm, "b")[0], never, rule, DecodeOptions())
    assert len(answer.tokens) == 6
    assert lm.passes == ["b"] * 5
    for kind in ("beam", "vote", "sample"):
        options = DecodeOptions(search=kind, samples=2, beams=2)
        find_answer(lm, "x", views_of(lm, "b")[0], never, rule, options)


def opened(lm, base, other, rows=1):
    """A lazy batch whose second view was handed over."""
    batch = LazyViewBatch(lm, base, rows)
    batch.open([other])
    return batch


class Ends(CountingLM):
    """Ends at once, or after one token; sure of everything then, but for what follows an end."""

    def row(self, view, tokens):
        logits = np.full(9, -50.0)
        if END in tokens:
            return np.zeros(9)
        logits[[1, END] if not tokens else [END]] = 9.0
        return logits


def test_a_complete_sample_needs_nothing_more():
    lm, rule = Ends(), rule_of("linear", 0.5)
    options = DecodeOptions(search="vote", samples=8, top_p=1.0)
    base, other = views_of(lm, "bq")
    eager = find_answer(lm, "x", base, [other], rule, options)
    assert sorted(eager.votes) == ["", "b"]  # some go on beside those that are complete
    batch = opened(lm, base, other, 8)
    batch.next_logits(0, rule)
    batch.step([1, END] * 4)  # half of them complete
    assert len(batch.next_logits(1, rule)) == 2
    batch.select(range(0, 8, 2))
    assert len(batch.next_logits(1, rule)) == 1
    asked = []

    class Asked(LazyViewBatch):
        def next_logits(self, *given):
            rows = super().next_logits(*given)
            asked.append(len(rows))
            return rows

    batch = Asked(lm, base, 8, options)
    batch.open([other])
    assert not list(vote(batch, "x", rule))  # it waits for nothing
    assert asked == [2, 1]


class Planned(CountingLM):
    """Open at the given tokens, decided at all others."""

    def __init__(self, opened, end_after):
        super().__init__(end_after=end_after)
        self.opened = opened

    def row(self, view, tokens):
        logits = super().row(view, tokens)
        if view == "b" and len(tokens) < self.end_after:
            best = int(logits[:END].argmax())
            logits[best] += 60.0
            if len(tokens) in self.opened:
                logits[(best + 1) % END] = logits[best]
        return logits


@pytest.mark.parametrize("names", ["bq", "bp"])
def test_what_was_left_out_is_read_in_one_pass(names):
    patience = batches.IDLE_TOKENS
    lm = Planned(opened=(4, 5, 20), end_after=24)
    built = []

    def build():
        built.append(len(lm.passes))
        return views_of(lm, names[1])

    rule = rule_of("linear", 0.5)
    lazy = find_answer(lm, "x", views_of(lm, "b")[0], build, rule, DecodeOptions())
    assert [i for i, t in enumerate(lazy.tokens) if t.others] == [4, 5, 20]
    assert built == [4]  # after four tokens under the video alone, and once
    # the four tokens before; then beside the video until the patience ended; then all since
    assert lm.read == [4, 20 - 5 - patience]
    alone, beside = lm.passes.count("b"), lm.passes.count("bq")
    if names == "bq":
        assert (alone, beside) == (4 + lm.read[1], 24 - 4 - lm.read[1])
    check_same(find_answer(lm, "x", *views_of(lm, "b"), views_of(lm, names[1]), rule,
                           DecodeOptions()), lazy, rule)  # fmt: skip


def test_pruned_views_catch_up_step_by_step():
    lm = Planned(opened=(3,), end_after=6)
    base, pruned = views_of(lm, "br")
    rule = rule_of("linear", 0.5)
    lazy = find_answer(lm, "x", base, lambda: [pruned], rule, DecodeOptions())
    assert lm.passes[:6] == ["b"] * 3 + ["r"] * 3
    assert lm.read == []
    eager = find_answer(lm, "x", base, [pruned], rule, DecodeOptions())
    check_same(eager, lazy, rule)


@pytest.mark.parametrize("kept", [0, 2, 3, 6])
def test_a_lazy_batch_can_be_cropped(kept):
    """kept: of seven tokens fed, of which the second view read two, then three, apart from it."""
    rule = rule_of("linear", 0.5)
    lm = Planned(opened=(2, 6, kept + 1), end_after=30)
    lazy = opened(lm, *views_of(lm, "b"), *views_of(lm, "q"))
    for token in (1, 2, 3, 4, 5, 6, 7):
        lazy.next_logits(0, rule)
        lazy.step([token])
    lazy.crop(kept)
    lazy.step([0])
    eager = ViewBatch(lm, *views_of(lm, "b"), views_of(lm, "q"))
    for token in (*range(1, kept + 1), 0):
        eager.step([token])
    found, expected = rows_of(lazy, 0, rule), rows_of(eager, 0, rule)
    assert found == expected
    assert len(found) == 2


def test_the_loop_asks_to_be_handed_the_views():
    lm, rule, options = Planned((3,), 6), rule_of("linear", 0.5), DecodeOptions(search="sample")
    base, other = views_of(lm, "bq")
    lazy, steps, asked = LazyViewBatch(lm, base, 1, options), [], []
    for item in decode_from(lazy, rule):
        if isinstance(item, ViewsNeeded):
            asked.append(len(steps))
            lazy.open([other])
        else:
            steps.append(item)
    assert asked == [3]
    whole = list(decode_from(ViewBatch(lm, base, [other], 1, options), rule))
    assert [s.token for s in steps] == [s.token for s in whole]


# A real model


@pytest.fixture(scope="module")
def toy_case(toyworld, toy_mp4):
    from macd_studio.core.media.video import read_clip

    encoded = toyworld.encode(read_clip(toy_mp4), "what is in the video?")
    return toyworld, encoded, toyworld.prefill(encoded, encoded.video)


def test_several_tokens_in_one_pass_are_those_of_several(toy_case):
    lm, encoded, state = toy_case
    words = lm.tokens("a dog and a cat")[:4]
    for like in (state, lm.prefill(encoded, encoded.video, Prune(2, 0.2))):
        rows = [words, words[::-1]]
        one = lm.advance(lm.select(like, [0, 0]), rows)
        many = lm.select(like, [0, 0])
        for column in zip(*rows, strict=True):
            many = lm.step(many, column)
        assert (one.length, one.prompt, one.prune) == (many.length, many.prompt, many.prune)
        torch.testing.assert_close(one.logits, many.logits, atol=2e-4, rtol=1e-4)
        later = [lm.step(s, [words[0]] * 2).logits for s in (one, many)]
        torch.testing.assert_close(*later, atol=2e-4, rtol=1e-4)
        assert like.length == like.prompt
        if like.prune:
            assert torch.equal(one.hidden, many.hidden)


# A run

FAST = RunOptions(decode=DecodeOptions(max_tokens=8))


def lazily(beta, options=FAST):
    return replace(options, lazy=True, contrast=ContrastOptions(2.0, beta))


def events_of(options, lm=None, detector=None, **more):
    lm, detector = lm or ByteLM(seed=5), detector or BoxDetector()
    return list(
        run(lambda: clip(), "is there a dog?", lambda: lm, lambda: detector, options, **more)
    )


NEVER, ALWAYS = 1.5, 1e-6
"""β at which no token is open, and at which every one is."""


@pytest.mark.parametrize("search", ["greedy", "sample", "vote"])
def test_a_run_that_needs_no_contrast_looks_for_nothing(search):
    detector, lm = BoxDetector(), ByteLM(seed=5)
    prefilled = []
    lm.prefill = lambda *a, of=lm.prefill, **k: prefilled.append(1) or of(*a, **k)
    options = lazily(NEVER, replace(FAST, decode=replace(FAST.decode, search=search)))
    events = events_of(options, lm, detector, methods=["vcd", "sid", "macd-object", "macd+m3id"])
    trace = events[-1].trace
    if search == "greedy":  # m3id has a β of its own
        assert not {"detect", "track", "ascent", "views"} & {
            e.stage for e in events[: [e.message for e in events].index("VCD")]
        }
    plain = events_of(replace(options, lazy=False), methods=["vcd", "sid", "macd-object"])[-1].trace
    for name in plain.answers:
        assert trace.answers[name].text == plain.answers[name].text
    del events
    quiet = events_of(options, lm, other := BoxDetector())[-1].trace
    assert other.calls == 0
    assert (quiet.tracks, quiet.steps, quiet.counterfactual) == ((), (), None)
    assert not {"detect", "track", "ascent", "views"} & set(quiet.timings_ms)
    assert quiet.status == "complete"
    assert any("no contrast could change" in w for w in quiet.warnings)
    assert quiet.answers["macd"].second_views == ()
    assert quiet.answers["macd"].total_ms >= quiet.answers["macd"].ms >= 0
    done = payload(quiet, status(done=("video", "detect", "track", "load", "ascent", "views")))
    assert done["status"]["stages_done"] == ["video", "load"]
    assert not done["trace"]["tracked"]


def test_nothing_is_read_twice():
    lm = ByteLM(seed=5)
    prefilled = []
    lm.prefill = lambda *a, of=lm.prefill, **k: prefilled.append(1) or of(*a, **k)
    events_of(lazily(NEVER), lm)
    assert len(prefilled) == 1
    events_of(lazily(ALWAYS), lm)
    assert len(prefilled) == 3  # the video, which the ascent takes over, and the counterfactual


@pytest.mark.parametrize("search", ["greedy", "sample", "beam", "vote"])
def test_a_run_that_needs_contrast_gives_the_same_trace(search):
    options = lazily(ALWAYS, replace(FAST, decode=replace(FAST.decode, search=search)))
    detector = BoxDetector()
    events = events_of(options, detector=detector, methods=["vcd", "macd+code", "macd-object"])
    lazy = events[-1].trace
    eager = events_of(replace(options, lazy=False), methods=["vcd", "macd+code", "macd-object"])
    eager = eager[-1].trace
    assert detector.calls == 1
    assert [t.label for t in lazy.tracks] == [t.label for t in eager.tracks]
    assert [s.loss for s in lazy.steps] == [s.loss for s in eager.steps]
    assert lazy.counterfactual.level.tolist() == eager.counterfactual.level.tolist()
    assert lazy.counterfactual.loss == pytest.approx(eager.counterfactual.loss)
    assert list(lazy.answers) == list(eager.answers)
    for name, answer in eager.answers.items():
        assert lazy.answers[name].text == answer.text
        assert [t.token for t in lazy.answers[name].tokens] == [t.token for t in answer.tokens]
        assert len(lazy.answers[name].second_views) == len(answer.second_views)
    assert set(eager.timings_ms) == set(lazy.timings_ms)
    stages = list(dict.fromkeys(e.stage for e in events))
    later = ["decode", "detect", "track", "ascent", "views", "done"]
    assert [s for s in stages if s in later][: len(later)] == later


def test_a_lazy_run_is_stopped_where_it_is():
    for stage in ("decode", "detect", "ascent"):
        seen = []

        def stop(stage=stage, seen=seen):
            return bool(seen) and seen[-1] == stage

        for event in run(
            lambda: clip(), "is there a dog?", lambda: ByteLM(seed=5), lambda: BoxDetector(),
            lazily(ALWAYS), cancelled=stop,
        ):  # fmt: skip
            seen.append(event.stage)
        assert event.trace.status == f"stopped: {stage}"
        if stage == "detect":
            assert not event.trace.steps
            assert "decode" not in event.trace.timings_ms


def mixed_trace():
    """A trace with tokens of either kind under several rules."""
    names = ["vcd", "sid", "macd+m3id", "vcd/sid+mean-views"]
    options = replace(lazily(0.3), decode=DecodeOptions(max_tokens=12))
    return events_of(options, ByteLM(seed=8, answer_length=12), methods=names)[-1].trace


def test_a_lazy_trace_is_not_changed_by_hand():
    trace = mixed_trace()
    with pytest.raises(OptionError, match="lazy"):
        check_changeable(trace)
    assert "lazy" in why_not_redecode(trace, "macd")
    check_changeable(replace(trace, options=replace(trace.options, lazy=False)))


@pytest.mark.parametrize("name", ["vcd", "macd", "macd-fixed", "sid", "macd+code"])
def test_a_method_pays_for_what_it_needed(name):
    lm = ByteLM(seed=5)
    encoded = lm.encode(clip(), "is there a dog?")
    lm.prefill = lambda *a, of=lm.prefill, **k: time.sleep(0.02) or of(*a, **k)
    looked = []
    for beta in (NEVER, ALWAYS):
        options = lazily(beta)
        options = replace(options, sid=replace(options.sid, contrast=options.contrast),
                          vcd=replace(options.vcd, contrast=options.contrast))  # fmt: skip
        look = partial(lambda z: looked.append(z) or tracks(2), beta)
        context = MethodContext(lm, encoded, look, options)
        answer = run_method(context, find_method(name))
        read = any(t.others for t in answer.tokens)
        assert read == (beta == ALWAYS or name == "macd+code")
        assert bool(answer.second_views) == read
        assert not read or answer.total_ms >= 40  # a shared read, and that of its second view
    expected = {"macd": [ALWAYS], "macd-fixed": [ALWAYS], "macd+code": [NEVER, ALWAYS]}
    assert looked == expected.get(name, [])
    assert METHODS["macd"].needs_objects
