"""What one random mask gains: outcomes by hand, tuning that sees no clip it scores, coverage."""

import json

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.running.rows import seeded
from macd_studio.evals.statistics.intervals import difference_interval
from macd_studio.evals.studies.control_draws import PLACES, ControlDraws, Draw, stored
from macd_studio.evals.studies.first_token import contrasted
from macd_studio.evals.studies.one_mask import (
    AVERAGE,
    FOLDS,
    MACD,
    OBJECTS,
    PLACE,
    Outcomes,
    best_pair,
    cross_fitted,
    folds_of,
    report_of,
    tuned_interval,
)
from macd_studio.evals.studies.shared import FOLDER, truths


def planted(n, seed=0):
    """Rows whose second views are the video's logits with noise, and their truths."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, n)
    rows = []
    for i in range(n):
        habit, evidence = rng.normal(0, 2, 4), 1.5 * np.eye(4)[truth[i]]

        def draw(habit=habit):
            return Draw(
                (rng.uniform(0, 1) * habit + rng.normal(0, 1, 4)).tolist(), 1.0,
                float(rng.random()), [1.0, 0.0],
            )  # fmt: skip

        split = "choose" if i < n // 3 else "test"
        rows.append(ControlDraws(
            f"{split}/options/{i}/0", (habit + evidence).tolist(), (0.7 * habit).tolist(),
            [1.0, 0.0], [draw() for _ in range(PLACES)], [draw() for _ in range(2 + i % 3)],
        ))  # fmt: skip
    return rows, truth.tolist()


@pytest.fixture(scope="module")
def made():
    rows, truth = planted(60)
    return rows, truth, Outcomes.of(rows, truth)


def test_outcomes_are_those_of_every_mask_by_itself(made):
    rows, truth, outcomes = made
    for g, pair in enumerate(GRID[::7]):
        for i in (0, 7, 23):
            row = rows[i]

            def right(logits, row=row, pair=pair, i=i):
                views = np.array([row.video]), np.array([logits])
                return int(contrasted(*views, *pair)[0]) == truth[i]

            at = 7 * g, i
            places = [right(d.logits) for d in row.places]
            assert outcomes.scores[PLACE][at] == pytest.approx(np.mean(places))
            assert outcomes.places[at[0], :, i].tolist() == places
            orders = [right(d.logits) for d in row.objects]
            assert outcomes.scores[OBJECTS][at] == pytest.approx(np.mean(orders))
            assert outcomes.scores[MACD][at] == right(row.macd)
            mean = np.mean([d.logits for d in row.places], 0)
            assert outcomes.scores[AVERAGE][at] == right(mean)


def test_no_clip_is_scored_at_a_pair_that_it_helped_to_choose(made):
    outcomes = made[2]
    tuned, keys = outcomes.scores[PLACE], np.arange(60)
    _, pairs = cross_fitted(tuned, [tuned], keys, np.random.default_rng(3), 1)
    folds = folds_of(keys, int(np.random.default_rng(3).integers(2**31)))
    assert sorted(np.bincount(folds).tolist()) == [60 // FOLDS] * FOLDS
    for fold in range(FOLDS):
        changed = tuned.copy()
        changed[:, folds == fold] = np.random.default_rng(fold).random((len(GRID), 60 // FOLDS))
        again = cross_fitted(changed, [tuned], keys, np.random.default_rng(3), 1)[1]
        assert again[fold] == pairs[fold] == best_pair(tuned, np.flatnonzero(folds != fold))
    twice = np.repeat(np.arange(30), 2)
    divided = folds_of(twice, 1)
    assert (divided[::2] == divided[1::2]).all()


def test_what_tuning_adds_widens_the_interval(made):
    scores = made[2].scores
    base = np.tile(made[2].base.astype(float), (len(GRID), 1))
    (estimate, low, high), pairs = tuned_interval(
        scores[PLACE], base, scores[PLACE], np.arange(60), np.random.default_rng(0)
    )
    (gains,), same = cross_fitted(
        scores[PLACE], [scores[PLACE] - base], np.arange(60), np.random.default_rng(0)
    )
    plain = difference_interval(gains, range(60))
    assert (estimate, pairs) == (pytest.approx(plain[0]), same)
    assert low <= plain[1]
    assert high >= plain[2]


def test_the_right_answers_are_those_of_the_drawing():
    """Asked of each row's own seed, whatever a design makes of it."""
    rows = [ControlDraws(f"test/options/{i}/0", [], [], [], [], [], seed)
            for seed in (0, 1) for i in range(40)]  # fmt: skip
    found = truths(rows)
    for seed, own in ((0, found[:40]), (1, found[40:])):
        benchmark = seeded(find_benchmark("toyworld-crossed"), seed)
        items = [benchmark.item(f"test/options/{i}") for i in range(40)]
        assert own == [i.options.index(i.truth) for i in items]
    with pytest.raises(OptionError, match="no question"):
        truths([ControlDraws("test/nothing/0/0", [], [], [], [], [])])


@pytest.mark.long
def test_the_published_figures_follow_from_the_draws():
    rows = sorted(stored(FOLDER / "draws.json.xz").values(), key=lambda r: r.item[:4] == "test")
    told = json.loads((FOLDER / "one-mask.json").read_text())
    again = json.loads(json.dumps(report_of(rows, truths(rows), told["tuned_on"], simulated=2)))
    for name in ("n", "chosen", "thirds", "one_placement", "fixed", "cross_fitted"):
        assert again[name] == told[name], name


def test_the_published_intervals_hold():
    told = json.loads((FOLDER / "one-mask.json").read_text())
    assert told["n"] == len(stored(FOLDER / "draws.json.xz"))
    for part in told["coverage"].values():
        assert part["held"] >= 0.94
        assert part["draws"] >= 1000
