"""Planning a backbone: true parameter counts, and the figures that were counted on real passes."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from bench import planned as bench_planned
from macd_studio.core.backbones import random_weights, weights
from macd_studio.core.backbones.catalogue import CATALOGUE, planned
from macd_studio.core.backbones.dimensions import DIMENSIONS, dimensions_in
from macd_studio.core.backbones.random_weights import build, depth_of, with_depth
from macd_studio.core.cli.main import main
from macd_studio.core.errors import OptionError, OutOfMemory, UnsupportedBackbone
from macd_studio.core.planning import plan as cpu
from macd_studio.core.planning.dry_run import dry_run
from macd_studio.core.planning.plan import (
    KINDS,
    QUESTION,
    _extrapolate,
    _held,
    _peaks,
    _weigh,
    lazy_cost,
    plan,
    sample_clip,
)
from tests.samples import sampled

ROOT = Path(__file__).parents[2]
THREE_B = "Qwen/Qwen2.5-VL-3B-Instruct"
COUNTED = json.loads((ROOT / "bench" / "results" / "latest.json").read_text())


def one_of_each(*names):
    """The first listed model of each family named, and others where all are asked for."""
    first = [next(m for m in CATALOGUE if m.family == name) for name in names]
    return sampled(CATALOGUE, first)


@pytest.mark.parametrize(
    "model", one_of_each("smolvlm", "qwen3_5", "gemma4", "video_llama_3"), ids=lambda m: m.title
)
def test_dimensions_have_the_published_number_of_parameters(model):
    needs_timm(model)
    with dry_run("meta"):
        whole = build(model.hub_id, DIMENSIONS[model.hub_id], "meta", torch.bfloat16)
    assert whole.info.parameters == planned(model.hub_id)["parameters"]
    assert whole.info.parameters / 1e9 == pytest.approx(model.billions, rel=0.03)
    assert whole.info.family == model.family


@pytest.mark.real
@pytest.mark.parametrize("name", ["Qwen2.5-VL-3B-Instruct", "Qwen2.5-VL-7B-Instruct",
                                  "Qwen3-VL-2B-Instruct"])  # fmt: skip
def test_dimensions_are_those_of_the_true_configs(real, name):
    import transformers

    true = transformers.AutoConfig.from_pretrained(real / "configs" / name)
    kept = DIMENSIONS[f"Qwen/{name}"]
    for ours, theirs in ((kept["text"], true.text_config), (kept["vision"], true.vision_config)):
        for key, value in ours.items():
            if key not in ("rope_parameters", "max_position_embeddings"):
                assert getattr(theirs, key) == value, key
    section = true.text_config.rope_parameters["mrope_section"]
    assert kept["text"]["rope_parameters"]["mrope_section"] == section
    assert (
        true.text_config.rope_parameters["rope_theta"]
        == (kept["text"]["rope_parameters"]["rope_theta"])
    )


def needs_timm(model):
    """PerceptionLM's vision tower is of a package that is not installed everywhere."""
    if model.family == "perception_lm":
        pytest.importorskip("timm")


