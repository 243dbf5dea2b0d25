"""A second question about a clip: what the model read of the video serves it too."""

import numpy as np
import pytest

from macd_studio.core.options import RunOptions
from macd_studio.core.run.cache import StageCache
from macd_studio.core.run.pipeline import run
from tests.fakes import BoxDetector

FIRST, SECOND = "Is there a dog in the video?", "What is in the video?"


def traced(clip, question, lm, cache):
    *_, last = run(clip, question, lambda: lm, BoxDetector, RunOptions(), cache=cache)
    return last.trace


@pytest.fixture
def counted(toyworld, monkeypatch):
    """How many temporal patches the vision tower looked at, by call."""
    looked, encode = [], toyworld.encode_patches

    def counting(encoded, views, at):
        looked.append(len(at))
        return encode(encoded, views, at)

    monkeypatch.setattr(toyworld, "encode_patches", counting)
    return looked


@pytest.mark.long
def test_a_second_question_reads_the_video_no_more_and_answers_the_same(toy_mp4, toyworld, counted):
    alone = traced(toy_mp4, SECOND, toyworld, StageCache())
    without = sum(counted)
    cache = StageCache(keep_prefill=True)
    traced(toy_mp4, FIRST, toyworld, cache)
    counted.clear()
    shared = traced(toy_mp4, SECOND, toyworld, cache)
    assert without - sum(counted) == len(alone.groups)  # the plain video's patches
    assert {n: a.text for n, a in shared.answers.items()} == {
        n: a.text for n, a in alone.answers.items()}  # fmt: skip
    for name in ("baseline", "macd"):
        for mine, own in zip(shared.answers[name].tokens, alone.answers[name].tokens, strict=True):
            np.testing.assert_allclose(mine.base, own.base, atol=1e-3)
    np.testing.assert_allclose(shared.steps[0].loss, alone.steps[0].loss, atol=1e-4)
    cache.forget_prefill()
    counted.clear()
    traced(toy_mp4, SECOND, toyworld, cache)
    assert sum(counted) == without
