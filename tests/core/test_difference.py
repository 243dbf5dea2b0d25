"""Slopes by reading alone: against a known function, against autograd, and whole runs by them."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import macd_studio as macd
from macd_studio.core.errors import NumericalError, OptionError
from macd_studio.core.masking.ascent import ascend
from macd_studio.core.masking.difference import TIMES_NOISE, difference_gradient, losses_by
from macd_studio.core.options import AscentOptions, MaskOptions, RunOptions
from macd_studio.core.report.summary import as_text
from macd_studio.core.views.context import MethodContext
from macd_studio.core.whatif.edits import read_edit
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.viewer.payload import payload
from tests.core.test_reader import SEED, Blind, FarReader, run

EXAMPLES = sorted((Path(macd.__file__).parent / "assets" / "examples").glob("*.macd"))


class Flat:
    """A view whose video is its strengths, (K + G, 3, 1, 1)."""

    encoded = SimpleNamespace(std=torch.ones(3))

    def video(self, r, rf):
        return torch.cat([r, rf])[:, None, None, None].expand(-1, 3, 1, 1)


def slopes(loss, r, rf, h=0.1, **more):
    """loss: of the strengths (N,); the noise of pixels reaches it as well."""
    asked = []

    def losses(videos):
        asked.append(len(videos))
        return np.array([loss(v.double().mean((1, 2, 3)).numpy()) for v in videos])

    value, g, gf = difference_gradient(Flat(), losses, torch.tensor(r), torch.tensor(rf), h, **more)
    strengths = "shared" if more.get("shared") else "per-object"
    options = AscentOptions(gradient="difference", strengths=strengths)
    assert sum(asked) == options.reads(len(r), len(rf))
    return value, g.tolist(), gf.tolist()


def test_the_slopes_are_those_of_the_function():
    value, g, gf = slopes(lambda x: 3 * x[0] - 2 * x[1] ** 2 + 5 * x[2], [0.75, 0.5], [0.75])
    assert value == pytest.approx(3 * 0.75 - 2 * 0.25 + 5 * 0.75)
    assert g == pytest.approx([3, -2])
    assert gf == pytest.approx([5])


@pytest.mark.parametrize("at", [0.0, 1.0])
def test_at_an_end_the_slope_is_taken_to_one_side(at):
    _, g, _ = slopes(lambda x: 4 * x[0], [at], [])
    assert g == pytest.approx([4])


def test_a_strength_that_all_objects_share_moves_all_of_them():
    _, g, gf = slopes(lambda x: x[0] + 2 * x[1] - x[2], [0.75, 0.75], [0.75], shared=True)
    assert g == pytest.approx([3, 3])
    assert gf == pytest.approx([-1])


def test_what_is_lost_in_noise_or_bends_back_is_undecided():
    def loss(x):
        rough = 0.05 * np.sin(9000 * x[1])  # of the size of a dither
        return 1e-3 * x[0] + rough + 40 * (x[2] - 0.5) ** 2 * (x[2] > 0.57) - 0.5 * x[2]

    _, g, _ = slopes(loss, [0.75, 0.75, 0.5], [])
    assert g[0] == g[1] == g[2] == 0.0
    options = AscentOptions(gradient="difference")
    assert options.undecided([*g, 0.3]) == [True, True, True, False]
    assert AscentOptions().undecided([0.0]) == [False]


@pytest.mark.parametrize(("slope", "found"), [(0.3, 0.0), (3.0, 3.0)])
def test_what_a_step_changes_is_held_against_the_noise(slope, found):
    """Not the slope itself: a step of 0.1 to either side changes the loss by a fifth of it."""
    h = 0.1
    rough = 0.05  # of dithers alone, which move every strength

    def loss(x):
        return slope * x[0] + rough * np.sin(9000 * x[1])

    noise = rough / np.sqrt(2)  # of a sine at random places
    assert (2 * h * slope > TIMES_NOISE * noise) == (found != 0)
    _, (g, _), _ = slopes(loss, [0.75, 0.75], [], h)
    assert g == pytest.approx(found)


def test_a_loss_that_is_not_finite_anywhere_ends_the_ascent():
    value, *_ = slopes(lambda x: np.nan if x[0] > 0.8 else x[0], [0.75], [])
    assert np.isnan(value)

    class Broken(Blind):
        def question_log_p(self, encoded, views):
            return np.full((len(views.logits), 3), np.nan)

    with pytest.raises(NumericalError, match="not finite at ascent step 1"):
        run(Broken(), ascent={"gradient": "difference"})


def test_it_is_of_the_query_loss():
    with pytest.raises(OptionError, match="'difference' is that of the query loss"):
        replace(RunOptions(), ascent=AscentOptions(gradient="difference", objective="margin")
                ).check_runnable()  # fmt: skip


def measured(path, lm):
    """The slopes of a shipped example by autograd, and by differences."""
    trace = macd.load(path)
    bench = Workbench(trace, lm)
    context = MethodContext(lm, bench.encoded, trace.tracks, RunOptions())
    view = context.masks(MaskOptions())
    exact, read = (
        next(iter(ascend(lm, view, AscentOptions(gradient=how), context.base_prefill)))
        for how in ("exact", "difference")
    )
    assert read.loss == pytest.approx(exact.loss, abs=1e-5)
    return (
        np.concatenate([exact.gradient, exact.frame_gradient]),
        np.concatenate([read.gradient, read.frame_gradient]),
    )


@pytest.mark.parametrize(
    "path",
    [p if p.stem == "repaired" else pytest.param(p, marks=pytest.mark.long) for p in EXAMPLES],
    ids=lambda p: p.stem,
)
def test_decided_slopes_have_the_sign_of_the_gradient(path, toyworld):
    exact, read = measured(path, toyworld)
    decided = read != 0
    assert decided.any()
    assert (np.sign(read[decided]) == np.sign(exact[decided])).all()


@pytest.mark.parametrize("model", [Blind, FarReader])
def test_a_model_without_a_gradient_has_macds_answer(model, tmp_path):
    exact = run(Blind.__base__(SEED), ["reversed", "noise-object"])
    trace = run(model(), ["reversed", "noise-object"], ascent={"gradient": "difference"})
    assert {"baseline", "macd", "reversed"} <= set(trace.answers)
    assert "noise-object" in trace.skipped  # whose scales no difference gives
    assert len(trace.steps) == 1
    assert np.allclose(trace.steps[0].loss, exact.steps[0].loss, atol=1e-5)
    measured = np.concatenate([trace.steps[0].gradient, trace.steps[0].frame_gradient])
    true = np.concatenate([exact.steps[0].gradient, exact.steps[0].frame_gradient])
    decided = measured != 0
    assert (np.sign(measured[decided]) == np.sign(true[decided])).all()
    if not decided.all():
        assert any("undecided" in w for w in trace.warnings)
    assert any("by reading alone" in w for w in trace.warnings)
    again = macd.load(macd.save(trace, tmp_path / "run.macd"))
    assert "difference" in as_text(again)
    assert payload(again)["trace"]["differences"]
    bench = Workbench(again, model())
    list(bench.change(read_edit({"kind": "drop", "track": 1}, again)))  # it ascends anew
    assert set(bench.trace.answers) == {"baseline", "macd"}
    assert len(bench.trace.steps) == 1


def test_that_all_are_undecided_is_an_answer():
    class Still(Blind):
        """Its loss knows nothing of the video."""

        def question_log_p(self, encoded, views):
            return np.full((len(views.logits), 3), -2.0)

    trace = run(Still(), ascent={"gradient": "difference"})
    assert set(trace.counterfactual.level) == {0.75}
    assert "undecided" in as_text(trace)
    assert trace.status == "complete"


def test_it_can_be_stopped_between_reads(toyworld):
    """As a gradient of many objects takes many reads."""
    trace = macd.load(next(p for p in EXAMPLES if p.stem == "repaired"))
    context = MethodContext(
        toyworld, Workbench(trace, toyworld).encoded, trace.tracks, RunOptions()
    )
    calls = []

    def stop():
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt

    context.between_reads = stop
    with pytest.raises(KeyboardInterrupt):
        context.ascent(MaskOptions(), AscentOptions(gradient="difference"))
    assert len(calls) == 2


def test_losses_together_are_those_of_each(toyworld):
    trace = macd.load(next(p for p in EXAMPLES if p.stem == "repaired"))
    encoded = Workbench(trace, toyworld).encoded
    videos = torch.stack([encoded.video, 0.5 * encoded.video])
    both = losses_by(toyworld, encoded)(videos)
    alone = [losses_by(toyworld, encoded)(v[None])[0] for v in videos]
    np.testing.assert_allclose(both, alone, atol=1e-6)
