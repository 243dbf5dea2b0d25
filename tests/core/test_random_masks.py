import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macd_studio.core.masking import masks
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.masking.random_masks import (
    SCALES,
    TOLERANCE,
    _Stamps,
    hidden_pixels,
    is_moved,
    place_at_random,
    placement_warnings,
)
from macd_studio.core.options import FUSIONS, MaskOptions
from macd_studio.core.types import LOST, SEEN, Track

FRAMES, GROUPS, SIZE = 6, ((0, 1), (2, 3), (4, 5)), (36, 64)


def a_track(rng, number, largest):
    """A path between two random places, at the frame's edge in one case of three."""
    extent = rng.uniform(0.03, largest, 2)
    ends = rng.uniform(extent / 2, 1 - extent / 2, (2, 2))
    if rng.random() < 1 / 3:
        ends[:, int(rng.integers(2))] = extent[0] / 2
        ends = ends.clip(extent / 2, 1 - extent / 2)
    centre = ends[0] + (ends[1] - ends[0]) * np.linspace(0, 1, FRAMES)[:, None]
    boxes = np.concatenate([centre - extent / 2, centre + extent / 2], 1)
    boxes = boxes.astype(np.float32).clip(0, 1)
    lost = rng.random(FRAMES) < 0.25
    boxes[lost] = np.nan
    state = np.where(lost, LOST, SEEN).astype(np.int8)
    return Track(number, "dog", float(rng.uniform(0.2, 1)), boxes, state, FRAMES)


def a_case(seed, largest):
    rng = np.random.default_rng(seed)
    tracks = [a_track(rng, k, largest) for k in range(1, int(rng.integers(1, 6)) + 1)]
    level = rng.choice([0.0, 0.75, 1.0], len(tracks), p=[0.4, 0.1, 0.5])
    frame_level = rng.permutation([float(rng.integers(2)), 0.0, 0.0])
    options = MaskOptions(
        fusion=FUSIONS[int(rng.integers(4))],
        swept=bool(rng.random() < 0.2),
        overlap="raw" if rng.random() < 0.3 else "normalise",
    )
    return tracks, level, frame_level, options


def area(tracks, level, frame_level, options):
    masks = draw_masks(tracks, FRAMES, SIZE, options)
    confidence = [t.confidence for t in tracks]
    return combine_masks(masks, level, frame_level, GROUPS, confidence, options).sum(dtype=float)


def far_enough(before, after):
    """Half a width or height away in every frame with a box, written out frame by frame."""
    for a, b in zip(before.boxes.astype(float), after.boxes.astype(float), strict=True):
        if np.isnan(a[0]):
            continue
        dx, dy = abs(b[0] + b[2] - a[0] - a[2]) / 2, abs(b[1] + b[3] - a[1] - a[3]) / 2
        if dx < (a[2] - a[0]) / 2 - 2e-6 and dy < (a[3] - a[1]) / 2 - 2e-6:
            return False
    return True


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.2, 0.45, 1.0]))
def test_a_placement_keeps_its_terms_or_says_so(seed, largest):
    tracks, level, frame_level, options = a_case(seed, largest)
    found = place_at_random(tracks, level, frame_level, GROUPS, SIZE, options, seed)
    assert sorted(found.frame_level) == sorted(frame_level)
    assert SCALES[0] <= found.scale <= SCALES[1]
    wanted = area(tracks, level, frame_level, options)
    ratio = area(found.tracks, level, found.frame_level, options) / max(wanted, 1e-9)
    if wanted:
        assert found.area_ratio == pytest.approx(ratio, abs=1e-5)
    moved = [far_enough(a, b) for a, b in zip(tracks, found.tracks, strict=True)]
    assert found.unmoved == tuple(t.id for t, m in zip(tracks, moved, strict=True) if not m)
    told = placement_warnings(found.as_dict())
    off = wanted > 0 and abs(ratio - 1) > TOLERANCE + 1e-5
    assert len(told) == int(off) + int(not all(moved))
    for before, after in zip(tracks, found.tracks, strict=True):
        np.testing.assert_array_equal(np.isnan(before.boxes), np.isnan(after.boxes))
        seen = ~np.isnan(before.boxes[:, 0])
        a, b = before.boxes[seen], after.boxes[seen]
        assert (b >= 0).all()
        assert (b <= 1).all()
        sides = np.minimum(found.scale * (a[:, 2:] - a[:, :2]), 1)
        np.testing.assert_allclose(b[:, 2:] - b[:, :2], sides, atol=1e-5)
        # the path is a folded one: no step is longer than it was, but for scaled boxes at an edge
        steps = [np.abs(np.diff(z[:, :2] + z[:, 2:], axis=0)) / 2 for z in (a, b)]
        assert (steps[1] <= steps[0] + 1e-5).all()


