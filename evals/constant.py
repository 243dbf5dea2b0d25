"""The decisive control: what constants added to the scores of the answers gain, without a look.

A yes-no question has one constant, δ on "yes"; any other short answer has one constant for each
word. Both follow from the baseline's scores of the first token, so they cost no run of the model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.metrics import normalised
from macd_studio.evals.rows import Row

Constants = dict[str, float]
"""Answer word, as in `Row.scores` → what is added to its score; words left out have 0."""

Floats = NDArray[np.float64]

MAGNITUDES = (0.125, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0)
DELTAS = tuple(sign * m for m in MAGNITUDES for sign in (-1.0, 1.0))
"""What a constant is chosen from: as many values as there are pairs of α and β."""

ROUNDS = 2
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
        return Row("", item.id, "yes-bias", left_out=baseline.left_out, error=baseline.error)
    if not takes_constant(item, baseline):
        return Row("", item.id, "yes-bias", left_out="constants apply to short answers only")
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
        method="yes-bias",
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
    size: δ on "yes" by trying DELTAS, those of other words one after the other, twice. Of equals
    the smallest. baseline: item id → row of plain decoding.
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
        chosen = coordinates(scores, truth, weights, free, kept)
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


def coordinates(
    scores: Floats,
    truth: NDArray[np.int64],
    weights: Floats,
    free: Sequence[int],
    kept: NDArray[np.int64],
) -> dict[int, float]:
    """The constant of each free word, chosen one at a time with the others held.

    scores: (N, W), -inf where a word cannot be answered; truth: (N,) index of the right word;
    weights: (N,); kept: (N,) index of the word that is answered without constants, or -1: equal
    scores are decided as by `best`. Of constants that get equally much the one closest to 0.
    """
    chosen = dict.fromkeys(free, 0.0)
    now = scores.copy()
    tried = np.array(sorted({0.0, *DELTAS}, key=abs))
    for _ in range(ROUNDS if len(free) > 1 else 1):
        for k in free:
            rest = now.copy()
            rest[:, k] = -np.inf
            other = best(rest, np.where(kept == k, -1, kept))
            highest = rest[np.arange(len(rest)), other][:, None]
            moved = scores[:, k, None] + tried
            first = (kept == k) | ((kept != other) & (k < other))
            wins = (moved > highest) | ((moved == highest) & first[:, None])
            right = np.where(wins, (truth == k)[:, None], (truth == other)[:, None])
            share = (weights[:, None] * right).sum(0).round(9)
            chosen[k] = float(tried[int(share.argmax())])
            now[:, k] = scores[:, k] + chosen[k]
    return chosen


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
    first token; accuracy: the method's, in [0, 1]. delta: the smallest change of the margin with
    which the baseline gets at least as much, None where there is none; best: what the best constant
    gets, in percent; beyond: the method's lead over it, in points. The constant is fitted to the
    questions it is judged on, which favours it.

    >>> truth, margins = np.array([True, True, False]), np.array([-1.0, 2.0, -3.0])
    >>> constant_like(truth, margins, 1.0)
    {'delta': 2.0, 'best': 100.0, 'beyond': 0.0}
    """
    edges = np.unique(-margins)
    steps = np.concatenate([[edges[0] - 1], (edges[:-1] + edges[1:]) / 2, [edges[-1] + 1], [0.0]])
    shares = np.array([((margins + d > 0) == truth).mean() for d in steps])
    enough = np.flatnonzero(shares >= accuracy - 1e-12)
    delta = float(steps[enough[np.argmin(np.abs(steps[enough]))]]) if len(enough) else None
    best = float(shares.max())
    return {
        "delta": None if delta is None else round(delta, 4),
        "best": round(100 * best, 4),
        "beyond": round(100 * (accuracy - best), 4),
    }
