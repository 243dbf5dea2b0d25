"""Masks, pixel by pixel, against slow scalar versions of docs/methods.md, steps 3 to 5 and 8."""

import math
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.macd import frame_levels, quantize_strengths
from macd_studio.core.masking.masks import (
    REACH,
    brushed,
    combine_masks,
    draw_masks,
    share_overlap,
    soft_boxes,
    soft_outline,
)
from macd_studio.core.options import FUSIONS, AscentOptions, MaskOptions
from macd_studio.core.types import LOST, SEEN, MaskSet, Stroke
from tests.fakes import tracks

WIDE = (11, 17)
"""Height and width: a frame that is not square shows which of the two was meant."""
NOWHERE = [np.nan] * 4


def soft_step(signed, feather):
    """½ at 0, by the distance inside in feather widths."""
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, signed / feather))))


def centres(size):
    return [(x + 0.5, y + 0.5) for y in range(size[0]) for x in range(size[1])]


def box_mask(box, size, pad, feather):
    h, w = size
    short = min(size)
    x0, y0, x1, y1 = box[0] * w, box[1] * h, box[2] * w, box[3] * h
    grow, soft = pad * short, feather * short
    return np.array([
        soft_step(x - (x0 - grow), soft) * soft_step(x1 + grow - x, soft)
        * soft_step(y - (y0 - grow), soft) * soft_step(y1 + grow - y, soft)
        for x, y in centres(size)
    ]).reshape(size)  # fmt: skip


def edge_distance(x, y, rings):
    """To the nearest edge of closed polygons, which are lists of points."""
    nearest = math.inf
    for ring in rings:
        for (ax, ay), (bx, by) in zip(ring, [*ring[1:], ring[0]], strict=True):
            length = math.dist((ax, ay), (bx, by))
            along = 0.0
            if length > 0:
                along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length**2
            along = max(0.0, min(1.0, along))
            at = ax + along * (bx - ax), ay + along * (by - ay)
            nearest = min(nearest, math.dist((x, y), at))
    return nearest


def is_inside(x, y, rings):
    """Even-odd rule: a ray to the right crosses an odd number of edges."""
    crossings = 0
    for ring in rings:
        for (ax, ay), (bx, by) in zip(ring, [*ring[1:], ring[0]], strict=True):
            if (ay > y) != (by > y):
                crossings += x < ax + (y - ay) * (bx - ax) / (by - ay)
    return crossings % 2 == 1


def outline_mask(rings, box, size, pad, feather):
    h, w = size
    short = min(size)
    grow, soft = pad * short, feather * short
    reach = grow + REACH * soft
    placed = [
        [((box[0] + px * (box[2] - box[0])) * w, (box[1] + py * (box[3] - box[1])) * h)
         for px, py in ring]
        for ring in rings
    ]  # fmt: skip
    mask = []
    for x, y in centres(size):
        far = min(edge_distance(x, y, placed), reach)
        mask.append(soft_step((far if is_inside(x, y, placed) else -far) + grow, soft))
    return np.array(mask).reshape(size)


BOX = (0.22, 0.31, 0.61, 0.74)


@pytest.mark.parametrize("size", [WIDE, WIDE[::-1]])
@pytest.mark.parametrize(("pad", "feather"), [(0.02, 0.0145), (0.11, 0.07), (0.0, 0.3)])
def test_boxes_pixel_by_pixel(size, pad, feather):
    boxes = np.array([BOX, NOWHERE, [0.4, 0.5, 0.4, 0.9], [0.1, 0.6, 0.9, 0.6], BOX], np.float32)
    made = soft_boxes(boxes, size, pad, feather)
    assert (made.shape, made.dtype) == ((5, *size), np.float32)
    assert not made[1:4].any()  # lost, without width, without height
    for mask in (made[0], made[4]):
        np.testing.assert_allclose(mask, box_mask(BOX, size, pad, feather), atol=2e-6)
    partly = np.array([[0.2, np.nan, 0.6, 0.8]], np.float32)
    assert not soft_boxes(partly, size, pad, feather).any()