@pytest.mark.parametrize("seed", range(24))
def test_objects_of_usual_size_are_moved_and_hide_the_same_area(seed):
    tracks, level, frame_level, options = a_case(seed, 0.4)
    found = place_at_random(tracks, level, frame_level, GROUPS, SIZE, options, seed)
    assert found.unmoved == ()
    assert all(far_enough(a, b) for a, b in zip(tracks, found.tracks, strict=True))
    assert found.area_ratio == pytest.approx(1, abs=TOLERANCE)
    wanted = hidden_pixels(tracks, level, frame_level, GROUPS, SIZE, options)
    hidden = hidden_pixels(found.tracks, level, found.frame_level, GROUPS, SIZE, options)
    assert hidden == pytest.approx(wanted, rel=TOLERANCE)
    assert placement_warnings(found.as_dict()) == []


def outlined(number, centre, extent=(0.25, 0.5)):
    """A track that stays, whose outline is a triangle."""
    box = np.concatenate(
        [np.subtract(centre, np.divide(extent, 2)), np.add(centre, np.divide(extent, 2))]
    )
    boxes = np.tile(box.astype(np.float32), (FRAMES, 1))
    triangle = np.array([[0, 0], [1, 0.25], [0.5, 1]], np.float32)
    state = np.full(FRAMES, SEEN, np.int8)
    return Track(number, "dog", 0.9, boxes, state, FRAMES, outlines=((triangle,),) * FRAMES)


def test_a_moved_outline_is_the_one_drawn_there():
    options = MaskOptions(pad=0.01, feather=0.005)
    tracks = [outlined(1, (0.5, 0.5)), outlined(2, (0.25, 0.5))]
    stamps = _Stamps(tracks, FRAMES, SIZE, options)
    assert stamps.needed
    placed = [outlined(1, (0.75, 0.5)), outlined(2, (0.375, 0.25))]  # 16, 8 and 9 whole pixels away
    wanted = draw_masks(placed, FRAMES, SIZE, options)
    moved = stamps.at(placed)
    np.testing.assert_allclose(moved.objects, wanted.objects, atol=2e-4)
    np.testing.assert_allclose(moved.outside, wanted.outside, atol=2e-4)
    assert not _Stamps([a_track(np.random.default_rng(0), 1, 0.3)], FRAMES, SIZE, options).needed


def test_outlines_are_not_drawn_for_every_placement(monkeypatch):
    drawn = []
    real = masks.soft_outline
    monkeypatch.setattr(masks, "soft_outline", lambda *how: drawn.append(how[2]) or real(*how))
    # side by side they hide more than one behind the other, so that no placement is good enough
    tracks = [outlined(1, (0.4, 0.5)), outlined(2, (0.42, 0.5)), outlined(3, (0.44, 0.5))]
    size = (72, 128)
    found = place_at_random(tracks, [1.0, 1.0, 1.0], [0.0] * 3, GROUPS, size)
    assert found.tries > 20
    coarse = sum(1 for at in drawn if at != size)
    assert coarse == len(tracks) * FRAMES


def test_placements_differ_by_seed_and_repeat():
    tracks, level, frame_level, options = a_case(3, 0.3)
    first, again, other = (
        place_at_random(tracks, level, frame_level, GROUPS, SIZE, options, s) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.tracks[0].boxes, again.tracks[0].boxes)
    assert not np.allclose(first.tracks[0].boxes, other.tracks[0].boxes, equal_nan=True)


def test_an_area_that_only_scaling_gives():
    # half of the box is outside the padding's reach wherever it goes but at the corner it is in
    box = np.tile(np.array([0, 0, 0.3, 0.3], np.float32), (FRAMES, 1))
    corner = Track(7, "dog", 0.9, box, np.full(FRAMES, SEEN, np.int8), 8)
    options = MaskOptions(frame_mask="off", pad=0.1)
    found = place_at_random([corner], [1.0], [], GROUPS, SIZE, options)
    assert found.scale < 1
    assert found.area_ratio == pytest.approx(1, abs=TOLERANCE)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_the_area_is_measured_at_full_size(seed, monkeypatch):
    # six pixels tell little of an area: what matches there must be measured again
    monkeypatch.setattr("macd_studio.core.masking.random_masks._COARSE", 6)
    tracks, level, _, _ = a_case(seed, 0.3)
    level[0], options = 1, MaskOptions(frame_mask="off", pad=0.0, feather=0.001)
    found = place_at_random(tracks, level, [], GROUPS, (216, 384), options, seed)
    wanted = hidden_pixels(tracks, level, [], GROUPS, (216, 384), options)
    hidden = hidden_pixels(found.tracks, level, [], GROUPS, (216, 384), options)
    assert hidden == pytest.approx(wanted, rel=TOLERANCE)


def test_what_cannot_be_moved_is_named():
    wall = Track(
        4, "wall", 0.9, np.tile(np.array([0, 0, 0.9, 0.95], np.float32), (FRAMES, 1)),
        np.full(FRAMES, SEEN, np.int8), 8,
    )  # fmt: skip
    found = place_at_random([wall], [1.0], [0.0] * 3, GROUPS, SIZE)
    assert found.unmoved == (4,)
    assert not is_moved(wall, found.tracks[0])
    assert "these objects by half their size: 4" in placement_warnings(found.as_dict())[-1]
    nobody = place_at_random([], [], [1.0, 0.0, 0.0], GROUPS, SIZE)
    assert (nobody.area_ratio, nobody.unmoved) == (1.0, ())
