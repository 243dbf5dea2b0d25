"""The rule that sorts questions by type, beside the labels of a reader."""

import hashlib

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.paper.paper_page import page
from macd_studio.evals.paper.query_types import (
    DIMENSIONS,
    TAKEN,
    draw,
    kappa,
    kappa_interval,
    main,
    markdown,
    read,
    with_rule,
)


def test_kappa_is_agreement_beyond_chance():
    one, two = ["a"] * 20 + ["b"] * 30, ["a"] * 15 + ["b"] * 5 + ["a"] * 10 + ["b"] * 20
    # agreed .7; chance .4 · .5 + .6 · .5
    assert kappa(one, two) == pytest.approx((0.7 - 0.5) / 0.5)
    assert kappa(one, one) == 1
    assert np.isnan(kappa(["a", "a"], ["a", "a"]))
    estimate, low, high = kappa_interval(one, two)
    assert low < estimate < high
    assert high - low == pytest.approx(2 * 1.96 * 0.13, rel=0.15)  # the normal one, s.e. .13
    assert np.isnan(kappa_interval(["a", "a"], ["a", "a"])).all()


def test_the_labelled_questions_are_distinct_and_as_many_as_were_drawn():
    comment, rows = read()
    assert "one reader" in comment
    assert len({r["text"] for r in rows}) == len(rows) == 60
    for source, n in TAKEN.items():
        assert sum(r["source"] == source for r in rows) == n
    for column in DIMENSIONS:
        assert len({r[column] for r in rows}) == len({r[f"rule_{column}"] for r in rows}) == 2


def test_the_page_tells_the_agreement_of_the_file(capsys):
    told = markdown(read()[1])
    assert told in page()
    assert main([]) == 0
    assert capsys.readouterr().out == told + "\n"
    assert main(["--data", "nowhere"]) == 2
    assert "no folder" in capsys.readouterr().err


def test_labels_of_other_questions_are_refused():
    row = {"source": "pope", "id": "random/1", "depth": "descriptive", "focus": "event-centric"}
    text = "Is there a hat in the image?"
    row["text"] = hashlib.sha256(text.encode()).hexdigest()[:12]
    (found,) = with_rule([row], [("pope", "random/1", text)])
    assert found["rule_depth"] == "descriptive"
    assert found["rule_focus"] == "attribute-centric"
    with pytest.raises(OptionError, match="not those that were labelled"):
        with_rule([row], [("pope", "random/1", "Why?")])


@pytest.mark.real
def test_the_rule_s_labels_follow_from_the_questions(real):
    _, rows = read()
    assert with_rule(rows, draw(real / "benchmarks")) == rows