def test_an_edge_without_feather_is_a_thousandth_of_a_pixel_wide():
    sharp = soft_boxes(np.array([[0, 0, 0.5, 1]], np.float32), (4, 8), 0.0, 0.0)[0]
    np.testing.assert_allclose(sharp, [[1, 1, 1, 1, 0, 0, 0, 0]] * 4, atol=1e-12)
    just = np.array([[0, 0, (3.5 + 1e-3) / 8, 1]], np.float32)
    ring = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32)
    for mask in (
        soft_boxes(just, (4, 8), 0.0, 0.0)[0],
        soft_outline((ring,), just[0], (4, 8), 0.0, 0.0),
    ):
        assert mask[1, 3] == pytest.approx(1 / (1 + math.exp(-1)), abs=2e-3)
    dot = Stroke(np.array([[0.5, 0.5]], np.float32), 0.125 + 0.001 / 4)
    drawn = brushed(np.zeros((1, 4, 8), np.float32), np.array([[0, 0, 1, 1]]), dot, 0.0)[0]
    # the centre of pixel 3, 1 lies half a pixel to the left of 4, 2, and half above
    assert drawn[1, 3] < 1e-6
    middle = Stroke(np.array([[4.5 / 8, 0.625]], np.float32), 0.25 + 0.001 / 4)
    drawn = brushed(np.zeros((1, 4, 8), np.float32), np.array([[0, 0, 1, 1]]), middle, 0.0)[0]
    assert drawn[2, 3] == drawn[2, 5] == pytest.approx(1 / (1 + math.exp(-1)), abs=2e-3)


STAR = np.array([[0.5, 0], [0.6, 0.4], [1, 0.45], [0.62, 0.6], [0.7, 1], [0.1, 0.2]], np.float32)
LEVEL = np.array([[0, 0.2], [1, 0.2], [1, 0.2], [0.8, 0.9], [0.1, 0.9]], np.float32)
HOLE = np.array([[0.4, 0.4], [0.6, 0.4], [0.6, 0.7], [0.4, 0.7]], np.float32)


@pytest.mark.parametrize("size", [WIDE, WIDE[::-1]])
@pytest.mark.parametrize("rings", [(STAR,), (LEVEL,), (LEVEL, HOLE), (HOLE, STAR + 0.4)])
@pytest.mark.parametrize(("pad", "feather"), [(0.02, 0.0145), (0.1, 0.03), (0.0, 0.2)])
def test_outlines_pixel_by_pixel(size, rings, pad, feather):
    box = np.array(BOX, np.float32)
    made = soft_outline(rings, box, size, pad, feather)
    expected = outline_mask([r.tolist() for r in rings], box.tolist(), size, pad, feather)
    assert (made.shape, made.dtype) == (size, np.float32)
    np.testing.assert_allclose(made, expected, atol=2e-5, rtol=2e-4)


def test_an_outline_that_leaves_the_frame_is_cut_off_there():
    box = np.array([-0.4, -0.2, 1.3, 0.5], np.float32)
    made = soft_outline((STAR,), box, WIDE, 0.05, 0.05)
    expected = outline_mask([STAR.tolist()], box.tolist(), WIDE, 0.05, 0.05)
    np.testing.assert_allclose(made, expected, atol=2e-5, rtol=2e-4)


@pytest.mark.parametrize("erase", [False, True])
@pytest.mark.parametrize("size", [WIDE, WIDE[::-1]])
def test_strokes_pixel_by_pixel(size, erase):
    boxes = np.array([BOX, NOWHERE, [0.5, 0.1, 0.9, 0.3]], np.float32)
    mask = np.random.default_rng(0).random((3, *size)).astype(np.float32)
    points = np.array([[0.1, 0.2], [0.9, 1.3], [-0.4, 0.5]], np.float32)
    stroke, feather = Stroke(points, 0.17, erase), 0.06
    before = mask.copy()
    made = brushed(mask, boxes, stroke, feather)
    np.testing.assert_array_equal(mask, before)
    np.testing.assert_array_equal(made[1], mask[1])
    h, w = size
    for t in (0, 2):
        x0, y0, x1, y1 = boxes[t].tolist()
        at = [((x0 + px * (x1 - x0)) * w, (y0 + py * (y1 - y0)) * h) for px, py in points.tolist()]
        disc = np.array([
            soft_step(0.17 * min(size) - min(math.dist(c, p) for p in at), feather * min(size))
            for c in centres(size)
        ]).reshape(size)  # fmt: skip
        expected = np.minimum(mask[t], 1 - disc) if erase else np.maximum(mask[t], disc)
        np.testing.assert_allclose(made[t], expected, atol=2e-6)


