"""What a bench computes beyond timing: FLOPs of a deep model, peak memory."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn

from bench import deep, large, lazy, report
from bench.__main__ import is_time_ratio, slower
from bench.counted import flops, in_turn, peak_bytes
from bench.trace import read
from macd_studio.core.backbones.dimensions import DIMENSIONS


@pytest.fixture
def small(monkeypatch):
    """A small model in the place of the 3B one."""
    dimensions = deepcopy(DIMENSIONS[large.NAME])
    dimensions["text"] |= {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
                           "num_key_value_heads": 2, "vocab_size": 512}  # fmt: skip
    dimensions["text"]["rope_parameters"]["mrope_section"] = [2, 3, 3]
    dimensions["vision"] |= {"hidden_size": 32, "intermediate_size": 48, "num_heads": 2,
                             "out_hidden_size": 64, "window_size": 56}  # fmt: skip
    monkeypatch.setitem(DIMENSIONS, large.NAME, dimensions)
    monkeypatch.setattr(large, "SIDE", 112)


def counted(depth, **how):
    lm = large.build(depth, "cpu", torch.float32)
    return flops(partial(read, large.case(lm, **how), True))


@pytest.mark.parametrize(
    "how",
    [{"late": True}, *(pytest.param(how, marks=pytest.mark.long)
                       for how in ({}, {"gradient": "base"}, {"steps": 3}))],
)  # fmt: skip
def test_shallow_models_tell_the_flops_of_a_deep_one(small, monkeypatch, how):
    deep = large.Depth(4, 2, 5)
    monkeypatch.setattr(large, "WHOLE", deep)
    told = large._extrapolated([counted(d, **how) for d in large.SHALLOW])
    assert told == pytest.approx(counted(deep, **how), rel=1e-9)


@pytest.mark.long
def test_the_whole_model_is_timed_and_weighed(small):
    found = deep.timed(large.Depth(1, 1, 2), runs=1, device="cpu")
    assert {"e2e_macd1_over_base_3b_cpu", "token2_over_1_3b_cpu"} <= set(found)
    assert all(v > 0 for v in found.values())
    assert found["memory_macd1_over_base_3b_cpu"] > 1


def test_peak_bytes_are_those_that_live_at_once():
    model = nn.Linear(10, 10)

    def call():
        whole = torch.zeros(1000, 1000)
        for _ in range(5):
            part = whole + 1
            del part
        kept = [whole + 1 for _ in range(3)]
        del kept
        whole.view(-1)[:10].mul_(2)

    assert peak_bytes(model, call) == 4 * 4_000_000 + 4 * 110


def a_row(item, regime, opened, plain=1.0, full=3.0, late=1.0, gaps=()):
    return {
        "item": item, "regime": regime, "open": opened, "answers": 5, "gaps": list(gaps),
        "times": {"read": 1.0, "encode": 0.0, "detect": 2.0, "plain": plain, "full": full,
                  "lazy": late},
        "sweep": {str(beta): opened for beta in lazy.BETAS},
    }  # fmt: skip


def test_lazy_figures_hold_the_times_against_their_bound():
    rows = [a_row(item, "motion", 0) for item in "ac"]
    rows.append(a_row("b", "motion", 1, late=3.0))
    rows.append(a_row("d", "motion", 0, gaps=[1e-5]))
    rows.append(a_row("e", "captions", 2, late=4.5, gaps=[0.2]))
    found = lazy.figures(rows)
    assert (found["lazy_answers"], found["lazy_equal_answers"], found["lazy_ties"]) == (25, 23, 1)
    assert (found["lazy_open_share"], found["lazy_open_share_options"]) == (0.4, 0.25)
    assert found["lazy_macd1_over_base_options"] == 1.5  # (1 + 3 + 1 + 1) / 4
    assert found["lazy_macd1_bound_options"] == 1 + 0.25 * 2 + 0.05
    # reading for all, looking for objects for one of four: (4 + 6 + 2) / (4 + 4)
    assert found["lazy_macd1_run_over_base_options"] == 1.5
    assert found["full_macd1_run_over_base_options"] == 3  # (4 + 12 + 8) / 8
    assert found["lazy_over_full_where_open"] == 1.25  # of 1 and 1.5
    text = "\n".join(report.lazy_lines(found | {"lazy_weights": "abc"}))
    assert "Equal tokens in 23 of 25 answers" in text
    assert "| captions, decoding alone | 100.0 % | 3.00× | 4.50× | 3.05× |" in text
    assert found["lazy_beta_0.1_reads"] == pytest.approx(2.2)
    assert "at β 0.5 40.0 % and 2.20" in text
    assert report.lazy_lines({})[-1] == "not measured"


def test_calls_take_turns_and_the_first_round_is_not_counted(monkeypatch):
    now, order = [0.0], []
    monkeypatch.setattr("bench.counted.time.perf_counter", lambda: now[0])

    def spend(name, seconds):
        order.append(name)
        now[0] += seconds.pop(0)

    took = {"a": [9.0, 1.0, 3.0, 2.0], "b": [0.0, 4.0, 4.0, 5.0]}
    calls = {name: partial(spend, name, seconds) for name, seconds in took.items()}
    assert in_turn(calls, 3) == {"a": 2.0, "b": 4.0}
    assert order == ["a", "b"] * 4


def test_ratios_of_times_that_grew_on_one_machine_are_told():
    here = {"processor": "A", "cores": 2, "date": "2026-01-01"}
    measured = {"measured": {"x": here}}
    first = measured | {"a_over_b": 1.0, "c_over_d": 2.0, "e_ms": 5.0, "flops_a_over_b": 1.0}
    now = {"a_over_b": 1.2, "c_over_d": 2.1, "e_ms": 50.0, "flops_a_over_b": 7.0, "new_over_b": 9.0}
    grown = slower(first, "x", now, here)
    assert grown == {"a_over_b": {"before": 1.0, "now": 1.2, "date": "2026-01-01"}}
    after = first | now | {"slower": grown}
    assert slower(after, "y", {"e_ms": 1.0}, here) == grown  # not measured again
    assert slower(after, "x", {"a_over_b": 1.2}, here) == {}
    assert slower(first, "x", now, here | {"cores": 64}) == {}
    assert slower(first, "y", now, here) == {}
    text = report.page(after | {"machine": here | {"python": "3"}})
    assert "| `a_over_b` | 1.000 | 1.200 | 2026-01-01 |" in text


def test_times_are_told_from_other_ratios():
    assert is_time_ratio("ascent_low_over_normal_memory_time_cpu")
    for key in (
        "memory_macd1_over_base_cpu", "evidence_occlusion8_over_forwards_flops", "page_ms",
        "ascent_low_over_normal_memory_activations", "lazy_over_full_where_open",
    ):  # fmt: skip
        assert not is_time_ratio(key)
