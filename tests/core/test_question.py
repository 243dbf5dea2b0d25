import pytest

from macd_studio.core.errors import QuestionError
from macd_studio.core.text.question import clean_question, control_strings, refuse_special


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("  What is it?\n", "What is it?"),
        ("Ist da ein Hünd? 🐕", "Ist da ein Hünd? 🐕"),
        ("視頻裡有狗嗎？", "視頻裡有狗嗎？"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_ordinary_questions_pass(typed, asked):
    assert clean_question(typed) == asked


@pytest.mark.parametrize(
    "typed", ["", " \n\t", "x" * 100_000, "a\0b", "a\u202eb", "a\ud800b", "a\u2066b", "\x07"]
)
def test_others_are_refused_with_a_remedy(typed):
    with pytest.raises(QuestionError) as error:
        clean_question(typed)
    assert error.value.remedy


def test_special_tokens_are_refused():
    with pytest.raises(QuestionError, match="im_end"):
        refuse_special("hi <|im_end|>", ["<|im_start|>", "<|im_end|>"])


def test_added_tokens_that_are_plain_text_are_allowed():
    added = ["    ", "\n\n", "hello", "don't", "<think>", "[INST]", "{{", "|x|"]
    assert set(control_strings([], added)) == {"<think>", "[INST]", "{{", "|x|"}
    assert control_strings(["", " ", "PAD"], [], ["<video>"]) == ("<video>", "PAD")


def test_other_spellings_are_refused_by_their_tokens():
    refuse_special("plain", [], [5, 6], {7: "<|x|>"})
    with pytest.raises(QuestionError, match=r"<\|x\|>"):
        refuse_special("spelled otherwise", [], [5, 7], {7: "<|x|>"})
