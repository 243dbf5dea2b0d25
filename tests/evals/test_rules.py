"""Published scoring rules, their known traps among them."""

import pytest

from evals.benchmarks.base import Item
from evals.scoring.rules import RULES, rules_for


def choice(truth="C", options=("up", "down", "left", "right")):
    return Item("q", "v", "r", "", "choice", "Which way?", truth, options=options)


def yes_no(truth="no"):
    return Item("q", "v", "r", "", "yes-no", "Is there a dog?", truth)


def rule(benchmark, name):
    return next(r for r in RULES[benchmark] if r.name == name)


@pytest.mark.parametrize("text", ["", "(", ")", "."])
@pytest.mark.parametrize("truth", ["A", "D"])
def test_nothing_and_a_bracket_are_right_by_mvbench(text, truth):
    assert rule("mvbench", "official").right(text, choice(truth))
    assert rule("mvbench", "vlmevalkit").right(text, choice(truth))
    assert not rule("mvbench", "strict").right(text, choice(truth))
    assert not rule("mvbench", "lmms-eval").right(text, choice(truth))


def test_an_answer_that_was_never_given_is_right_by_no_rule():
    for benchmark, rules in RULES.items():
        for one in rules:
            assert not one.right(None, choice("A")), (benchmark, one.name)


def test_lmms_leaves_empty_answers_of_mvbench_out():
    lmms = rule("mvbench", "lmms-eval")
    assert lmms.drops("", choice())
    assert not lmms.drops(" ", choice())
    assert not rule("mvbench", "official").drops("", choice())


def test_an_article_is_read_as_an_option_by_lmms():
    text = "There is a dog. The answer is C"
    assert rule("mvbench", "lmms-eval").read(text, choice()) == "A"
    assert not rule("mvbench", "lmms-eval").right(text, choice("C"))
    assert rule("mvbench", "strict").read(text, choice()) == "C"
    assert rule("perception-test", "strict").read(text, choice()) == "C"


def test_cannot_tell_is_read_as_c_by_video_mme():
    for name in ("official", "lmms-eval", "vlmevalkit"):
        assert rule("video-mme", name).read("Cannot tell", choice()) == "C"
    assert rule("video-mme", "strict").read("Cannot tell", choice()) is None


def test_video_mme_drops_what_names_no_option():
    official = rule("video-mme", "official")
    assert official.drops("no idea", choice())
    assert not official.drops("Best answer: D", choice())
    assert not rule("video-mme", "lmms-eval").drops("no idea", choice())


def test_video_mme_takes_only_the_prefixes_of_its_list_away():
    """A missing comma joins two prefixes; "Best answer:" alone stays, its B is read."""
    assert rule("video-mme", "official").read("Best answer: D", choice()) == "B"
    assert rule("video-mme", "official").read("The best answer is D", choice()) == "D"
    assert rule("video-mme", "official").read("Answer: D", choice()) == "A"
    assert rule("video-mme", "vlmevalkit").read("Answer: D", choice()) == "D"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("C", "C"), ("(C)", "C"), ("(C", "C"), ("C. left", "C"), ("C) left", "C"), ("C: left", "C"),
        ("left", "C"), (" Left. ", "C"), ("The answer is C", "C"), ("answer: (C)", "C"),
        ("I would choose C", "C"), ("A dog moves left", None), ("Cannot tell", None),
        ("A or B", None), ("E", None), ("", None), (None, None), ("Between A and B", None),
        ("A", "A"), ("The answer is A", "A"), ("A, up", "A"), ("a", None),
    ],
)  # fmt: skip
def test_the_strict_rule_reads_letters_that_are_meant(text, read):
    assert rule("mvbench", "strict").read(text, choice()) == read


@pytest.mark.parametrize(
    ("text", "official", "lmms", "kit"),
    [
        ("No.", "no", None, "no"),
        ("no", "no", "no", "no"),
        (" No", None, "no", "no"),
        ("Nothing of that kind", "no", None, None),
        ("Yesterday", "yes", None, None),
        ("The answer is no", None, None, "no"),
        ("Yes and no", "yes", None, None),
        ("**No**", None, None, None),
        ("Yes, a dog", "yes", None, "yes"),
        ("", None, None, None),
        (None, None, None, None),
    ],
)
def test_yes_and_no_as_three_programs_read_them(text, official, lmms, kit):
    read = {r.name: r.read(text, yes_no()) for r in RULES["eventhallusion"]}
    assert read == {"official": official, "lmms-eval": lmms, "vlmevalkit": kit}


def test_mvbench_compares_first_words():
    official = rule("mvbench", "official")
    assert official.right("(C) left", choice("C"))
    assert official.right("C", choice("C"))
    assert official.right("C.", choice("C"))
    assert official.right("(C)left", choice("C"))
    assert not official.right("(B) down", choice("C"))
    assert not official.right("left", choice("C"))


def test_lmms_takes_one_letter_of_perception_test():
    lmms = rule("perception-test", "lmms-eval")
    assert lmms.right("C", choice("C"))
    assert not lmms.right("C.", choice("C"))
    assert rule("perception-test", "strict").right("C.", choice("C"))


def test_ones_own_questions_take_the_rules_of_their_kind():
    assert rules_for("questions", yes_no())[0].name == "official"
    assert rules_for("questions", choice())[0].right("(c)", choice()) is False
    word = Item("q", "v", "r", "", "word", "Which way?", "left")
    assert rules_for("questions", word)[0].right("Left.", word)
    assert not rules_for("questions", word)[0].right("right", word)


def test_every_rule_names_its_source_and_its_name_once():
    for rules in RULES.values():
        assert all(r.source for r in rules)
        assert len({r.name for r in rules}) == len(rules)
