"""Own questions: groups, several right letters, words of yes and no, times, letters of options."""

import json

import pytest

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.questions import AFTER_SEVERAL, Questions
from macd_studio.evals.scoring.rules import rules_for
from macd_studio.evals.scoring.score import score
from macd_studio.evals.scoring.show import scores_markdown


def asked(folder, *records, words=""):
    (folder / "clip.mp4").write_bytes(b"")
    rows = [{"video": "clip.mp4", "question": "Is it?", "answer": "yes"} | r for r in records]
    (folder / "q.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    if words:
        (folder / "words.csv").write_text(words)
    return Questions(folder / "q.jsonl")


@pytest.mark.parametrize(("answer", "truth"), [
    ("Yes", "yes"), ("YES.", "yes"), ("True", "yes"), (True, "yes"), (1, "yes"), ("1", "yes"),
    ("no", "no"), ("False", "no"), (False, "no"), (0, "no"), ("0.", "no"),
])  # fmt: skip
def test_yes_and_no_may_be_written_in_many_ways(tmp_path, answer, truth):
    (one,) = asked(tmp_path, {"answer": answer}).asked
    assert (one.kind, one.truth) == ("yes-no", truth)


def test_numbers_that_are_counted_stay_numbers(tmp_path):
    benchmark = asked(tmp_path, {"answer": 1}, {"answer": 3}, {"answer": "no"})
    assert [a.kind for a in benchmark.asked] == ["word", "word", "yes-no"]
    assert any("taken as numbers" in n for n in benchmark.check_sizes())


def test_words_of_other_languages_are_given_and_not_guessed(tmp_path):
    (open_one,) = asked(tmp_path, {"answer": "Oui"}).everything
    assert open_one.kind == "word"
    benchmark = asked(tmp_path, {"answer": "Oui"}, {"answer": "Nein"}, {"answer": "no"},
                      words="yes,no\nOui,Non\nja,nein\n")  # fmt: skip
    french, german, english = benchmark.everything
    assert (french.truth, french.options, german.truth) == ("yes", ("oui", "non"), "no")
    assert (english.truth, english.options) == ("no", ())
    (rule, *_) = rules_for("questions", french)
    said = {"Oui, un chien.": "yes", "NON": "no", "yes": "yes", "oui ou non": None, "nonante": None}
    assert {text: rule.read(text, french) for text in said} == said
    assert rule.read("ja", french) is None
    assert rule.right("Nein.", german)


@pytest.mark.parametrize(("words", "named"), [
    ("yes,no\noui,oui\n", "are the same"), ("yes,no\nno,nein\n", "for yes and for no"),
    ("ja,nein\n", "holds 0 rows"), ("yes,no\noui,\n", "'no' is missing"),
])  # fmt: skip
def test_a_wrong_table_of_words_is_refused(tmp_path, words, named):
    with pytest.raises(BenchmarkError, match=named):
        asked(tmp_path, {}, words=words)


def test_open_questions_are_counted_at_the_start(tmp_path):
    benchmark = asked(tmp_path, {"answer": "a dog"}, {"answer": "Perhaps"}, {})
    assert benchmark.check_sizes()[0].startswith("2 of 3 questions are open")


@pytest.mark.parametrize("answer", [["A", "C"], "A|C", ["up", "left"], "c|a"])
def test_several_options_may_be_right_and_no_other(tmp_path, answer):
    (one,) = asked(tmp_path, {"options": ["up", "down", "left"], "answer": answer}).everything
    assert (one.kind, one.truth) == ("choices", "AC")
    assert one.after.endswith(AFTER_SEVERAL)
    (rule,) = rules_for("questions", one)
    for text in (
        "AC",
        "CA",
        "ac",
        "A, C",
        "A and C.",
        "(A) up (C) left",
        "up, left",
        "It is C and A",
    ):
        assert rule.right(text, one), text
    for text in ("A", "ABC", "A, B and C", "", "C.", "down", "a dog", "AD"):
        assert not rule.right(text, one), text


def test_one_letter_of_a_list_is_a_set_of_one(tmp_path):
    (one,) = asked(tmp_path, {"options": ["up", "down"], "answer": ["B"]}).everything
    (rule,) = rules_for("questions", one)
    assert [rule.right(t, one) for t in ("B", "AB", "A")] == [True, False, False]


def test_an_option_is_not_right_twice(tmp_path):
    with pytest.raises(BenchmarkError, match="right twice"):
        asked(tmp_path, {"options": ["up", "down"], "answer": ["A", "up"]})


@pytest.mark.parametrize(
    "options", [["A. up", "B. down"], ["(A) up", "(B) down"], ["A) up", "B) down"]]
)
@pytest.mark.parametrize("answer", ["B", "down", "B. down"])
def test_options_that_carry_their_letter_are_lettered_once(tmp_path, options, answer):
    (one,) = asked(tmp_path, {"options": options, "answer": answer}).everything
    assert one.truth == "B"
    assert one.after.startswith("\nA. up\nB. down\n")


@pytest.mark.parametrize(("start", "end", "read"), [
    ("1:05", "02:10.5", (65.0, 130.5)), ("1:00:01", "1:02:00", (3601.0, 3720.0)),
    (3, "4.5", (3, 4.5)),
])  # fmt: skip
def test_times_may_be_minutes(tmp_path, start, end, read):
    (one,) = asked(tmp_path, {"start": start, "end": end}).asked
    assert (one.start, one.end) == read


@pytest.mark.parametrize("start", ["1:75", "1:2:3:4", "a:b", "-1:00"])
def test_times_that_are_none_are_refused(tmp_path, start):
    with pytest.raises(BenchmarkError, match="instead of seconds"):
        asked(tmp_path, {"start": start})


def test_a_group_is_right_where_all_of_it_is(tmp_path):
    records = [
        {"id": f"{g}{k}", "group": g, "answer": "yes" if k else "no"} for g in "ab" for k in (0, 1)
    ]
    benchmark = asked(tmp_path, *records, {"id": "alone", "answer": "no"})
    said = {"a0": "no", "a1": "yes", "b0": "yes", "b1": "yes", "alone": "no"}
    whole = score(benchmark, said)
    assert (whole["right"], whole["n"]) == (4, 5)
    assert (whole["groups"]["right"], whole["groups"]["n"]) == (2, 3)
    over = score(benchmark, said, over="groups")
    assert (over["right"], over["n"], over["accuracy"]) == (2, 3, pytest.approx(66.6667))
    assert "groups all right" in scores_markdown(whole)
    assert "66.67 of 3" in scores_markdown(whole)  # one cluster has no interval
    assert any("1 of 1 group" in n for n in asked(tmp_path, {"group": "x"}).check_sizes())


def test_answers_that_say_nothing_can_be_left_out(tmp_path):
    benchmark = asked(tmp_path, {"id": "a"}, {"id": "b"}, {"id": "c", "answer": "no"})
    answered = score(benchmark, {"a": "yes", "b": "perhaps", "c": "yes"}, over="answered")
    assert (answered["n"], answered["right"]) == (2, 1)
    assert "whose answer the rule can read" in scores_markdown(answered)


def test_a_report_says_of_each_kind_how_it_is_judged(tmp_path):
    benchmark = asked(tmp_path, {}, {"options": ["up", "down"], "answer": "A"}, {"answer": "a dog"})
    text = scores_markdown(score(benchmark, {"1": "yes", "2": "A", "3": "dog"}))
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert lines == [
        "- 1 yes/no question: strict, this project: the word yes or no, not both.",
        "- 1 question with options: letter, this project: a letter that is meant as one, or an"
        " option.",
        "- 1 open question: words, this project: the same words.",
    ]
    assert "judged differently" not in text
    assert "[" not in text.split("|---")[1].split("\n\n")[0]  # one clip tells nothing of others


def test_several_letters_are_a_kind_of_their_own():
    item = Item("q", "c", "all", "", "choices", "?", "AB", options=("a cat", "a dog", "a cup"))
    assert item.answers == ("A", "B", "C")


def two_meanings(folder, **record):
    """Options of which each one's text is the letter of another."""
    return asked(folder, {"question": "Which?", "options": ["B", "A", "C"]} | record).asked


@pytest.mark.parametrize(("by", "truth"), [("text", "B"), ("letter", "A")])
def test_the_file_says_what_an_answer_is(tmp_path, by, truth):
    (asked,) = two_meanings(tmp_path, answer="A", answer_by=by)
    assert asked.truth == truth


def test_an_answer_of_two_meanings_is_refused(tmp_path):
    with pytest.raises(BenchmarkError, match="the text of option B and the letter of another"):
        two_meanings(tmp_path, answer="A")


def test_an_answer_of_one_meaning_needs_no_more(tmp_path):
    assert two_meanings(tmp_path, answer="C")[0].truth == "C"
    assert two_meanings(tmp_path, answer="b", options=["left", "right"])[0].truth == "B"
    with pytest.raises(BenchmarkError, match="answer_by is 'word'"):
        two_meanings(tmp_path, answer="A", answer_by="word")
    with pytest.raises(BenchmarkError, match="is not one of the options"):
        two_meanings(tmp_path, answer="left", options=["left", "right"], answer_by="letter")
