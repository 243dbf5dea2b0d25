"""What outlives a restart of a server."""

import os

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.macd_ui.settings import read_settings
from macd_studio.macd_ui.storage import data_folder, gallery_in, set_up

SPACE = {"SPACE_ID": "owner/name"}


def test_a_bucket_is_used_on_a_space_alone(tmp_path):
    assert data_folder(SPACE, tmp_path) == tmp_path
    assert data_folder({}, tmp_path) is None
    assert data_folder(SPACE, tmp_path / "none") is None
    assert data_folder({"MACD_DATA": str(tmp_path)}, tmp_path / "none") == tmp_path
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OptionError, match="nothing can be written"):
        data_folder({"MACD_DATA": str(tmp_path / "none")})
    (tmp_path / "file").write_text("")
    assert data_folder(SPACE, tmp_path / "file") is None


def test_models_and_gallery_stay_there(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HOME", raising=False)
    set_up(None)
    assert "HF_HOME" not in os.environ
    set_up(tmp_path)
    assert os.environ["HF_HOME"] == str(tmp_path / "huggingface")
    monkeypatch.setenv("HF_HOME", "mine")
    set_up(tmp_path)
    assert os.environ["HF_HOME"] == "mine"
    assert gallery_in(tmp_path) is None
    (tmp_path / "gallery").mkdir()
    assert gallery_in(tmp_path) == str(tmp_path / "gallery")
    kept = SPACE | {"MACD_DATA": str(tmp_path)}
    assert read_settings([], kept).gallery == str(tmp_path / "gallery")
    assert read_settings(["--gallery", str(tmp_path)], kept).gallery == str(tmp_path)
