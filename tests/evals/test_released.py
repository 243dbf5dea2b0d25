"""Folders of released versions are read by every later version: docs/compatibility.md."""

import json
import zipfile
from pathlib import Path

import pytest

from macd_studio.evals.__main__ import main

DATA = Path(__file__).parent / "data"
"""release-VERSION.zip: two questions about two shipped clips, by baseline and MACD, as that version
wrote them with `evals run questions`."""


@pytest.fixture(params=["0.1.0"])
def folder(request, tmp_path):
    with zipfile.ZipFile(DATA / f"release-{request.param}.zip") as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_a_report_of_a_released_version_is_printed(folder, capsys):
    accuracy = json.loads((folder / "report.json").read_text())["scores"]["baseline"]["accuracy"]
    assert main(["report", str(folder)]) == 0
    assert f"| Baseline | – | {accuracy:.2f} |" in capsys.readouterr().out


def test_rows_of_a_released_version_are_compared(folder, capsys):
    assert main(["diff", f"{folder}:baseline", f"{folder}:macd", "--out", str(folder)]) == 0
    assert "2 questions of both" in capsys.readouterr().out
