"""Archives of tracks hold what their folders hold."""

import zipfile

import numpy as np
import pytest
from PIL import Image

from macd_studio.core.objects.formats import read_track_file
from macd_studio.core.objects.placing import place_tracks
from macd_studio.core.report.export import export_tracks
from tests.core.test_track_files import clip_of, trace

__all__ = ["trace"]


def test_a_zip_holds_what_a_folder_holds(trace, tmp_path):
    packed = export_tracks(trace, tmp_path / "m.zip", "png")
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "m")
    one, two = (place_tracks(read_track_file(p), clip_of()).tracks
                for p in (packed, tmp_path / "m"))  # fmt: skip
    assert [t.label for t in one] == [t.label for t in two]
    np.testing.assert_array_equal(one[0].boxes, two[0].boxes)


@pytest.mark.parametrize("smooth", [True, False])
def test_the_soft_edge_of_one_mask_is_asked_about(smooth, tmp_path):
    """A mask of 0 and 2, made larger: its edge is 1. Drawn outlines of another width are not."""
    folder = tmp_path / "masks"
    folder.mkdir()
    for n in range(20):
        drawn = np.zeros((48, 64), np.uint8)
        drawn[10:25, 10 + n : 35 + n] = 2
        picture = Image.fromarray(drawn)
        if smooth:
            picture = picture.resize((160, 120), Image.Resampling.BILINEAR)
        else:
            drawn[5:10, 10 + n : 35 + n] = 1
            picture = Image.fromarray(drawn)
        picture.save(folder / f"{n:04d}.png")
    found = place_tracks(read_track_file(folder), clip_of())
    assert len(found.tracks) == 2
    assert any("is object 1 an object?" in note for note in found.notes) == smooth
