"""One strength for all objects: its gradient, its steps, and how it travels with a trace."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.macd import finalize_ascent, query_loss
from macd_studio.core.masking.ascent import ascend, prefill_base
from macd_studio.core.methods import METHODS
from macd_studio.core.options import FUSIONS, AscentOptions, RunOptions
from macd_studio.core.run.order import run_method
from tests.core.test_objective import a_context
from tests.fakes import FOUND, ByteLM, a_view

SHARED = AscentOptions(strengths="shared")


def slope_of_all(lm, view, at, frames):
    """Central difference of the loss where all strengths of the objects move alike."""

    def loss(r):
        with torch.no_grad():
            video = view.video(torch.full((2,), r, dtype=torch.float64), frames)
            return float(query_loss(lm, view.encoded, video))

    return (loss(at + 1e-6) - loss(at - 1e-6)) / 2e-6


@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("frame_mask", ["outside", "off"])
def test_the_gradient_is_the_slope_where_all_move_alike(fusion, frame_mask):
    lm = ByteLM()
    view = a_view(lm, FOUND, fusion=fusion, frame_mask=frame_mask)
    (step,) = ascend(lm, view, SHARED)
    groups = 2 if frame_mask == "outside" else 0
    expected = slope_of_all(lm, view, 0.75, torch.full((groups,), 0.75, dtype=torch.float64))
    assert step.gradient.tolist() == [step.gradient[0]] * 2
    assert step.gradient[0] == pytest.approx(expected, rel=1e-4, abs=1e-9)
    (each,) = ascend(lm, view, AscentOptions())
    assert step.gradient[0] == pytest.approx(each.gradient.sum(), rel=1e-9)
    np.testing.assert_array_equal(step.frame_gradient, each.frame_gradient)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_gradient_of_the_plain_video_is_that_at_zero(fusion):
    lm, options = ByteLM(), replace(SHARED, gradient="base")
    # both boxes in one place, so that adding up their slopes would count every pixel twice
    view = a_view(lm, [FOUND[0], replace(FOUND[0], id=1)], fusion=fusion, overlap="raw")
    (step,) = ascend(lm, view, options, prefill_base(lm, view.encoded, options))
    none = torch.zeros(2, dtype=torch.float64)
    plain = float(query_loss(lm, view.encoded, view.video(none, none)))
    moved = float(query_loss(lm, view.encoded, view.video(none + 1e-6, none)))
    assert step.gradient.tolist() == [step.gradient[0]] * 2
    assert step.gradient[0] == pytest.approx((moved - plain) / 1e-6, rel=1e-3, abs=1e-8)


def test_strengths_stay_equal_over_steps_and_end_at_one_level():
    lm = ByteLM()
    view = a_view(lm, FOUND)
    (first,) = ascend(lm, view, SHARED)
    step_size = 0.05 / abs(float(first.gradient[0]))
    options = replace(SHARED, steps=3, eta=step_size, levels="continuous")
    steps = list(ascend(lm, view, options))
    apart = list(ascend(lm, view, replace(options, strengths="per-object")))
    assert len({*apart[-1].strength.tolist()}) == 2
    for step in steps:
        assert len({*step.strength.tolist()}) == 1
    assert steps[1].strength[0] != 0.75
    assert len({*finalize_ascent(steps[-1], options).level.tolist()}) == 1


def test_a_method_takes_it_and_a_noise_of_each_object_does_not():
    both = {kind: a_context(RunOptions(ascent=AscentOptions(strengths=kind)))
            for kind in ("shared", "per-object")}  # fmt: skip
    ended = {kind: c.counterfactual(c.options.mask) for kind, c in both.items()}
    assert len({*ended["shared"].strength.tolist()}) == 1
    assert len({*ended["per-object"].strength.tolist()}) == 2
    noise = [
        run_method(c, METHODS["noise-object"]).second_views[0].view.level for c in both.values()
    ]
    assert noise[0] == noise[1]
