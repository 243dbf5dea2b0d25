"""Turned boxes of CVAT and Label Studio, against corners that are computed in another way."""

import json

import cv2
import numpy as np
import pytest

from macd_studio.core.objects.formats import read_track_file
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.objects.placing import place_tracks
from tests.core.test_track_files import H, W, clip_of, cvat, label_studio, seen_masks


def turned_corners(box, degrees, pivot):
    """Corners of a box turned clockwise about a point, by complex numbers."""
    x0, y0, x1, y1 = box
    turn = np.exp(1j * np.radians(degrees))
    points = [complex(x, y) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))]
    middle = complex(*pivot)
    return np.array([[z.real, z.imag] for z in ((p - middle) * turn + middle for p in points)])


@pytest.mark.parametrize("stated", [True, False])
def test_boxes_turn_in_pixels_about_the_point_that_each_program_has(tmp_path, stated):
    """At 30 degrees on a frame that is not square: CVAT about the middle, Label Studio a corner."""
    box = (20.0, 10.0, 44.0, 22.0)
    x0, y0, x1, y1 = box
    inner = (
        f'<track label="a"><box frame="0" xtl="{x0}" ytl="{y0}" xbr="{x1}" ybr="{y1}"'
        ' rotation="30" outside="0"/></track>'
    )
    key_frame = {
        "frame": 1, "enabled": True, "rotation": 30, "x": 100 * x0 / W, "y": 100 * y0 / H,
        "width": 100 * (x1 - x0) / W, "height": 100 * (y1 - y0) / H,
    }  # fmt: skip
    path = label_studio(tmp_path, [key_frame])
    if stated:
        data = json.loads(path.read_text())
        data[0]["annotations"][0]["result"][0] |= {"original_width": W, "original_height": H}
        path.write_text(json.dumps(data))
    facts = ClipFacts.of(clip_of())
    for file, pivot in (
        (cvat(tmp_path, inner), ((x0 + x1) / 2, (y0 + y1) / 2)),
        (path, (x0, y0)),
    ):
        ring = turned_corners(box, 30, pivot).round().astype(np.int32)
        expected = np.zeros((H, W), np.uint8)
        cv2.fillPoly(expected, [ring], 1)
        (one,) = place_tracks(read_track_file(file, facts), facts).tracks
        mask = seen_masks(one)[0]
        both, either = (mask & (expected > 0)).sum(), (mask | (expected > 0)).sum()
        assert both / either > 0.85
