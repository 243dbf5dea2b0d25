"""Archives of tracks hold what their folders hold."""

import zipfile

import numpy as np

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
