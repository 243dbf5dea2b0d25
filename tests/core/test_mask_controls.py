"""The three named controls: what each keeps, and how it is described."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from macd_studio.core.masking import controls
from macd_studio.core.masking.controls import (
    CONTROLS,
    ELSEWHERE,
    MAX_OVERLAP,
    OBJECTS,
    PLACE,
    Hidden,
    arrangements,
    count_arrangements,
    draw_control,
    random_elsewhere,
    random_objects,
    random_place,
)
from macd_studio.core.masking.random_masks import TOLERANCE, placement_warnings
from macd_studio.core.options import MaskOptions
from macd_studio.core.types import SEEN, Track

FRAMES, GROUPS = 6, ((0, 1), (2, 3), (4, 5))


def a_track(number, centre, extent=(0.2, 0.3)):
    box = np.concatenate([np.subtract(centre, np.divide(extent, 2)),
                          np.add(centre, np.divide(extent, 2))])  # fmt: skip
    boxes = np.tile(box.astype(np.float32), (FRAMES, 1))
    return Track(number, "dog", 0.9, boxes, np.full(FRAMES, SEEN, np.int8), FRAMES)


def hidden(level=(1.0, 0.0, 0.0), frame_level=(0.0, 0.0, 0.0), tracks=None):
    tracks = tracks or (
        a_track(1, (0.2, 0.3)), a_track(2, (0.5, 0.7), (0.3, 0.3)), a_track(3, (0.8, 0.3))
    )  # fmt: skip
    return Hidden(tracks, np.array(level), np.array(frame_level), GROUPS, (48, 64), MaskOptions())


def overlap(a, b):
    return float(np.minimum(a, b).sum(dtype=float) / a.sum(dtype=float))


@pytest.mark.parametrize("name", CONTROLS)
def test_area_and_overlap_are_those_of_the_masks(name):
    own = hidden((1.0, 0.75, 0.0), (1.0, 0.0, 0.0))
    made = draw_control(name, own, 3)
    if made is None:
        pytest.fail("there is room beside the mask")
    other = Hidden(made.tracks, made.level, made.frame_level, GROUPS, own.size, own.options)
    area = own.mask().sum(dtype=float)
    assert made.control == name
    assert made.area_ratio == pytest.approx(other.mask().sum(dtype=float) / area)
    assert made.overlap == pytest.approx(overlap(own.mask(), other.mask()))
    assert sorted(made.level) == sorted(own.level)
    assert sorted(made.frame_level) == sorted(own.frame_level)
    if name != OBJECTS:
        assert made.area_ratio == pytest.approx(1, abs=TOLERANCE)
    if name == ELSEWHERE:
        assert made.overlap <= MAX_OVERLAP
    told = made.as_dict()
    assert told["control"] == name
    assert (told["area_ratio"], told["overlap"]) == pytest.approx(
        (made.area_ratio, made.overlap), abs=1e-5
    )
    assert draw_control(name, own, 3).as_dict() == told


def test_a_random_place_is_anywhere_whatever_macd_hides():
    """Uniform over all places, MACD's own included, wherever MACD's mask is."""
    span = 0.8, 0.7
    for centre in ((0.15, 0.2), (0.5, 0.5)):
        own = hidden((1.0,), (), (a_track(1, centre),))
        boxes = np.array([random_place(own, seed).tracks[0].boxes[0] for seed in range(400)])
        middles = (boxes[:, :2] + boxes[:, 2:]) / 2
        for axis in (0, 1):
            share = (middles[:, axis] - (1 - span[axis]) / 2) / span[axis]
            assert kstest(share, "uniform").pvalue > 0.01
    assert max(random_place(own, seed).overlap for seed in range(60)) > 0.5
    assert random_place(own, 0).unmoved == ()
    assert placement_warnings(random_place(own, 0).as_dict()) == []


def test_random_objects_give_every_order_and_say_how_large_it_is():
    own = hidden()
    drawn = [random_objects(own, seed) for seed in range(90)]
    seen = {tuple(d.level) for d in drawn}
    assert seen == set(arrangements([1.0, 0.0, 0.0]))
    same = next(d for d in drawn if tuple(d.level) == (1.0, 0.0, 0.0))
    assert (same.area_ratio, same.overlap) == pytest.approx((1, 1))
    larger = next(d for d in drawn if tuple(d.level) == (0.0, 1.0, 0.0))
    assert larger.area_ratio > 1.3  # the second object is larger
    assert larger.overlap < 0.05
    assert all(d.tracks is own.tracks for d in drawn)
    framed = hidden(frame_level=(1.0, 0.0, 0.0))
    assert len({tuple(random_objects(framed, seed).frame_level) for seed in range(30)}) == 3
    counts = [sum(tuple(d.level) == z for d in drawn) for z in seen]
    assert min(counts) > 15


@pytest.mark.parametrize("level", [[], [1.0], [1.0, 0.0, 0.75, 0.0], [1.0] * 3])
def test_arrangements_are_all_orders_once(level):
    made = list(arrangements(level))
    assert sorted(set(itertools.permutations(level))) == made
    assert len(made) == count_arrangements(level)


@pytest.mark.parametrize("ratio", [1 - 2 * TOLERANCE, 1 + 2 * TOLERANCE])
def test_elsewhere_is_not_the_first_draw_that_hides_more_or_less(ratio, monkeypatch):
    own = hidden()
    fits = random_elsewhere(own, 0)
    draws = iter([replace(fits, area_ratio=ratio), fits])
    monkeypatch.setattr(controls, "_placed", lambda *how, **more: next(draws))
    assert random_elsewhere(own, 0) is fits


def test_where_there_is_no_elsewhere_none_is_made_up():
    wall = hidden((1.0,), (), (a_track(1, (0.5, 0.5), (0.9, 0.95)),))
    assert random_elsewhere(wall, 0) is None
    assert random_place(wall, 0).overlap > 0.5


def test_nothing_hidden_is_no_error():
    nothing = hidden((0.0, 0.0, 0.0))
    for name in (PLACE, OBJECTS):
        made = draw_control(name, nothing, 0)
        assert (made.area_ratio, made.overlap) == (1, 0)
    assert draw_control(PLACE, Hidden((), np.zeros(0), np.zeros(0), GROUPS, (8, 8), MaskOptions()),
                        0).tracks == ()  # fmt: skip


def test_the_warning_names_the_control():
    odd = random_place(hidden(), 0).as_dict() | {"area_ratio": 0.5}
    assert placement_warnings(odd)[0].startswith("random-place hides 50.0 %")
