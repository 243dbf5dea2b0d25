"""MACD from the prefilled video to both answers: events, losses and costs, on the fake model."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from macd_studio.core.macd import finalize_ascent, query_loss
from macd_studio.core.masking.ascent import ascend
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions, MaskOptions, RunOptions
from macd_studio.core.run.context import MethodContext
from macd_studio.core.run.order import (
    AnswerUpdate,
    AscentUpdate,
    CounterfactualPrefilled,
    VideoPrefilled,
    macd_events,
    masked_share,
    run_method,
)
from macd_studio.core.types import SEEN, Counterfactual, Track
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
    monkeypatch.setattr("macd_studio.core.run.cost.time", clock)

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
