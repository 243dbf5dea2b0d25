"""What a score hides: how often each answer is given, and what answering always the same gets.

Signal detection (Macmillan & Creelman 2005): d′ = z(H) − z(F), c = −(z(H) + z(F))/2 with H the rate
of "yes" where yes is right and F where it is not, both log-linear (Hautus 1995): (k + ½)/(n + 1).
d′ is how well the two are distinguished; c below 0 is a bias towards yes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import norm

Ledger = dict[str, Any]


def yes_no_ledger(truth: Sequence[str], read: Sequence[str | None]) -> Ledger:
    """Rates in percent, of N questions; None for what one class alone cannot tell.

    read: "yes", "no" or None, an answer with neither word: it counts as wrong, and not as yes.
    precision, recall and f1 are of yes, and None where the questions have one answer only.

    >>> ledger = yes_no_ledger(["yes", "yes", "no", "no"], ["yes", "no", "yes", None])
    >>> ledger["yes_rate"], ledger["balanced"], ledger["unmatched"], ledger["constants"]["yes"]
    (50.0, 25.0, 1, 50.0)
    >>> yes_no_ledger(["no", "no"], ["yes", "no"])["f1"] is None
    True
    """
    n, positives = len(truth), sum(t == "yes" for t in truth)
    pairs = list(zip(truth, read, strict=True))
    hits, false = pairs.count(("yes", "yes")), pairs.count(("no", "yes"))
    ledger: Ledger = {
        "n": n,
        "yes_is_right": positives,
        "yes_rate": _percent(hits + false, n),
        "unmatched": sum(r is None for r in read),
        "constants": {"yes": _percent(positives, n), "no": _percent(n - positives, n)},
        "balanced": None,
        "d_prime": None,
        "criterion": None,
        "precision": None,
        "recall": None,
        "f1": None,
    }
    if not 0 < positives < n:
        return ledger
    recall, specificity = hits / positives, pairs.count(("no", "no")) / (n - positives)
    z_hit = float(norm.ppf((hits + 0.5) / (positives + 1)))
    z_false = float(norm.ppf((false + 0.5) / (n - positives + 1)))
    return ledger | {
        "balanced": round(50 * (recall + specificity), 4),
        "d_prime": round(z_hit - z_false, 4),
        "criterion": round(-(z_hit + z_false) / 2, 4),
        "precision": _percent(hits, hits + false) if hits + false else None,
        "recall": _percent(hits, positives),
        "f1": _percent(2 * hits, hits + false + positives),
    }


def choice_ledger(truth: Sequence[str], read: Sequence[str | None]) -> Ledger:
    """The same for letters: how often each is answered and is right, in percent.

    balanced: mean over letters of the share of right answers where that letter is right. best: the
    letter whose constant answer gets most.

    >>> ledger = choice_ledger(["A", "B", "B", "C"], ["B", "B", None, "B"])
    >>> ledger["rates"]["B"], ledger["constants"]["B"], ledger["best"], ledger["unmatched"]
    (75.0, 50.0, 'B', 1)
    """
    n, right = len(truth), Counter(truth)
    answered, hits = Counter(r for r in read if r is not None), Counter[str]()
    hits.update(t for t, r in zip(truth, read, strict=True) if t == r)
    letters = sorted({*right, *answered})
    constants = {z: _percent(right[z], n) for z in letters}
    return {
        "n": n,
        "rates": {z: _percent(answered[z], n) for z in letters},
        "constants": constants,
        "best": max(constants, key=lambda z: (constants[z], z)) if constants else None,
        "unmatched": sum(r is None for r in read),
        "balanced": round(100 * sum(hits[z] / right[z] for z in right) / len(right), 4)
        if len(right) > 1
        else None,
    }


def one_answer_note(splits: Mapping[str, Sequence[str]]) -> str:
    """What to know where splits have one right answer only; "" where none does.

    splits: split → right answers of its questions.

    >>> splits = {"entire": ["no"] * 3, "interleave": ["yes"] * 2, "mix": ["yes", "no"]}
    >>> print(one_answer_note(splits))
    Each of these splits has one answer only: entire (3 × no), interleave (2 × yes). There \
precision, recall, F1, d′ and criterion say nothing, and always giving that answer gets 100 %. A \
shift towards yes raises interleave and lowers entire, whatever the videos show: read the gains of \
one beside the losses of the other.
    """
    single = {s: answers[0] for s, answers in splits.items() if len(set(answers)) == 1}
    if not single:
        return ""
    listed = ", ".join(f"{s} ({len(splits[s])} × {answer})" for s, answer in single.items())
    note = (
        f"Each of these splits has one answer only: {listed}. There precision, recall, F1, d′ and"
        " criterion say nothing, and always giving that answer gets 100 %."
    )
    yes, no = ([s for s, a in single.items() if a == z] for z in ("yes", "no"))
    if yes and no:
        note += (
            f" A shift towards yes raises {' and '.join(yes)} and lowers {' and '.join(no)},"
            " whatever the videos show: read the gains of one beside the losses of the other."
        )
    return note


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 4) if whole else 0.0