@pytest.mark.parametrize("masks", [2, 3])
def test_overlap_is_shared_by_confidence_in_every_pixel(masks):
    rng = np.random.default_rng(1)
    raw = (rng.random((masks, 2, 3, 4)) * (rng.random((masks, 2, 3, 4)) > 0.4)).astype(np.float32)
    raw[:, 0, 0, 0] = 0
    confidence = np.array([0.9, 0.0, 0.4][:masks], np.float32)
    made = share_overlap(raw, confidence)
    weights = np.maximum(confidence.astype(float), 1e-6)
    for at in np.ndindex(2, 3, 4):
        claims = [float(m[at]) for m in raw]
        total = sum(c * w for c, w in zip(claims, weights, strict=True))
        for k, (claim, weight) in enumerate(zip(claims, weights, strict=True)):
            share = claim * weight / total * min(1, sum(claims)) if total else 0.0
            assert made[(k, *at)] == pytest.approx(share, rel=1e-5, abs=1e-9)
    assert made.dtype == np.float32
    assert share_overlap(raw[:1], confidence[:1]) is not None
    np.testing.assert_array_equal(share_overlap(raw[:1], confidence[:1] * 0.5), raw[:1])


def test_faint_claims_are_shared_too_down_to_rounding():
    raw = np.array([4e-6, 4e-6, 1e-13, 1e-13], np.float32).reshape(2, 2, 1, 1)
    shared = share_overlap(raw, np.array([1.0, 1.0], np.float32))
    np.testing.assert_allclose(shared[:, 0].ravel(), [4e-6, 1e-13], rtol=1e-5)
    nearly = share_overlap(raw, np.zeros(2, np.float32))
    np.testing.assert_allclose(nearly[0, 0].ravel(), 4e-6, rtol=1e-5)
    none = share_overlap(np.zeros((2, 1, 1, 1), np.float64), np.ones(2, np.float32))
    assert not none.any()
    assert none.dtype == np.float32


GROUPS = ((0, 1), (2,), (3, 4))


def combined_pixel(objects, outside, levels, frame_level, confidence, options):
    """M of one pixel, docs/methods.md, step 5."""
    if options.strength_twice:
        levels, frame_level = [r * r for r in levels], frame_level * frame_level
    frame = 0.0 if options.frame_mask == "off" else frame_level * outside
    claims = [r * m for r, m in zip(levels, objects, strict=True)]
    if options.fusion == "or":
        return 1 - math.prod(1 - c for c in [*claims, frame])
    if options.fusion == "sum":
        return min(1.0, max([*claims, 0.0]) + frame)
    if options.fusion == "max" or not claims:
        return max([*claims, frame])
    weights = confidence if options.fusion == "confidence" else [1.0] * len(claims)
    total = sum(w * m for w, m in zip(weights, objects, strict=True))
    mean = sum(w * c for w, c in zip(weights, claims, strict=True)) / total if total else 0.0
    return max(frame, mean * max(objects))


@pytest.mark.parametrize("objects", [0, 1, 3])
@pytest.mark.parametrize("frame_mask", ["outside", "whole", "off"])
@pytest.mark.parametrize("fusion", FUSIONS)
@pytest.mark.parametrize("twice", [False, True])
def test_combined_masks_pixel_by_pixel(twice, fusion, frame_mask, objects):
    rng = np.random.default_rng(2)
    masks = MaskSet(
        rng.random((objects, 5, 3, 2)).astype(np.float32), rng.random((5, 3, 2)).astype(np.float32)
    )
    masks.objects[:, 1, 1, 1] = 0
    level, confidence = rng.random(objects), rng.random(objects)
    frame_level = rng.random(3)
    options = MaskOptions(fusion=fusion, frame_mask=frame_mask, strength_twice=twice)
    before = masks.outside.copy()
    made = combine_masks(masks, level, frame_level, GROUPS, confidence, options)
    bare = combine_masks(masks, level, [], GROUPS, confidence, options)
    np.testing.assert_array_equal(masks.outside, before)
    assert (made.shape, made.dtype, bare.dtype) == ((5, 3, 2), np.float32, np.float32)
    for at in np.ndindex(5, 3, 2):
        at_group = next(float(r) for r, g in zip(frame_level, GROUPS, strict=True) if at[0] in g)
        pixel = [float(m[at]) for m in masks.objects], float(masks.outside[at]), level.tolist()
        for mask, strength in ((made, at_group), (bare, 0.0)):
            expected = combined_pixel(*pixel, strength, confidence.tolist(), options)
            assert mask[at] == pytest.approx(expected, abs=1e-6)


