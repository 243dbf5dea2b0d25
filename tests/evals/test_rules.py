"""Published scoring rules, their known traps among them."""

import json
from pathlib import Path

import pytest

from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.scoring.rules import RULES, rules_for, spoken


def choice(truth="C", options=("up", "down", "left", "right")):
    return Item("q", "v", "r", "", "choice", "Which way?", truth, options=options)


def yes_no(truth="no"):
    return Item("q", "v", "r", "", "yes-no", "Is there a dog?", truth)


def rule(benchmark, name):
    return next(r for r in RULES[benchmark] if r.name == name)


def test_an_answer_that_was_never_given_is_right_by_no_rule():
    for benchmark, rules in RULES.items():
        for one in rules:
            assert not one.right(None, choice("A")), (benchmark, one.name)


def test_lmms_leaves_empty_answers_of_mvbench_out():
    lmms = rule("mvbench", "lmms-eval")
    assert lmms.drops("", choice())
    assert not lmms.drops(" ", choice())
    assert not rule("mvbench", "official").drops("", choice())


def test_video_mme_drops_what_names_no_option():
    official = rule("video-mme", "official")
    assert official.drops("no idea", choice())
    assert official.drops("<think>A or B?</think> no idea", choice())  # only what it then says
    assert not official.drops("<think>no idea</think> D", choice())
    assert not official.drops("Best answer: D", choice())
    assert not rule("video-mme", "lmms-eval").drops("no idea", choice())


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("C", "C"), ("(C)", "C"), ("(C", "C"), ("C. left", "C"), ("C) left", "C"), ("C: left", "C"),
        ("left", "C"), (" Left. ", "C"), ("The answer is C", "C"), ("answer: (C)", "C"),
        ("I would choose C", "C"), ("A dog moves left", None), ("Cannot tell", None),
        ("A or B", None), ("E", None), ("", None), (None, None), ("Between A and B", None),
        ("A", "A"), ("The answer is A", "A"), ("A, up", "A"), ("a", "A"), ("a dog", None),
        ("A dog", None), ("Answer: A dog", "A"), ("The answer is A red cube.", "A"),
        ("(b)", "B"), ("(b) down", "B"), ("b.", "B"), ("e", None), ("**B**", "B"),
        ("There is a dog. The answer is C", "C"),
    ],
)  # fmt: skip
def test_the_strict_rule_reads_letters_that_are_meant(text, read):
    assert rule("mvbench", "letter").read(text, choice()) == read


@pytest.mark.parametrize(
    ("text", "official", "strict", "pope"),
    [
        ("No.", "no", "no", "no"),
        (" No", None, "no", "no"),
        ("Nothing of that kind", "no", None, "yes"),
        ("none", "no", None, "yes"),
        ("Yesterday", "yes", None, "yes"),
        ("The answer is no", None, "no", "no"),
        ("Yes and no", "yes", None, "no"),
        ("**No**", None, "no", "yes"),
        ("Yes, a dog", "yes", "yes", "yes"),
        ("Yes. I see no cat.", "yes", None, "yes"),
        ("It is not there", None, None, "no"),
        ("", None, None, "yes"),
    ],
)
def test_yes_and_no_as_three_programs_read_them(text, official, strict, pope):
    assert rule("eventhallusion", "official").read(text, yes_no()) == official
    assert rule("video-pope", "strict").read(text, yes_no()) == strict
    assert rule("video-pope", "pope").read(text, yes_no()) == pope


def test_eventhallusion_is_read_as_by_its_authors_program():
    """What the function of their program gave for the same answers."""
    path = Path(__file__).parent / "data" / "rules" / "eventhallusion.json"
    said = json.loads(path.read_text(encoding="utf-8"))["read"]
    assert len(said) >= 30
    official = rule("eventhallusion", "official")
    assert {t: official.read(t, yes_no()) for t in said} == said


def test_the_rule_of_the_authors_is_the_headline():
    for benchmark in ("eventhallusion", "mvbench", "video-mme"):
        assert RULES[benchmark][0].name == "official"
    assert rules_for("mvbench", choice("B"))[0].right("(b)", choice("B"))
    assert rule("mvbench", "letter").right("(b)", choice("B"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>It may be A.\nOr B.</think>\n(C)", "(C)"),
        ("It may be A.</think>C", "C"),
        ("<think>A</think><thinking>B</thinking> C", "C"),
        ("C <think>or A", "C"),
        ("<think>A is what I", None),
        ("<think>A</think> ", None),
        ("[failed]", None),
        (" C", " C"),
        ("", ""),
        (None, None),
    ],
)
def test_what_a_model_thought_is_no_answer(text, said):
    assert spoken(text) == said
    for benchmark, rules in RULES.items():
        asked = yes_no() if benchmark in ("eventhallusion", "video-pope") else choice("A")
        for one in rules:
            assert one.right(text, asked) == one.right(said, asked), (benchmark, one.name)


@pytest.mark.parametrize(("said", "thought"), [("yes", "no"), ("no", "yes")])
def test_a_yes_no_answer_is_read_after_the_thought(said, thought):
    for one in (*RULES["eventhallusion"], *RULES["video-pope"], *rules_for("toyworld", yes_no())):
        text = f"<think>{thought.title()}, {thought}. Or {said}?</think>\n{said.title()}."
        assert one.read(text, yes_no()) == said, one.name
        assert one.read(f"{thought}?</think>{said}", yes_no()) == said, one.name
        for cut in (f"<think>{said}", f"<think>{said}</think>"):
            assert not one.right(cut, yes_no(said)), one.name


def test_an_unfinished_thought_is_right_by_no_rule():
    """MVBench's own scorer takes the empty answer that would be left for any letter."""
    for one in RULES["mvbench"]:
        for truth in "ABCD":
            assert not one.right("<think>(A) it is", choice(truth))
