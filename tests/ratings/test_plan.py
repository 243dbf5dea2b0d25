"""Who sees what: every clip, both sides, in an order that no rater can work out."""

from collections import Counter

import numpy as np
import pytest

from macd_studio.ratings.plan import GOLD, MAIN, REPEAT, TRAINING, Shown, plan_tasks

CLIPS = [Shown(c, (2 * c, 2 * c + 1)) for c in range(9)]
TRAIN = [Shown(100, (200, 201))]
KNOWN = [Shown(101, (202, 203)), Shown(102, (204, 205))]
KEY = "a" * 64


def left_shares(tasks, arm_of):
    """By arm, how often it stands left on the main screens with two sides."""
    counts = {}
    for task in tasks:
        if task.part == MAIN and task.right is not None:
            counts.setdefault(arm_of[task.left], []).append(1)
            counts.setdefault(arm_of[task.right], []).append(0)
    return {arm: sum(z) / len(z) for arm, z in counts.items()}


def plan(rater, design="pair", main=CLIPS, repeat=0.0, key=KEY, training=(), gold=()):
    return plan_tasks(design, main, training, gold, repeat, key, rater)


def main_of(tasks):
    return [t for t in tasks if t.part == MAIN]


@pytest.mark.parametrize("rater", range(4))
def test_every_clip_is_seen_once_with_both_arms(rater):
    tasks = plan(rater)
    assert sorted(t.clip for t in tasks) == list(range(9))
    assert all({t.left, t.right} == {2 * t.clip, 2 * t.clip + 1} for t in tasks)


@pytest.mark.parametrize("arms", [2, 3])
def test_sides_and_order_are_counterbalanced_in_pairs_of_raters(arms):
    """The partner sees the same arms beside the first as the rater, whose turn it is."""
    clips = [Shown(c, tuple(arms * c + i for i in range(arms))) for c in range(9)]
    arm_of = {s: "first" if s % arms == 0 else "other" for c in clips for s in c.sides}
    for rater in (0, 2, 4):
        one, two = plan(rater, main=clips), plan(rater + 1, main=clips)
        assert [t.clip for t in two] == [t.clip for t in one][::-1]
        assert {(t.clip, t.left) for t in two} == {(t.clip, t.right) for t in one}
        assert left_shares(one + two, arm_of) == {"first": 0.5, "other": 0.5}
        assert abs(left_shares(one, arm_of)["first"] - 0.5) < 0.12  # nine clips: four or five


def test_raters_differ_and_the_key_decides():
    orders = {tuple((t.clip, t.left) for t in plan(r)) for r in range(20)}
    assert len(orders) == 20
    assert plan(3) == plan(3)
    assert plan(3) != plan(3, key="b" * 64)


def test_sides_are_not_tied_to_the_position():
    left = np.array([[t.left % 2 for t in plan(r)] for r in range(200)])
    assert np.abs(left.mean(0) - 0.5).max() < 0.15


def test_repeats_come_later_with_sides_exchanged():
    for rater in range(6):
        tasks = plan(rater, repeat=0.3, training=TRAIN, gold=KNOWN)
        again = [t for t in tasks if t.part == REPEAT]
        assert len(again) == 3
        for t in again:
            first = tasks[t.repeats]
            assert (first.part, first.clip) == (MAIN, t.clip)
            assert (first.left, first.right) == (t.right, t.left)
            assert tasks.index(t) - t.repeats > 3


@pytest.mark.parametrize("design", ["pair", "single"])
@pytest.mark.parametrize("clips", [3, 6, 12, 20])
def test_every_repeat_names_the_screen_that_it_shows_again(design, clips):
    main = [Shown(i, (2 * i, 2 * i + 1)) for i in range(clips)]
    for rater in range(60):
        tasks = plan(rater, design, main, repeat=0.3, training=TRAIN, gold=KNOWN)
        for task in (t for t in tasks if t.repeats is not None):
            first = tasks[task.repeats]
            assert (first.part, first.clip) == (MAIN, task.clip)
            assert {first.left, first.right} == {task.left, task.right}


def test_training_comes_first_and_gold_among_the_others():
    places = []
    for rater in range(30):
        tasks = plan(rater, training=TRAIN, gold=KNOWN)
        assert [t.part for t in tasks][:1] == [TRAINING]
        assert Counter(t.part for t in tasks) == {TRAINING: 1, MAIN: 9, GOLD: 2}
        places += [i for i, t in enumerate(tasks) if t.part == GOLD]
    assert min(places) < 3
    assert max(places) > 9


def test_further_arms_take_turns_and_no_clip_comes_twice():
    main = [Shown(c, (3 * c, 3 * c + 1, 3 * c + 2)) for c in range(8)]
    seen = Counter()
    for rater in range(8):
        tasks = plan(rater, main=main)
        assert sorted(t.clip for t in tasks) == list(range(8))
        for t in tasks:
            arms = {t.left % 3, t.right % 3}
            assert 0 in arms
            seen[max(arms)] += 1
    assert seen[1] == seen[2]


def test_single_screens_of_a_clip_lie_apart():
    for rater in range(6):
        tasks = main_of(plan(rater, "single"))
        assert Counter(t.left for t in tasks) == Counter(s for c in CLIPS for s in c.sides)
        assert all(t.right is None for t in tasks)
        first, second = tasks[:9], tasks[9:]
        assert {t.clip for t in first} == {t.clip for t in second} == set(range(9))
        # in each half both arms are seen about as often: a block is not an arm
        assert 3 <= sum(t.left % 2 for t in first) <= 6
