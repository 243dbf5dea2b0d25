"""Studies of released versions are read by every later version: docs/compatibility.md."""

import zipfile
from pathlib import Path

import pytest

from macd_studio.ratings.check import check_study
from macd_studio.ratings.cli import main
from macd_studio.ratings.export import export
from macd_studio.ratings.store import Study

DATA = Path(__file__).parent / "data"
"""release-VERSION.zip: a study of one item, rated by programs, and its export by that version."""


@pytest.fixture(params=["0.1.0"])
def folder(request, tmp_path):
    with zipfile.ZipFile(DATA / f"release-{request.param}.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_a_study_of_a_released_version_is_sound_and_says_the_same(folder, capsys):
    assert check_study(folder / "small.db")["events"] == 20
    with Study(folder / "small.db", write=False) as study:
        assert export(study, "csv", folder / "now.csv") == 20
    assert (folder / "now.csv").read_bytes() == (folder / "small.csv").read_bytes()
    assert main(["report", str(folder / "small.db")]) == 0
    assert "SIMULATED" in capsys.readouterr().out
