"""A regime can judge a choice of objects where a choice beats the null among them."""

import json
from dataclasses import replace

import numpy as np
import pytest

from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.toyworld_crossed import CrossedToyWorld
from macd_studio.evals.studies import selection
from macd_studio.evals.studies.control_draws import PLACES, ControlDraws, Draw, stored
from macd_studio.evals.studies.first_token import ORACLE
from macd_studio.evals.studies.one_mask import OBJECTS
from macd_studio.evals.studies.selection import (
    JUDGED,
    PLAIN,
    asked_in,
    can_judge_selection,
    refused,
    regime_report,
    why_the_oracle_tells,
    with_constants,
)
from macd_studio.evals.studies.shared import FOLDER

WORDS = ("dog", "cat", "bird", "horse")
LEVEL = [1.0, 0.0, 0.0, 0.0]


def planted(n, masked, lean=0.0, seed=0, choice=ORACLE):
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
            [view(1)] * PLACES, [view(which) for which in range(4)], 3, choice,
        ))  # fmt: skip
    return rows, items


def judged(*args, **kwargs):
    rows, items = planted(*args, **kwargs)
    return regime_report({ORACLE: rows}, items)


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
    room = found["settings"][JUDGED]
    assert room["over"]["delta"][0] > 0.1
    assert room["null"]["delta"][0] < room["oracle"]["delta"][0]


def test_no_room_where_any_object_does_the_same():
    found = judged(160, [(1.0, 1.0), (1.0, 1.0)])
    assert found["settings"][JUDGED]["oracle"]["delta"][0] > 0.1
    assert not found["can_judge_selection"]


def test_what_a_constant_gains_is_no_gain_of_a_choice():
    """The asked object masked leaves only the lean, which a constant takes away as well."""
    rows, items = planted(160, [(0.0, 1.0), (0.0, 0.0)], lean=4.0)
    found = regime_report({ORACLE: rows}, items)
    plain = found["settings"][PLAIN]
    assert can_judge_selection(plain["oracle"]["delta"], plain["over"]["delta"])
    gained = found["constants"]["constant"][0]
    assert gained > 0.05
    with_them = found["settings"][JUDGED]["baseline"][0]
    assert with_them == pytest.approx(plain["baseline"][0] + gained)
    assert not found["can_judge_selection"]


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


def test_an_oracle_that_knows_the_answer_judges_nothing():
    told = refused()
    assert set(told) == {"presence", "order"}
    benchmark = CrossedToyWorld()
    item = next(benchmark._of("options", "test", 1))
    labels = benchmark.spec(item.clip).labels
    assert why_the_oracle_tells([(item, labels)]) == ""
    assert "not in every clip" in why_the_oracle_tells([(replace(item, about=""), labels)])
    assert "several objects" in why_the_oracle_tells([(item, (*labels, "dog", "cat"))])
    assert asked_in("Is there a hat in the video?", ["car", "ball"]) == set()


def test_choices_are_told_on_the_clips_that_all_were_read_for():
    rows, items = planted(80, [(1.0, 1.0), (0.0, 1.0)])
    other = [replace(r, choice="macd", macd=r.objects[1].logits) for r in rows[80:120]]
    told = regime_report({ORACLE: rows, "macd": other}, items)["choices"]
    assert {(t["setting"], t["choice"]) for t in told} == {
        (setting, choice) for setting in (JUDGED, PLAIN) for choice in (ORACLE, "macd")
    }
    assert all(t["n"] == 40 for t in told)
    for t in told:
        assert ("holm" in t) is (t["choice"] == "macd")
        if t["null"] == OBJECTS:
            assert (t["delta"][0] > 0) is (t["choice"] == ORACLE)


def test_the_published_verdict_follows_from_the_committed_rows():
    rows = [r for path in sorted(FOLDER.glob("choice-*.xz")) for r in stored(path).values()]
    told = json.loads((FOLDER / "selection.json").read_text())
    assert json.loads(json.dumps(selection.report_of(rows))) == told
    assert told["regimes"]["faint"]["seed"] == 3
