"""The smallest sets of pieces, against a brute force; the functions do not add up."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macd_studio.core.evidence.search import EXHAUSTED, Scored, smallest_sets


def brute_force(n, does):
    """Of all subsets as tuples the smallest that do, or none. Knows no bits and no bounds."""
    for size in range(n + 1):
        good = [s for s in combinations(range(n), size) if does(s)]
        if good:
            return good
    return []


def run_search(n, same, margin=lambda s: 1.0, threshold=0.0, **how):
    """The last bounds. same, margin: of a tuple of shown pieces."""
    seen = []

    def read(sets):
        seen.extend(sets)
        shown = [tuple(i for i in range(n) if s >> i & 1) for s in sets]
        return [Scored(same(s), margin(s)) for s in shown]

    *_, last = smallest_sets(n, read, threshold, **how)
    assert len(set(seen)) == len(seen) == last.read  # no set is read twice
    return last


def bits(pieces):
    return sum(1 << i for i in pieces)


def check_against_brute_force(n, last, same, margin=lambda s: 1.0, threshold=0.0):
    everything = set(range(n))
    keeps = brute_force(n, lambda s: same(s) and margin(s) >= threshold)
    removes = brute_force(n, lambda s: not same(tuple(sorted(everything - set(s)))))
    for best, good in ((last.keep, keeps), (last.remove, removes)):
        if not good:
            assert best.chosen is None
            continue
        size = len(good[0])
        assert best.lower <= size
        if best.chosen is not None:
            assert size <= best.size == best.chosen.bit_count()
        assert best.certified(n) == (best.lower == size == best.size and best.chosen is not None)
        if best.certified(n):
            assert best.chosen in map(bits, good)


def parity(of):
    return lambda s: sum(i in of for i in s) % 2 == len(of) % 2


FUNCTIONS = {
    "parity of all": parity(range(5)),
    "parity of two": parity((1, 3)),
    "one of two alone (xor)": lambda s: (0 in s) != (4 in s) or len(s) == 5,
    "both of two": lambda s: {1, 2} <= set(s),
    "either of two": lambda s: 1 in s or 2 in s,
    "always": lambda s: True,
    "all alone": lambda s: len(s) == 5,
    "never with two of three": lambda s: len({0, 1, 2} & set(s)) != 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_smallest_sets_of_functions_that_do_not_add_up(name):
    same = FUNCTIONS[name]
    last = run_search(5, same)
    check_against_brute_force(5, last, same)
    for best in (last.keep, last.remove):
        assert best.certified(5)


def check_exhausted(n, seed, share, threshold, together):
    """Certified, of the size and as many as a brute force finds, and the clearest of them."""
    rng = np.random.default_rng(seed)
    answers, margins = rng.random(2**n) < share, rng.normal(size=2**n)
    answers[-1] = True
    everything = set(range(n))

    def same(s):
        return bool(answers[bits(s)])

    def margin(s):
        return float(margins[bits(s)])

    def without(s):
        return tuple(sorted(everything - set(s)))

    last = run_search(n, same, margin, threshold, together=together)
    for best, good, clear in (
        (last.keep, brute_force(n, lambda s: same(s) and margin(s) >= threshold), margin),
        (
            last.remove,
            brute_force(n, lambda s: not same(without(s))),
            lambda s: -margin(without(s)),
        ),
    ):
        assert best.certified(n)
        assert (best.chosen is None) == (not good)
        if good:
            assert (best.lower, best.size, best.alike) == (len(good[0]),) * 2 + (len(good),)
            assert best.chosen == bits(max(good, key=clear))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_function_is_exhausted_up_to_eight_pieces(data):
    n = data.draw(st.integers(1, EXHAUSTED))
    seed, share = data.draw(st.integers(0, 9999)), data.draw(st.sampled_from([0.1, 0.5, 0.9]))
    threshold = data.draw(st.sampled_from([0.0, 0.5, 2.0]))
    check_exhausted(n, seed, share, threshold, data.draw(st.integers(1, 40)))


@pytest.mark.parametrize("share", [0.02, 0.1, 0.98])
def test_of_several_smallest_sets_of_three_and_more_pieces_all_are_read(share):
    """Rare answers have large sets, which a drawn function seldom has."""
    for seed in range(30):
        check_exhausted(6 + seed % 3, seed, share, 0.0, together=5)


@settings(max_examples=40, deadline=None)
@given(st.integers(9, 11), st.integers(0, 10_000), st.integers(2, 400), st.sampled_from([2, 7, 20]))
def test_above_eight_pieces_what_is_certified_is_true_and_the_rest_is_a_bound(
    n, seed, budget, rare
):
    rng = np.random.default_rng(seed)
    answers = rng.integers(0, rare, 2**n) == 0
    answers[-1] = True

    def same(s):
        return bool(answers[bits(s)])

    last = run_search(n, same, budget=budget)
    assert last.read <= budget
    check_against_brute_force(n, last, same)


def test_branch_and_bound_finds_and_certifies_a_pair_among_many():
    same = FUNCTIONS["both of two"]
    last = run_search(20, same, lambda s: float(1 in s) + float(2 in s), budget=300)
    assert last.keep.chosen == bits((1, 2))
    assert last.keep.certified(20)
    assert last.remove.size == 1
    assert last.remove.certified(20)
    assert last.read < 100  # of the 190 pairs those that promise most come first


def test_a_spent_budget_leaves_an_upper_bound():
    """Seven of twelve are needed: the chain finds them, and no proof can be afforded."""
    needed = {0, 2, 3, 5, 8, 9, 11}
    same = lambda s: needed <= set(s)  # noqa: E731
    last = run_search(12, same, lambda s: len(needed & set(s)), budget=60)
    assert (last.keep.chosen, last.read) == (bits(needed), 60)
    assert last.keep.lower == 2
    assert not last.keep.certified(12)
    assert comb(12, 2) > 60
