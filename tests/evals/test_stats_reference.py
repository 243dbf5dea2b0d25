"""Power and shares of tokens against slow computations of the same."""

import math

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.running.rows import Row
from macd_studio.evals.statistics.metrics import (
    certified_tokens,
    choice_ledger,
    clamped_shares,
    one_answer_note,
    open_shares,
    yes_no_ledger,
)
from macd_studio.evals.statistics.stats import (
    check_difference,
    choice_test,
    could_differ,
    power_of,
    questions_needed,
    smallest_difference,
    sum_of_draws,
)


def power_by_definition(n, difference, discordance, level=0.05, design_effect=1.0):
    """Every number of discordant questions, and every way in which they can fall."""
    n, better = int(n / design_effect), (discordance + difference) / (2 * discordance)
    total = 0.0
    for m in range(n + 1):
        those = math.comb(n, m) * discordance**m * (1 - discordance) ** (n - m)
        for k in range(m + 1):
            tail = sum(math.comb(m, i) for i in range(min(k, m - k) + 1)) / 2**m
            if tail <= level / 2:
                total += those * math.comb(m, k) * better**k * (1 - better) ** (m - k)
    return total


@pytest.mark.parametrize("n", [1, 6, 23, 41])
@pytest.mark.parametrize(("difference", "discordance"), [(0.2, 0.5), (0.3, 0.3), (0.6, 1.0)])
@pytest.mark.parametrize(("level", "design_effect"), [(0.05, 1.0), (0.0625, 1.0), (0.2, 1.7)])
def test_power_by_its_definition(n, difference, discordance, level, design_effect):
    made = power_of(n, difference, discordance, level, design_effect)
    expected = power_by_definition(n, difference, discordance, level, design_effect)
    assert made == pytest.approx(expected, abs=1e-10)
    worse = power_of(n, -difference, discordance, level, design_effect)
    assert worse == pytest.approx(expected, abs=1e-10)


def test_power_of_many_questions_leaves_nothing_out():
    """Although not every number of discordant questions is summed over."""
    for level in (0.05, 0.2):
        expected = power_by_definition(150, 0.1, 0.4, level)
        assert power_of(150, 0.1, 0.4, level) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("power", "level", "design_effect"), [(0.8, 0.05, 1.0), (0.6, 0.01, 1.5)])
def test_so_many_questions_are_needed_and_not_one_fewer(power, level, design_effect):
    asked = (0.3, 0.5, power, level, design_effect)
    n = questions_needed(*asked)
    assert power_by_definition(n, 0.3, 0.5, level, design_effect) >= power
    assert power_by_definition(n - 1, 0.3, 0.5, level, design_effect) < power
    assert questions_needed(-0.3, *asked[1:]) == n


@pytest.mark.parametrize("design_effect", [1.0, 2.0])
def test_the_smallest_difference_just_has_the_power(design_effect):
    found = smallest_difference(60, 0.4, 0.7, design_effect)
    assert power_by_definition(60, found, 0.4, 0.05, design_effect) == pytest.approx(0.7, abs=1e-9)
    most = power_of(30, 0.2, 0.2)
    assert smallest_difference(30, 0.2, most) == pytest.approx(0.2)
    assert smallest_difference(60, 0.2, most) is not None
    assert smallest_difference(60, 0.2, most + 1e-9, design_effect=2.0) is None


def test_what_two_methods_can_differ_by():
    check_difference(1.0, 1.0)
    check_difference(-0.2, 0.2)
    for difference, discordance in ((0.0, 0.2), (0.3, 0.2), (0.5, 1.2)):
        with pytest.raises(OptionError, match="only one method"):
            check_difference(difference, discordance)


def test_the_least_and_the_most_that_draws_can_give():
    classes = [[0, 1, 1, 1]] * 2
    assert sum_of_draws(classes).tolist() == pytest.approx([1 / 16, 6 / 16, 9 / 16])
    assert choice_test([0, 0], classes) == pytest.approx(2 / 16)
    assert choice_test([1, 0], classes) == pytest.approx(14 / 16)
    assert choice_test([1, 1], classes) == 1.0
    unlike = sum_of_draws([[0, 1, 1, 1], [0, 2]])
    assert unlike.tolist() == pytest.approx([1 / 8, 3 / 8, 1 / 8, 3 / 8])
    for sum_ in ([-1, 0], [3, 0]):
        with pytest.raises(ValueError, match="no draws"):
            choice_test(sum_, classes)


def test_clips_without_a_difference_are_no_evidence():
    assert could_differ([1, -1, 1, 1, -1, 1, 0, 0], range(8))
    assert not could_differ([1, -1, 1, 1, -1, 0, 0, 0], range(8))


def row(**more):
    return Row("key", "item", "macd", **more)


def test_certified_tokens_are_counted_where_a_server_was_asked():
    rows = [row(tokens=4, certified=3), row(tokens=6, certified=0), row(tokens=9), row(certified=2)]
    assert certified_tokens(rows) == {"certified": {"tokens": 10, "certified": 3}}
    assert certified_tokens(rows[2:]) == {}


def test_clamped_shares_are_means_by_method():
    rows = {
        "vcd": [row(clamped=0.2), row(clamped=0.4), row()],
        "macd": [row(), row()],
        "sid": [row(clamped=0.0)],
    }
    shares = clamped_shares(rows)["clamped"]
    assert shares == {"vcd": pytest.approx(0.3), "sid": 0.0}
    assert clamped_shares({"macd": rows["macd"]}) == {}


def test_open_shares_are_of_the_questions_that_a_contrast_could_change():
    rows = [
        row(tokens=4, open=1, reads=3.0),
        row(tokens=6, open=0, reads=4.0),
        row(tokens=2, open=2),
        row(tokens=8, reads=9.0),
        row(open=1, reads=9.0),
    ]
    assert open_shares(rows) == {
        "open": {
            "n": 3,
            "questions": pytest.approx(2 / 3),
            "tokens": pytest.approx(3 / 12),
            "reads": pytest.approx(7 / 3),
            "lazy_reads": pytest.approx(4 / 3),
        }
    }
    assert open_shares(rows[3:]) == {}


def test_ledgers_take_one_answer_a_question():
    for ledger in (yes_no_ledger, choice_ledger):
        with pytest.raises(ValueError, match="zip"):
            ledger(["yes", "no"], ["yes"])
    one = yes_no_ledger(["yes", "no"], ["yes", "no"])
    assert (one["balanced"], one["recall"], one["f1"]) == (100.0, 100.0, 100.0)
    third = choice_ledger(["A", "B", "B"], ["A", "A", "B"])
    assert third["rates"] == {"A": 66.6667, "B": 33.3333}
    assert yes_no_ledger([], [])["yes_rate"] == 0.0


def test_splits_with_both_answers_need_no_note():
    assert one_answer_note({"mix": ["yes", "no"]}) == ""
    alone = one_answer_note({"entire": ["no", "no"], "mix": ["yes", "no"]})
    assert "entire (2 × no)" in alone
    assert "A shift towards yes" not in alone
