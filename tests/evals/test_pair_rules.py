"""Rules of benchmarks of pairs against what their authors' programs say of the same answers.

data/rules/pairs.json holds what these programs gave: VideoHallucer at three revisions, VidHalluc at
e753864; of VidPair-Halluc, whose programs read whole files, the functions at c2e0da5 and b2ac63b.
"""

import json
from pathlib import Path

import pytest

from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.scoring.rules import rules_for

SAID = json.loads((Path(__file__).parent / "data" / "rules" / "pairs.json").read_text())
OPTIONS = ("Cutting a tomato", "Washing hands", "Pouring milk", "Washing")
KINDS = {
    "videohallucer": ("videohallucer", "yes-no", ()),
    "vidhalluc-binary": ("vidhalluc", "yes-no", ()),
    "vidhalluc-choice": ("vidhalluc", "choices", OPTIONS),
    "vidhalluc-order": ("vidhalluc", "word", ()),
    "vidpair-binary": ("vidpair-halluc", "yes-no", ()),
    "vidpair-choice": ("vidpair-halluc", "choice", ("up", "down", "to the left")),
}
JUDGED = [(part, name) for part in SAID for name in SAID[part]
          if part.startswith(("videohallucer", "vidhalluc-b", "vidhalluc-c"))]  # fmt: skip


def rule_and_item(part, name, truth):
    benchmark, kind, options = KINDS[part]
    item = Item("q", "c", "all", "", kind, "?", truth, options=options)
    return next(r for r in rules_for(benchmark, item) if r.name == name), item


@pytest.mark.parametrize(("part", "name"), JUDGED)
def test_the_same_answers_are_right_as_in_the_authors_program(part, name):
    for truth, of_truth in SAID[part][name].items():
        rule, item = rule_and_item(part, name, truth)
        assert len(of_truth) >= 30
        assert {t: rule.right(t, item) for t in of_truth} == of_truth


def test_orders_of_actions_are_read_as_in_the_authors_program():
    expected = SAID["vidhalluc-order"]["official"]
    rule, item = rule_and_item("vidhalluc-order", "official", "AB")
    assert len(expected) >= 30
    assert {t: rule.read(t, item) or "None" for t in expected} == {
        t: said or "None" for t, said in expected.items()
    }
    assert rule.right("Action A before action B", item)
    assert not rule.right("Action B before action A", item)


def test_answers_without_yes_or_no_are_left_out_as_in_the_authors_program():
    expected = SAID["vidpair-binary"]["official"]
    rule, item = rule_and_item("vidpair-binary", "official", "yes")
    assert len(expected) >= 30
    assert {t: rule.read(t, item) for t in expected} == expected
    assert {t: rule.drops(t, item) for t in expected} == {
        t: said is None for t, said in expected.items()
    }


@pytest.mark.parametrize("name", SAID["vidpair-choice"])
@pytest.mark.parametrize("truth", ["A", "B"])
def test_letters_count_as_in_the_authors_program(name, truth):
    rule, item = rule_and_item("vidpair-choice", name, truth)
    expected = SAID["vidpair-choice"][name]
    assert len(expected) >= 30
    assert {t: rule.right(t, item) for t in expected} == {
        t: said == truth for t, said in expected.items()
    }


def test_the_three_scorers_of_videohallucer_are_three():
    """One answer, which each of the authors' scorers judges otherwise than another."""
    rules = {n: SAID["videohallucer"][n]["yes"] for n in SAID["videohallucer"]}
    assert [rules[n]["There is. Yes."] for n in rules] == [True, False, False]
    assert [rules[n]["Yes, there is."] for n in rules] == [True, True, False]