@pytest.mark.parametrize(
    "model",
    one_of_each("qwen2_5_vl", "internvl", "smolvlm", "qwen3_5", "gemma4", "llava_onevision"),
    ids=lambda m: m.title,
)
def test_a_folders_config_has_the_dimensions_it_states(model, tmp_path):
    needs_timm(model)
    kept = DIMENSIONS[model.hub_id]
    words = random_weights._tokenizer(kept["family"])
    random_weights._config(kept, words.get_vocab()).save_pretrained(tmp_path)
    read = dimensions_in(tmp_path)
    assert depth_of(read) == depth_of(kept)
    with dry_run("meta"):
        ours, theirs = (
            build("", with_depth(d, 1, 1, 1), "meta", torch.bfloat16) for d in (read, kept)
        )
        sizes = [lm.encode(sample_clip(2, 280), QUESTION).frames.size for lm in (ours, theirs)]
    shapes = [{n: p.shape for n, p in lm.model.named_parameters()} for lm in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "holds no config.json"),
        ("{", "holds no config.json"),
        ('{"model_type": "nothing-known"}', "holds no config.json"),
        ('{"model_type": "llama"}', "family 'llama', which cannot be planned"),
    ],
)
def test_a_folder_that_cannot_be_planned(config, words, tmp_path, capsys):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert main(["plan", "--backbone", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.long
def test_the_plan_agrees_with_what_was_counted_on_real_passes():
    found = plan(THREE_B)
    base = found["baseline_peak_gb"]
    for key, counted in (
        ("macd_peak_gb", "memory_macd1_over_base_3b_cpu"),
        ("macd_low_memory_peak_gb", "memory_macd1_low_memory_over_base_3b_cpu"),
    ):
        assert found[key] / base == pytest.approx(COUNTED[counted], rel=0.05)
    assert found["prefill_tflops"] == pytest.approx(COUNTED["tflops_base_prefill_3b"], rel=0.01)
    flops = found["macd_tflops"] / found["prefill_tflops"]
    assert flops == pytest.approx(COUNTED["flops_macd1_over_base_3b"], rel=0.02)
    # what is committed is what is computed
    stored = planned(THREE_B)
    for key in ("parameters", "prompt_tokens", "fits"):
        assert found[key] == stored[key]
    for key in (k for k in stored if k.endswith(("_gb", "_tflops"))):
        assert found[key] == pytest.approx(stored[key], rel=0.01), key


def test_what_fits_and_what_quantised_weights_add():
    """A card holds a driver and waste too; a pass of nf4 a matrix, one back through int8 inputs."""
    peaks = _peaks(dict.fromkeys(KINDS, 7.2e9) | {"vcd": 7.1e9, "macd": 11e9})
    assert [peaks["fits"]["8"][kind] for kind in KINDS] == [False, False, False, True]
    assert peaks["fits"]["12"]["baseline"]
    assert not peaks["fits"]["12"]["macd"]
    counts = {f"{kind} bytes": 1e9 for kind in KINDS} | {"largest": 3e8, "inputs": 5e8}
    counts |= {"int8 packed": 2e9, "int8 plain": 1e9, "nf4 packed": 1e9, "nf4 plain": 1e9}
    int8, nf4 = _held(counts, "int8"), _held(counts, "nf4")
    assert [int8[f"{kind}_peak_gb"] for kind in KINDS] == [4.0, 4.5, 4.0, 4.0]
    assert [nf4[f"{kind}_peak_gb"] for kind in KINDS] == [3.3] * 4
    assert (int8["weights_gb"], nf4["packed_gb"]) == (3.0, 1.0)


def test_extra_layers_of_a_kind_are_added():
    gemma = DIMENSIONS["google/gemma-4-E2B-it"]
    assert depth_of(gemma) == (16, 4, 3)
    shallow = with_depth(gemma, 2, 1, 2)
    assert depth_of(shallow) == (2, 1, 2)
    assert shallow["text"]["layer_types"] == (["sliding_attention"] * 4 + ["full_attention"]) * 3
    assert depth_of(DIMENSIONS["Qwen/Qwen3.5-4B"]) == (24, 0, 8)
    assert depth_of(DIMENSIONS["facebook/Perception-LM-8B"]) == (47, 0, 32)
    dimensions = DIMENSIONS[THREE_B]
    assert depth_of(dimensions) == (28, 4, 36)
    assert depth_of(with_depth(dimensions, 2, 1, 3)) == (2, 1, 3)
    assert depth_of(dimensions) == (28, 4, 36)


@pytest.mark.long
def test_a_plan_of_a_few_layers_is_that_of_the_whole():
    """With layers of several kinds, of which some read the keys of others."""
    tiny = deepcopy(DIMENSIONS["google/gemma-4-E2B-it"])
    text, tower = tiny["text"], tiny["vision"]
    text |= {"hidden_size": 128, "intermediate_size": 256, "vocab_size": 512, "head_dim": 32,
             "vocab_size_per_layer_input": 512, "global_head_dim": 64}  # fmt: skip
    text |= {"hidden_size_per_layer_input": 16}
    tower |= {"hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 16,
              "intermediate_size": 64}  # fmt: skip
    tiny["top"] = {}
    tiny = with_depth(tiny, 4, 2, 2)
    few, clip = _extrapolate("", tiny, sample_clip(2, 96), 1), sample_clip(2, 96)
    whole = _weigh(lambda: build("", tiny, "meta", torch.bfloat16), clip, 1)
    assert few.keys() == whole.keys()
    for key, value in whole.items():
        assert few[key] == pytest.approx(value, rel=0.05 if key.endswith("bytes") else 1e-4), key


def test_a_lazy_run_lies_between_plain_decoding_and_the_whole_of_macd(monkeypatch, capsys):
    stored = planned(THREE_B)
    least, most = stored["prefill_tflops"], stored["macd_tflops"]
    assert lazy_cost(stored) == {
        "nothing_open": least, "everything_open": most, "open_share": None, "expected": None
    }  # fmt: skip
    for share, expected in ((0, least), (1, most), (0.25, 0.75 * least + 0.25 * most)):
        assert lazy_cost(stored, share)["expected"] == pytest.approx(expected, abs=1e-6)
    monkeypatch.setattr("macd_studio.core.planning.plan.plan", lambda *asked: stored)
    assert main(["plan", "--open-share", "0.25"]) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("lazy:"))
    assert f"{least:.2f} TFLOPs where no token is open to contrast, {most:.2f} where one is" in line
    mean = 0.75 * least + 0.25 * most
    assert f"with 25 % of the questions open {mean:.2f} ({mean / least:.2f}×)" in line
    assert main(["plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lazy_tflops"] == lazy_cost(stored)
    assert main(["plan", "--open-share", "1.5"]) == 2
    assert "open_share is 1.5" in capsys.readouterr().err


def test_what_cannot_be_planned_is_told(capsys):
    with pytest.raises(UnsupportedBackbone, match="toyworld"):
        plan("somebody/model")
    with pytest.raises(OptionError, match="frames is 0"):
        plan(frames=0)
    with pytest.raises(OptionError, match="steps is 0"):
        plan(steps=0)
    assert main(["plan", "--frame-size", "1"]) == 2
    assert "frame_size is 1" in capsys.readouterr().err


def test_the_docs_show_the_planned_figures():
    text = bench_planned.DOCS.read_text()
    assert text == bench_planned.with_table(text), "run python -m bench.planned"


def test_loading_asks_for_what_was_planned(monkeypatch):
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    needed = weights.needed_gb(THREE_B, None, torch.bfloat16, "as-is")
    assert needed == planned(THREE_B)["macd_low_memory_peak_gb"]
    monkeypatch.setattr(weights, "free_gb", lambda where: needed - 0.1)
    with pytest.raises(OutOfMemory, match=f"about {needed:.1f} GB"):
        weights.check_memory(THREE_B, needed, cuda, torch.bfloat16)
    monkeypatch.setattr(weights, "free_gb", lambda where: needed + 0.1)
    weights.check_memory(THREE_B, needed, cuda, torch.bfloat16)
    twice = weights.needed_gb(THREE_B, None, torch.float32, "as-is")
    assert twice == 2 * needed
    with pytest.raises(OutOfMemory):
        weights.check_memory(THREE_B, twice, cpu, torch.float32)


def test_float32_takes_twice_the_planned_bytes_and_what_the_process_has():
    stored = planned(THREE_B)
    whole, half = cpu.on_cpu(stored), cpu.on_cpu(stored, "bfloat16")
    for kind in KINDS:
        assert half[kind] == pytest.approx(stored[f"{kind}_peak_gb"] + cpu.OWN_GB, abs=1e-3)
        assert whole[kind] == pytest.approx(2 * stored[f"{kind}_peak_gb"] + cpu.OWN_GB, abs=1e-3)


def test_the_embedded_model_is_planned_in_float32_already():
    estimate = plan()
    assert cpu.on_cpu(estimate)["macd"] == pytest.approx(
        estimate["macd_peak_gb"] + cpu.OWN_GB, abs=1e-3
    )


def test_the_rate_is_that_of_the_best_product_and_changes_no_threads(monkeypatch):
    # a clock that says how long each of three products takes; the last look ends the trial
    ticks = iter([0.0, 0.0, 0.10, 0.10, 0.10, 0.12, 0.12, 0.12, 0.20, 9.0])
    monkeypatch.setattr(cpu.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(cpu, "MATRIX", 8)
    before = torch.get_num_threads()
    assert cpu.tflops_a_second() == pytest.approx(2 * 8**3 / 0.02 / 1e12)
    assert torch.get_num_threads() == before


def test_the_command_prints_both(monkeypatch, capsys):
    stored = planned(THREE_B)
    monkeypatch.setattr("macd_studio.core.planning.plan.plan", lambda *asked: stored)
    monkeypatch.setattr(cpu, "tflops_a_second", lambda dtype: 0.5)
    assert main(["plan", "--dtype", "bfloat16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(i for i, x in enumerate(lines) if x.startswith("on this CPU, bfloat16"))
    assert "at most 500 GFLOPs a second" in lines[at]
    row = next(x for x in lines[at:] if x.startswith("macd "))
    held = cpu.on_cpu(stored, "bfloat16")["macd"]
    assert row.split() == ["macd", f"{held:.2f}", f"{stored['macd_tflops'] / 0.5:.3g}"]
    assert main(["plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cpu_gb"] == cpu.on_cpu(stored)
