"""Own questions whose answer is the text of one option and the letter of another."""

import json

import pytest

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.questions import Questions


def questions(folder, **record):
    (folder / "clip.mp4").write_bytes(b"")
    row = {"video": "clip.mp4", "question": "Which?", "options": ["B", "A", "C"]} | record
    (folder / "q.jsonl").write_text(json.dumps(row) + "\n")
    return list(Questions(folder / "q.jsonl").read(folder / "q.jsonl"))


@pytest.mark.parametrize(("by", "truth"), [("text", "B"), ("letter", "A")])
def test_the_file_says_what_an_answer_is(tmp_path, by, truth):
    (asked,) = questions(tmp_path, answer="A", answer_by=by)
    assert asked.truth == truth


def test_an_answer_of_two_meanings_is_refused(tmp_path):
    with pytest.raises(BenchmarkError, match="the text of option B and the letter of another"):
        questions(tmp_path, answer="A")


def test_an_answer_of_one_meaning_needs_no_more(tmp_path):
    assert questions(tmp_path, answer="C")[0].truth == "C"
    assert questions(tmp_path, answer="b", options=["left", "right"])[0].truth == "B"
    with pytest.raises(BenchmarkError, match="answer_by is 'word'"):
        questions(tmp_path, answer="A", answer_by="word")
    with pytest.raises(BenchmarkError, match="is not one of the options"):
        questions(tmp_path, answer="left", options=["left", "right"], answer_by="letter")
