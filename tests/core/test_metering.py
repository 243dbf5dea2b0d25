"""What a method costs: time and tensors, its own and those of what it needs."""

import time
from types import SimpleNamespace

import pytest
import torch

from macd_studio.core.options import RunOptions
from macd_studio.core.system.cost import Cost, LivingTensors, Meter
from macd_studio.core.views.context import MethodContext
from tests.fakes import ByteLM, clip, tracks

MB = 2**20


def test_storages_count_until_they_are_freed():
    with LivingTensors() as living:
        first = torch.zeros(MB)
        view = first.view(2, -1)  # the same storage
        assert living.alive.now == 4 * MB
        second = first + 1
        del first, second
        assert living.alive.now == 4 * MB  # the view keeps the first
        del view
    assert living.alive.now == 0
    assert living.alive.peak == 8 * MB


def test_pieces_inside_others_are_measured_apart():
    meter = Meter(memory=True)
    began = time.perf_counter()
    with meter.measure() as outer:
        small = torch.zeros(MB)
        with meter.measure() as inner:
            large = torch.zeros(3 * MB)
            kept = torch.zeros(2 * MB)
            del large
            time.sleep(0.05)
        more = torch.zeros(MB)
        del small, more
    whole = time.perf_counter() - began
    with meter.measure() as later:
        torch.zeros(10)
    assert (inner.rise_bytes, inner.kept_bytes) == (20 * MB, 8 * MB)
    assert (outer.rise_bytes, outer.kept_bytes) == (8 * MB, 0)  # nothing of what is inside
    assert (later.rise_bytes, later.kept_bytes) == (40, 0)  # `kept` was there before
    assert inner.seconds >= 0.05
    assert inner.seconds + outer.seconds <= whole  # no second is counted twice
    del kept
    outer.add(inner)
    assert (outer.rise_bytes, outer.kept_bytes) == (20 * MB, 8 * MB)
    outer.add(inner)
    assert (outer.rise_bytes, outer.kept_bytes) == (28 * MB, 16 * MB)


def test_a_piece_counts_in_full_for_everybody_who_needs_it():
    lm, seen = ByteLM(seed=5), clip()
    case = MethodContext(
        lm, lm.encode(seen, "is it?"), tuple(tracks((0.1, 0.1, 0.5, 0.5))), RunOptions()
    )
    case.cache.put("base", None, 1, Cost(3.0, 30, 20))
    case.cache.put("other", None, 1, Cost(9.0, 90, 90))
    case.cache.put("ascent", None, 2, Cost(5.0, 50, 0), needs=[("base", None)])
    case.cache.start_method()
    case.cache.memoize("ascent", None, lambda: pytest.fail("made twice"))
    whole = case.cache.whole_cost(Cost(1.0, 10), case.cache.needs())
    assert (whole.seconds, whole.rise_bytes, whole.kept_bytes) == (9.0, 70, 20)
    case.cache.start_method()
    assert case.cache.whole_cost(Cost(1.0, 10), case.cache.needs()) == Cost(1.0, 10)


def test_a_gpu_reports_its_allocators_peak(monkeypatch):
    """Without a GPU at hand: the calls, in their order."""
    calls = []
    alive, peaks = iter([5 * MB, 6 * MB]), iter([90 * MB, 7 * MB])
    cuda = SimpleNamespace(
        is_available=lambda: True,
        memory_allocated=lambda: next(alive),
        max_memory_allocated=lambda: calls.append("peak") or next(peaks),
        reset_peak_memory_stats=lambda: calls.append("reset"),
    )
    monkeypatch.setattr("macd_studio.core.system.cost.torch.cuda", cuda)
    meter = Meter("cuda:0", memory=True)
    with meter.measure() as cost:
        pass
    assert calls == ["peak", "reset", "peak", "reset"]
    assert (cost.rise_bytes, cost.kept_bytes) == (2 * MB, MB)
