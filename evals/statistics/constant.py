"""The decisive control: what constants added to the scores of the answers gain, without a look.

A yes-no question has one constant, δ on "yes"; any other short answer has one constant for each
word. Both follow from the baseline's scores of the first token, so they cost no run of the model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import logsumexp

from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.contrasts import CONSTANT
from macd_studio.evals.running.rows import Row
from macd_studio.evals.statistics.metrics import normalised

Constants = dict[str, float]
"""Answer word, as in `Row.scores` → what is added to its score; words left out have 0."""

Floats = NDArray[np.float64]

MAGNITUDES = (0.125, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0)
DELTAS = tuple(sign * m for m in MAGNITUDES for sign in (-1.0, 1.0))
"""What a constant is chosen from: as many values as there are pairs of α and β."""

FAR = 50.0
"""How far below the others a word scores that was not among the stored ones."""


def takes_constant(item: Item, baseline: Row | None) -> bool:
    """Whether constants can be added: a short answer, whose first scores were kept."""
    return item.kind != "caption" and baseline is not None and bool(baseline.scores)


def word(text: str) -> str:
    """How an answer's first token is known: lower case, no blanks around."""
    return text.strip().lower()


def answers_by_first(rows: Sequence[Row]) -> dict[str, str]:
    """First token → the answer that most often begins so, of plain decoding."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row.first:
            seen[word(row.first)][row.text] += 1
    return {first: texts.most_common(1)[0][0] for first, texts in seen.items()}


def with_constants(
    item: Item, baseline: Row, constants: Constants, texts: Mapping[str, str]
) -> Row:
    """The row of plain decoding with the constants added at the first token.

    texts: see `answers_by_first`. The answer is the baseline's where the first token stays, else
    what plain decoding says after that token on other questions. A question that takes no constant
    is left out.
    """
    if baseline.error or baseline.left_out:
        return Row("", item.id, CONSTANT, left_out=baseline.left_out, error=baseline.error)
    if not takes_constant(item, baseline):
        return Row("", item.id, CONSTANT, left_out="constants apply to short answers only")
    own = _own(item, constants)
    scores = {w: baseline.scores[w] + own.get(w, 0.0) for w in sorted(baseline.scores)}
    plain = word(baseline.first)
    kept = [list(scores).index(plain)] if plain in scores else [-1]
    first = list(scores)[int(best(np.array([list(scores.values())]), np.array(kept))[0])]
    same = first == plain
    margin = baseline.margin
    return Row(
        key="",
        item=item.id,
        method=CONSTANT,
        text=baseline.text if same else texts.get(first, _alone(first, item)),
        margin=None if margin is None else margin + own.get("yes", 0.0),
        first=first,
        probability=_probability(baseline, scores, first),
        reads=baseline.reads,
    )


def _alone(first: str, item: Item) -> str:
    """An answer of that first word, which plain decoding gives nowhere."""
    return first.upper() if item.kind == "choice" and len(first) == 1 else first


def _own(item: Item, constants: Constants) -> Constants:
    """A yes-no question takes the constant of "yes", all others those of the other words."""
    yes_no = item.kind == "yes-no"
    return {w: c for w, c in constants.items() if (w == "yes") == yes_no}


def _probability(baseline: Row, scores: Mapping[str, float], first: str) -> float | None:
    if baseline.probability is None:
        return None
    values = np.array(list(scores.values()))
    return float(np.exp(scores[first] - values.max()) / np.exp(values - values.max()).sum())


def tune(items: Sequence[Item], baseline: Mapping[str, Row]) -> Constants:
    """Constants with the best mean over regimes of the share of right answers.

    The criterion by which α and β are chosen, on the same questions and with a grid of the same
    size: see `accurate_constants`, for "yes" alone and for the other words together.

    baseline: item id → row of plain decoding.
    """
    asked = [i for i in items if takes_constant(i, baseline.get(i.id))]
    counts = Counter(i.regime for i in asked)
    constants: Constants = {}
    for yes_no in (True, False):
        group = [i for i in asked if (i.kind == "yes-no") == yes_no]
        if not group:
            continue
        rows = [baseline[i.id] for i in group]
        words, scores = _matrix(rows)
        truths = [normalised(i.truth).split(" ")[0] for i in group]
        truth = np.array([words.index(t) if t in words else -1 for t in truths])
        first = [word(r.first) for r in rows]
        kept = np.array([words.index(w) if w in words else -1 for w in first])
        free = [k for k, w in enumerate(words) if (w == "yes" if yes_no else w in truths)]
        weights = np.array([1 / counts[i.regime] for i in group])
        chosen = accurate_constants(scores, truth, weights, free, kept)
        constants |= {words[k]: c for k, c in chosen.items() if c}
    return constants


def _matrix(rows: Sequence[Row], also: Sequence[str] = ()) -> tuple[list[str], Floats]:
    """Words, and their scores (N, W), FAR below the lowest for those that were not stored."""
    words = sorted({w for row in rows for w in row.scores} | set(also))
    place = {w: k for k, w in enumerate(words)}
    scores = np.empty((len(rows), len(words)))
    for at, row in enumerate(rows):
        scores[at] = min(row.scores.values()) - FAR
        for w, s in row.scores.items():
            scores[at, place[w]] = s
    return words, scores


def best(scores: Floats, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """(N,) the highest column of (N, W): of equals `kept`, else the first. kept: (N,), or -1.

    >>> best(np.array([[1.0, 2.0, 2.0], [3.0, 3.0, 0.0]]), np.array([2, -1])).tolist()
    [2, 0]
    """
    at = np.arange(len(scores))
    stays = (kept >= 0) & (scores[at, kept] == scores.max(1))
    return np.where(stays, kept, scores.argmax(1))


RIDGE = 1e-3
"""Of `likely_constants`: half of it times Σ c² is added to the mean loss in nats. It decides only
how far constants go of words that are always right or never; 0 would send them to infinity."""


def likely_constants(
    scores: Floats, truth: NDArray[np.int64], weights: Floats, free: Sequence[int]
) -> dict[int, float]:
    """The constant of each free word under which the right words are likeliest.

    Intercepts of a multinomial logistic regression whose only other term is the model's own score:
    the weighted mean of −log softmax(scores + c)[truth] plus RIDGE/2·Σ c². It is convex, so there
    is one answer and no order of search; where every word is free the constants sum to 0. scores,
    truth, weights: as in `accurate_constants`; rows whose right word is no column are left out.

    >>> c = likely_constants(np.zeros((4, 2)), np.array([0, 0, 0, 1]), np.ones(4), [0, 1])
    >>> [round(c[k], 2) for k in (0, 1)]  # ±log(3)/2, but for the ridge
    [0.55, -0.55]
    """
    known = truth >= 0
    scores, truth, weights = scores[known], truth[known], weights[known]
    if not len(truth) or not free:
        return dict.fromkeys(free, 0.0)
    weights, columns = weights / weights.sum(), list(free)
    right = np.zeros_like(scores)
    right[np.arange(len(truth)), truth] = 1

    def loss(c: Floats) -> tuple[float, Floats]:
        moved = scores.copy()
        moved[:, columns] += c
        log = moved - logsumexp(moved, axis=1, keepdims=True)
        excess = (np.exp(log) - right)[:, columns]
        value = -float(weights @ log[np.arange(len(truth)), truth]) + RIDGE / 2 * float(c @ c)
        return value, weights @ excess + RIDGE * c

    found = minimize(loss, np.zeros(len(columns)), jac=True, method="BFGS", tol=1e-9)
    return dict(zip(columns, found.x.tolist(), strict=True))


def accurate_constants(
    scores: Floats,
    truth: NDArray[np.int64],
    weights: Floats,
    free: Sequence[int],
    kept: NDArray[np.int64],
) -> dict[int, float]:
    """The constants, of 0 and DELTAS, with which most answers are right; of equals the smallest.

    scores: (N, W), -inf where a word cannot be answered; truth: (N,) index of the right word;
    weights: (N,); kept: (N,) index of the word that is answered without constants, or -1: equal
    scores are decided as by `best`. From 0 and from `likely_constants`, the best change of any one
    word is made until none is better, so that the order of the words decides nothing. Equals are
    decided by the smallest Σ (c − mean)² and then by the likelihood.
    """
    tried = np.array(sorted({0.0, *DELTAS}, key=abs))
    likely = likely_constants(scores, truth, weights, free)
    near = {k: float(tried[np.abs(tried - c).argmin()]) for k, c in likely.items()}
    ends = [
        _climb(scores, truth, weights, start, kept, tried)
        for start in (dict.fromkeys(free, 0.0), near)
    ]
    return max(ends, key=lambda end: end[0])[1]


Merit = tuple[float, float, float]
"""share right, −Σ (c − mean)², mean log-likelihood"""


def _climb(
    scores: Floats,
    truth: NDArray[np.int64],
    weights: Floats,
    start: dict[int, float],
    kept: NDArray[np.int64],
    tried: Floats,
) -> tuple[Merit, dict[int, float]]:
    now = dict(start)
    merit = _merit(scores, truth, weights, now, kept)
    while True:
        moved: list[tuple[Merit, dict[int, float]]] = []
        for k in now:
            shares = _shares(scores, truth, weights, now, k, kept, tried)
            top = shares.max()
            if top < merit[0]:
                continue
            for c in tried[shares == top].tolist():
                other = now | {k: c}
                moved.append((_merit(scores, truth, weights, other, kept), other))
        best_of = max(moved, key=lambda m: m[0], default=(merit, now))
        if best_of[0] <= merit:
            return merit, now
        merit, now = best_of


def _merit(
    scores: Floats,
    truth: NDArray[np.int64],
    weights: Floats,
    constants: Mapping[int, float],
    kept: NDArray[np.int64],
) -> Merit:
    moved = scores.copy()
    for k, c in constants.items():
        moved[:, k] += c
    share = float((weights * (best(moved, kept) == truth)).sum())
    values = np.array(list(constants.values()))
    off = values - values.mean() if len(values) > 1 else values
    known = truth >= 0
    log = moved[known] - logsumexp(moved[known], axis=1, keepdims=True)
    likely = float(weights[known] @ log[np.arange(known.sum()), truth[known]])
    return round(share, 9), -round(float(off @ off), 9), round(likely, 9)


def _shares(
    scores: Floats,
    truth: NDArray[np.int64],
    weights: Floats,
    constants: Mapping[int, float],
    k: int,
    kept: NDArray[np.int64],
    tried: Floats,
) -> Floats:
    """(len(tried),) weighted share right for each constant of word k, the others as they are."""
    rest = scores.copy()
    for other, c in constants.items():
        rest[:, other] += c
    rest[:, k] = -np.inf
    second = best(rest, np.where(kept == k, -1, kept))
    highest = rest[np.arange(len(rest)), second][:, None]
    moved = scores[:, k, None] + tried
    first = (kept == k) | ((kept != second) & (k < second))
    wins = (moved > highest) | ((moved == highest) & first[:, None])
    right = np.where(wins, (truth == k)[:, None], (truth == second)[:, None])
    return np.asarray((weights[:, None] * right).sum(0).round(9))


def same_counts(rows: Sequence[Row], firsts: Sequence[str]) -> tuple[list[str], float | None]:
    """What constants say that give every answer as often as a method did, without a look at it.

    rows: N of plain decoding, with scores; firsts: N first tokens of the method. The assignment of
    answers to questions with these counts and the largest sum of scores is the one that constants
    give (its dual prices are the constants). Returns N first words, and of yes-no answers δ, the
    constant on "yes" that is closest to 0; None where there are other words.

    >>> rows = [Row("", str(i), "baseline", scores={"yes": m, "no": 0.0}) for i, m in
    ...         enumerate([2.0, 1.0, 0.5, -1.0])]
    >>> same_counts(rows, ["no", "yes", "no", "no"])
    (['yes', 'no', 'no', 'no'], -1.0)
    """
    counts = Counter(word(f) for f in firsts)
    words, scores = _matrix(rows, ("yes", "no", *counts))
    margin = scores[:, words.index("yes")] - scores[:, words.index("no")]
    if set(counts) <= {"yes", "no"}:
        yes = np.zeros(len(rows), bool)
        yes[np.argsort(-margin, kind="stable")[: counts["yes"]]] = True
        return np.where(yes, "yes", "no").tolist(), _closest_shift(margin, yes)
    columns = [words.index(w) for w in counts for _ in range(counts[w])]
    _, order = linear_sum_assignment(scores[:, columns], maximize=True)
    return [words[columns[c]] for c in order], None


def _closest_shift(margin: Floats, yes: NDArray[np.bool_]) -> float:
    """The smallest constant that lifts the margins called yes to 0 or above, the others below."""
    lowest = -margin[yes].min() if yes.any() else -np.inf
    highest = -margin[~yes].max() if (~yes).any() else np.inf
    return float(min(max(0.0, lowest), highest)) + 0.0


def constant_like(
    truth: NDArray[np.bool_], margins: Floats, accuracy: float
) -> dict[str, float | None]:
    """The constant on "yes" that does what a method does, and what remains beyond the best one.

    truth: (N,) whether yes is right; margins: (N,) score of yes less that of no at the baseline's
    first token, NaN where there is none: such a question is right under no constant. accuracy: the
    method's, in [0, 1]. delta: the smallest change of the margin with which the baseline gets at
    least as much (it answers yes above 0, so a rise must be larger than this by any amount), None
    where there is none; best: what the best constant gets, in percent; beyond: the method's lead
    over it, in points; all None without questions. The constant is fitted to the questions it is
    judged on, which favours it.

    >>> truth, margins = np.array([True, True, False]), np.array([-1.0, 2.0, -3.0])
    >>> constant_like(truth, margins, 1.0)
    {'delta': 1.0, 'best': 100.0, 'beyond': 0.0}
    """
    if not len(truth):
        return {"delta": None, "best": None, "beyond": None}
    edges = np.unique(-margins[np.isfinite(margins)])
    steps = np.unique(np.concatenate([[0.0], edges, np.nextafter(edges, np.inf)]))
    known = np.isfinite(margins)
    shares = np.array([(((margins + d > 0) == truth) & known).mean() for d in steps])
    enough = np.flatnonzero(shares >= accuracy - 1e-12)
    delta = float(steps[enough[np.argmin(np.abs(steps[enough]))]]) if len(enough) else None
    best = float(shares.max())
    return {
        "delta": None if delta is None else round(delta, 4),
        "best": round(100 * best, 4),
        "beyond": round(100 * (accuracy - best), 4),
    }
