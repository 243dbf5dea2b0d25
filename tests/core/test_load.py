"""Loading backbones: what is missing, damaged, too large or of another kind is told first."""

import importlib.util
import os
import shutil
import subprocess
import sys
import time

import pytest
import torch
from huggingface_hub.errors import GatedRepoError
from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES

from macd_studio.core.backbones import load, load_backbone, random_weights, weights
from macd_studio.core.backbones.catalogue import CATALOGUE, largest_within
from macd_studio.core.backbones.dimensions import DIMENSIONS
from macd_studio.core.backbones.load import FAMILIES, pinned
from macd_studio.core.errors import (
    BackboneCorrupt,
    BackboneNotFound,
    OutOfMemory,
    UnsupportedBackbone,
)
from macd_studio.core.planning.plan import plan
from macd_studio.core.system.shipped import shipped
from tests import hub
from tests.families import UNLISTED


@pytest.fixture
def folder(tmp_path):
    """A copy of the embedded backbone, as a folder of the user's own."""
    return shutil.copytree(shipped("backbone"), tmp_path / "mine")


def test_truncated_weights_are_told(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    with pytest.raises(BackboneCorrupt, match="not downloaded whole"):
        load_backbone(str(folder), "cpu")


def test_an_unreachable_hub_is_told():
    with pytest.raises(BackboneNotFound, match="toyworld"):
        load_backbone("nobody/no-such-model", "cpu")


def test_a_gated_model_is_told(monkeypatch):
    def refuse(*_, **__):
        import httpx

        response = httpx.Response(403, request=httpx.Request("GET", "https://x"))
        raise GatedRepoError("gated", response=response)

    monkeypatch.setattr(load.AutoConfig, "from_pretrained", refuse)
    with pytest.raises(BackboneNotFound, match="licence"):
        load_backbone("somebody/gated", "cpu")


def test_memory_is_checked_before_loading(folder, monkeypatch):
    monkeypatch.setattr(weights, "free_gb", lambda where: 0.001)
    with pytest.raises(OutOfMemory, match="toyworld"):
        load_backbone(str(folder), "cpu")


def test_the_catalogue_lists_families_that_load():
    for listed in CATALOGUE:
        assert listed.family in MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES
        assert listed.licence
        assert f"{listed.memory_gb:g} GB" in listed.label
        assert ("newest commit" in listed.label) == (not listed.revision)
    own = {m.family for m in CATALOGUE if m.family in FAMILIES}
    assert own == set(FAMILIES) - UNLISTED
    assert {m.family for m in CATALOGUE} - own == {
        "qwen3_5", "gemma4", "llava_onevision", "video_llama_3", "perception_lm"
    }  # fmt: skip
    assert largest_within(5).hub_id == "Qwen/Qwen2-VL-2B-Instruct"
    assert largest_within(0.1) is None


@pytest.mark.real
@pytest.mark.parametrize("name", ["Qwen2.5-VL-3B-Instruct", "Qwen2.5-VL-7B-Instruct",
                                  "Qwen3-VL-2B-Instruct"])  # fmt: skip
def test_true_configs_are_of_known_families_and_listed_sizes(real, name):
    import transformers

    config = transformers.AutoConfig.from_pretrained(real / "configs" / name)
    model_class = getattr(transformers, FAMILIES[config.model_type][0])
    with torch.device("meta"):
        model = model_class(config)
    billions = sum(p.numel() for p in {id(p): p for p in model.parameters()}.values()) / 1e9
    listed = next(m for m in CATALOGUE if m.hub_id.endswith(name))
    assert listed.billions == pytest.approx(billions, abs=0.06)


def python(code, home, **env):
    """Runs code in a process of its own: the hub's client reads its address when imported."""
    where = {"HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | where | env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


FROM_HUB = r"""
import sys
from macd_studio.core.backbones import load_backbone
from macd_studio.core.errors import MacdError
from macd_studio.core.types import Progress
class Noted(Progress):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        sys.stdout.write(f"{name} {value}\n")
try:
    lm = load_backbone(sys.argv[1] if len(sys.argv) > 1 else "somebody/model", "cpu", Noted())
    print("loaded", lm.info.revision, lm.info.parameters)
except MacdError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.long
def test_a_hub_model_is_downloaded_told_and_kept(tmp_path):
    with hub.serving(shipped("backbone"), bytes_per_s=2e7) as address:
        first = python(FROM_HUB, tmp_path, HF_ENDPOINT=address).stdout
    lines = first.splitlines()
    assert f"loaded {hub.REVISION}" in lines[-1], first
    begins = [n for n, line in enumerate(lines) if line.startswith("message ") and line.split()[1:]]
    told = [lines[n].split()[1] for n in begins]
    assert [*dict.fromkeys(told)] == ["Looking", "Downloading", "Reading", "Checking"]
    fetched = [float(s.split()[1]) for s in lines[begins[1] + 1 : begins[2] - 1]]
    assert len(fetched) > 3
    assert fetched == sorted(fetched)
    assert fetched[-1] == pytest.approx(1.0)
    read = [float(s.split()[1]) for s in lines[begins[2] + 1 : begins[3] - 1]]
    assert read[-1] == pytest.approx(1.0)
    assert not list(tmp_path.rglob("*.onnx"))
    # the hub is gone now; what was downloaded is enough
    again = python(FROM_HUB, tmp_path, HF_ENDPOINT=address).stdout
    assert f"loaded {hub.REVISION}" in again, again


@pytest.mark.long
def test_what_a_hub_refuses_is_told(tmp_path):
    with hub.serving(shipped("backbone"), gated=True) as address:
        said = python(FROM_HUB, tmp_path, HF_ENDPOINT=address).stdout
    assert "BackboneNotFound" in said
    assert "licence" in said


def test_listed_models_are_pinned():
    for model in CATALOGUE:
        assert pinned(model.hub_id) == (model.hub_id, model.revision)
        assert pinned(f"{model.hub_id}@main") == (model.hub_id, "main")
        if model.revision:
            assert len(model.revision) == 40
            assert int(model.revision, 16)
    assert len([m for m in CATALOGUE if m.revision]) == 8
    # what is offered without being asked for is of a known commit
    assert largest_within(1000).revision


def test_a_missing_package_of_a_vision_tower_is_told(tmp_path, monkeypatch):
    """Before weights are read."""
    kept = DIMENSIONS["facebook/Perception-LM-1B"]
    words = random_weights._tokenizer(kept["family"])
    random_weights._config(kept, words.get_vocab()).save_pretrained(tmp_path)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "timm" else find(n))
    with pytest.raises(UnsupportedBackbone, match="needs the package timm") as error:
        load_backbone(str(tmp_path), "cpu")
    assert error.value.remedy == "Install it with: pip install timm"
    with pytest.raises(UnsupportedBackbone, match="needs the package timm"):
        plan("facebook/Perception-LM-1B")


@pytest.mark.long
def test_a_download_that_breaks_off_is_told_and_goes_on(tmp_path):
    with hub.serving(shipped("backbone"), breaks_at=4_000_000) as address:
        said = python(FROM_HUB, tmp_path, HF_ENDPOINT=address)
        assert "BackboneNotFound" in said.stdout, said.stderr
        assert "broke off" in said.stdout


@pytest.mark.long
def test_a_download_that_was_killed_is_no_model_and_goes_on(tmp_path):
    sent = []
    with hub.serving(shipped("backbone"), bytes_per_s=3e6, sent=sent) as address:
        where = {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_ENDPOINT": address}
        killed = subprocess.Popen(
            [sys.executable, "-c", FROM_HUB], env=os.environ | where | {"HF_HUB_OFFLINE": "0"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while not any(at > 3_000_000 for name, at, _ in sent if name == "model.safetensors"):
            assert killed.poll() is None
            time.sleep(0.02)
        killed.kill()
        killed.wait()
    gone = python(FROM_HUB, tmp_path, HF_ENDPOINT=address, HF_HUB_OFFLINE="1").stdout
    assert "BackboneNotFound" in gone
    sent.clear()
    with hub.serving(shipped("backbone"), sent=sent) as address:
        assert "loaded" in python(FROM_HUB, tmp_path, HF_ENDPOINT=address).stdout
    assert min(at for name, at, _ in sent if name == "model.safetensors") > 0


@pytest.mark.long
@pytest.mark.parametrize("bytes_kept", [0, 5_000_000])
def test_a_mirror_that_has_a_part_of_the_weights_gives_no_model(tmp_path, bytes_kept):
    mirror = shutil.copytree(shipped("backbone"), tmp_path / "mirror")
    weights_file = mirror / "model.safetensors"
    weights_file.write_bytes(weights_file.read_bytes()[:bytes_kept])
    with hub.serving(mirror) as address:
        said = python(FROM_HUB, tmp_path / "home", HF_ENDPOINT=address).stdout
    assert "BackboneCorrupt" in said, said
    assert "were not downloaded whole" in said


@pytest.mark.long
def test_a_model_on_this_disk_survives_a_failing_hub(tmp_path):
    with hub.serving(shipped("backbone")) as address:
        python(FROM_HUB, tmp_path, HF_ENDPOINT=address)
    with hub.serving(shipped("backbone"), failing=True) as address:
        again = python(FROM_HUB, tmp_path, HF_ENDPOINT=address).stdout
        fresh = python(FROM_HUB, tmp_path / "other", HF_ENDPOINT=address).stdout
    assert f"loaded {hub.REVISION}" in again, again
    assert "BackboneNotFound" in fresh


@pytest.mark.parametrize("name", ["toyworld@main", "FOLDER@main", "no-such-folder", "./nowhere"])
def test_names_that_are_no_model_are_told_at_once(folder, name):
    with pytest.raises(BackboneNotFound, match="there is no folder"):
        load_backbone(name.replace("FOLDER", str(folder)), "cpu")
