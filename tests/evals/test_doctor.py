import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import OptionError
from evals.__main__ import main
from evals.doctor import Claim, always_yes, audit_metrics
from evals.metrics import yes_no_metrics


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_true_figures_are_always_possible(rows):
    truth = ["yes" if t else "no" for t, _ in rows]
    m = yes_no_metrics(truth, ["yes" if s else "no" for _, s in rows])
    names = ("accuracy", "precision", "recall", "f1", "yes_rate")
    claimed = {k: round(100 * m[k], 2) for k in names if m[k] == m[k]}
    found = audit_metrics(Claim(n=len(rows), positives=truth.count("yes"), **claimed))
    assert found.possible >= 1
    tp, fn, fp, tn = found.example
    assert tp + fn == truth.count("yes")
    assert tp + fn + fp + tn == len(rows)


def test_a_row_that_contradicts_itself_is_refused():
    assert (
        audit_metrics(Claim(n=193, positives=137, accuracy=90.0, recall=50.0, decimals=1)).possible
        == 0
    )


def test_figures_of_always_yes_are_possible_and_not_enough():
    line = {k: round(v, 2) for k, v in always_yes(193, 137).items()}
    found = audit_metrics(Claim(n=193, positives=137, **line))
    assert found.possible
    assert found.beats_always_yes is False
    assert "does not beat" in found.verdict


def test_unknown_positives_are_searched():
    assert audit_metrics(Claim(n=20, accuracy=55.0, f1=57.1, decimals=1)).possible
    with pytest.raises(OptionError, match="positives"):
        audit_metrics(Claim(n=5000, accuracy=50.0))


def test_the_command_says_so(capsys):
    assert main(["doctor", "--n", "193", "--positives", "137", "--accuracy", "70.98"]) == 0
    assert "does not beat" in capsys.readouterr().out
    assert main(["doctor", "--n", "10", "--positives", "5", "--accuracy", "85"]) == 1
    assert "impossible" in capsys.readouterr().out


def test_nothing_over_nothing_is_printed_as_zero():
    never = Claim(100, 50, accuracy=50, precision=0, recall=0, f1=0, yes_rate=0)
    assert audit_metrics(never).example == (0, 50, 0, 50)


def test_always_yes_as_it_is_rounded_does_not_beat_itself():
    found = audit_metrics(Claim(193, 137, accuracy=71.0, decimals=1))
    assert found.possible
    assert found.beats_always_yes is False
