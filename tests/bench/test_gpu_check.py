"""The check on a GPU says clearly where there is none, and catches slopes that differ."""

import json
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bench import gpu_check, gpu_shipped
from bench.__main__ import GPU
from bench.report import page
from macd_studio.core.backbones import load_backbone
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import AscentStep


def test_without_cuda_it_ends_with_2_and_a_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main(["--out", str(tmp_path / "x.json")]) == 2
    assert "there is no CUDA device" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


@pytest.fixture
def shipped_holds(monkeypatch):
    one = {"examples": 1, "levels": 1, "tokens": 1, "gradient": 0.0, "holds": True}
    monkeypatch.setattr(gpu_shipped, "measure", lambda *_: dict(one))
    return one


def test_examples_that_fail_end_nothing_else_and_the_exit_code_is_1(monkeypatch, tmp_path):
    def fail(*_):
        raise RuntimeError("the device was lost")

    monkeypatch.setattr(gpu_shipped, "measure", fail)
    monkeypatch.setattr(gpu_check, "_checked", lambda *_: {"stages": {}})
    assert gpu_check.main(["--device", "cpu", "--out", str(tmp_path / "x.json")]) == 1
    told = json.loads((tmp_path / "x.json").read_text())
    assert told["shipped"]["float32"] == {"error": "RuntimeError: the device was lost"}
    assert set(told["models"]) == set(gpu_check.MODELS)


def test_slopes_of_both_memory_modes_must_agree():
    def step(gradient):
        return AscentStep(0, 1.0, np.zeros(2), np.array(gradient), np.zeros(1), np.array([0.1]))

    gpu_check._assert_same_slopes(step([1.0, 2.0]), step([1.01, 2.0]))
    with pytest.raises(AssertionError, match="low memory differs"):
        gpu_check._assert_same_slopes(step([1.0, 2.0]), step([-1.0, 2.0]))
    with pytest.raises(AssertionError, match="not finite"):
        gpu_check._assert_same_slopes(step([1.0, np.nan]), step([1.0, 2.0]))


# CPU against device


@pytest.fixture
def small(monkeypatch):
    """A small model in the place of a listed one."""
    dimensions = deepcopy(gpu_check.DIMENSIONS["Qwen/Qwen2-VL-2B-Instruct"])
    dimensions["text"] |= {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
                           "num_key_value_heads": 2}  # fmt: skip
    dimensions["text"]["rope_parameters"]["mrope_section"] = [2, 3, 3]
    dimensions["vision"] |= {"embed_dim": 32, "num_heads": 2, "hidden_size": 64}
    monkeypatch.setitem(gpu_check.DIMENSIONS, "small", dimensions)
    monkeypatch.setattr(gpu_check, "SIDE", 56)
    return "small"


def test_the_same_weights_agree_with_themselves(small):
    """The whole comparison, with the CPU in the place of the GPU."""
    found = gpu_check.compare(small, "cpu", 4)
    exact, half = found["float32"], found["bfloat16"]
    assert exact["logits"] == exact["gradient"] == 0
    assert exact["tokens"] == "8 of 8"
    assert exact["levels"] == "4 of 4"  # two objects and two frame groups
    assert 0 < half["logits"] < 0.1
    assert 0 < half["gradient"] < 0.3
    assert exact["holds"]
    assert half["holds"]


def test_a_device_that_computes_otherwise_is_noticed(small, monkeypatch):
    inner = gpu_check._compute
    calls = []

    def off(lm, frames):
        calls.append(lm)
        if len(calls) == 2:  # float32 on the device
            with torch.no_grad():
                next(p for p in lm.model.parameters() if p.ndim > 1).mul_(1.5)
        return inner(lm, frames)

    monkeypatch.setattr(gpu_check, "_compute", off)
    assert not gpu_check.compare(small, "cpu", 4)["float32"]["holds"]


def computed(**changes):
    scores = [np.array([3.0, 1.0, 2.9999]), np.array([1.0, 3.0, 0.0])]
    whole = gpu_check.Computed(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1e-4]),
                               np.array([1.0, 0.0]), [0, 1], scores)  # fmt: skip
    return replace(whole, **changes)


@pytest.mark.parametrize(("changes", "holds"), [
    ({}, True),
    ({"logits": np.array([3.002, 1.0, 2.0])}, True),
    ({"logits": np.array([3.01, 1.0, 2.0])}, False),
    ({"gradient": np.array([1.005, 1e-4])}, True),
    ({"gradient": np.array([1.02, 1e-4])}, False),
    ({"levels": np.array([1.0, 1.0])}, True),  # its gradient is nearly 0
    ({"levels": np.array([0.0, 0.0])}, False),
    ({"tokens": [2, 0]}, True),  # a tie, after which answers part
    ({"tokens": [0, 0]}, False),
    ({"tokens": [0]}, False),
])  # fmt: skip
def test_what_may_differ_and_what_not(changes, holds):
    allowed = gpu_check.TOLERANCES[torch.float32]
    assert gpu_check.difference(computed(), computed(**changes), allowed)["holds"] == holds


def test_the_document_holds_what_was_measured():
    text, report = gpu_check.DOCS.read_text(), json.loads(GPU.read_text())
    assert text == gpu_check.with_table(text, report)
    assert "| float32 | 12 of 12 | 12 of 12 |" in text
    assert gpu_check.NOT_YET in gpu_check.with_table(text)


