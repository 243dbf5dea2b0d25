"""Weights that are quantised, that were quantised before, or that lie off the device."""

import json

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForMultimodalLM

import macd_studio as macd
from macd_studio.core.backbones import load, weights
from macd_studio.core.backbones.catalogue import largest_within
from macd_studio.core.backbones.load import load_backbone
from macd_studio.core.backbones.weights import (
    bytes_of,
    bytes_of_config,
    bytes_of_files,
    check_memory,
    held_bytes,
    needed_gb,
)
from macd_studio.core.cli.main import main
from macd_studio.core.cli.reproduce import command, snippet
from macd_studio.core.errors import OptionError, OutOfMemory, UnsupportedBackbone
from macd_studio.core.report.summary import as_text
from macd_studio.core.system.shipped import shipped
from macd_studio.toyworld.clips import drawn_clip
from tests.universal_models import parts

QUESTION = "Is there a cup in the video?"
installed = pytest.mark.skipif(
    weights.importlib.util.find_spec("bitsandbytes") is None
    or weights.importlib.util.find_spec("accelerate") is None,
    reason="bitsandbytes and accelerate are not installed; requirements-dev.txt names them",
)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def models():
    """The embedded model by how its weights are held; each is loaded once."""
    kept = {}

    def get(how):
        if how not in kept:
            kept[how] = load_backbone("toyworld", "cpu", weights=how)
        return kept[how]

    return get


