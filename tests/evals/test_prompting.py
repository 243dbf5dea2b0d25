"""The published prompt around a question: what the model reads, and what the query loss is over."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.methods import find_method
from macd_studio.core.options import RunOptions
from macd_studio.core.run.order import run_method
from macd_studio.core.types import Clip, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.answer import PendingAnswer, _letters, answer_clip, item_seed
from macd_studio.evals.running.prompting import GatheringLM, PromptedLM
from macd_studio.evals.running.run import first_words

BEFORE, QUESTION, AFTER = "which dog is it ? ", "Is there a dog in the video?", " yes or no"


@pytest.fixture(scope="module")
def clip():
    frames = np.full((4, 96, 96, 3), 128, np.uint8)
    times = np.arange(4.0)
    return Clip(frames, times, frames, times, "grey", "0" * 64, 4.0, (96, 96))


def query_text(lm, encoded):
    return lm.text(encoded.input_ids[0, encoded.query].tolist())


def test_text_around_a_question_is_read_and_no_part_of_the_query(toyworld, clip):
    plain = toyworld.encode(clip, QUESTION)
    asked = PromptedLM(toyworld, BEFORE, AFTER).encode(clip, QUESTION)
    assert query_text(toyworld, asked) == query_text(toyworld, plain)
    assert asked.question == QUESTION
    assert BEFORE + QUESTION + AFTER in asked.prompt
    more = len(toyworld.tokens(BEFORE)) + len(toyworld.tokens(AFTER))
    assert asked.input_ids.shape[1] == plain.input_ids.shape[1] + more
    first = int(asked.query[0]) - int(plain.query[0])
    assert first == len(toyworld.tokens(BEFORE))


def test_a_question_that_is_in_the_text_before_is_found_where_it_is_asked(toyworld, clip):
    before = f"{QUESTION} {QUESTION} "
    asked = PromptedLM(toyworld, before, AFTER).encode(clip, QUESTION)
    assert query_text(toyworld, asked) == query_text(toyworld, toyworld.encode(clip, QUESTION))
    assert int(asked.query[0]) > int(toyworld.encode(clip, QUESTION).query[-1])


def test_views_that_encode_again_keep_the_prompt(toyworld, clip):
    asking = GatheringLM(PromptedLM(toyworld, BEFORE, AFTER))
    encoded = asking.encode(clip, QUESTION)
    context = MethodContext(asking, encoded, (), RunOptions())
    fewer = context.subset((0, 2))
    assert BEFORE + QUESTION + AFTER in fewer.prompt
    assert len(fewer.frames.pixels) == 2
    leading = asking.encode_frames(encoded.frames, QUESTION, " at the beach")
    assert f"{QUESTION} at the beach{AFTER}" in leading.prompt


def test_letters_get_their_own_scores(toyworld, clip):
    item = Item("q", "v", "r", "", "choice", "Which way does the dog move?", "B",
                options=("up", "down"), before=BEFORE, after=AFTER)  # fmt: skip
    want = PendingAnswer(item, "baseline", (1.0, 0.0), "k")
    (row,) = answer_clip([want], toyworld, clip, (), RunOptions())
    asked = PromptedLM(toyworld, BEFORE, AFTER).encode(clip, item.question)
    logits = toyworld.prefill(asked, asked.video).logits[0]
    letters = [float(logits[toyworld.tokens(z)[0]]) for z in "AB"]
    assert row.letters == pytest.approx(letters, abs=1e-4)
    assert _letters(toyworld, item, None, None) == [None, None]


@pytest.mark.parametrize("method", ["macd-answer", "macd-margin"])
def test_an_ascent_that_needs_the_own_answer_runs_in_an_evaluation(toyworld, clip, method):
    boxes = np.tile(np.array([0.2, 0.2, 0.6, 0.6]), (4, 1))
    track = Track(1, "dog", 1.0, boxes, np.full(4, 2, np.int8), 4)
    item = Item("q", "v", "r", "", "yes-no", QUESTION, "no", options=("yes", "no"))
    (row,) = answer_clip([PendingAnswer(item, method, (1.0, 0.1), "k")], toyworld, clip, (track,),
                         RunOptions())  # fmt: skip
    own = replace(RunOptions(), seed=item_seed(item.id))
    alone = MethodContext(toyworld, toyworld.encode(clip, QUESTION), (track,), own)
    answer = run_method(alone, find_method(method))
    assert not row.error
    assert row.text == answer.text


def test_a_choice_may_begin_with_its_letter_or_its_option():
    item = Item("q", "v", "r", "", "choice", "Which way?", "B", options=("Up", "Down there"))
    assert first_words(item) == {"b", "down"}
    assert first_words(Item("q", "v", "r", "", "word", "What?", "a dog")) == {"a"}
