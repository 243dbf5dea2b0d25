import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macd_studio.core.errors import OptionError
from macd_studio.evals.__main__ import main
from macd_studio.evals.paper.doctor import METRICS, Claim, always_yes, audit_metrics
from macd_studio.evals.paper.paper_page import misfits, page, tables
from macd_studio.evals.paper.published import coincidences, disagreements, read_table
from macd_studio.evals.statistics.metrics import yes_no_metrics


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["yes", "no", None])), min_size=2, max_size=40
    ),
    st.sampled_from(["wrong", "no"]),
    st.sampled_from(["rounded", "rounded-or-truncated"]),
    st.dictionaries(st.sampled_from(METRICS), st.integers(0, 4)),
)
def test_true_figures_are_possible_under_the_convention_they_were_made_by(
    rows, unmatched, printed, places
):
    truth = ["yes" if t else "no" for t, _ in rows]
    said = [s if s or unmatched == "wrong" else "no" for _, s in rows]
    m = yes_no_metrics(truth, said)
    claimed = {}
    for name in METRICS:
        if m[name] == m[name]:
            scale = 10 ** places.get(name, 2)
            cut = round if printed == "rounded" else math.floor
            claimed[name] = cut(100 * m[name] * scale + (1e-9 if cut is math.floor else 0)) / scale
    claim = Claim(len(rows), truth.count("yes"), **claimed, decimals=places, unmatched=unmatched,
                  printed=printed)  # fmt: skip
    found = audit_metrics(claim)
    assert found.possible >= 1
    tp, fn, fp, tn = found.example
    assert tp + fn == truth.count("yes")
    assert tp + fn + fp + tn <= len(rows)


def test_counts_are_those_of_brute_force():
    claim = Claim(12, 5, accuracy=50.0, f1=50.0, decimals=0)
    sets = [
        (tp, fp, tn)
        for tp in range(6) for fp in range(8) for tn in range(8 - fp)
        if round(100 * (tp + tn) / 12) == 50 and abs(200 * tp / (tp + fp + 5) - 50) <= 0.5
    ]  # fmt: skip
    assert audit_metrics(claim).possible == len(sets) > 1
    exact = [z for z in sets if z[1] + z[2] == 7]
    no = Claim(12, 5, accuracy=50.0, f1=50.0, decimals=0, unmatched="no")
    assert audit_metrics(no).possible == len(exact)


def test_what_is_cut_off_fits_only_where_that_is_asked():
    share = 100 * 2 / 3
    assert not audit_metrics(Claim(3, 1, accuracy=66.66)).possible
    assert audit_metrics(Claim(3, 1, accuracy=66.66, printed="rounded-or-truncated")).possible
    assert audit_metrics(Claim(3, 1, accuracy=round(share, 2))).possible


def test_one_class_and_a_wrong_f1_are_noted():
    one = audit_metrics(Claim(193, 193, accuracy=96.1, decimals=1))
    assert "say nothing" in one.notes[0]
    off = audit_metrics(Claim(193, 137, precision=76, recall=72, f1=69, decimals=0))
    assert "73.45 to 74.45" in off.notes[0]
    assert not audit_metrics(Claim(193, 137, precision=76, recall=72, f1=74, decimals=0)).notes


def test_decimals_by_metric_on_the_command_line(capsys):
    words = ["doctor", "--n", "12", "--positives", "5", "--accuracy", "58.3", "--f1", "62"]
    assert main([*words, "--decimals", "accuracy=1,f1=0"]) == 0
    assert "always yes gets accuracy 41.67" in capsys.readouterr().out
    assert main([*words, "--decimals", "accuracy=2,f1=0"]) == 1
    assert main([*words, "--decimals", "accuracies=2"]) == 2
    assert main([*words, "--decimals", "x"]) == 2
    assert main(["doctor", "--accuracy", "50"]) == 2


TABLE = """# somewhere
model,method,unit,n,positives,accuracy,f1
a,Baseline,share,12,5,0.583,
b,Baseline,share,12,5,0.58,0.99
c,Baseline,share,,,0.58,
"""


def test_a_table_gets_a_verdict_a_row(tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    assert main(["doctor", "--table", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["a, Baseline", "b, Baseline", "c, Baseline"]
    assert "possible" in lines[0]
    assert "impossible" in lines[1]
    assert "nothing to check" in lines[2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 rows"),
        ("n,accuracy\nten,50\n", "n in line 2"),
        ("n,accuracy\n10,nan\n", "accuracy in line 2"),
        ("n,accuracy\n10\n", "another number of cells"),
        ("n,accuracy,unit\n10,50,miles\n", "unit in line 2"),
        ("n,accuracy\n10,1e999\n", "accuracy in line 2"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(tmp_path, text, why):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(OptionError, match=why):
        read_table(path)
    with pytest.raises(OptionError, match="cannot be read"):
        read_table(tmp_path / "none.csv")


def test_the_paper_s_tables_are_what_they_are_known_to_be():
    published = tables()
    assert misfits(published["main"].rows) == [9, 8, 7, 6]
    rows = [r for t in published.values() for r in t.rows]
    pairs = [(c.first.table, c.second.table) for c in coincidences(rows, ("benchmark",), "method")]
    assert pairs == [("ablation", "learning_rate")]
    differ = {(c.first.table, c.second.table)
              for c in disagreements(rows, ("benchmark", "model", "method"))}  # fmt: skip
    assert ("main", "self_consistency") in differ
    assert ("ablation", "main") not in differ


def test_the_page_of_the_paper_s_tables_is_up_to_date():
    told = Path(__file__).parents[2] / "docs" / "paper-tables.md"
    assert told.read_text(encoding="utf-8") == page()


def test_figures_of_always_yes_are_possible_and_not_enough():
    line = {k: round(v, 2) for k, v in always_yes(193, 137).items()}
    found = audit_metrics(Claim(n=193, positives=137, **line))
    assert found.possible
    assert found.beats_always_yes is False
    assert found.verdict.endswith("does not beat answering yes every time in accuracy and F1")


def test_each_metric_is_held_against_always_yes():
    found = audit_metrics(Claim(193, 137, accuracy=72.02, f1=82.24, recall=91.24))
    assert found.over_always_yes == {"accuracy": True, "f1": False}
    assert found.beats_always_yes is False
    assert found.verdict.endswith("every time in F1")
    assert audit_metrics(Claim(10, 5, recall=100.0)).beats_always_yes is None


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
