"""Trivial rules on the same questions, none of which looks at a clip, and what each is right in.

How often an answer is given is matched to the method in three ways. With the baseline's scores: a
constant is added to them. Without: changes are drawn at random, or the baseline's "yes" is taken
to come of normal margins of equal spread, whose threshold moves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import random_table, t

from macd_studio.core.statistics import Interval
from macd_studio.evals.audit.answers import Answers, Array
from macd_studio.evals.benchmarks.base import LETTERS
from macd_studio.evals.running.contrasts import CONSTANT
from macd_studio.evals.running.rows import Row
from macd_studio.evals.statistics.constant import constant_like, same_counts
from macd_studio.evals.statistics.intervals import TAIL, cluster_sums

DRAWS = 9999
"""Random tables for a p-value, which is then a multiple of 1/10,000. Their seed is 0."""
ENOUGH_SCORED = 0.9
"""The share of questions with scores from which these are used; others keep their answer."""
MAX_ASSIGNED = 3000
"""Choices up to which constants are found: the assignment takes n² numbers."""

ALWAYS, MATCHED, READ, POSITION, LENGTH, GUESS = (
    "always", "matched", "read", "position", "length", "guess",
)  # fmt: skip
"""What a control is about: which cause it names where a gain does not survive it."""


@dataclass(frozen=True, eq=False)
class Control:
    """A rule, in words, and what it gets.

    outcome: (N,) right or not, or the chance of it. p: of the method's lead, where that is not the
    exact test of paired outcomes; lead: likewise its interval, shares.
    bound: whether it is the most that such a rule could get, instead of what it gets.
    """

    name: str
    about: str
    rule: str
    outcome: Array
    p: float | None = None
    lead: Interval | None = None
    bound: bool = False


def controls_of(given: Answers) -> list[Control]:
    """All controls of these questions; none for kinds that have none."""
    makers = {"yes-no": _of_yes_no, "choice": _of_choices}
    found = makers[given.kind](given) if given.kind in makers else []
    unread = [z is None for z in given.before]
    if any(unread):
        outcome = np.where(unread, given.right_after, given.right_before).astype(float)
        rule = "the baseline, with the method's answer wherever the baseline's cannot be read"
        found.append(Control("readable", READ, rule, outcome))
    return found


def _of_yes_no(given: Answers) -> list[Control]:
    yes = np.array([z == "yes" for z in given.truth])
    found = [
        Control(f"always {word}", ALWAYS, f'"{word}" to every question', (yes == v).astype(float))
        for word, v in (("yes", True), ("no", False))
    ]
    margins = margins_of(given)
    if margins is not None:
        found.append(_constant(given, yes, margins))
        return found
    found.append(matched_at_random(given))
    if yes.any() and not yes.all():
        before, after = (np.array([z == "yes" for z in s]) for s in (given.before, given.after))
        columns = [yes & before, yes, ~yes & before, ~yes, after]
        found += [
            _moved(given, columns, "normal threshold", NORMAL, normal_change),
            _moved(given, columns, "as precise", PRECISE, precise_change, bound=True),
        ]
    return found


# with scores


def margins_of(given: Answers) -> Array | None:
    """(N,) score of yes less that of no, NaN where unknown; None where too few are known."""
    margins = np.array(
        [s["yes"] - s["no"] if {"yes", "no"} <= s.keys() else math.nan for s in given.scores]
    )
    known = np.isfinite(margins).mean() if len(margins) else 0.0
    return margins if known >= ENOUGH_SCORED else None


def _constant(given: Answers, yes: Array, margins: Array) -> Control:
    """One constant on the margins, with which "yes" is said as often as by the method.

    A constant cannot tell equal margins apart: the nearest number of "yes" counts, of equals the
    smallest constant.
    """
    known = np.isfinite(margins)
    kept = np.array([z == "yes" for z in given.before])
    wanted = given.after.count("yes") - int(kept[~known].sum())
    edges = -np.unique(margins[known])
    deltas = np.unique(np.concatenate([[0.0], edges, np.nextafter(edges, np.inf)]))
    ordered = np.sort(margins[known])
    counts = len(ordered) - np.searchsorted(ordered, -deltas, side="right")
    far = np.abs(counts - wanted)
    best = np.flatnonzero(far == far.min())
    delta = float(deltas[best[np.argmin(np.abs(deltas[best]))]])
    said = np.where(known, margins + delta > 0, kept)
    # a question whose answer the constant leaves counts as the baseline's own answer does
    outcome = np.where(said == kept, given.right_before, said == yes).astype(float)
    most = constant_like(yes, margins, float(given.right_after.mean()))["best"]
    rule = (
        f'{delta:+.3g} added to the baseline\'s score of "yes", with which it says so in'
        f" {100 * said.mean():.1f} %; the best constant, chosen by the right answers, gets"
        f" {most:.1f} %"
    )
    return Control("constant", MATCHED, rule, outcome)


# without scores


def matched_at_random(given: Answers) -> Control:
    """The baseline's answers, changed at random until each is given as often as by the method.

    The chance of being right is exact for each question. p: of the method's hits among random
    orders of its own answers within those of equal baseline answers, which is exact but for the
    number of draws: whether what it changed has to do with what is right.
    """
    before, after = Counter(given.before), Counter(given.after)
    surplus = {z: n - after[z] for z, n in before.items() if n > after[z]}
    moved = sum(surplus.values())
    outcome = given.right_before.astype(float)
    for i, (said, truth) in enumerate(zip(given.before, given.truth, strict=True)):
        if said in surplus:
            leaves = surplus[said] / before[said]
            taken = max(0, after[truth] - before[truth]) / moved
            outcome[i] = (1 - leaves) * outcome[i] + leaves * taken
    rule = (
        f"{moved} of the baseline's answers changed at random, until each answer is given as often"
        " as by the method; the mean over all such draws"
    )
    return Control("random changes", MATCHED, rule, outcome, chance_of_changes(given))


def chance_of_changes(given: Answers) -> float:
    """Two-sided p that the method's answers, given the baseline's, have nothing to do with truth.

    Of all questions with the same baseline answer the method's answers are dealt out again; the
    hits are those of random tables with both margins fixed (Patefield, 1981).
    """
    hits, found = np.zeros(DRAWS, int), 0
    for said in dict.fromkeys(given.before):
        at = [i for i, z in enumerate(given.before) if z == said]
        truths, answers = (Counter(side[i] for i in at) for side in (given.truth, given.after))
        found += sum(given.truth[i] == given.after[i] for i in at)
        if min(len(truths), len(answers)) == 1:  # whatever the order
            hits += sum(min(truths[z], answers[z]) for z in truths)
            continue
        # of none is 0: SciPy 1.17 deals out negative numbers then
        tables = random_table(list(truths.values()), list(answers.values()), seed=0).rvs(DRAWS)
        columns = list(answers)
        for row, truth in enumerate(truths):
            if truth in answers:
                hits += tables[:, row, columns.index(truth)].astype(int)
    tails = [(1 + int(z.sum())) / (DRAWS + 1) for z in (hits >= found, hits <= found)]
    return min(1.0, 2 * min(tails))


NORMAL = (
    "the baseline's \"yes\" as often as the method's, if the margins behind it are normal and of"
    " equal spread (d′ stays)"
)
PRECISE = (
    "the added answers as often right as the baseline's own of that kind: the most that moving a"
    " threshold can get of margins that are in order"
)
Change = Callable[[Array], Array]
"""(…, K) sums of a set of questions, of 1 in the last column → what it gains in shares. Of yes and
no the others are: yes right and said by the baseline, yes right, no right and yes said, no right,
yes said by the method. Of choices, for each letter: said by the baseline, by the method, and said
by the baseline and right."""


def _moved(
    given: Answers,
    columns: Sequence[Array],
    name: str,
    rule: str,
    change: Change,
    bound: bool = False,
) -> Control:
    """A control known by its share alone; the interval of its lead is by the jackknife over clips.

    columns: (N,) each, see `Change`.
    """
    ones = np.ones(len(given.truth))
    *sums, gains = cluster_sums(given.clusters, *columns, ones, given.difference)
    own, gained = np.stack(sums, 1), np.asarray(gains)
    whole, clips = own.sum(0), len(own)
    moved = float(change(whole))
    gain = float(gained.sum() / whole[-1])
    lead, p, half = gain - moved, 1.0, 1.0
    if clips > 1:
        left = whole - own
        without = (gained.sum() - gained) / left[:, -1] - change(left)
        spread = math.sqrt((clips - 1) / clips * float(((without - without.mean()) ** 2).sum()))
        half = float(t.ppf(1 - TAIL, clips - 1)) * spread
        p = float(2 * t.sf(abs(lead) / spread, clips - 1)) if spread > 0 else 1.0
    outcome = given.right_before + moved
    return Control(name, MATCHED, rule, outcome, p, (lead, lead - half, lead + half), bound)


def normal_change(sums: Array) -> Array:
    """What moving the threshold of normal margins of equal spread gains, see `Change`.

    d′ is that of the baseline, log-linear as in `evals.statistics.metrics`; the threshold is where
    yes is said as often as by the method, and the gain is over that at the baseline's own rate.
    """
    hits, ups, alarms, downs, after, n = np.moveaxis(np.asarray(sums, float), -1, 0)
    apart = ndtri((hits + 0.5) / (ups + 1)) - ndtri((alarms + 0.5) / (downs + 1))
    shares = []
    for rate in (hits + alarms, after):
        low, high = np.full_like(n, -40.0), np.full_like(n, 40.0)
        for _ in range(60):
            middle = (low + high) / 2
            said = ups * ndtr(apart / 2 - middle) + downs * ndtr(-apart / 2 - middle)
            low, high = np.where(said > rate, middle, low), np.where(said > rate, high, middle)
        right = ups * ndtr(apart / 2 - low) + downs * ndtr(apart / 2 + low)
        shares.append(right / n)
    return np.asarray(shares[1] - shares[0])


def precise_change(sums: Array) -> Array:
    """What added answers gain that are as often right as the baseline's own, see `Change`.

    The ROC curve of margins that are in order is concave: beyond a point of it no threshold lies
    above the line through that point and the corner (0, 0), or (1, 1) where "no" is added. Random
    changes get at least the other chord; the larger of both counts.
    """
    hits, ups, alarms, downs, after, n = np.moveaxis(np.asarray(sums, float), -1, 0)
    more = after - hits - alarms
    said = np.where(more >= 0, hits + alarms, n - hits - alarms)
    own = np.where(more >= 0, hits, downs - alarms)
    left = np.where(more >= 0, ups - hits, alarms)  # right answers that can still be added
    other = np.where(more >= 0, n - hits - alarms, hits + alarms)
    share = np.maximum(
        np.where(said > 0, own / np.maximum(said, 1), 1.0), left / np.maximum(other, 1)
    )
    added = np.minimum(np.abs(more) * share, left)
    return np.asarray((2 * added - np.abs(more)) / n)


# choices

PRECISE_LETTERS = (
    "each letter added as often right as the baseline's own of that letter, in the place of wrong"
    " answers: more than constants on margins that are in order can get"
)


def precise_letters(sums: Array) -> Array:
    """What letters gain that are given more often, as often right as before, see `Change`."""
    parts = np.moveaxis(np.asarray(sums, float), -1, 0)
    gained, wrong = np.zeros_like(parts[-1]), parts[-1] - parts[2:-1:3].sum(0)
    for before, after, right in zip(parts[0:-1:3], parts[1:-1:3], parts[2:-1:3], strict=True):
        share = np.where(before > 0, right / np.maximum(before, 1), 1.0)
        gained += np.maximum(after - before, 0) * share
    return np.asarray(np.minimum(gained, wrong) / parts[-1])


def _of_choices(given: Answers) -> list[Control]:
    found = []
    for letter in LETTERS[: max(map(len, given.options), default=0)]:
        if letter in given.truth:
            outcome = np.array([t == letter for t in given.truth], float)
            found.append(
                Control(f"always {letter}", POSITION, f"option {letter} every time", outcome)
            )
    for name, pick in (("longest option", max), ("shortest option", min)):
        chosen = [_by_length(options, pick) for options in given.options]
        outcome = np.array([c == t for c, t in zip(chosen, given.truth, strict=True)], float)
        most = "most" if pick is max else "fewest"
        rule = f"the option with the {most} letters, of equals the first"
        found.append(Control(name, LENGTH, rule, outcome))
    chance = np.array([1 / max(1, len(o)) for o in given.options])
    found.append(Control("guessing", GUESS, "every option alike", chance))
    scored = np.mean([bool(s) for s in given.scores]) if given.scores else 0.0
    if scored < 1 or len(given.truth) > MAX_ASSIGNED:
        found.append(matched_at_random(given))
        columns = []
        for said in sorted(z for z in {*given.before, *given.after} if z is not None):
            before, after = (np.array([z == said for z in s]) for s in (given.before, given.after))
            columns += [before, after, before & given.right_before]
        if columns:
            found.append(
                _moved(given, columns, "as precise", PRECISE_LETTERS, precise_letters, bound=True)
            )
        return found
    rows = [Row("", str(i), CONSTANT, scores=s) for i, s in enumerate(given.scores)]
    words, _ = same_counts(rows, [(z or "").lower() for z in given.after])
    taken = [w.upper() for w in words]
    outcome = np.where(
        [s == b for s, b in zip(taken, given.before, strict=True)],
        given.right_before, [s == t for s, t in zip(taken, given.truth, strict=True)],
    ).astype(float)  # fmt: skip
    rule = (
        "a constant added to the baseline's score of each letter, given as often as by the method"
    )
    found.append(Control("constants", MATCHED, rule, outcome))
    return found


def _by_length(options: Sequence[str], pick: Callable[..., str]) -> str:
    if not options:
        return ""
    return LETTERS[list(options).index(pick(options, key=len))]
