"""A gallery in a dataset: pushed, pushed again after a break, fetched at a start; bad names."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.macd_ui.deploy import check_name
from macd_studio.macd_ui.gallery import dataset
from macd_studio.macd_ui.gallery.dataset import push
from macd_studio.macd_ui.gallery.site import Site
from macd_studio.macd_ui.serving import server
from macd_studio.macd_ui.settings import ServerSettings, read_settings
from tests import space_hub
from tests.opening import EXAMPLE
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path):
    """A gallery of two traces, with a file that is none of it."""
    place = tmp_path / "runs"
    place.mkdir()
    for name in ("repaired", "small"):
        shutil.copy(EXAMPLE.with_stem(name), place)
    shutil.copy(EXAMPLE.with_name("index.json"), place)
    (place / "notes.txt").write_text("private")
    return place


def python(hub, home, *words):
    """Runs a module in a process of its own, as the hub's client reads its address early."""
    kept = {n: v for n, v in os.environ.items() if n in ("PATH", "LANG")}
    env = kept | {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HOME": str(home),
                  "HF_TOKEN": space_hub.TOKEN, "HF_HUB_DISABLE_PROGRESS_BARS": "1"}  # fmt: skip
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True,
                          text=True, timeout=PATIENCE_S, check=False)  # fmt: skip


FETCH = """
from macd_studio.macd_ui.serving.server import with_gallery
from macd_studio.macd_ui.settings import ServerSettings
print(with_gallery(ServerSettings(gallery_dataset="owner/runs")).gallery)
"""


@pytest.mark.long
def test_a_gallery_is_committed_and_shown_by_the_next_start(folder, tmp_path):
    command = ("-m", "macd_ui.gallery.dataset", "owner/runs", str(folder))
    with space_hub.serving() as hub:
        hub.refuses = {"/commit/": 503}
        broken = python(hub, tmp_path, *command)
        assert broken.returncode == 2, broken.stderr
        assert "it goes on" in broken.stderr
        uploaded = [a for a in hub.asked if a.startswith("PUT /objects/")]
        assert len(uploaded) == 2
        hub.refuses = {}
        done = python(hub, tmp_path, *command)
        assert done.stdout == "2 runs in the dataset owner/runs\n", done.stderr
        assert hub.created[0]["visibility"] == "private"
        kept = {n for n in hub.files if not n.startswith(".")}
        assert kept == {"repaired.macd", "small.macd", "index.json"}
        assert [a for a in hub.asked if a.startswith("PUT /objects/")] == uploaded

        place = python(hub, tmp_path / "space", "-c", FETCH).stdout.strip()
        runs = Site([Path(place)]).refresh()
        assert {r.sha256 for r in runs} == {r.sha256 for r in Site([folder]).refresh()}
        assert all(r.title != r.clip for r in runs)  # index.json came with them
        fetched = sum(a == "GET repaired.macd" for a in hub.asked)
        again = python(hub, tmp_path / "space", "-c", FETCH).stdout.strip()
        assert again == place
        assert sum(a == "GET repaired.macd" for a in hub.asked) == fetched
    # the hub is away: what was fetched last is shown, and without that the start goes on
    assert python(hub, tmp_path / "space", "-c", FETCH).stdout.strip() == place
    bare = python(hub, tmp_path / "other", "-c", FETCH)
    assert bare.stdout.strip() == "None"
    assert "cannot be fetched" in bare.stderr


@pytest.mark.parametrize("name", ["", "runs", "../runs", "a/b/c", "owner/ru ns", "owner/\x1b[1m"])
def test_what_is_no_name_of_a_dataset_is_refused(name):
    with pytest.raises(OptionError, match="not the name of a dataset"):
        check_name(name, "dataset")


def test_only_readable_traces_are_pushed(folder, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: asked.append(1))
    (folder / "damaged.macd").write_bytes(b"no trace")
    with pytest.raises(OptionError, match=r"damaged\.macd cannot be read"):
        push("owner/runs", folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(OptionError, match="holds no traces"):
        push("owner/runs", tmp_path / "empty")
    assert not asked


def test_a_start_shows_the_datasets_traces(monkeypatch, tmp_path, capsys):
    assert read_settings([], {"MACD_GALLERY_DATASET": "a/b"}).gallery_dataset == "a/b"
    assert read_settings([], {}).gallery_dataset is None
    named = ServerSettings(gallery="mine", gallery_dataset="a/b")
    monkeypatch.setattr(dataset, "pull", lambda name: tmp_path / name)
    assert server.with_gallery(named).gallery == str(tmp_path / "a/b")
    assert server.with_gallery(ServerSettings(gallery="mine")).gallery == "mine"

    def away(name):
        raise dataset.DatasetError("the hub is away", "Start again")

    monkeypatch.setattr(dataset, "pull", away)
    assert server.with_gallery(named) == named
    assert "the hub is away" in capsys.readouterr().err
