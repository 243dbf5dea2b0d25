"""Paths and servers that are no backbone, though one is near: each is named with what to give."""

import json
import shutil

import pytest

from macd_studio.core import errors
from macd_studio.core.backbones import load_backbone
from macd_studio.core.backbones.generation import beams_told
from macd_studio.core.backbones.refused import TOKENIZERS
from macd_studio.core.backbones.remote.probe import OTHERS, choose_model
from macd_studio.core.system.shipped import shipped


@pytest.fixture
def model(tmp_path):
    """The embedded backbone as somebody's own folder."""
    return shutil.copytree(shipped("backbone"), tmp_path / "mine")


@pytest.mark.parametrize("inner", ["checkpoint-500", "snapshots/0a1b"])
def test_the_model_one_level_below_is_offered(model, tmp_path, inner):
    """As a trainer writes its checkpoints, and the hub its cache. What is offered loads."""
    outer = tmp_path / "outer"
    (outer / "refs").mkdir(parents=True)
    shutil.copytree(model, outer / inner)
    with pytest.raises(errors.BackboneNotFound, match="is no model but holds 1 model") as caught:
        load_backbone(str(outer))
    assert str(outer / inner) in caught.value.remedy
    assert load_backbone(str(outer / inner)).info.family


def test_llama_cpp_s_format_is_named(model, tmp_path):
    file = tmp_path / "model-Q4_K_M.gguf"
    file.write_bytes(b"GGUF")
    folder = tmp_path / "quantised"
    folder.mkdir()
    shutil.copy(file, folder)
    for given in (file, folder):
        with pytest.raises(errors.UnsupportedBackbone, match=r"llama\.cpp's format GGUF"):
            load_backbone(str(given))
    with pytest.raises(errors.BackboneNotFound, match="is a file"):
        load_backbone(str(model / "config.json"))


def test_pointers_of_git_lfs_are_named(model):
    (weights,) = model.glob("*.safetensors")
    oid = "0" * 64
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 123\n"
    weights.write_text(text)
    with pytest.raises(errors.BackboneCorrupt, match="pointer of Git LFS") as caught:
        load_backbone(str(model))
    assert "git lfs pull" in caught.value.remedy


def test_a_missing_tokenizer_is_named(model):
    for name in (*TOKENIZERS, "merges.txt"):
        (model / name).unlink(missing_ok=True)
    with pytest.raises(errors.MacdError, match="no tokenizer"):
        load_backbone(str(model))


def test_beams_of_the_model_are_told_and_lookups_change_nothing(model):
    file = model / "generation_config.json"
    held = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(held | {"num_beams": 3, "prompt_lookup_num_tokens": 10}))
    lm = load_backbone(str(model))
    assert any("asks for 3 beams" in note for note in lm.notes)
    assert beams_told(str(shipped("backbone")), "toyworld") == []


@pytest.mark.parametrize("owner", OTHERS)
def test_a_server_that_is_not_vllm_is_named_by_what_it_lists(owner):
    answer = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner}]}
    with pytest.raises(errors.RemoteError, match=f"the server is {OTHERS[owner]}, which gives"):
        choose_model(answer, "")
    answer["data"][0]["owned_by"] = "vllm"
    assert choose_model(answer, "")[0] == "m"


def test_a_folder_of_nothing_is_told(tmp_path):
    with pytest.raises(errors.BackboneCorrupt, match=r"holds no config\.json"):
        load_backbone(str(tmp_path))


def test_a_server_is_not_loaded():
    with pytest.raises(errors.BackboneNotFound, match="is a server") as caught:
        load_backbone("vllm:http://127.0.0.1:8000")
    assert "open_backbone" in caught.value.remedy
