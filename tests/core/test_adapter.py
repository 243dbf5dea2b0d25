"""Adapters beside weights: applied and recorded where peft is installed, else refused."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import macd_studio as macd
from macd_studio.core.backbones import load_backbone
from macd_studio.core.checkpoint import adapter
from macd_studio.core.errors import BackboneCorrupt, DetectorError
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.report.summary import as_text
from tests import detectors, families
from tests.fakes import clip

WHERE = "model.language_model.layers.1.self_attn.q_proj"


@pytest.fixture
def without_peft(monkeypatch):
    """As where peft is not installed."""
    found = importlib.util.find_spec
    hidden = lambda name, *more: None if name == "peft" else found(name, *more)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", hidden)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A whole model with a LoRA of one layer beside it, as peft writes one."""
    lm = families.tiny("qwen2_5_vl")
    path = tmp_path / "tuned"
    lm.model.save_pretrained(path)
    lm.processor.save_pretrained(path)
    about = {"peft_type": "LORA", "base_model_name_or_path": "org/base", "r": 2, "lora_alpha": 6,
             "target_modules": ".*layers.1.self_attn.q_proj", "task_type": "CAUSAL_LM"}  # fmt: skip
    (path / adapter.CONFIG).write_text(json.dumps(about))
    out, into = lm.model.get_submodule(WHERE).weight.shape
    torch.manual_seed(0)
    save_file(
        {f"base_model.model.{WHERE}.lora_A.weight": torch.randn(2, into),
         f"base_model.model.{WHERE}.lora_B.weight": torch.randn(out, 2)},
        path / adapter.WEIGHTS,
    )  # fmt: skip
    return path


def refused(folder) -> str:
    with pytest.raises(BackboneCorrupt) as error:
        load_backbone(str(folder), "cpu")
    return str(error.value)


def test_an_adapter_is_refused_without_peft_with_the_line_that_installs_it(folder, without_peft):
    said = refused(folder)
    assert "'org/base'" in said
    assert "pip install peft" in said


@pytest.mark.parametrize(("file", "old", "new"), [
    (adapter.CONFIG, b"CAUSAL_LM", b"FEATURE_X"), (adapter.WEIGHTS, b"", b" "),
])  # fmt: skip
def test_another_adapter_has_another_hash(folder, file, old, new, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")

    def hash_of(path):
        return adapter.find_adapter(path, "tuned", BackboneCorrupt).described("tuned").sha256

    assert hash_of(folder) == hash_of(other)
    content = (other / file).read_bytes()
    (other / file).write_bytes(content.replace(old, new, 1) if old else content + new)
    assert hash_of(folder) != hash_of(other)


@pytest.mark.parametrize("config", [True, False])
def test_an_adapter_alone_names_its_base(folder, config):
    (folder / "model.safetensors").unlink()
    if not config:
        (folder / "config.json").unlink()
    assert "an adapter (LORA) of 'org/base' alone" in refused(folder)


def test_a_damaged_or_pickled_adapter_is_refused(folder, monkeypatch):
    monkeypatch.setattr(adapter.importlib.util, "find_spec", lambda name: True)
    (folder / adapter.WEIGHTS).rename(folder / adapter.PICKLED)
    assert "is pickled" in refused(folder)
    (folder / adapter.PICKLED).unlink()
    assert "has no weights" in refused(folder)
    (folder / adapter.CONFIG).write_text("[1]")
    assert "is damaged" in refused(folder)


def test_a_detector_with_an_adapter_is_refused_likewise(tmp_path, without_peft):
    for part in detectors.rt_detr():
        part.save_pretrained(tmp_path)
    (tmp_path / adapter.CONFIG).write_text('{"peft_type": "LORA"}')
    with pytest.raises(DetectorError, match="pip install peft"):
        load_detector(str(tmp_path))


def test_an_adapter_is_added_to_the_weights_and_recorded(folder, tmp_path):
    plain = shutil.copytree(folder, tmp_path / "plain")
    for file in adapter.FILES:
        (plain / file).unlink(missing_ok=True)
    base, tuned = (load_backbone(str(path), "cpu") for path in (plain, folder))
    before, after = base.model.state_dict(), tuned.model.state_dict()
    assert before.keys() == after.keys()
    a, b = load_file(folder / adapter.WEIGHTS).values()
    wanted = before[f"{WHERE}.weight"] + 6 / 2 * b @ a
    assert torch.allclose(after.pop(f"{WHERE}.weight"), wanted, atol=1e-4)
    assert all(torch.equal(before[key], value) for key, value in after.items())
    assert tuned.info.weights_hash == base.info.weights_hash
    trace = macd.trace(
        clip(frames=2, size=56), question="Is it?", backbone=tuned, detector="grid",
        video={"frames": 2}, decode={"max_tokens": 1}, ascent={"steps": 1},
    )  # fmt: skip
    macd.save(trace, tmp_path / "t.macd")
    again = macd.load(tmp_path / "t.macd")
    about = again.to_dict()["backbone"]["adapter"]
    assert about == {"name": "tuned", "kind": "LORA", "sha256": tuned.info.adapter.sha256}
    assert f"adapter tuned (LORA, {about['sha256'][:12]})" in as_text(again)


@pytest.mark.parametrize("fault", ["drop", "rename", "resize", "prefix", "target"])
def test_an_adapter_that_does_not_fit_is_refused(folder, fault):
    tensors = load_file(folder / adapter.WEIGHTS)
    first = sorted(tensors)[0]
    if fault == "drop":
        del tensors[first]
    elif fault == "rename":
        tensors[first.replace("q_proj", "v_proj")] = tensors.pop(first)
    elif fault == "resize":
        tensors[first] = torch.zeros(2, 3)
    elif fault == "prefix":
        tensors = {f"module.{key}": value for key, value in tensors.items()}
    save_file(tensors, folder / adapter.WEIGHTS)
    if fault == "target":
        about = json.loads((folder / adapter.CONFIG).read_text())
        (folder / adapter.CONFIG).write_text(json.dumps(about | {"target_modules": ["none"]}))
    assert "the adapter of" in refused(folder)


def test_an_adapter_is_applied_over_packed_weights(folder):
    pytest.importorskip("bitsandbytes")
    lm = load_backbone(str(folder), "cpu", weights="int8")
    assert lm.info.adapter.kind == "LORA"
    assert any("lora_A" in key for key in lm.model.state_dict())
