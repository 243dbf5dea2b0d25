import copy
from functools import cache

import pytest
from transformers import PreTrainedTokenizerFast

from macd_studio.core.backbones.load import adapter_of
from macd_studio.core.backbones.prompt import query_positions
from macd_studio.core.errors import QuestionError
from macd_studio.core.text.question import clean_question, control_strings, refuse_special
from tests.core.test_families import AWKWARD
from tests.families import NAMES, tiny


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


ORDINARY = [
    *AWKWARD,
    "Is 3 < 5 and 5 > 3, or is a|b <= c?",
    "What does the sign <STOP> or [EXIT] or {here} say?",
    "Was steht auf dem Schild: «Ausgang»? -> links <- rechts",
    "¿Hay un perro <grande> en el vídeo? 🐕🏽‍🦺 || 👩‍👩‍👧",
    "视频里有狗吗？＜是｜否＞",
    "هل يوجد كلب في الفيديو؟ <نعم|لا>",
    "क्या वीडियो में कुत्ता है? <|>",
    "x    y\t\tz <| |> <|not closed, im_end, fim_prefix, think, </b> <i>",
]
FAMILY = {"qwen2_5": "qwen2_5_vl", "qwen3": "qwen3_vl"}


@cache
def with_tokenizer(folder):
    """The family's adapter around a published tokenizer; its model is never run."""
    plain = tiny(FAMILY[folder.name])
    processor = copy.copy(plain.processor)
    processor.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return adapter_of(plain.info.family)(plain.model, processor, plain.info)


@pytest.mark.real
@pytest.mark.parametrize("name", FAMILY)
def test_every_control_string_of_a_published_tokenizer_is_refused(real, name):
    lm = with_tokenizer(real / "tokenizers" / name)
    added = lm.tokenizer.get_added_vocab()
    assert {"<|im_end|>", "<|fim_prefix|>", "<|repo_name|>", "<tool_call>"} <= set(added)
    assert ("<think>" in added) == (name == "qwen3")
    for token, number in added.items():
        assert number in lm.tokens(f"Is it {token} here?")
        with pytest.raises(QuestionError) as error:
            lm.refuse_control_tokens(f"Is it {token} here?")
        assert repr(token) in error.value.cause


@pytest.mark.real
@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("question", ORDINARY)
def test_ordinary_questions_pass_a_published_tokenizer(real, name, question):
    lm = with_tokenizer(real / "tokenizers" / name)
    lm.refuse_control_tokens(question)
    assert not set(lm.tokens(question)) & set(lm.tokenizer.get_added_vocab().values())


@pytest.mark.parametrize("question", ORDINARY)
def test_ordinary_questions_pass_the_embedded_tokenizer(toyworld, question):
    toyworld.refuse_control_tokens(question)


def test_control_strings_of_the_embedded_tokenizer_are_refused(toyworld):
    for token in (*toyworld.tokenizer.get_added_vocab(), "<|placeholder|>"):
        with pytest.raises(QuestionError):
            toyworld.refuse_control_tokens(f"is there {token} a dog?")


@pytest.mark.parametrize("name", NAMES)
def test_placeholders_and_added_tokens_of_every_family_are_refused(name):
    lm = tiny(name)
    tokenizer = copy.deepcopy(lm.tokenizer)
    tokenizer.add_tokens(["<think>", "  ", "dog"])
    processor = copy.copy(lm.processor)
    processor.tokenizer = tokenizer
    lm = adapter_of(name)(lm.model, processor, lm.info)
    own = {v for k, v in vars(processor).items() if k.endswith("_token")}
    assert own
    for token in (*own, "<think>"):
        with pytest.raises(QuestionError):
            lm.refuse_control_tokens(f"is there {token} a dog?")
    lm.refuse_control_tokens("is there  a dog?")

    lm.tokenizer.add_tokens(["<|x|>"])  # as a normaliser might make it of something else
    number = lm.tokenizer.convert_tokens_to_ids("<|x|>")
    lm._control_ids = {number: "<|x|>"}
    with pytest.raises(QuestionError):
        lm.refuse_control_tokens("<|x|>")


@pytest.mark.real
@pytest.mark.parametrize("name", ["qwen2_5", "qwen3"])
@pytest.mark.parametrize("question", AWKWARD)
def test_the_span_with_the_real_tokenizers(real, name, question):
    tokenizer = PreTrainedTokenizerFast.from_pretrained(real / "tokenizers" / name)
    video = "<|vision_start|><|video_pad|><|vision_end|>"
    prompt = f"<|im_start|>user\n{video}{question}<|im_end|>\n<|im_start|>assistant\n"
    whole = prompt.replace("<|video_pad|>", "<|video_pad|>" * 9)
    ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
    span = query_positions(tokenizer, prompt, ids, question, "<|vision_end|>")
    assert tokenizer.decode([ids[i] for i in span]) == question
    assert tokenizer.decode(ids[span[-1] + 1 :]) == "<|im_end|>\n<|im_start|>assistant\n"
