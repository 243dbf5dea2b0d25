"""Which wrong answers a habit suggests, and how draws are counted."""

from types import SimpleNamespace

import pytest

from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.toyworld_crossed import random_item
from macd_studio.evals.studies import habits
from macd_studio.toyworld.world import ClipSpec, ObjectSpec


def spec(scene, **motions):
    objects = (ObjectSpec(label, 0.2, (0.5, 0.5), motion) for label, motion in motions.items())
    return ClipSpec(scene, tuple(objects))


def item(question, truth, prior_answer=""):
    return Item("i", "c", "r", "", "word", question, truth, prior_answer)


@pytest.mark.parametrize(("asked", "clip", "suggested"), [
    (item("Is there a kite in the video?", "no", "yes"), spec("park", dog="still"), {"yes"}),
    (item("Is there a dog in the video?", "yes", "yes"), spec("beach", dog="still"), set()),
    (item("Is there a ball in the video?", "no"), spec("street", dog="still"), {"yes"}),
    (item("Is there a ball in the video?", "yes"), spec("street", ball="still"), {"no"}),
    # the beach suggests the dog, a move upwards the bird, a book the cat
    (item("Which animal is in the video?", "horse"), spec("beach", horse="up", book="up"),
     {"dog", "bird", "cat"}),
    (item("Which animal is in the video?", "dog"), spec("beach", dog="right"), set()),
    (item("Which vehicle is in the video?", "none"), spec("kitchen", cat="left"), {"car", "boat"}),
])  # fmt: skip
def test_habits_suggest_what_is_usual_and_never_the_truth(asked, clip, suggested):
    assert habits.suggested_by_habit(asked, clip) == suggested


def test_draws_are_counted_by_what_came_of_them(monkeypatch):
    asked = [random_item(seed) for seed in range(6)]

    def answer(seed, right):
        world, one = asked[seed]
        wrong = sorted(habits.suggested_by_habit(one, world.spec(one.clip))) or ["zebra"]
        return one.truth if right else wrong[0]

    pairs = [(True, True), (True, False), (False, True), (False, False), (True, True), (True, True)]
    texts = iter([(answer(s, a), answer(s, b)) for s, (a, b) in enumerate(pairs)])

    def run(clip, *_):
        assert clip().frames.ndim == 4
        named = zip(("baseline", "macd"), next(texts), strict=True)
        answers = {name: SimpleNamespace(text=text) for name, text in named}
        yield SimpleNamespace(trace=SimpleNamespace(answers=answers))

    monkeypatch.setattr(habits, "run", run)
    found = habits.count_draws(None, None, range(6))
    by_habit = sum(answer(s, False) != "zebra" for s in (2, 3))
    assert found["counts"] == {
        "wrong": 2, "by_habit": by_habit, "repaired": 1, "harmed": 1, "changed": 2,
    }  # fmt: skip
    low, high = found["shares"]["wrong"][1:]
    assert low < 2 / 6 < high