def test_combined_masks_stay_within_bounds_and_sizes_must_fit():
    masks = MaskSet(np.full((2, 1, 2, 2), 0.9, np.float32), np.full((1, 2, 2), 0.9, np.float32))
    for fusion in FUSIONS:
        options = MaskOptions(fusion=fusion)
        high = combine_masks(masks, [3.0, 3.0], [3.0], [(0,)], [0.5, 0.5], options)
        low = combine_masks(masks, [-3.0, -3.0], [-3.0], [(0,)], [0.5, 0.5], options)
        assert low.min() >= 0
        assert high.max() <= 1
    for level, confidence in (([1.0], [1.0, 1.0]), ([1.0, 1.0], [1.0])):
        with pytest.raises(ValueError, match="2 masks but"):
            combine_masks(masks, level, [], [], confidence)
    with pytest.raises(ValueError, match="zip"):
        combine_masks(masks, [1.0, 1.0], [1.0, 1.0], [(0,)], [1.0, 1.0])
    plain = combine_masks(masks, [1.0, 0.5], [0.2], [(0,)], [1.0, 1.0])
    np.testing.assert_allclose(plain, 0.9, atol=1e-6)


def test_drawn_masks_are_the_parts_put_together():
    first, second = tracks(BOX, (0.5, 0.2, 0.9, 0.9), frames=3)
    moved = first.boxes + np.array([[0], [0.1], [0.2]], np.float32)
    stroke = Stroke(np.array([[1.2, 0.5]], np.float32), 0.1)
    lost = np.array([SEEN, LOST, SEEN], np.int8)
    boxes = second.boxes.copy()
    boxes[1] = np.nan
    found = [
        replace(first, boxes=moved, outlines=((STAR,), None, (LEVEL,), (STAR,)), brush=(stroke,)),
        replace(second, boxes=boxes, state=lost, outlines=((HOLE,), (HOLE,), None)),
    ]
    options = MaskOptions(pad=0.04, feather=0.05, overlap="raw")
    raw = np.stack([soft_boxes(t.boxes, WIDE, 0.04, 0.05) for t in found])
    raw[0, 0] = soft_outline((STAR,), moved[0], WIDE, 0.04, 0.05)
    raw[0, 2] = soft_outline((LEVEL,), moved[2], WIDE, 0.04, 0.05)
    raw[1, 0] = soft_outline((HOLE,), boxes[0], WIDE, 0.04, 0.05)
    raw[0] = brushed(raw[0], moved, stroke, 0.05)
    made = draw_masks(found, 3, WIDE, options)
    np.testing.assert_array_equal(made.objects, raw)
    np.testing.assert_allclose(made.outside, 1 - raw.max(0), atol=1e-7)
    assert made.objects.dtype == made.outside.dtype == np.float32
    swept = draw_masks(found, 3, WIDE, replace(options, swept=True))
    for t in range(3):
        np.testing.assert_array_equal(swept.objects[:, t], raw.max(1))
        np.testing.assert_allclose(swept.outside[t], 1 - raw.max((0, 1)), atol=1e-7)
    shared = draw_masks(found, 3, WIDE, replace(options, overlap="normalise"))
    confidence = np.array([t.confidence for t in found], np.float32)
    np.testing.assert_array_equal(shared.objects, share_overlap(raw, confidence))
    np.testing.assert_array_equal(shared.outside, made.outside)
    assert not np.allclose(shared.objects, raw, atol=0.01)
    usual = draw_masks(found, 3, WIDE)
    np.testing.assert_array_equal(usual.objects, draw_masks(found, 3, WIDE, MaskOptions()).objects)
    whole = draw_masks(found, 3, WIDE, replace(options, frame_mask="whole"))
    assert (whole.outside == 1).all()
    assert whole.outside.dtype == np.float32


