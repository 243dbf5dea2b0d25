"""The crossed benchmark: nothing but the asked object says what the answer is."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.toyworld_crossed import COMPANIONS, CYCLE, OPACITY
from macd_studio.toyworld.priors import priors

P = priors()


@pytest.fixture(scope="module")
def benchmark():
    return find_benchmark("toyworld-crossed")


@pytest.fixture(scope="module")
def asked(benchmark):
    """Regime → [(item, clip)] of one whole cycle."""
    return {
        regime: [(i, benchmark.spec(i.clip)) for i in benchmark._of(regime, "test", n)]
        for regime, n in CYCLE.items()
    }


def habits(benchmark, item, spec):
    """Everything that suggests an answer, beside the asked object itself."""
    if item.regime == "options":
        found = benchmark.habits(item.clip)
        return found["scene"], found["motion"], found.get("companion")
    if item.regime == "presence":
        noun = item.question.split()[3]
        heads = [h for h, partner in P.partner.items() if partner == noun]
        (faint,) = (o for o in spec.objects if o.contrast < 1)
        return (
            noun,
            noun in P.typical[spec.scene],
            any(h in spec.labels for h in heads),
            faint.motion == P.usual_motion[noun],
        )
    return spec.scene


@pytest.mark.parametrize("regime", ["options", "presence", "order"])
def test_every_answer_is_right_equally_often_whatever_habits_suggest(benchmark, asked, regime):
    counts = defaultdict(Counter)
    for item, spec in asked[regime]:
        counts[habits(benchmark, item, spec)][item.options.index(item.truth)] += 1
    for right in counts.values():
        assert len(set(right.values())) == 1
        assert len(right) == len(asked[regime][0][0].options)


@pytest.mark.parametrize("habit", ["scene", "motion", "companion"])
def test_no_habit_is_right_more_often_than_chance(benchmark, asked, habit):
    right = [benchmark.habits(i.clip)[habit] == i.truth for i, _ in asked["options"]
             if habit in benchmark.habits(i.clip)]  # fmt: skip
    assert np.mean(right) == 1 / 4


@pytest.mark.parametrize("regime", CYCLE)
def test_what_is_asked_about_is_faint_and_its_companions_are_clear(asked, regime):
    for item, spec in asked[regime]:
        faint = {o.label: o.contrast for o in spec.objects if o.contrast < 1}
        assert len(spec.objects) == COMPANIONS + 1
        assert len(faint) == (2 if regime == "order" else 1)
        assert all(OPACITY[regime][0] <= z <= OPACITY[regime][1] for z in faint.values())
        assert not item.about or item.about in faint


def test_a_companion_suggests_one_animal_at_most(asked):
    partners = [P.partner[a] for a in P.of_kind("animal") if a in P.partner]
    for _, spec in asked["options"]:
        assert len(set(spec.labels) & set(partners)) <= 1


def test_the_clips_to_tune_on_are_others(benchmark):
    for regime in benchmark.regimes:
        one, two = (next(benchmark._of(regime, split, 1)) for split in ("choose", "test"))
        assert (benchmark.clip(one.clip).frames != benchmark.clip(two.clip).frames).any()
