"""What the lessons are computed from: clips of which one thing was changed, and counted words."""

import numpy as np

from macd_studio.toyworld import make_lessons
from macd_studio.toyworld.make_lessons import OPACITIES, clip_of, faded, habits, outcome
from macd_studio.toyworld.world import sample


def pair():
    return sample(np.random.default_rng(3), "beach", ["dog", "ball"], weak=0.0, fog=0.0)


def test_a_faded_object_is_gone_at_the_end_and_nothing_else_is():
    spec = pair()
    half = faded(spec, "ball", 0.5, ("dog", "ball"))
    assert [(o.label, o.contrast) for o in half.objects] == [
        (o.label, 0.5 if o.label == "ball" else o.contrast) for o in spec.objects
    ]
    assert OPACITIES[-1] == 0
    assert faded(spec, "ball", 0, ("dog", "ball")).labels == ("dog",)
    assert faded(spec, "ball", 0, ("ball",)).labels == ()
    assert faded(spec, "ball", 0.5, ("ball",)).labels == ("ball",)
    gone = clip_of(faded(spec, "ball", 0, ("ball",))).frames
    empty = clip_of(faded(spec, "ball", 0, ())).frames
    assert np.array_equal(gone, empty)


def test_invented_words_are_those_of_objects_that_are_not_there():
    spec = pair()
    assert make_lessons._invented("a dog, a cat and a ball at the beach", spec) == ["cat"]
    assert make_lessons._invented("a dog and a ball at the beach", spec) == []


def test_outcomes_are_those_of_the_quiz():
    assert set(make_lessons.WANTED) == {outcome(b, m) for b in (True, False) for m in (True, False)}


def test_what_comes_in_pairs_is_a_pair_in_the_world():
    assert habits()["partner"]["cat"] == "book"
