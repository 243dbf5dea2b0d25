"""A regime can judge a choice of objects where a choice beats the null among them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.studies import selection
from macd_studio.evals.studies.control_draws import PLACES, ControlDraws, Draw, stored
from macd_studio.evals.studies.first_token import ORACLE
from macd_studio.evals.studies.selection import (
    can_judge_selection,
    regime_report,
    with_constants,
)
from macd_studio.evals.studies.shared import FOLDER

WORDS = ("dog", "cat", "bird", "horse")
LEVEL = [1.0, 0.0, 0.0, 0.0]


def planted(n, masked, lean=0.0, seed=0):
    """Rows of n clips of each split, and their items; the habit misleads most of the time.

    masked: shares of the habit, and of a lean to the first option, that are left in the view of the
    asked object masked, and in those of the three others.
    """
    rng = np.random.default_rng(seed)
    rows, items = [], {}
    for i in range(2 * n):
        truth, habit = i % 4, rng.normal(0, 2, 4)
        evidence, leaning = 1.5 * np.eye(4)[truth], lean * np.eye(4)[0]

        def view(which, habit=habit, leaning=leaning):
            kept, left = masked[min(which, 1)]
            return Draw((kept * habit + left * leaning).tolist(), 1.0, 0.5, LEVEL)

        name = f"{'choose' if i < n else 'test'}/faint/{i}/0"
        items[name] = Item(name, name, "faint", "", "forced", "?", WORDS[truth], options=WORDS)
        rows.append(ControlDraws(
            name, (habit + evidence + leaning).tolist(), view(0).logits, LEVEL,
            [view(1)] * PLACES, [view(which) for which in range(4)], 3, ORACLE,
        ))  # fmt: skip
    return rows, items


def judged(*args, **kwargs):
    rows, items = planted(*args, **kwargs)
    return regime_report(rows, items)


@pytest.mark.parametrize(
    ("oracle", "over", "said"),
    [
        ((0.10, 0.05, 0.15), (0.04, 0.01, 0.09), True),
        ((0.09, 0.05, 0.15), (0.04, 0.01, 0.09), False),
        ((0.10, -0.01, 0.15), (0.04, 0.01, 0.09), False),
        ((0.10, 0.05, 0.15), (0.03, 0.01, 0.09), False),
        ((0.10, 0.05, 0.15), (0.04, -0.01, 0.09), False),
    ],
)
def test_the_bars(oracle, over, said):
    assert can_judge_selection(oracle, over) is said


def test_room_is_seen_where_it_matters_which_object_is_masked():
    found = judged(160, [(1.0, 1.0), (0.0, 1.0)])
    assert found["can_judge_selection"]
    assert found["over"]["delta"][0] > 0.1
    assert found["null"]["delta"][0] < found["oracle"]["delta"][0]


def test_no_room_where_any_object_does_the_same():
    found = judged(160, [(1.0, 1.0), (1.0, 1.0)])
    assert found["oracle"]["delta"][0] > 0.1
    assert not found["can_judge_selection"]


def test_what_a_constant_gains_is_no_gain_of_a_choice(monkeypatch):
    """The asked object masked leaves only the lean, which a constant takes away as well."""
    rows, items = planted(160, [(0.0, 1.0), (0.0, 0.0)], lean=4.0)
    found = regime_report(rows, items)
    gained = found["constants"]["constant"][0]
    assert gained > 0.05
    assert not found["can_judge_selection"]
    monkeypatch.setattr(selection, "tune_constants", lambda *_: {})
    plain = regime_report(rows, items)
    assert plain["can_judge_selection"]
    assert found["baseline"][0] == pytest.approx(plain["baseline"][0] + gained)


def test_constants_move_every_view_of_a_row_alike():
    (row, *_), items = planted(1, [(0.5, 1.0), (0.2, 1.0)])
    moved = with_constants(row, items[row.item], {"cat": 2.0})
    added = np.array([0, 2, 0, 0])
    pairs = [(row.video, moved.video), (row.macd, moved.macd)]
    for name in ("places", "objects"):
        draws = zip(getattr(row, name), getattr(moved, name), strict=True)
        pairs += [(a.logits, b.logits) for a, b in draws]
    assert len(pairs) == 2 + PLACES + 4
    for before, after in pairs:
        assert np.array(after) - before == pytest.approx(added)


def test_rows_that_cannot_judge_are_refused():
    rows, items = planted(2, [(1.0, 1.0), (0.0, 1.0)])
    with pytest.raises(OptionError, match="both splits"):
        regime_report(rows[:2], items)
    of_order = [replace(r, item="test/order/0/0") for r in rows[:1]]
    published = [*stored(FOLDER / "choice-faint-oracle.json.xz").values()][:2]
    by_macd = [replace(published[0], choice="macd")]
    another = [published[0], replace(published[1], seed=4)]
    for some in (of_order, by_macd, another):
        with pytest.raises(OptionError, match="cannot judge"):
            selection.report_of(some)


def test_the_published_verdict_follows_from_the_committed_rows():
    rows = [r for path in sorted(FOLDER.glob("choice-*.xz")) for r in stored(path).values()]
    told = json.loads((FOLDER / "selection.json").read_text())
    assert json.loads(json.dumps(selection.report_of(rows))) == told
    assert told["regimes"]["faint"]["seed"] == 3
