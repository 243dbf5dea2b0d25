from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macd_studio.core.macd import frame_levels, quantize_strengths
from macd_studio.core.masking.masks import draw_masks, share_overlap, soft_boxes, soft_outline
from macd_studio.core.options import AscentOptions, MaskOptions
from macd_studio.core.types import LOST, SEEN, Track


def a_track(boxes, label="dog", confidence=0.9):
    boxes = np.array(boxes, np.float32)
    state = np.where(np.isnan(boxes[:, 0]), LOST, SEEN).astype(np.int8)
    return Track(1, label, confidence, boxes, state, len(boxes))


NOWHERE = [np.nan] * 4


def test_a_mask_is_one_inside_zero_far_away_and_half_at_its_padded_edge():
    mask = soft_boxes(np.array([[0.25, 0.25, 0.75, 0.75]], np.float32), (96, 96), 0.02, 0.0145)[0]
    assert mask[48, 48] > 0.999
    assert mask[5, 5] < 1e-6
    # the edge stands at 24 − 1.92 px; pixel centres 21.5 and 22.5 lie on either side of it
    assert mask[48, 21] < 0.5 < mask[48, 22]


def test_a_lost_frame_has_no_mask_at_all():
    masks = draw_masks([a_track([[0.2, 0.2, 0.5, 0.5], NOWHERE])], 2, (32, 32))
    assert masks.objects[0, 0].max() > 0.9
    assert not masks.objects[0, 1].any()
    assert (masks.outside[1] == 1).all()


def test_masks_follow_a_wide_frame():
    mask = draw_masks([a_track([[0.5, 0, 1, 1]])], 1, (32, 64)).objects[0, 0]
    assert mask.shape == (32, 64)
    assert mask[16, 48] > 0.99
    assert mask[16, 8] < 0.01


def test_swept_masks_stand_still():
    track = a_track([[0.0, 0.4, 0.2, 0.6], [0.8, 0.4, 1.0, 0.6]])
    masks = draw_masks([track], 2, (32, 32), MaskOptions(swept=True)).objects[0]
    np.testing.assert_array_equal(masks[0], masks[1])
    assert masks[0][16, 3] > 0.9
    assert masks[0][16, 28] > 0.9


@given(st.integers(2, 5), st.integers(0, 1000))
def test_shared_masks_never_sum_above_one_and_keep_the_union(k, seed):
    rng = np.random.default_rng(seed)
    raw = rng.random((k, 2, 6, 6), np.float32)
    shared = share_overlap(raw, rng.uniform(0.1, 1, k).astype(np.float32))
    total = shared.sum(0)
    assert (total <= 1 + 1e-5).all()
    np.testing.assert_allclose(total, np.minimum(raw.sum(0), 1), atol=1e-5)


def test_a_mask_alone_is_not_changed_by_sharing():
    raw = np.zeros((2, 1, 4, 4), np.float32)
    raw[0, 0, :2], raw[1, 0, 2:] = 0.7, 0.4
    np.testing.assert_allclose(share_overlap(raw, np.array([0.9, 0.3], np.float32)), raw, atol=1e-6)


def test_outside_is_what_no_object_covers():
    tracks = [a_track([[0, 0, 0.5, 1]])]
    masks = draw_masks(tracks, 1, (16, 16))
    np.testing.assert_allclose(masks.outside + masks.objects[0], 1, atol=1e-6)
    assert (draw_masks(tracks, 1, (16, 16), MaskOptions(frame_mask="whole")).outside == 1).all()


@pytest.mark.parametrize(
    ("strength", "tau", "level"),
    [(0.7501, 0, 1), (0.7499, 0, 0), (0.75, 0, 0.75), (0.7501, 0.01, 0.75), (0.77, 0.01, 1)],
)
def test_levels(strength, tau, level):
    assert quantize_strengths(np.array([strength]), AscentOptions(tau=tau)) == [level]


def test_continuous_levels_are_the_strengths():
    r = np.array([0.1, 0.8])
    np.testing.assert_array_equal(quantize_strengths(r, AscentOptions(levels="continuous")), r)


def test_only_the_few_frames_with_the_largest_margin_stay_masked():
    r = 0.75 + np.array([1, -1, 3, 2, 0, -2, 5, 4]) * 1e-4
    np.testing.assert_array_equal(frame_levels(r), [0, 0, 0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(frame_levels(r, AscentOptions(frame_fraction=0)), np.zeros(8))
    np.testing.assert_array_equal(frame_levels(r[:2]), [1, 0])
    assert not len(frame_levels(np.zeros(0)))


SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32)
BOX = np.array([0.25, 0.3, 0.75, 0.8], np.float32)


def test_an_outline_along_the_box_is_the_box_but_for_its_corners():
    box = soft_boxes(BOX[None], (96, 96), 0.02, 0.0145)[0]
    outline = soft_outline((SQUARE,), BOX, (96, 96), 0.02, 0.0145)
    np.testing.assert_allclose(outline[48], box[48], atol=1e-3)
    np.testing.assert_allclose(outline[:, 48], box[:, 48], atol=1e-3)
    assert np.abs(outline - box).max() < 0.3


@given(st.integers(3, 40), st.integers(0, 500))
def test_an_outline_is_the_distance_to_its_edge(points, seed):
    rng = np.random.default_rng(seed)
    turn = np.sort(rng.uniform(0, 2 * np.pi, points))
    line = (0.5 + 0.5 * np.stack([np.cos(turn), np.sin(turn)], 1)).astype(np.float32)
    mask = soft_outline((line,), BOX, (48, 64), 0.0, 0.03)
    at = (BOX[:2] + line * (BOX[2:] - BOX[:2])) * (64, 48)
    for _ in range(20):
        x, y = int(rng.integers(64)), int(rng.integers(48))
        far = cv2.pointPolygonTest(at.astype(np.float32), (x + 0.5, y + 0.5), True)
        expected = 1 / (1 + np.exp(-np.clip(far / (0.03 * 48), -30, 30)))
        assert mask[y, x] == pytest.approx(expected, abs=2e-3)


def test_masks_follow_outlines_unless_boxes_are_wanted():
    line = np.array([[0.5, 0], [1, 1], [0, 1]], np.float32)
    track = replace(a_track([BOX, BOX, NOWHERE]), outlines=((line,), None, None))
    drawn = draw_masks([track], 3, (64, 64)).objects[0]
    boxes = draw_masks([track], 3, (64, 64), MaskOptions(shape="box")).objects[0]
    np.testing.assert_array_equal(drawn[1], boxes[1])
    assert drawn[0].sum() == pytest.approx(0.55 * boxes[0].sum(), rel=0.1)
    assert not drawn[2].any()
    swept = draw_masks([track], 3, (64, 64), MaskOptions(swept=True)).objects[0]
    np.testing.assert_array_equal(swept[0], np.maximum(drawn[0], drawn[1]))


def test_the_gap_between_two_parts_stays_open():
    left = np.array([[0, 0], [0.3, 0], [0.3, 1], [0, 1]], np.float32)
    both = (left, left + np.array([0.7, 0], np.float32))
    mask = soft_outline(both, BOX, (96, 96), 0.02, 0.0145)
    alone = soft_outline((left,), BOX, (96, 96), 0.02, 0.0145)
    assert mask[48, 48] < 0.01
    assert mask[48, 30] > 0.99
    assert mask[48, 66] > 0.99
    np.testing.assert_allclose(mask[:, :45], alone[:, :45], atol=1e-3)