def test_what_was_found_is_written_into_the_document(shipped_holds):
    text = gpu_check.DOCS.read_text()
    one = gpu_check.difference(computed(), computed(), gpu_check.TOLERANCES[torch.float32])
    stages = {"macd": {"ms": 12.3, "peak_gb": 1.24, "planned_peak_gb": 1.3},
              "decode": {"ms_per_token": 4.0}}  # fmt: skip
    report = {
        "machine": {"name": "NVIDIA X", "torch": "2.11", "transformers": "5.17", "date": "today"},
        "frames": 8,
        "shipped": {"float32": {"error": "RuntimeError: lost"},
                    "bfloat16": shipped_holds | {"gradient": 0.1}},
        "models": {"a": {"agreement": {"float32": one, "bfloat16": one}, "stages": stages},
                   "b": {"error": "AssertionError: off"}},
    }  # fmt: skip
    written = gpu_check.with_table(text, json.loads(json.dumps(report)))
    assert (
        "| `a` | 0e+00, 0e+00, 2 of 2, 2 of 2 | 0e+00, 0e+00, 2 of 2, 2 of 2 | 12 | 4 |" in written
    )
    assert "| 1.2 GB, 1.3 GB |" in written
    assert "| `b` | AssertionError: off |" in written
    assert "| bfloat16 | 1 of 1 | 1 of 1 | 1e-01 |" in written
    assert "| float32 | RuntimeError: lost |" in written
    assert gpu_check.with_table(written) == gpu_check.with_table(text)


def test_figures_of_several_hosts_are_shown_from_the_least_to_the_largest():
    machine = {"processor": "X", "cores": 2, "python": "3", "date": "today"}
    gpu = {"machine": {"name": "NVIDIA X", "date": "today"}}
    assert page({"machine": machine}, gpu=gpu) == page({"machine": machine})
    keys = json.loads(GPU.read_text())["deep"][0]
    gpu["deep"] = [dict.fromkeys(keys, z) for z in (11.07, 9.87, 10.0)]
    told = page({"machine": machine}, gpu=gpu)
    assert "| a token under two views over one | not measured | 9.87× to 11.07× |" in told
    assert "(`make gpu-check`, NVIDIA X, today, 3 runs of it) the least and the largest" in told
    one = page({"machine": machine}, gpu=gpu | {"deep": gpu["deep"][:1]})
    assert "| a token under two views over one | not measured | 11.07× |" in one


@pytest.mark.usefixtures("shipped_holds")
def test_a_whole_run_keeps_the_deep_figures_of_other_hosts_with_such_a_gpu(monkeypatch, tmp_path):
    kept, docs = tmp_path / "gpu.json", tmp_path / "backbones.md"
    docs.write_text(gpu_check.DOCS.read_text())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    machine = {"name": "NVIDIA X", "torch": "2", "transformers": "5", "date": "today"}
    monkeypatch.setattr(gpu_check, "_machine", lambda _: machine)
    monkeypatch.setattr(gpu_check, "_forget", lambda _: None)
    monkeypatch.setattr(gpu_check, "MODELS", {"a": 1.0})
    stages = {"macd": {"ms": 1.0, "peak_gb": 1.0}, "decode": {"ms_per_token": 4.0}}
    monkeypatch.setattr(gpu_check, "check", lambda *_: {"stages": stages})
    monkeypatch.setattr(gpu_check, "compare", lambda *_: {})
    monkeypatch.setattr(gpu_check, "DOCS", docs)
    for ratio in (1.5, 1.25):
        monkeypatch.setattr(gpu_check.deep, "measure", lambda z=ratio: {"token2_over_1_gpu": z})
        assert gpu_check.main(["--out", str(kept)]) == 0
    found = json.loads(kept.read_text())["deep"]
    assert found == [{"token2_over_1_gpu": 1.5}, {"token2_over_1_gpu": 1.25}]
    assert "NVIDIA X, today" in docs.read_text()


def test_a_stage_is_measured_after_a_run_that_loads_kernels_and_without_what_is_held(monkeypatch):
    clock, peaks, made = iter([0, 9, 10, 11, 20, 23, 30, 32]), iter([999, 0, 0, 70]), []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 40)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: next(peaks))
    monkeypatch.setattr(gpu_check.time, "perf_counter", lambda: next(clock))
    lm = SimpleNamespace(model=torch.nn.Linear(10**6, 250, bias=False).to("meta"))
    result, found = gpu_check._measured(lm, "cuda", lambda z: z + 1, lambda: made.append(1) or 4)
    assert (result, len(made)) == (5, 4)
    assert found == {"ms": 2000.0, "peak_gb": 1.0}


def test_a_shipped_example_computed_with_other_weights_does_not_hold(monkeypatch):
    path = assets() / "examples" / "repaired.macd"
    lm = load_backbone("toyworld", "cpu")
    levels, tokens, slope = gpu_shipped.again(load(path), lm)
    assert levels
    assert tokens
    assert slope < 1e-4
    with torch.no_grad():
        for weight in lm.model.parameters():
            weight.mul_(0.8)
    monkeypatch.setattr(gpu_shipped, "load_backbone", lambda *_, **__: lm)
    found = gpu_shipped.measure("cpu", "float32", [path])
    assert not found["holds"]
    assert found["gradient"] > 1e-3


@pytest.mark.usefixtures("shipped_holds")
def test_a_device_that_disagrees_gives_exit_code_1(monkeypatch, tmp_path, capsys):
    bad = {"float32": {"holds": False}}
    monkeypatch.setattr(gpu_check, "check", lambda *_: {"stages": {}})
    monkeypatch.setattr(gpu_check, "compare", lambda *_: bad)
    before = gpu_check.DOCS.read_text()
    assert gpu_check.main(["--device", "cpu", "--out", str(tmp_path / "x.json")]) == 1
    assert "CPU and device" in (tmp_path / "x.json").read_text()
    assert gpu_check.DOCS.read_text() == before
