"""What is right behind each mask, by hand."""

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.running.rows import seeded
from macd_studio.evals.studies.control_draws import PLACES, ControlDraws, Draw
from macd_studio.evals.studies.first_token import contrasted
from macd_studio.evals.studies.outcomes import AVERAGE, MACD, OBJECTS, PLACE, Outcomes, best_pair
from macd_studio.evals.studies.shared import truths


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


def test_of_equal_pairs_the_smallest_alpha_and_largest_beta_is_taken(made):
    share = made[2].scores[PLACE].mean(1)
    best = best_pair(made[2].scores[PLACE])
    assert share[best] == pytest.approx(share.max())
    equal = [pair for pair, z in zip(GRID, share, strict=True) if z == pytest.approx(share.max())]
    assert GRID[best] == min(equal, key=lambda pair: (pair[0], -pair[1]))
    assert GRID[best_pair(np.ones((len(GRID), 3)))] == min(GRID, key=lambda z: (z[0], -z[1]))


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
