"""The toy benchmark asks what it says it asks."""

from collections import Counter

import numpy as np
import pytest

from macd_studio.core.types import LOST, SEEN
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.toyworld.priors import priors


@pytest.fixture(scope="module")
def benchmark():
    return find_benchmark("toyworld")


@pytest.fixture(scope="module")
def items(benchmark):
    return benchmark.items("test", 120)


def test_items_are_always_the_same_and_short_runs_are_parts_of_long_ones(benchmark, items):
    assert benchmark.items("test", 120) == items
    few = {i.id for i in benchmark.items("test", 12)}
    assert few < {i.id for i in items}
    assert not few & {i.id for i in benchmark.items("choose", 120)}
    assert len({i.id for i in items}) == len(items)


def test_every_regime_is_asked_at_every_level(benchmark, items):
    counts = Counter((i.regime, i.level) for i in items)
    for regime in benchmark.regimes:
        of_levels = [counts[regime, level] for level in benchmark.levels]
        assert sum(of_levels) >= 120
        assert min(of_levels) > 0.25 * sum(of_levels)


def test_truths_hold_in_the_drawn_clip(benchmark, items):
    p = priors()
    for item in items:
        spec, words = benchmark.spec(item.clip), item.question.rstrip("?").split()
        if item.question.startswith("Is there"):
            assert item.truth == ("yes" if words[3] in spec.labels else "no")
        elif item.question.startswith("Which way"):
            assert spec.find(item.about).motion == item.truth
        elif item.question.startswith("Which comes"):
            first, second = words[4].rstrip(","), words[7]
            early = min((first, second), key=lambda c: spec.find(c).appears)
            assert item.truth == early == second
        elif item.question.startswith(("Which animal", "Which vehicle")):
            found = [c for c in spec.labels if p.kind[c] == words[1]]
            assert item.truth == (found[0] if found else "none")
        elif item.question.startswith("Does the"):
            moves = f"stay {spec.find(item.about).motion}" in item.question
            moves = moves or item.question.endswith(f"move {spec.find(item.about).motion}?")
            assert item.truth == ("yes" if moves else "no")
        if item.about:
            assert item.about in spec.labels
        if item.regime == "background":
            assert not set(spec.labels) & set(p.typical[spec.scene])
        if item.regime == "motion":
            assert item.truth != p.usual_motion[item.about] == item.prior_answer


def test_levels_are_opacities(benchmark, items):
    means = {
        level: np.mean([o.contrast for i in items if i.level == level
                        for o in benchmark.spec(i.clip).objects])
        for level in benchmark.levels
    }  # fmt: skip
    assert means["clear"] > 0.5 > means["middle"] > 0.3 > means["faint"] > 0.15


def test_true_tracks_follow_what_is_seen(benchmark, items):
    late = next(i for i in items if i.question.startswith("Which comes"))
    tracks = benchmark.true_tracks(late.clip)
    assert {t.label for t in tracks} == set(benchmark.present(late.clip))
    assert any((t.state == LOST).any() for t in tracks)
    for t in tracks:
        np.testing.assert_array_equal(np.isnan(t.boxes[:, 0]), t.state == LOST)
        assert (t.state[-1] == SEEN).all()
    clip = benchmark.clip(late.clip)
    assert clip.frames.shape == (8, 192, 192, 3)
    assert len(clip.dense_frames) == len(clip.dense_times) == 16
