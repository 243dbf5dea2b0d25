"""What a plan says of the CPU: memory of the process, and the least time."""

import json

import pytest
import torch

from macd_studio.core.backbones.catalogue import planned
from macd_studio.core.cli.main import main
from macd_studio.core.planning import plan as cpu
from macd_studio.core.planning.plan import KINDS, plan

THREE_B = "Qwen/Qwen2.5-VL-3B-Instruct"


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
