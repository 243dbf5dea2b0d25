"""Weights that are not the whole model are refused by every loader; hashes tell weights apart."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import macd_studio as macd
from macd_studio.core.backbones import load_backbone
from macd_studio.core.checkpoint import files
from macd_studio.core.checkpoint.files import weight_files, weights_hash
from macd_studio.core.errors import BackboneCorrupt, DetectorError, MacdError
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.objects.segment import load_segmenter
from tests import detectors, families
from tests.fakes import clip
from tests.universal_models import parts

FILE = "model.safetensors"
DRAWS = 2
"""Tensors of each loader that each fault is tried on."""
long = pytest.mark.long


def _native() -> tuple[Any, Any]:
    lm = families.tiny("qwen2_5_vl")
    return lm.model, lm.processor


@dataclass(frozen=True)
class Loader:
    """A way to load a model. derived: an end of the names of tensors that may be missing."""

    load: Callable[[str], Any]
    make: Callable[[], tuple[Any, Any]]
    broken: type[MacdError]
    derived: str = "num_batches_tracked"


def _backbone(folder: str) -> Any:
    return load_backbone(folder, "cpu")


LOADERS = {
    "backbone with code of its own": Loader(_backbone, _native, BackboneCorrupt),
    "backbone without": Loader(_backbone, lambda: parts("llava_onevision"), BackboneCorrupt),
    "detector of classes": Loader(load_detector, detectors.rt_detr, DetectorError),
    "detector of words": Loader(load_detector, detectors.owlv2, DetectorError),
    "segmenter": Loader(load_segmenter, detectors.sam2, DetectorError),
}


QUICK = ("backbone with code of its own", "detector of classes")


@pytest.fixture(
    scope="module", params=[n if n in QUICK else pytest.param(n, marks=long) for n in LOADERS]
)
def whole(request, tmp_path_factory):
    """A loader and a folder that it loads."""
    loader = LOADERS[request.param]
    path = tmp_path_factory.mktemp("whole")
    for part in loader.make():
        part.save_pretrained(path)
    return loader, path


def _copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / "copy"))


def _change(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / FILE)
    change(tensors)
    save_file(tensors, folder / FILE, {"format": "pt"})


def _drop(tensors, key):
    del tensors[key]


def _rename(tensors, key):
    tensors[f"{key}_old"] = tensors.pop(key)


def _resize(tensors, key):
    tensors[key] = torch.cat([tensors[key].reshape(-1), torch.zeros(1).to(tensors[key])])


def _prefix(prefix):
    def change(tensors, _):
        for key in [*tensors]:
            tensors[prefix + key] = tensors.pop(key)

    return change


FAULTS = {"drop": _drop, "rename": _rename, "resize": _resize}
PREFIXES = ["module.", *(pytest.param(p, marks=long) for p in
                         ("base_model.model.", "_orig_mod.", "student.", "a.b.c."))]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_no_loader_runs_on_weights_of_which_one_is_not_there(whole, fault, tmp_path):
    loader, folder = whole
    keys = [k for k in sorted(load_file(folder / FILE)) if not k.endswith(loader.derived)]
    for i, key in enumerate(random.Random(0).sample(keys, DRAWS)):
        copy = _copy(folder, tmp_path / str(i))
        _change(copy, lambda tensors, key=key: FAULTS[fault](tensors, key))
        with pytest.raises(loader.broken, match="would be drawn at random") as error:
            loader.load(str(copy))
        assert ("another shape" if fault == "resize" else "1 of ") in str(error.value)
        shutil.rmtree(copy)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_no_loader_runs_on_names_with_a_prefix(whole, prefix, tmp_path):
    loader, folder = whole
    copy = _copy(folder, tmp_path)
    _change(copy, lambda tensors: _prefix(prefix)(tensors, None))
    with pytest.raises(loader.broken, match="would be drawn at random") as error:
        loader.load(str(copy))
    assert prefix in error.value.remedy or "prefix" in error.value.remedy


def test_pickled_weights_are_refused_by_every_loader(whole, tmp_path):
    loader, folder = whole
    copy = _copy(folder, tmp_path)
    torch.save(load_file(copy / FILE), copy / "pytorch_model.bin")
    (copy / FILE).unlink()
    with pytest.raises(loader.broken, match="pickled"):
        loader.load(str(copy))


def test_what_the_class_has_no_place_for_is_a_note(whole, tmp_path):
    loader, folder = whole
    copy = _copy(folder, tmp_path)
    _change(copy, lambda tensors: tensors.update({"extra.head.weight": torch.zeros(2)}))
    notes = loader.load(str(copy)).notes
    assert [n for n in notes if "1 tensor" in n and "extra.head.weight" in n]
    assert not loader.load(str(folder)).notes


@long
def test_what_the_class_derives_may_be_missing(tmp_path):
    """Counts of a normalisation, and a scale that follows from the configuration."""
    model, processor = detectors.d_fine()
    for part in (model, processor):
        part.save_pretrained(tmp_path)
    derived = ("num_batches_tracked", "num_points_scale")

    def change(tensors):
        gone = [key for key in tensors if key.endswith(derived)]
        assert {key.rpartition(".")[2] for key in gone} == set(derived)
        for key in gone:
            del tensors[key]

    _change(tmp_path, change)
    found = load_detector(str(tmp_path)).model.state_dict()
    for key, value in model.state_dict().items():
        assert key.endswith("num_batches_tracked") or torch.equal(found[key], value), key
    # what is trained is missed although a class begins with it too, always the same
    for end in ("running_mean", "running_var"):
        copy = _copy(tmp_path, tmp_path / end)
        _change(copy, lambda t, end=end: t.pop(next(k for k in t if k.endswith(end))))
        with pytest.raises(DetectorError, match="1 of "):
            load_detector(str(copy))


def test_tied_weights_may_be_missing_and_untied_may_not(tmp_path):
    for part in parts("llava_onevision"):
        part.save_pretrained(tmp_path)
    _change(tmp_path, lambda t: t.pop(next(k for k in t if k.endswith("lm_head.weight"))))
    with pytest.raises(BackboneCorrupt, match=r"1 of .* missing \(lm_head.weight\)") as error:
        load_backbone(str(tmp_path), "cpu")
    assert "head was left out" in error.value.remedy
    about = json.loads((tmp_path / "config.json").read_text())
    about["tie_word_embeddings"] = about["text_config"]["tie_word_embeddings"] = True
    (tmp_path / "config.json").write_text(json.dumps(about))
    lm = load_backbone(str(tmp_path), "cpu")
    assert torch.equal(lm.model.lm_head.weight, lm.model.get_input_embeddings().weight)


@long
@pytest.mark.parametrize(
    ("key", "about"),
    [
        ("{}.lora_A.weight", "not merged"),
        ("{}.base_layer.weight", "not merged"),
        ("{}.weight_scale_inv", "quantised"),
        ("{}.weight.absmax", "quantised"),
    ],
)
def test_tensors_without_which_others_mean_something_else_are_no_note(key, about, tmp_path):
    for part in parts("llava_onevision"):
        part.save_pretrained(tmp_path)

    def change(tensors):
        layer = next(k for k in sorted(tensors) if k.endswith("q_proj.weight"))
        tensors[key.format(layer.removesuffix(".weight"))] = torch.zeros(2, 2)

    _change(tmp_path, change)
    with pytest.raises(BackboneCorrupt, match=about):
        load_backbone(str(tmp_path), "cpu")


def test_files_in_parts_are_read_and_checked_as_one(tmp_path):
    model, processor = parts("llava_onevision")
    processor.save_pretrained(tmp_path)
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    shards = weight_files(tmp_path)
    assert len(shards) > 2
    lm = load_backbone(str(tmp_path), "cpu")
    assert all(torch.equal(a, b) for a, b in zip(
        lm.model.state_dict().values(), model.state_dict().values(), strict=True
    ))  # fmt: skip
    tensors = load_file(shards[-1])
    key = sorted(tensors)[0]
    del tensors[key]  # its index lists it still
    save_file(tensors, shards[-1], {"format": "pt"})
    with pytest.raises(BackboneCorrupt, match="1 of "):
        load_backbone(str(tmp_path), "cpu")


def test_other_weights_have_another_hash_wherever_they_differ(tmp_path):
    """In one tensor of many, each of which is a small part of a file."""
    torch.manual_seed(0)
    tensors = {f"layers.{i}.weight": torch.randn(120_000) for i in range(20)}
    big = tmp_path / "big.safetensors"
    save_file(tensors, big)
    assert big.stat().st_size > 2 * files.BLOCKS * files.BLOCK
    seen = {weights_hash([big])}
    for name in tensors:
        other = tmp_path / "other.safetensors"
        save_file(tensors | {name: tensors[name] + 1e-3}, other)
        seen.add(weights_hash([other]))
    assert len(seen) == 21
    assert weights_hash([big]) in seen  # the same at every call
    assert all(one.startswith("sampled:") for one in seen)


def test_a_whole_hash_sees_one_bit_and_is_the_hubs_own(tmp_path):
    file = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(3_000_000)}, file)
    before = weights_hash([file], whole=True)
    tensors = {"a": torch.zeros(3_000_000)}
    tensors["a"][1_234_567] = 1e-9
    save_file(tensors, file)
    assert weights_hash([file], whole=True) != before
    digest = weights_hash([file], whole=True).removeprefix("sha256:")
    blob = tmp_path / "blobs" / digest
    blob.parent.mkdir()
    shutil.move(file, blob)
    file.symlink_to(blob)
    assert weights_hash([file]) == f"sha256:{digest}"  # by its name, without reading it


def test_two_fine_tunes_that_differ_in_one_layer_differ_in_the_trace(tmp_path):
    found = []
    for part in _native():
        part.save_pretrained(tmp_path)
    for whole in (False, True):
        trace = macd.trace(
            clip(frames=2, size=56), question="Is it?", backbone=str(tmp_path), detector="grid",
            device="cpu", video={"frames": 2}, hash_weights=whole, decode={"max_tokens": 1},
            ascent={"steps": 1},
        )  # fmt: skip
        _change(
            tmp_path,
            lambda t: t[next(k for k in sorted(t) if k.endswith("o_proj.weight"))].mul_(1.01),
        )
        macd.save(trace, tmp_path / "t.macd")
        record = macd.load(tmp_path / "t.macd").to_dict()["backbone"]
        assert record["weights_hash"].startswith("sha256:" if whole else "sampled:")
        assert "adapter" not in record
        found += [record["weights_hash"], load_backbone(str(tmp_path), "cpu").info.weights_hash]
    assert len(set(found)) == 4


def test_a_damaged_index_or_header_is_no_crash(tmp_path):
    (tmp_path / files.INDEX).write_text("[1]")
    with pytest.raises(ValueError, match="damaged"):
        weight_files(tmp_path)
    bad = tmp_path / "bad.safetensors"
    for content in (
        b"",
        b"\xff" * 20,
        (2).to_bytes(8, "little") + b"[]",
        b"\x05" + bytes(7) + b"nope!",
    ):
        bad.write_bytes(content)
        assert files.header_of(bad) == {}
        assert weights_hash([bad]).startswith("sampled:")
