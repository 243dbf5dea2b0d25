"""What an answer is worth, and what a score hides: how often each answer is given.

Pure functions of answers and truths; nothing here knows a model. Signal detection (Macmillan &
Creelman 2005): d′ = z(H) − z(F), c = −(z(H) + z(F))/2 with H the rate of "yes" where yes is right
and F where it is not, both log-linear (Hautus 1995): (k + ½)/(n + 1). d′ is how well the two are
distinguished; c below 0 is a bias towards yes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu, norm

if TYPE_CHECKING:
    from macd_studio.evals.running.rows import Row  # it needs torch, and a report is shown without


def read_yes_no(text: str) -> str | None:
    """ "yes" or "no" where the answer starts so, in any case; else None: unmatched, and wrong.

    >>> read_yes_no("Yes, a dog."), read_yes_no(" no"), read_yes_no("a dog")
    ('yes', 'no', None)
    """
    found = re.match(r"\W*(yes|no)\b", text.lower())
    return found[1] if found else None


def normalised(text: str) -> str:
    """Lower case, single spaces, no final stop.

    >>> normalised(" The  Dog. ")
    'the dog'
    """
    return " ".join(text.lower().split()).rstrip(".").strip()


@dataclass(frozen=True)
class YesNo:
    """What was answered to N yes/no questions. hits: "yes" where it is right; alarms: where not."""

    n: int
    positives: int
    hits: int
    alarms: int
    right_no: int
    unmatched: int

    @classmethod
    def of(cls, truth: Sequence[str], read: Sequence[str | None]) -> YesNo:
        """read: "yes", "no" or None, an answer with neither word, which is wrong and no yes."""
        pairs = Counter(zip(truth, read, strict=True))
        return cls(
            len(truth),
            sum(t == "yes" for t in truth),
            pairs["yes", "yes"],
            pairs["no", "yes"],
            pairs["no", "no"],
            sum(r is None for r in read),
        )

    def sensitivity(self) -> tuple[float, float]:
        """d′ = z(hits) − z(false alarms), and c = −½·(z(hits) + z(false alarms)).

        NaN where one of the truths is missing. c < 0: leans towards "yes". Of normally distributed
        margins of equal spread a shift changes c alone; in others it changes d′ a little: see
        `margin_d_prime`.
        """
        if not 0 < self.positives < self.n:
            return float("nan"), float("nan")
        hits = float(norm.ppf((self.hits + 0.5) / (self.positives + 1)))
        alarms = float(norm.ppf((self.alarms + 0.5) / (self.n - self.positives + 1)))
        return hits - alarms, -(hits + alarms) / 2


def yes_no_metrics(truth: Sequence[str], said: Sequence[str | None]) -> dict[str, float]:
    """Accuracy and what it hides; "yes" is the positive class. Unmatched answers are wrong.

    Shares in [0, 1]; NaN where a share has nothing under it.

    >>> m = yes_no_metrics(["yes", "yes", "no", "no"], ["yes", "no", "yes", None])
    >>> m["accuracy"], m["recall"], m["false_yes"], m["unmatched"], m["yes_rate"]
    (0.25, 0.5, 0.5, 1.0, 0.5)
    """
    c = YesNo.of(truth, said)
    negatives, yes = c.n - c.positives, c.hits + c.alarms
    recall, specificity = _share(c.hits, c.positives), _share(c.right_no, negatives)
    both = [z for z in (recall, specificity) if not np.isnan(z)]
    d_prime, criterion = c.sensitivity()
    return {
        "accuracy": _share(c.hits + c.right_no, c.n),
        "balanced": float(np.mean(both)) if both else float("nan"),
        "precision": _share(c.hits, yes),
        "recall": recall,
        "f1": _share(2 * c.hits, yes + c.positives),
        "yes_rate": _share(yes, c.n),
        "false_yes": _share(c.alarms, negatives),
        "unmatched": float(c.unmatched),
        "d_prime": d_prime,
        "criterion": criterion,
    }


def _share(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else float("nan")


def auroc(positive: NDArray[Any], score: NDArray[Any]) -> float:
    """P(score of a positive > score of a negative), ties half; NaN without both.

    positive: (N,) bool; score: (N,), any scale.

    >>> auroc(np.array([True, True, False]), np.array([2.0, 1.0, 1.0]))
    0.75
    """
    positive, score = np.asarray(positive, bool), np.asarray(score, float)
    a, b = score[positive], score[~positive]
    if not len(a) or not len(b):
        return float("nan")
    return float(mannwhitneyu(a, b).statistic / (len(a) * len(b)))


def margin_d_prime(area: float, pairs: int) -> float:
    """The distance of two normal distributions of equal spread with that AUROC: √2·z(AUROC).

    It depends on the order of margins alone, which a constant cannot change. pairs: of a positive
    and a negative; an area of 0 or 1 counts as half a pair short of it.

    >>> round(margin_d_prime(0.76, 100), 2)
    1.0
    """
    if not pairs or np.isnan(area):
        return float("nan")
    edge = 0.5 / pairs
    return float(np.sqrt(2) * norm.ppf(min(max(area, edge), 1 - edge)))


BINS = 10


def calibration(probability: Sequence[float], hit: Sequence[bool]) -> dict[str, Any]:
    """Expected calibration error over BINS equal bins of p(answer), and what each bin holds.

    probability: (N,) in [0, 1], of the answer that was given, left out where it is not finite; hit:
    (N,) whether it is right. A probability on an edge belongs to the bin above it. ece:
    Σ share of the bin·|share right − mean probability| (Guo et al. 2017). bins: [mean probability,
    share right, n] of each bin that is not empty.

    >>> calibration([0.95, 0.95, 0.55, 0.55], [True, True, True, False])["ece"]
    0.05
    """
    p, hits = np.asarray(probability, float), np.asarray(hit, float)
    p, hits = p[np.isfinite(p)], hits[np.isfinite(p)]
    index = np.searchsorted(np.arange(1, BINS) / BINS, p, side="right")
    bins = [
        [float(p[index == i].mean()), float(hits[index == i].mean()), int((index == i).sum())]
        for i in range(BINS)
        if (index == i).any()
    ]
    ece = sum(n * abs(right - mean) for mean, right, n in bins) / len(p) if len(p) else np.nan
    return {"ece": round(float(ece), 9), "n": len(p), "bins": bins}


def mentioned(text: str, nouns: Collection[str]) -> set[str]:
    """The nouns of a list that a text names, as whole words, singular or plural.

    >>> sorted(mentioned("a dog, two cups and a hatstand", ["dog", "cup", "hat"]))
    ['cup', 'dog']
    """
    words = set(re.findall(r"\w+", text.lower()))
    return {n for n in nouns if n in words or f"{n}s" in words or f"{n}es" in words}


def chair(
    said: Sequence[Collection[str]], present: Sequence[Collection[str]]
) -> dict[str, NDArray[np.float64]]:
    """Counts a caption for CHAIR (Rohrbach et al. 2018): (N,) each.

    invented: objects named that are not there; named; found: objects there that are named; there.
    CHAIR_i = Σ invented / Σ named; CHAIR_s = mean of invented > 0; recall = Σ found / Σ there.
    """
    pairs = [(set(s), set(p)) for s, p in zip(said, present, strict=True)]
    columns = {
        "invented": [len(s - p) for s, p in pairs],
        "named": [len(s) for s, _ in pairs],
        "found": [len(s & p) for s, p in pairs],
        "there": [len(p) for _, p in pairs],
    }
    return {k: np.array(v, np.float64) for k, v in columns.items()}


Ledger = dict[str, Any]


def yes_no_ledger(truth: Sequence[str], read: Sequence[str | None]) -> Ledger:
    """Rates in percent, of N questions; None for what one class alone cannot tell.

    read: see `YesNo.of`.
    precision, recall and f1 are of yes, and None where the questions have one answer only.

    >>> ledger = yes_no_ledger(["yes", "yes", "no", "no"], ["yes", "no", "yes", None])
    >>> ledger["yes_rate"], ledger["balanced"], ledger["unmatched"], ledger["constants"]["yes"]
    (50.0, 25.0, 1, 50.0)
    >>> yes_no_ledger(["no", "no"], ["yes", "no"])["f1"] is None
    True
    """
    c = YesNo.of(truth, read)
    n, yes = c.n, c.hits + c.alarms
    ledger: Ledger = {
        "n": n,
        "yes_rate": _percent(yes, n),
        "unmatched": c.unmatched,
        "constants": {"yes": _percent(c.positives, n), "no": _percent(n - c.positives, n)},
        **dict.fromkeys(("balanced", "d_prime", "criterion", "precision", "recall", "f1")),
    }
    if not 0 < c.positives < n:
        return ledger
    recall, specificity = c.hits / c.positives, c.right_no / (n - c.positives)
    d_prime, criterion = c.sensitivity()
    return ledger | {
        "balanced": round(50 * (recall + specificity), 4),
        "d_prime": round(d_prime, 4),
        "criterion": round(criterion, 4),
        "precision": _percent(c.hits, yes) if yes else None,
        "recall": _percent(c.hits, c.positives),
        "f1": _percent(2 * c.hits, yes + c.positives),
    }


def choice_ledger(truth: Sequence[str], read: Sequence[str | None]) -> Ledger:
    """Answers by letter: how often each is answered and is right, in percent.

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


