"""Insertion and deletion: what is hidden, in which order, and what the areas say."""

import numpy as np
import pytest
import torch

from macd_studio.core.evidence.curves import measure_curves, order_of
from macd_studio.core.evidence.kinds import CURVE_STEPS, RANDOM_ORDERS
from macd_studio.core.evidence.options import EvidenceOptions
from macd_studio.core.evidence.run import _joined_curves
from macd_studio.core.measurements import RANDOM_ORDER, Curve, Curves
from tests.core.test_evidence import OTHER, SAMPLE, TOKEN, make_case
from tests.families import NAMES, tiny

pytestmark = pytest.mark.matrix


@pytest.fixture(
    params=[n if n == SAMPLE else pytest.param(n, marks=pytest.mark.long) for n in NAMES]
)
def lm(request):
    return tiny(request.param)


def probability(case, hidden, against=None):
    """Of the token with cells (G, R, C) hidden, step by step and pixel by pixel."""
    video, (_, rows, columns) = case.encoded.video.clone(), case.encoded.token_grid
    height, width = video.shape[-2:]
    for g, frames in enumerate(case.encoded.groups):
        for y in range(height):
            for x in range(width):
                if hidden[g, y * rows // height, x * columns // width]:
                    video[list(frames), :, y, x] = 0.0  # the mean colour
    state = case.lm.prefill(case.encoded, video)
    for token in case.prefix:
        state = case.lm.step(state, [token])
    logits = state.logits[0].double()
    if against is not None:
        logits = logits[[TOKEN, against]]
        return float(torch.softmax(logits, 0)[0])
    return float(torch.softmax(logits, 0)[TOKEN])


@pytest.mark.parametrize(("prefix", "against"), [((), None), ((80,), OTHER)])
def test_cells_are_hidden_and_shown_in_the_order_of_the_map(lm, prefix, against):
    case = make_case(lm, prefix, against)
    shape = case.encoded.token_grid
    strength = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape)
    order = np.argsort(-strength.ravel())
    values = np.zeros((len(case.encoded.video), *shape[1:]), np.float32)
    for g, frames in enumerate(case.encoded.groups):
        values[list(frames)] = strength[g]
    curves = measure_curves(case, {"mine": values})
    assert curves.fits()
    mine = curves.curves[0]
    for step in (0, 2, CURVE_STEPS - 1, CURVE_STEPS):
        hidden = np.zeros(strength.size, bool)
        hidden[order[: round(strength.size * step / CURVE_STEPS)]] = True
        expected = probability(case, hidden.reshape(shape), against)
        assert mine.deletion[step] == pytest.approx(expected, abs=1e-4)
        expected = probability(case, ~hidden.reshape(shape), against)
        assert mine.insertion[step] == pytest.approx(expected, abs=1e-4)
    assert mine.deletion[0] == mine.insertion[-1]
    assert mine.deletion[-1] == mine.insertion[0]
    random = [one for one in curves.curves if one.kind == RANDOM_ORDER]
    assert len(random) == RANDOM_ORDERS == len({one.deletion for one in random})
    assert {one.deletion[0] for one in random} == {mine.deletion[0]}


def test_what_is_against_the_token_comes_last_and_equal_cells_at_random():
    case = make_case(tiny(SAMPLE))
    groups, rows, columns = case.encoded.token_grid
    values = np.zeros((len(case.encoded.video), rows, columns), np.float32)
    values[list(case.encoded.groups[0]), 0, 0] = -2.0
    values[list(case.encoded.groups[1]), 0, 1] = 1.0
    orders = [order_of(case, values, np.random.default_rng(i)) for i in range(5)]
    strongest, weakest = rows * columns + 1, 0
    assert {int(o[0]) for o in orders} == {strongest}
    assert {int(o[-1]) for o in orders} == {weakest}
    assert len({tuple(o) for o in orders}) == 5
    assert all(sorted(o) == list(range(groups * rows * columns)) for o in orders)


def curve(kind, deletion, insertion):
    return Curve(kind, tuple(deletion), tuple(insertion))


def test_areas_scores_and_the_band():
    curves = Curves(
        (0.0, 0.25, 1.0),
        (
            curve("weak", (1, 1, 0), (0, 1, 1)),
            curve("strong", (1, 0, 0), (0, 1, 1)),
            curve(RANDOM_ORDER, (1, 1, 0), (0, 0, 1)),
            curve(RANDOM_ORDER, (1, 0, 0), (0, 0.8, 1)),
        ),
    )
    assert curves.areas()["weak"] == [(0.625, 0.875)]
    assert curves.areas()["strong"] == [(0.125, 0.875)]
    (best, worse) = curves.scores()
    assert best == ("strong", pytest.approx(0.75), 1.0)
    assert worse == ("weak", pytest.approx(0.25), 0.5)
    assert curves.band() == (pytest.approx(-0.25), pytest.approx(0.65))


def test_curves_of_other_kinds_stay_beside_newer_ones():
    shares = (0.0, 1.0)
    before = Curves(shares, (curve("a", (1, 0), (0, 1)), curve(RANDOM_ORDER, (1, 0), (0, 1))))
    after = Curves(shares, (curve("b", (1, 0), (0, 1)), curve(RANDOM_ORDER, (1, 0), (0, 1))))
    joined = _joined_curves(before, after)
    assert [one.kind for one in joined.curves] == ["a", "b", RANDOM_ORDER]
    again = Curves(shares, (curve("a", (1, 0.5), (0, 1)),))
    assert _joined_curves(before, again).curves[-1] is again.curves[0]
    assert _joined_curves(before, None) is before
    assert EvidenceOptions().curves is False
