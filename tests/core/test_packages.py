"""Configurations that name a package or a kernel that is not here: one sentence, no traceback."""

import json
import shutil

import pytest
import torch
from transformers import AddedToken, AutoTokenizer
from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING

from macd_studio.core.backbones import load_backbone
from macd_studio.core.backbones.foreign import named_packages
from macd_studio.core.backbones.refused import check_packages
from macd_studio.core.errors import MacdError, UnsupportedBackbone
from macd_studio.core.objects.detect import load_detector
from tests import detectors
from tests.universal_models import parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    for part in parts("llava_onevision"):
        part.save_pretrained(path)
    return path


def changed(folder, to, changes, file="config.json"):
    """A copy whose configuration has other values; a path names those inside another."""
    copy = shutil.copytree(folder, to / "copy", dirs_exist_ok=True)
    about = json.loads((copy / file).read_text())
    for path, value in changes.items():
        place, *inner = path.split(".")
        if inner:
            about[place][inner[0]] = value
        else:
            about[place] = value
    (copy / file).write_text(json.dumps(about))
    return str(copy)


def refusal(folder):
    """What a refused model's error says; "" of one that loads. Any other error fails the test."""
    try:
        load_backbone(folder, "cpu")
    except MacdError as error:
        return str(error)
    return ""


PACKAGES = [
    ({"_attn_implementation": "flash_attention_2"}, "flash-attn"),
    ({"attn_implementation": "flash_attention_3"}, "flash-attn-3"),
    ({"_attn_implementation": "flash_attention_4"}, "flash-attn-4"),
    ({"text_config._attn_implementation": "flash_attention_2"}, ""),  # which transformers ignores
    ({"vision_config._attn_implementation": "flash_attention_2"}, ""),
    ({"_attn_implementation": "kernels-community/flash-attn2"}, "from the hub"),
    ({"_attn_implementation": "paged|flash_attention_2"}, "flash-attn"),
    ({"_attn_implementation": "nonsense"}, "not known here"),
    ({"_experts_implementation": "sonicmoe"}, "from the hub"),
    ({"_experts_implementation": "deepgemm"}, "from the hub"),
    ({"vision_config.model_type": "timm_wrapper"}, ""),
    ({"quantization_config": {"quant_method": "none-such"}}, ""),
    ({"text_config.model_type": "none-such"}, ""),
    ({"text_config.hidden_act": "none-such"}, ""),
    ({"text_config.rope_parameters": {"rope_type": "none-such"}}, ""),
    ({"text_config.num_attention_heads": 0}, ""),
    ({"text_config.hidden_size": "many"}, ""),
    ({"image_token_index": [1]}, ""),
]
"""Keys of a configuration, and what the message names."""


@pytest.mark.parametrize(("changes", "named"), PACKAGES)
def test_a_key_that_asks_for_what_is_not_here_is_one_sentence(changes, named, folder, tmp_path):
    said = refusal(changed(folder, tmp_path, changes))
    assert named in said
    assert "\n" not in said


@pytest.mark.long
@pytest.mark.parametrize("method", sorted(AUTO_QUANTIZER_MAPPING))
def test_every_method_of_packing_is_read_or_refused(method, folder, tmp_path):
    """Whichever of their packages are installed."""
    name, _, bits = method.partition("_")
    about = {"quant_method": name if name == "bitsandbytes" else method}
    about |= {"load_in_4bit": bits == "4bit", "load_in_8bit": bits == "8bit"} if bits else {}
    assert "\n" not in refusal(changed(folder, tmp_path, {"quantization_config": about}))


TOKENIZERS = ("MistralCommonBackend", "BertJapaneseTokenizer", "LlamaTokenizer", "NoneSuch")


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_a_tokenizer_of_another_package_is_read_or_refused(kind, folder, tmp_path):
    copy = changed(folder, tmp_path, {"tokenizer_class": kind}, "tokenizer_config.json")
    assert "\n" not in refusal(copy)


def test_flash_attention_is_refused_on_a_processor_even_where_it_is_installed(monkeypatch):
    from macd_studio.core.backbones import refused

    monkeypatch.setattr(refused, "_here", lambda module: True)

    class Config:
        _attn_implementation = "flash_attention_2"

    check_packages("x", Config())
    with pytest.raises(UnsupportedBackbone, match="runs on a GPU only"):
        check_packages("x", Config(), torch.device("cpu"))


def test_a_package_that_only_its_error_names_is_named():
    with pytest.raises(UnsupportedBackbone, match="needs the package mamba_ssm"):
        with named_packages("x"):
            raise ImportError("no", name="mamba_ssm.ops")
    with pytest.raises(UnsupportedBackbone, match="needs what is not installed"):
        with named_packages("x"):
            raise ImportError("something odd")


def test_tokens_beyond_the_embedding_are_refused_by_name(folder, tmp_path):
    copy = str(shutil.copytree(folder, tmp_path / "copy"))
    words = AutoTokenizer.from_pretrained(copy)
    rows = parts("llava_onevision")[0].get_input_embeddings().num_embeddings
    more = rows - len(words) + 1
    words.add_tokens([AddedToken(f"<own{i}>") for i in range(max(0, more) + 2)])
    words.save_pretrained(copy)
    with pytest.raises(UnsupportedBackbone, match=rf"beyond the {rows} rows .*<own"):
        load_backbone(copy, "cpu")


def test_a_detector_that_asks_for_what_is_not_here_is_one_sentence(tmp_path):
    for part in detectors.rt_detr():
        part.save_pretrained(tmp_path / "model")
    for changes in ({"_attn_implementation": "flash_attention_2"},
                    {"backbone_config.model_type": "timm_backbone"},
                    {"id2label": {"0": "dog"}, "label2id": {"dog": 0}}):  # fmt: skip
        with pytest.raises(MacdError) as error:
            load_detector(changed(tmp_path / "model", tmp_path, changes))
        assert "\n" not in str(error.value)