@pytest.fixture(scope="module")
def toy_clip(toy_spec):
    return drawn_clip(toy_spec, "toy.mp4", "0" * 64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model without code of its own."""
    path = tmp_path_factory.mktemp("model")
    for part in parts("llava_onevision"):
        part.save_pretrained(path)
    return str(path)


def loss(lm, encoded, strengths):
    """The question's loss with the left and the right half of every frame faded."""
    left = torch.zeros(encoded.video.shape[-1])
    left[: len(left) // 2] = 1
    faded = encoded.video * (1 - strengths[0] * left - strengths[1] * (1 - left))
    ids = encoded.input_ids[0][encoded.query]
    logits = lm.query_logits(encoded, faded).log_softmax(-1)
    return -logits[range(len(ids)), ids].mean()


def gradient(lm, encoded):
    at = torch.tensor([0.5, 0.5], requires_grad=True)
    (slope,) = torch.autograd.grad(loss(lm, encoded, at), at)
    return slope


@torch.no_grad()
def differences(lm, encoded, step):
    found = []
    for k in range(2):
        ends = []
        for sign in (1, -1):
            at = torch.tensor([0.5, 0.5])
            at[k] += sign * step
            ends.append(loss(lm, encoded, at))
        found.append((ends[0] - ends[1]) / (2 * step))
    return torch.stack(found)


@installed
@pytest.mark.long
def test_the_gradient_through_nf4_is_the_central_differences(models, toy_clip):
    lm = models("nf4")
    encoded = lm.encode(toy_clip, QUESTION)
    lm.prefill(encoded, encoded.video)  # what ran before without gradients changes nothing
    slope, found = gradient(lm, encoded), differences(lm, encoded, 0.003)
    assert (slope - found).abs().max() <= 0.01 * slope.abs().max()


@pytest.mark.long
@installed
def test_the_gradient_through_int8_is_that_of_the_unquantised_model(models, toy_clip):
    """int8 rounds what goes into a layer, too: its loss is a staircase, its gradient the ramp.

    Only coarse differences see the ramp; there the twin's are its measure.
    """
    lm, twin = models("int8"), models("as-is")
    encoded = lm.encode(toy_clip, "Which way does the dog move?")
    slope, exact = gradient(lm, encoded), gradient(twin, encoded)
    assert (slope - exact).abs().max() <= 0.05 * exact.abs().max()
    found, coarse = differences(lm, encoded, 0.1), differences(twin, encoded, 0.1)
    assert (found - coarse).abs().max() <= 0.15 * coarse.abs().max()


@installed
@pytest.mark.parametrize("how", ["nf4", "int8"])
def test_levels_and_tokens_are_those_of_the_unquantised_twin(
    how, models, toy_clip, toy_detector, tmp_path
):
    run = {"detector": toy_detector, "decode": {"max_tokens": 4}}
    ours = macd.trace(toy_clip, QUESTION, backbone=models(how), **run)
    theirs = macd.trace(toy_clip, QUESTION, backbone=models("as-is"), **run)
    assert ours.counterfactual.level.tolist() == theirs.counterfactual.level.tolist()
    for name in ("baseline", "macd"):
        tokens = [[s.token for s in t.answers[name].tokens] for t in (ours, theirs)]
        assert tokens[0] == tokens[1]
    again = macd.load(macd.save(ours, tmp_path / "run.macd"))
    assert again.backbone.quantised == how
    assert again.backbone.held_bytes == bytes_of(models(how).model)
    assert f"--weights {how}" in command(again)
    assert f"load_backbone('toyworld', weights='{how}')" in snippet(again)
    assert f"Device     cpu, float32, weights packed as {how}\n" in as_text(again)
    assert "Device     cpu, float32\n" in as_text(theirs)
    assert not theirs.backbone.quantised
    assert "--weights" not in command(theirs)


@installed
@pytest.mark.parametrize("how", ["nf4", "int8"])
def test_the_bytes_are_the_true_ones(how, models):
    lm, twin = models(how), models("as-is")
    assert lm.info.parameters == twin.info.parameters
    held = held_bytes(twin.model, 4, how)
    buffers = sum(b.numel() * b.element_size() for b in lm.model.buffers())
    assert held.packed + held.plain + buffers == lm.info.weight_bytes
    assert lm.info.weight_bytes < 0.5 * twin.info.weight_bytes
    config = lm.model.config
    del config.quantization_config
    assert bytes_of_config(config, 4, how) == held.total
    found = bytes_of_files(shipped("backbone"), 4)
    assert found == held_bytes(twin.model, 4, "as-is").total == twin.info.weight_bytes
    assert bytes_of_files(shipped("backbone"), 2) == found / 2


@installed
def test_what_was_quantised_before_is_read_as_it_is(folder, tmp_path):
    lm = load_backbone(folder, "cpu", weights="nf4")
    assert {c.name: c.holds for c in lm.contract.checks}["gradient"]
    lm.model.save_pretrained(tmp_path)
    lm.processor.save_pretrained(tmp_path)
    again = load_backbone(str(tmp_path), "cpu")
    assert again.info.quantised == "nf4"
    assert again.info.parameters == lm.info.parameters
    packed = {type(m).__name__ for m in again.model.modules()}
    assert "Linear4bit" in packed
    ids = torch.tensor([[5, 6, 7]])
    a, b = (z.model.get_input_embeddings()(ids) for z in (lm, again))
    assert torch.equal(a, b)
    with pytest.raises(UnsupportedBackbone, match=r"quantised already, by bitsandbytes.*--weights"):
        load_backbone(str(tmp_path), "cpu", weights="int8")


@installed
@pytest.mark.parametrize("name", ["toyworld", "folder"])
def test_weights_off_the_device_give_the_same_numbers(name, folder, monkeypatch, toy_clip):
    source = folder if name == "folder" else name
    whole = load_backbone(source, "cpu")
    most = bytes_of(whole.model)
    monkeypatch.setattr(weights, "_room", lambda where: {"cpu": int(0.8 * most)})
    lm = load_backbone(source, "cpu", offload=True)
    assert lm.info.offloaded == "cpu, disk"
    away = sum(p.numel() for p in lm.model.parameters() if p.device.type == "meta")
    assert 0.1 * lm.info.parameters < away < 0.9 * lm.info.parameters
    encoded = lm.encode(toy_clip, QUESTION)
    one, two = lm.prefill(encoded, encoded.video), whole.prefill(encoded, encoded.video)
    assert torch.allclose(one.logits, two.logits, atol=1e-5)
    assert torch.allclose(gradient(lm, encoded), gradient(whole, encoded), rtol=1e-4, atol=1e-7)
    # nothing of the way back is left in memory
    assert away == sum(p.numel() for p in lm.model.parameters() if p.device.type == "meta")


@pytest.mark.parametrize(("places", "found"), [
    ({"a": "disk", "b": "disk"}, "cpu"), ({"a": "disk", "b": 1, "c": "cpu"}, "cuda:1"),
    ({"a": "cpu"}, "cpu"), ({"": 0}, "meta"), ({}, "meta"),
])  # fmt: skip
def test_a_model_computes_on_its_device_wherever_its_first_weights_are(places, found):
    class Model:
        device = torch.device("meta")
        hf_device_map = places

    assert weights.device_of_model(Model()) == torch.device(found)


def test_the_numbers_that_a_model_computes_in_can_be_chosen():
    lm = load_backbone("toyworld", "cpu", dtype="bfloat16")
    assert lm.info.dtype == "bfloat16"
    assert {p.dtype for p in lm.model.parameters()} == {torch.bfloat16}


# what is refused, and why


def test_both_at_once_are_refused_before_torch(capsys):
    assert main(["trace", "x.mp4", "Is it?", "--weights", "nf4", "--offload"]) == 2
    assert "Give packed weights or offloading, not both" in capsys.readouterr().err
    with pytest.raises(OptionError, match="weights is 'nf5'"):
        macd.trace("x.mp4", "Is it?", weights="nf5")


@pytest.mark.parametrize(("how", "package"), [
    ({"weights": "int8"}, "bitsandbytes"), ({"offload": True}, "accelerate"),
])  # fmt: skip
def test_a_missing_package_is_named(how, package, monkeypatch):
    monkeypatch.setattr(weights.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedBackbone, match=rf"needs the package {package}.*\[quantised\]"):
        load_backbone("toyworld", "cpu", **how)


@pytest.mark.parametrize(("about", "named"), [
    ({"quant_method": "gptq", "bits": 4}, "quantised by gptq, which cannot be read here"),
    ({"quant_method": "nothing-known"}, "quantised by nothing-known, which cannot be read here"),
])  # fmt: skip
def test_a_method_that_is_not_installed_is_named_before_weights_are_read(about, named, tmp_path):
    config = json.loads((shipped("backbone") / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": about}))
    with pytest.raises(UnsupportedBackbone, match=named):
        load_backbone(str(tmp_path), "cpu")


def test_what_transformers_cannot_read_after_all_is_named(monkeypatch, tmp_path):
    class Quantizer:
        def validate_environment(self, **_):
            return None

    for file in shipped("backbone").iterdir():
        (tmp_path / file.name).symlink_to(file)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").unlink()
    about = {"quantization_config": {"quant_method": "hqq"}}
    (tmp_path / "config.json").write_text(json.dumps(config | about))
    monkeypatch.setattr(weights.AutoHfQuantizer, "from_config", lambda *_, **__: Quantizer())
    with pytest.raises(UnsupportedBackbone, match="quantised by hqq, which cannot be read here"):
        load_backbone(str(tmp_path), "cpu")


def test_weights_without_gradients_are_used_without_ascent(models, toy_clip, toy_detector):
    class Quantizer:
        is_trainable = False

    lm = models("as-is")
    lm.model.hf_quantizer = Quantizer()
    try:
        blind = load.adapt(lm.model, lm.processor, lm.info)
    finally:
        del lm.model.hf_quantizer
    assert "gradient" in lm.capabilities - blind.capabilities
    trace = macd.trace(toy_clip, QUESTION, backbone=blind, detector=toy_detector)
    assert "cannot be differentiated" in trace.skipped["macd"]
    assert "macd-measured" in trace.answers


def test_memory_is_checked_by_true_bytes(monkeypatch):
    seven = "Qwen/Qwen2.5-VL-7B-Instruct"
    device, half = torch.device("cpu"), torch.bfloat16
    packed, whole = (needed_gb(seven, None, half, how) for how in ("nf4", "as-is"))
    assert packed < 8 < 17 < whole < 18
    assert packed < needed_gb(seven, None, torch.float32, "nf4") < 2 * packed
    assert needed_gb("somebody/unknown", None, half, "as-is") is None
    own = needed_gb(str(shipped("backbone")), None, torch.float32, "as-is")
    size = (shipped("backbone") / "model.safetensors").stat().st_size
    # float16 on disk; a fifth for what a run adds
    assert own == pytest.approx(1.2 * 2 * size / 1e9, rel=0.01)
    config = AutoConfig.from_pretrained(shipped("backbone"))
    unlisted = needed_gb("somebody/unknown", config, half, "nf4")
    assert unlisted == 1.2 * weights.bytes_of_config(config, 2, "nf4") / 1e9
    with torch.device("meta"):
        model = AutoModelForMultimodalLM.from_config(config)
    largest = max(m.weight.numel() for m in weights.quantisable(model).values())
    # a pass of nf4 holds a matrix unpacked, one of int8 none
    assert weights.held_bytes(model, 2, "nf4").largest == 2 * largest
    assert weights.held_bytes(model, 2, "int8").largest == 0
    monkeypatch.setattr(weights, "free_gb", lambda where: 6.0)
    with pytest.raises(OutOfMemory, match=r"needs about 17.*--weights nf4.*choose .*VL") as error:
        check_memory("big", 17.0, device, half)
    smaller = [largest_within(free).hub_id for free in (6.0, 3.0)]
    assert smaller[0] != smaller[1]
    assert error.value.remedy.endswith(smaller[0])
    with pytest.raises(OutOfMemory) as error:  # twice as large there
        check_memory("big", 17.0, device, torch.float32)
    assert error.value.remedy.endswith(smaller[1])
    check_memory("small", 5.9, device, half)
    monkeypatch.setattr(weights, "free_gb", lambda where: None)
    check_memory("big", 17.0, device, half)


def test_packed_numbers_are_counted_as_they_lie_in_the_file(tmp_path):
    """Numbers with a fraction take what the run's dtype does."""
    mixed = {"a": torch.zeros(3, 5, dtype=torch.float16), "b": torch.zeros(7, dtype=torch.uint8),
             "c": torch.zeros(2, dtype=torch.int64)}  # fmt: skip
    save_file(mixed, tmp_path / "model.safetensors")
    assert weights.bytes_of_files(tmp_path, 4) == 15 * 4 + 7 + 2 * 8
    assert weights.bytes_of_files(tmp_path / "none", 4) is None


def test_offloading_leaves_room_for_what_a_run_adds(monkeypatch):
    monkeypatch.setattr(weights, "free_gb", lambda where: {"cuda": 10.0, "cpu": 20.0}[where.type])
    assert weights._room(torch.device("cuda", 1)) == {1: 7_000_000_000, "cpu": 14_000_000_000}
    assert weights._room(torch.device("cpu")) == {"cpu": 14_000_000_000}