def test_without_tracks_or_frames_all_is_outside():
    none = draw_masks([], 2, WIDE, MaskOptions(swept=True))
    assert none.objects.shape == (0, 2, *WIDE)
    np.testing.assert_array_equal(none.outside, np.ones((2, *WIDE), np.float32))
    assert none.outside.dtype == np.float32
    still = draw_masks(tracks(BOX, frames=0), 0, WIDE, MaskOptions(swept=True))
    assert still.objects.shape == (1, 0, *WIDE)


def test_padding_is_masked_by_nothing():
    found, content = tracks(BOX, (0.1, 0.1, 0.9, 0.4), frames=2), (2, 1, 13, 9)
    made = draw_masks(found, 2, WIDE, content=content)
    inner = draw_masks(found, 2, (8, 11))
    assert made.objects.shape == (2, 2, *WIDE)
    assert made.outside.shape == (2, *WIDE)
    np.testing.assert_array_equal(made.objects[:, :, 1:9, 2:13], inner.objects)
    np.testing.assert_array_equal(made.outside[:, 1:9, 2:13], inner.outside)
    for padded in (made.objects.copy(), made.outside.copy()):
        padded[..., 1:9, 2:13] = 0
        assert not padded.any()
    options = MaskOptions(pad=0.2)
    chosen = draw_masks(found, 2, WIDE, options, content)
    expected = draw_masks(found, 2, (8, 11), options).objects
    np.testing.assert_array_equal(chosen.objects[:, :, 1:9, 2:13], expected)
    for edge in ((0, 0, 17, 9), (2, 0, 17, 11), (0, 1, 17, 11), (0, 0, 12, 11)):
        part = draw_masks(found, 2, WIDE, content=edge).outside[0] > 0
        x0, y0, x1, y1 = edge
        assert not part[:y0].any()
        assert not part[y1:].any()
        assert not part[:, :x0].any()
        assert not part[:, x1:].any()
    full = draw_masks(found, 2, WIDE, content=(0, 0, 17, 11))
    np.testing.assert_array_equal(full.objects, draw_masks(found, 2, WIDE).objects)


def test_levels_have_a_dead_band_whose_edges_are_part_of_it():
    options = AscentOptions(r0=0.5, tau=0.25)
    strength = np.array([0.24, 0.25, 0.3, 0.5, 0.75, 0.76])
    assert quantize_strengths(strength, options).tolist() == [0, 0.5, 0.5, 0.5, 0.5, 1]
    kept = quantize_strengths(strength, replace(options, levels="continuous"))
    assert kept.tolist() == strength.tolist()
    kept[0] = 9
    assert strength[0] == 0.24


def test_only_a_fraction_of_the_frames_stays_masked_and_ties_go_to_the_first():
    options = AscentOptions(r0=0.5, tau=0.1, frame_fraction=0.5)
    strength = np.array([0.7, 0.9, 0.55, 0.7, 0.2, 0.1, 0.7])
    assert frame_levels(strength, options).tolist() == [1, 1, 0, 1, 0, 0, 0]
    assert not frame_levels(strength, replace(options, frame_fraction=0.0)).any()
    few = replace(options, frame_fraction=0.01)
    assert frame_levels(strength, few).tolist() == [0, 1, 0, 0, 0, 0, 0]
    assert frame_levels(strength, replace(options, frame_fraction=1.0)).tolist() == [
        1, 1, 0.5, 1, 0, 0, 1,
    ]  # fmt: skip
    assert frame_levels(np.full(40, 0.9), options).tolist() == [1.0] * 20 + [0.0] * 20
    mixed = np.tile([0.9, 0.2], 40)
    first = frame_levels(mixed, replace(options, frame_fraction=0.25))
    assert np.flatnonzero(first).tolist() == list(range(0, 40, 2))
