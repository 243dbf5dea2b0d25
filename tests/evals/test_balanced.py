"""Balanced regimes are: in whole cycles no constant helps a model that does not look."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.toyworld_balanced import CONTROL_OPACITY, MAKERS, cell_of, usual
from macd_studio.evals.statistics.constant import accurate_constants
from macd_studio.evals.studies.first_token import OptionLogits
from macd_studio.evals.studies.headroom import Answers, tune_constants
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.priors import priors

CYCLES = {
    "which, in thirds": 72,
    "choice of four": 96,
    "order, both ways": 60,
    "count, evenly": 60,
    "presence, both habits": 60,
    "against motion": 96,
}
"""Balanced regime with options → clips in which every cell comes equally often."""
UNBALANCED = ("which, unusual", "choice of four, unusual", "order, against habit")


@pytest.fixture(scope="module")
def benchmark():
    return find_benchmark("toyworld-balanced")


@pytest.fixture(scope="module")
def asked(benchmark):
    """Regime → [(item, clip)] of whole cycles."""

    def of(regime, n):
        return [(i, benchmark.spec(i.clip)) for i in benchmark._of(regime, "test", n)]

    return {r: of(r, CYCLES.get(r, 60)) for r in benchmark.regimes}


def habit(item, spec):
    """Logits of a model that sees scene and companions, and not what is asked about."""
    if item.question == ask.HOW_MANY:
        return np.log([0.2, 0.35, 0.3, 0.15])
    if item.question.startswith("Is there"):
        return np.array([1.5, -1.5]) * (1 if item.prior_answer == "yes" else -1)
    if item.question.startswith("Which comes"):
        return np.array([1.5, 0.0])
    fits = usual(spec.scene, item.question.split()[1])
    return np.array([2.0 if o in fits else 1.0 if o == ask.NONE else -1.0 for o in item.options])


def shares(asked):
    """Right answers without evidence: as habit has it, and with the best constants."""
    items = [item for item, _ in asked]
    logits = [OptionLogits(i.id, {"baseline": list(habit(i, spec))}) for i, spec in asked]
    answers = Answers.of(items, logits)
    tuned = tune_constants(answers, accurate_constants)
    return answers.hits_with({}).mean(), answers.hits_with(tuned).mean()


@pytest.mark.parametrize("regime", CYCLES)
def test_no_constant_helps_where_a_regime_is_balanced(benchmark, asked, regime):
    assert benchmark.balance[regime] == "balanced"
    plain, tuned = shares(asked[regime])
    assert tuned - plain < 0.01


@pytest.mark.parametrize("regime", UNBALANCED)
def test_a_constant_helps_in_the_other_of_a_pair(benchmark, asked, regime):
    assert benchmark.balance[regime] == "unbalanced"
    plain, tuned = shares(asked[regime])
    assert tuned - plain > 0.1


def suggestion(item, spec):
    """What habits would answer by, beside the asked object."""
    if item.question.startswith("Is there"):
        return item.question, item.prior_answer
    if item.question.startswith(("Which comes", "How many")):
        return spec.scene
    return item.question, *usual(spec.scene, item.question.split()[1])


@pytest.mark.parametrize("regime", [r for r in CYCLES if r != "which, in thirds"])
def test_every_answer_is_right_equally_often_whatever_else_is_seen(asked, regime):
    counts = defaultdict(Counter)
    for item, spec in asked[regime]:
        counts[suggestion(item, spec)][item.options.index(item.truth)] += 1
    for right in counts.values():
        assert len(set(right.values())) == 1
        assert len(right) == len(asked[regime][0][0].options)


def test_thirds_are_none_usual_and_unusual(asked):
    counts = defaultdict(Counter)
    for item, spec in asked["which, in thirds"]:
        kind = item.question.split()[1]
        case = item.truth if item.truth == ask.NONE else item.truth in usual(spec.scene, kind)
        counts[spec.scene, kind][case] += 1
    assert all(set(c.values()) == {3} and len(c) == 3 for c in counts.values())


def test_the_asked_object_is_faint_its_companions_clear_and_its_motion_says_nothing(asked):
    motions = defaultdict(Counter)
    for item, spec in asked["choice of four"]:
        faint = [o.label for o in spec.objects if o.contrast < 1]
        assert faint == [item.about]
        assert len(spec.objects) == 3
        motions[item.about][spec.find(item.about).motion] += 1
    moved = sum(
        n for c, m in motions.items() for k, n in m.items() if k == priors().usual_motion[c]
    )
    assert moved / sum(sum(m.values()) for m in motions.values()) == pytest.approx(0.2, abs=0.12)


def test_the_control_moves_against_habit_and_is_almost_invisible(asked):
    for item, spec in asked["against motion"]:
        animal = spec.find(item.about)
        assert CONTROL_OPACITY[0] <= animal.contrast <= CONTROL_OPACITY[1]
        assert animal.motion != priors().usual_motion[item.truth]
        assert animal.motion == priors().usual_motion[item.prior_answer]


def test_every_class_is_as_often_in_a_caption(benchmark):
    specs = [MAKERS["captions, evenly"][0](np.random.default_rng([3, i]), i, (0.3, 0.5))[0]
             for i in range(400)]  # fmt: skip
    counts = Counter(label for s in specs for label in s.labels)
    for label in priors().classes:
        assert counts[label] / len(specs) == pytest.approx(1 / 8, abs=0.06)


def test_a_cell_comes_once_at_each_level_of_a_cycle():
    cells = list("abcdefg")
    for level in range(3):
        assert sorted(cell_of(cells, i) for i in range(level, 21, 3)) == cells
    assert [cell_of(cells, i) for i in range(21)] != [cell_of(cells, i) for i in range(21, 42)]


def test_truths_hold_in_the_drawn_clip(benchmark, asked):
    p = priors()
    for item, spec in [z for regime in asked.values() for z in regime]:
        words = item.question.rstrip("?").split()
        if item.options:
            assert item.truth in item.options
        if item.question == ask.HOW_MANY:
            assert ask.NUMBERS.index(item.truth) == len(spec.objects)
        elif item.question == ask.DESCRIBE:
            assert item.truth == ask.caption(spec)
        elif words[0] == "Is":
            assert (words[3] in spec.labels) == (item.truth == "yes")
        elif words[1] == "comes":
            first, second = (spec.find(o).appears for o in item.options)
            assert item.truth == item.options[int(second < first)]
        else:
            there = [c for c in spec.labels if p.kind[c] == words[1]]
            assert (there or [ask.NONE]) == [item.truth]
