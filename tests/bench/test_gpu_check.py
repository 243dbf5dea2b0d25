"""The check on a GPU says clearly where there is none, and catches slopes that differ."""

import numpy as np
import pytest
import torch

from bench import gpu_check
from macd_studio.core.types import AscentStep


def test_without_cuda_it_ends_with_2_and_a_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main(["--out", str(tmp_path / "x.json")]) == 2
    assert "there is no CUDA device" in capsys.readouterr().err
    assert not (tmp_path / "x.json").exists()


def test_one_family_of_each_is_checked():
    families = [gpu_check.DIMENSIONS[name]["family"] for name in gpu_check.MODELS]
    assert sorted(families) == ["internvl", "qwen2_5_vl", "qwen2_vl", "qwen3_vl", "smolvlm"]


def test_a_model_that_fails_is_told_and_the_exit_code_is_1(monkeypatch, capsys, tmp_path):
    def fail(*_):
        raise AssertionError("the gradient is not finite")

    monkeypatch.setattr(gpu_check, "check", fail)
    assert gpu_check.main(["--device", "cpu", "--out", str(tmp_path / "x.json")]) == 1
    assert "not finite" in (tmp_path / "x.json").read_text()


def test_slopes_of_both_memory_modes_must_agree():
    def step(gradient):
        return AscentStep(0, 1.0, np.zeros(2), np.array(gradient), np.zeros(1), np.array([0.1]))

    gpu_check._assert_same_slopes(step([1.0, 2.0]), step([1.01, 2.0]))
    with pytest.raises(AssertionError, match="low memory differs"):
        gpu_check._assert_same_slopes(step([1.0, 2.0]), step([-1.0, 2.0]))
    with pytest.raises(AssertionError, match="not finite"):
        gpu_check._assert_same_slopes(step([1.0, np.nan]), step([1.0, 2.0]))
