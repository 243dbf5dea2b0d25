"""A question is asked as plain text that steers nothing, or raises QuestionError."""

import unicodedata
from functools import cache

from hypothesis import strategies as st

from macd_studio.core.errors import QuestionError
from macd_studio.core.text.question import MAX_LENGTH, clean_question
from tests.fuzz.cases import cases, is_clear_error, plain

PIECES = st.sampled_from(
    ["<", ">", "|", "<|", "|>", "im_end", "im_start", "<|im_end|>", "<|video_pad|>", "video",
     "_pad", "<video>", "Is there a dog", "?", " ", "\n", "\t", "\0", "\u202e", "\ud800", "\u200b",
     "é", "犬", "<|vision_start|>", "<|endoftext|>", "endoftext", "\uff5c", "a" * 500, "\u0301"]
)  # fmt: skip


@cache
def backbone():
    """The embedded one, with the ids of all that its tokenizer treats as special.

    But for the one that stands for words it does not know, which steers nothing.
    """
    from macd_studio.core.backbones import load_backbone

    lm = load_backbone("toyworld", "cpu")
    special = {*lm.tokenizer.all_special_ids, *lm.tokenizer.get_added_vocab().values()}
    named = {i for i in special if lm.tokenizer.convert_ids_to_tokens(i).startswith("<")}
    assert len(named) > 4
    return lm, named - {lm.tokenizer.unk_token_id}


def check(text):
    try:
        question = clean_question(text)
    except QuestionError as error:
        if not is_clear_error(error):
            raise
        return
    assert 0 < len(question) <= MAX_LENGTH
    assert question == question.strip()
    assert not {"Cc", "Cs"} & {unicodedata.category(c) for c in question if c not in "\n\t"}
    question.encode()
    lm, special = backbone()
    try:
        lm.refuse_control_tokens(question)
    except QuestionError as error:
        if not is_clear_error(error):
            raise
        return
    assert not special & set(lm.tokens(question))


@cases(plain | st.text())
def test_any_value(text):
    check(text)


@cases(st.lists(PIECES, max_size=8).map("".join))
def test_pieces_of_control_strings(text):
    check(text)