def certified_tokens(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Tokens of a server's answers, and how many are certified; empty where no server was asked.

    Certified: the same token wins for every error of the server's log-probabilities, see
    `core.decoding.certificate`.
    """
    known = [r for r in rows if r.certified is not None and r.tokens]
    if not known:
        return {}
    return {
        "certified": {
            "tokens": sum(r.tokens or 0 for r in known),
            "certified": sum(r.certified or 0 for r in known),
        }
    }


def clamped_shares(rows: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, float]]:
    """Method → mean share of its second views' values that a server clamped to 8 bits.

    Empty where none was: of models in this process, and of views that lie inside RGB.
    """
    known = {m: [r.clamped for r in own if r.clamped is not None] for m, own in rows.items()}
    shares = {m: float(np.mean(found)) for m, found in known.items() if found}
    return {"clamped": shares} if shares else {}


def open_shares(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Shares of questions and tokens that a contrast could change; empty where none is known.

    n: questions. lazy_reads: mean cost in prompts read where what no token needs is left out.
    """
    known = [r for r in rows if r.open is not None and r.tokens]
    if not known:
        return {}
    reads = [r.reads or 0.0 for r in known]
    lazy = [cost if r.open else 1.0 for cost, r in zip(reads, known, strict=True)]
    return {
        "open": {
            "n": len(known),
            "questions": sum(bool(r.open) for r in known) / len(known),
            "tokens": sum(r.open or 0 for r in known) / sum(r.tokens or 0 for r in known),
            "reads": float(np.mean(reads)),
            "lazy_reads": float(np.mean(lazy)),
        }
    }
