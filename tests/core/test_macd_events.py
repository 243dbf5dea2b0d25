"""MACD from the prefilled video to both answers: events, losses and costs, on the fake model."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.base import to_pixels
from macd_studio.core.macd import finalize_ascent, query_loss
from macd_studio.core.masking.ascent import ascend
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.methods import METHODS, find_method
from macd_studio.core.options import (
    AscentOptions,
    ContrastOptions,
    DecodeOptions,
    MaskOptions,
    RunOptions,
    VcdOptions,
)
from macd_studio.core.run import order
from macd_studio.core.run.order import (
    AnswerUpdate,
    AscentUpdate,
    ContrastNeeded,
    CounterfactualPrefilled,
    VideoPrefilled,
    decoding_views,
    macd_events,
    macd_waits,
    masked_share,
    method_events,
    run_method,
)
from macd_studio.core.system.cost import Cost
from macd_studio.core.types import SEEN, Counterfactual, Track
from macd_studio.core.views.context import MethodContext
from tests.fakes import ByteLM, clip

SMOOTH = MaskOptions(fusion="or")
OPTIONS = RunOptions(mask=SMOOTH, ascent=AscentOptions(steps=3))


def tracks(count):
    boxes = [(0.1, 0.1, 0.5, 0.6), (0.4, 0.3, 0.9, 0.9)][:count]
    return tuple(
        Track(k + 1, "dog", 0.9 - 0.3 * k, np.tile(np.array(b, np.float32), (4, 1)),
              np.full(4, SEEN, np.int8), 4)
        for k, b in enumerate(boxes)
    )  # fmt: skip


def a_context(options=OPTIONS, count=2, lm=None):
    lm = lm or ByteLM(seed=5)
    return MethodContext(lm, lm.encode(clip(), "is there a dog?"), tracks(count), options)


def kinds(events):
    """Types of the events, each run of decoding steps by its method."""
    names = []
    for event in events:
        name = event.answer.method if isinstance(event, AnswerUpdate) else type(event)
        if not (isinstance(event, AnswerUpdate) and names and names[-1] == name):
            names.append(name)
    return names


def test_events_come_in_the_order_of_the_method():
    events = list(macd_events(a_context()))
    assert kinds(events) == [
        VideoPrefilled, *[AscentUpdate] * 3, CounterfactualPrefilled, "baseline", "macd",
    ]  # fmt: skip
    assert [e.step.index for e in events if isinstance(e, AscentUpdate)] == [0, 1, 2]
    finished = [e.answer.method for e in events if isinstance(e, AnswerUpdate) and e.finished]
    assert finished == ["baseline", "macd"]


def test_each_step_tells_where_the_ascent_would_end():
    context, other = a_context(), a_context()
    view = other.masks(SMOOTH)
    expected = list(ascend(other.lm, view, OPTIONS.ascent))
    events = list(macd_events(context))
    ascending = [e for e in events if isinstance(e, AscentUpdate)]
    for event, step in zip(ascending, expected, strict=True):
        np.testing.assert_allclose(event.step.gradient, step.gradient, rtol=1e-6)
        ended = finalize_ascent(step, OPTIONS.ascent)
        np.testing.assert_allclose(event.counterfactual.margin, ended.margin, rtol=1e-6)
        assert event.counterfactual.level.tolist() == ended.level.tolist()
    (read,) = (e for e in events if isinstance(e, CounterfactualPrefilled))
    assert read.counterfactual.level.tolist() == ascending[-1].counterfactual.level.tolist()
    np.testing.assert_allclose(read.counterfactual.margin, ascending[-1].counterfactual.margin)


def levels(*values, frames=(0.0, 0.0)):
    level, frame_level = np.array(values), np.array(frames)
    return Counterfactual(level, level, level, frame_level, frame_level, frame_level)


def loss_behind(context, ended):
    """The query loss of the video behind masks of those levels."""
    masks = context.masks(context.options.mask)
    video = masks.video(torch.tensor(ended.level), torch.tensor(ended.frame_level))
    return float(query_loss(context.lm, context.encoded, video))


def test_levels_that_stand_already_need_no_ascent():
    fixed, context = levels(1.0, 0.25, frames=(0.0, 0.5)), a_context()

    def never(ended):
        raise AssertionError("levels were adjusted")

    events = list(macd_events(context, counterfactual=fixed, adjust=never, answers=("macd",)))
    assert kinds(events) == [VideoPrefilled, CounterfactualPrefilled, "macd"]
    read = events[1]
    assert read.counterfactual.level is fixed.level
    plain = float(query_loss(context.lm, context.encoded, context.encoded.video))
    assert read.counterfactual.base_loss == pytest.approx(plain, abs=1e-9)
    assert read.counterfactual.loss == pytest.approx(loss_behind(context, fixed), abs=1e-6)
    assert read.counterfactual.loss != pytest.approx(plain, abs=1e-4)
    own = draw_masks(context.tracks, 4, (16, 16), SMOOTH)
    mask = combine_masks(own, [1.0, 0.25], [0.0, 0.5], [(0, 1), (2, 3)], [0.9, 0.6], SMOOTH)
    assert read.masked == pytest.approx(float(mask.mean()), abs=1e-6)
    assert events[-1].answer.second_views[0].view.level == (1.0, 0.25)
    assert events[-1].answer.second_views[0].view.frame_level == (0.0, 0.5)


def test_levels_set_by_hand_take_the_place_of_the_ascent_s():
    context = a_context()
    ended = []

    def by_hand(ascended):
        ended.append(ascended)
        return replace(ascended, level=np.array([0.5, 0.0]))

    events = list(macd_events(context, adjust=by_hand))
    (read,) = (e for e in events if isinstance(e, CounterfactualPrefilled))
    assert len(ended) == 1
    assert ended[0] is [e for e in events if isinstance(e, AscentUpdate)][-1].counterfactual
    assert read.counterfactual.level.tolist() == [0.5, 0.0]
    assert events[-1].answer.second_views[0].view.level == (0.5, 0.0)
    assert read.counterfactual.loss == pytest.approx(
        loss_behind(context, read.counterfactual), abs=1e-6
    )


@pytest.mark.parametrize("names", [(), ("baseline",), ("macd",), ("macd", "baseline")])
def test_only_the_answers_asked_for_are_decoded(names):
    events = list(macd_events(a_context(), answers=names))
    assert [k for k in kinds(events) if isinstance(k, str)] == list(names)
    for event in events:
        if isinstance(event, AnswerUpdate) and event.finished:
            alone = run_method(a_context(), METHODS[event.answer.method])
            assert event.answer.text == alone.text
            assert [t.token for t in event.answer.tokens] == [t.token for t in alone.tokens]
            views = [[z.view for z in a.second_views] for a in (event.answer, alone)]
            assert views[0] == views[1]


def test_nothing_to_mask_leaves_the_video():
    options = RunOptions(mask=MaskOptions(frame_mask="off"))
    context = a_context(options, 0)
    events = list(macd_events(context))
    assert kinds(events) == [VideoPrefilled, CounterfactualPrefilled, "baseline", "macd"]
    read = events[1]
    assert read.masked == 0.0
    assert read.counterfactual.level.shape == (0,)
    assert read.counterfactual.loss == read.counterfactual.base_loss > 0


@pytest.mark.parametrize(("count", "frame_mask"), [(0, "outside"), (2, "off"), (2, "outside")])
def test_the_masked_share_is_the_mean_of_the_mask(count, frame_mask):
    mask = MaskOptions(frame_mask=frame_mask)
    context = a_context(RunOptions(mask=mask), count)
    frames = (0.3, 0.8) if frame_mask == "outside" else ()
    ended = levels(*(0.75, 1.0)[:count], frames=frames)
    own = draw_masks(context.tracks, 4, (16, 16), mask)
    confidence = [t.confidence for t in context.tracks]
    expected = combine_masks(
        own, ended.level, ended.frame_level, [(0, 1), (2, 3)], confidence, mask
    ).mean()
    share = masked_share(context, ended, mask)
    assert share == pytest.approx(float(expected), abs=1e-6)
    assert type(share) is float


def test_losses_belong_to_their_views():
    context = a_context()
    encoded = context.encoded
    one, two = (context.lm.prefill(encoded, v) for v in (encoded.video, encoded.video * 0.3))
    found = [context.loss(view) for view in (one, two)]
    plain, other = (
        float(query_loss(context.lm, encoded, v)) for v in (encoded.video, encoded.video * 0.3)
    )
    assert found == [pytest.approx(plain), pytest.approx(other)]


class TimedLM(ByteLM):
    """A prefill takes 1 s of a clock of its own, a gradient 10 s, a step of decoding 100 s."""

    now = 0.0

    def prefill(self, *args, **options):
        self.now += 1
        return super().prefill(*args, **options)

    def query_logits(self, *args, **options):
        self.now += 10
        return super().query_logits(*args, **options)

    def step(self, *args):
        self.now += 100
        return super().step(*args)


def test_each_answer_pays_for_what_it_takes(monkeypatch):
    lm = TimedLM(seed=5)
    context = a_context(lm=lm)
    clock = SimpleNamespace(perf_counter=lambda: lm.now)
    monkeypatch.setattr("macd_studio.core.system.cost.time", clock)

    def earlier():
        lm.now += 1e6

    context.cache.start_method()
    context.cache.memoize("work of another method", None, earlier)
    events = list(macd_events(context))
    baseline, macd = (e.answer for e in events if isinstance(e, AnswerUpdate) and e.finished)
    decoding = 100_000 * (len(baseline.tokens) - 1)
    assert baseline.total_ms == baseline.ms == 1000 + decoding
    decoding = 100_000 * (len(macd.tokens) - 1)
    assert macd.total_ms == 1000 + 3 * 10_000 + 1000 + decoding
    assert macd.ms == macd.total_ms - 1000  # the baseline paid for the video itself
    assert context.cache.shared == {"base prefill": 1}


# ---- one method, its views, and runs that are lazy


def events_of(name, context):
    return list(method_events(context, find_method(name)))


def test_a_fixed_answer_is_one_event_and_reads_nothing():
    context = a_context()
    context.lm.prefill = None
    (event,) = events_of("always-yes", context)
    assert (event.views, event.finished) == (None, True)
    answer = event.answer
    assert (answer.method, answer.text, answer.tokens) == ("always-yes", "yes", ())
    assert answer.finished is True
    assert (answer.second_views, answer.ms) == ((), 0.0)


def test_an_answer_took_as_long_as_its_method(monkeypatch):
    now = iter([3.0, 5.00123])
    monkeypatch.setattr(order, "time", SimpleNamespace(perf_counter=lambda: next(now)))
    *growing, last = events_of("vcd", a_context())
    assert last.answer.ms == 2001.2
    assert [e.finished for e in (*growing, last)] == [False] * len(growing) + [True]
    assert all(e.answer.method == "vcd" for e in (*growing, last))
    assert last.views is not None
    assert len(last.answer.tokens) >= len(growing) > 0


@pytest.mark.parametrize("search", ["beam", "vote", "sample"])
def test_the_views_of_a_search_are_not_passed_on(search):
    decoding = DecodeOptions(search=search, samples=2, beams=2, temperature=1.0)
    *_, last = events_of("vcd", a_context(replace(OPTIONS, decode=decoding)))
    assert (last.views is None) == (search != "sample")
    assert last.answer.text


def test_pixels_of_second_views_are_those_that_the_model_read():
    context = a_context()
    answer = run_method(context, METHODS["macd"])
    (second,) = answer.second_views
    video = context.masks(SMOOTH).video(
        torch.tensor(second.view.level), torch.tensor(second.view.frame_level)
    )
    expected = to_pixels(video, context.encoded.mean, context.encoded.std)
    np.testing.assert_array_equal(second.shown, expected)
    assert second.shown.shape == (4, 16, 16, 3)
    pruned = run_method(a_context(), METHODS["sid"]).second_views[0]
    assert pruned.shown is None
    assert run_method(a_context(), METHODS["baseline"]).second_views == ()


def test_memory_is_that_of_the_weights_and_the_rise(monkeypatch):
    context = a_context()
    context.lm.info = replace(context.lm.info, held_bytes=3 * 2**20)
    *_, last = events_of("baseline", context)
    assert last.answer.memory_mb == 3.0
    monkeypatch.setattr(context.cache, "whole_cost", lambda *_: Cost(0.00123, 2**19, 0))
    views = decoding_views(context, METHODS["baseline"])
    *_, last = order.decoded(context, "mine", views, (), paid_s=0.001)
    answer = last.answer
    assert (answer.memory_mb, answer.ms, answer.total_ms) == (3.5, 0.2, 1.2)
    assert answer.method == "mine"


def test_views_are_built_or_waited_for():
    context = a_context()
    views = decoding_views(context, METHODS["vcd"])
    assert views.base is context.base
    assert views.seconds == views.built.seconds
    assert views.others == views.built.states
    assert len(views.others) == 1
    given = views.seconds[0]
    again = decoding_views(context, METHODS["vcd"], given)
    assert again.seconds == (given,)
    baseline = decoding_views(context, METHODS["baseline"])
    assert baseline.others == ()
    asked = a_context(LAZY)
    waiting = decoding_views(asked, METHODS["vcd"])
    assert (waiting.built, waiting.seconds, waiting.others) == (None, (), ())
    assert waiting.base is asked.base
    (state,) = order.finish(waiting.build()).states
    torch.testing.assert_close(state.logits, views.others[0].logits)
    needed = next(waiting.build())
    assert isinstance(needed, ContrastNeeded)
    assert needed.method is METHODS["vcd"]
    assert decoding_views(asked, METHODS["vcd"], given).others == given.states


ALWAYS, NEVER = ContrastOptions(2.0, 1e-6), ContrastOptions(2.0, 1.5)
"""β at which every token is open to contrast, and at which none is."""
LAZY = replace(OPTIONS, lazy=True, contrast=ALWAYS)


def test_a_lazy_run_takes_the_ascent_amid_the_answer():
    context = a_context(LAZY)
    assert macd_waits(context)
    events = list(macd_events(context))
    assert kinds(events) == [
        VideoPrefilled, "baseline", ContrastNeeded, *[AscentUpdate] * 3,
        CounterfactualPrefilled, "macd",
    ]  # fmt: skip
    needed = next(e for e in events if isinstance(e, ContrastNeeded))
    assert needed.method is METHODS["macd"]
    eager = list(macd_events(a_context(replace(LAZY, lazy=False))))
    assert kinds(eager)[1] is AscentUpdate
    mine, theirs = (run[-1].answer for run in (events, eager))
    assert [t.token for t in mine.tokens] == [t.token for t in theirs.tokens]
    assert len(mine.second_views) == 1
    np.testing.assert_array_equal(mine.second_views[0].shown, theirs.second_views[0].shown)
    assert not macd_waits(a_context(replace(LAZY, lazy=False)))


def test_a_lazy_run_of_decided_tokens_takes_none():
    context = a_context(replace(LAZY, contrast=NEVER))
    events = list(macd_events(context))
    assert kinds(events) == [VideoPrefilled, "baseline", "macd"]
    assert events[-1].answer.second_views == ()
    quiet = replace(LAZY, vcd=VcdOptions(contrast=NEVER))
    (seen,) = {type(e) for e in events_of("vcd", a_context(quiet))}
    assert seen is AnswerUpdate


def test_a_rule_that_cannot_wait_is_not_waited_for():
    """β = 0 cuts nothing, so that every token needs the second view."""
    context = a_context(replace(LAZY, contrast=ContrastOptions(2.0, 0.0)))
    assert not macd_waits(context)
    assert ContrastNeeded not in kinds(list(macd_events(context)))


def test_levels_that_stand_are_read_at_once_in_a_lazy_run_too():
    events = list(macd_events(a_context(LAZY), counterfactual=levels(1.0, 0.25)))
    assert kinds(events) == [VideoPrefilled, CounterfactualPrefilled, "baseline", "macd"]
    assert events[-1].answer.second_views[0].view.level == (1.0, 0.25)


def test_a_lazy_answer_pays_for_the_views_that_it_needed(monkeypatch):
    lm = TimedLM(seed=5)
    context = a_context(LAZY, lm=lm)
    clock = SimpleNamespace(perf_counter=lambda: lm.now)
    monkeypatch.setattr("macd_studio.core.system.cost.time", clock)
    events = list(macd_events(context))
    baseline, macd = (e.answer for e in events if isinstance(e, AnswerUpdate) and e.finished)
    assert baseline.total_ms == 1000 + 100_000 * (len(baseline.tokens) - 1)
    read = sum(isinstance(e, AscentUpdate) for e in events)
    assert read == 3
    # two views from the first token on, in one batch
    assert macd.total_ms == 1000 + 3 * 10_000 + 1000 + 100_000 * (len(macd.tokens) - 1)
    assert macd.ms == macd.total_ms - 1000
