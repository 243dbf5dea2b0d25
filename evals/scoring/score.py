"""Predictions → accuracy over all questions and by split, its bias, and where rules disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.text.words import count
from macd_studio.core.validation import shown
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.files import FileBenchmark
from macd_studio.evals.scoring.rules import FAILED, OWN, Rule, is_thought_without_answer, rules_for
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.metrics import (
    Ledger,
    choice_ledger,
    one_answer_note,
    yes_no_ledger,
)

Over = Literal["all", "answered", "groups"]
OVER: tuple[str, ...] = get_args(Over)
WORDS = {
    "all": "all questions",
    "answered": "questions whose answer the rule can read",
    "groups": "groups, right where all of their questions are",
}
Array = NDArray[Any]


def check_over(value: str) -> Over:
    """The way of counting. Raises OptionError."""
    if value not in OVER:
        raise OptionError(f"{value!r} is no way of counting", f"Choose one of {', '.join(OVER)}")
    return value  # type: ignore[return-value]


def sums(right: Array, counted: Array, groups: Array, over: Over) -> tuple[Array, Array]:
    """(top, bottom) of a figure by question, (N,) of 0 and 1: the figure is Σ top / Σ bottom.

    right, counted: (N,) bool, counted where the answer can be read; groups: (N,) keys, each
    question's own where it has no group. What a group adds stands at its first question.

    >>> right, groups = np.array([True, False, True]), np.array(["a", "a", "b"])
    >>> [z.tolist() for z in sums(right, right, groups, "groups")]
    [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]
    """
    if over == "answered":
        return (right & counted).astype(float), counted.astype(float)
    if over == "all" or not len(right):
        return right.astype(float), np.ones(len(right))
    _, first, index = np.unique(groups, return_index=True, return_inverse=True)
    wrong = np.bincount(index, weights=~right, minlength=len(first))
    top, bottom = np.zeros(len(right)), np.zeros(len(right))
    bottom[first] = 1.0
    top[first] = wrong == 0
    return top, bottom


Texts = Mapping[str, str | None]
Scores = dict[str, Any]
MAX_FLIPS = 1000
"""Questions that are listed where rules differ; their number is that of all."""


def headline(benchmark: str, item: Item, name: str | None = None) -> Rule:
    """The rule that decides, the first one or the one of that name. Raises OptionError.

    "strict" is this project's own rule for any kind of question.
    """
    rules = rules_for(benchmark, item)
    if name is None:
        return rules[0]
    own = OWN if name == OWN[0] else (name,)
    rule = next((r for r in rules if r.name in own), None)
    if rule is None:
        raise OptionError(
            f"{benchmark} has no rule {name!r}", f"Choose one of {', '.join(r.name for r in rules)}"
        )
    return rule


def left_out(rule: Rule, text: str | None, item: Item) -> bool:
    """Whether the answer says nothing, so that it is left out where only answered ones count.

    By the rule's own word, where it leaves answers out; else where nothing can be read.
    """
    if rule.dropping is not None:
        return rule.drops(text, item)
    return rule.read(text, item) is None


KINDS = {
    "yes-no": ("yes/no ", ""),
    "choice": ("", " with options"),
    "choices": ("", " with several right options"),
    "word": ("open ", ""),
}
"""Kind → the words before and after "question"."""


def questions_of(n: int, kind: str) -> str:
    """So many questions of a kind.

    >>> questions_of(2, "choice"), questions_of(1, "word")
    ('2 questions with options', '1 open question')
    """
    before, after = KINDS.get(kind, ("", f" of the kind {kind}"))
    return f"{count(n, f'{before}question')}{after}"


def judged_by(benchmark: str, items: Sequence[Item], name: str | None = None) -> list[Scores]:
    """How each kind of question is judged: kind, n, rule and source, in the order of the items."""
    rows: list[Scores] = []
    for kind in dict.fromkeys(i.kind for i in items):
        members = [i for i in items if i.kind == kind]
        rule = headline(benchmark, members[0], name)
        rows.append({"kind": kind, "n": len(members), "rule": rule.title, "source": rule.source})
    return rows


def check_rule(benchmark: FileBenchmark, name: str | None) -> None:
    """Raises OptionError for a rule that not every kind of question has."""
    for item in {i.kind: i for i in benchmark.everything}.values():
        headline(benchmark.name, item, name)


def score(
    benchmark: FileBenchmark, texts: Texts, rule: str | None = None, over: Over = "all"
) -> Scores:
    """Figures of one set of answers as plain data; accuracies in percent.

    texts: question id → answer. A question without an answer, and one whose answer cannot be read,
    is wrong: accuracy is over all questions, unless `over` says otherwise. Intervals are of 95 %,
    over clusters.
    """
    items = benchmark.everything
    splits = {r: [i for i in items if i.regime == r] for r in benchmark.regimes}
    flipped = flips(benchmark.name, items, texts)
    scores: Scores = {
        "benchmark": benchmark.name,
        "rule": headline(benchmark.name, items[0], rule).title,
        "source": headline(benchmark.name, items[0], rule).source,
        "judged": judged_by(benchmark.name, items, rule),
        "over": over,
        **figures(benchmark, items, texts, rule, over),
        "splits": {
            name: figures(benchmark, members, texts, rule, over) for name, members in splits.items()
        },
        "labels": by_label(benchmark, items, texts, rule),
        "rules": by_rule(benchmark.name, items, texts),
        "flips": flipped[:MAX_FLIPS],
        "flipped": len(flipped),
    }
    truths = {
        s: [i.truth for i in members] for s, members in splits.items() if s and _is_yes_no(members)
    }
    notes = [one_answer_note(truths), *benchmark.check_sizes()]
    notes += notes_on(benchmark.name, items, texts, rule)
    missing = sum(texts.get(i.id) in (None, FAILED) for i in items)
    if missing:
        notes.append(f"{missing} of {len(items)} questions have no answer; they count as wrong")
    return scores | {"notes": [n for n in notes if n]}


def notes_on(
    benchmark: str, items: Sequence[Item], texts: Texts, rule: str | None = None
) -> list[str]:
    """What one should know of a set of answers before its figures are read; mostly nothing."""
    notes = []
    lucky = []
    for item in items:
        decisive, text = headline(benchmark, item, rule), texts.get(item.id)
        if decisive.right(text, item) and decisive.read(text, item) is None:
            lucky.append((decisive.title, text))
    if lucky:
        title, text = lucky[0]
        notes.append(
            f"{len(lucky)} of {count(len(items), 'answer')} are right by the rule {title} though it"
            f" reads no option in them, such as {shown(text)}"
        )
    cut = sum(is_thought_without_answer(texts.get(i.id)) for i in items)
    if cut:
        notes.append(
            f"{cut} of {count(len(items), 'answer')} hold a model's thinking and nothing else,"
            " which counts as wrong; give it more tokens (decode.max_tokens of the options)"
        )
    return notes


def hits(
    benchmark: FileBenchmark, items: Sequence[Item], texts: Texts, rule: str | None = None
) -> np.ndarray:
    """(N,) bool: which questions are answered right."""
    return np.array(
        [headline(benchmark.name, i, rule).right(texts.get(i.id), i) for i in items], bool
    )


def figures(
    benchmark: FileBenchmark,
    items: Sequence[Item],
    texts: Texts,
    rule: str | None = None,
    over: Over = "all",
) -> Scores:
    """Number, accuracy, its interval and the bias ledger of some questions.

    over: what the accuracy is a share of. Where questions belong to groups, `groups` holds the
    share of groups all of whose questions are right.
    """
    right = hits(benchmark, items, texts, rule)
    scores = _share(benchmark, items, texts, right, rule, over)
    found = scores | {"bias": ledger(benchmark.name, items, texts, rule)}
    if official := official_figures(benchmark, items, texts):
        found["official"] = official
    if over != "groups" and any(benchmark.group(i) for i in items):
        found["groups"] = _share(benchmark, items, texts, right, rule, "groups")
    return found


def official_figures(benchmark: FileBenchmark, items: Sequence[Item], texts: Texts) -> list[Scores]:
    """Figures as the benchmark's authors report them, by their own rule; mostly none."""
    rules = {i.id: headline(benchmark.name, i) for i in items}
    if any(r.name != "official" for r in rules.values()):
        return []
    right = {
        i.id: None
        if rules[i.id].drops(texts.get(i.id), i)
        else rules[i.id].right(texts.get(i.id), i)
        for i in items
    }
    return [
        {"name": o.name, "accuracy": round(o.percent, 4), "n": o.n}
        for o in benchmark.official(items, right)
    ]


def _share(
    benchmark: FileBenchmark,
    items: Sequence[Item],
    texts: Texts,
    right: np.ndarray,
    rule: str | None,
    over: Over,
) -> Scores:
    counted = np.ones(len(items), bool)
    if over == "answered":
        rules = [headline(benchmark.name, i, rule) for i in items]
        silent = [left_out(r, texts.get(i.id), i) for r, i in zip(rules, items, strict=True)]
        counted = ~np.array(silent, bool)
    groups = np.array([benchmark.group(i) or f"\0{i.id}" for i in items])
    top, bottom = sums(right, counted, groups, over)
    at = np.flatnonzero(bottom)
    clusters = [benchmark.cluster(items[int(i)]) for i in at]
    share, low, high = clustered_share(top[at], clusters)
    return {
        "n": len(at),
        "clusters": len(set(clusters)),
        "right": int(top.sum()),
        "accuracy": round(100 * share, 4) if len(at) else None,
        "interval": [round(100 * x, 4) for x in (low, high)] if len(at) else None,
    }


def ledger(
    benchmark: str, items: Sequence[Item], texts: Texts, rule: str | None = None
) -> Ledger | None:
    """The bias of yes/no or of lettered answers; None where questions are of several kinds."""
    kinds = {i.kind for i in items}
    if len(kinds) != 1 or not kinds <= {"yes-no", "choice"}:
        return None
    read = [headline(benchmark, i, rule).read(texts.get(i.id), i) for i in items]
    make = yes_no_ledger if kinds == {"yes-no"} else choice_ledger
    return make([i.truth for i in items], read)


def by_label(
    benchmark: FileBenchmark, items: Sequence[Item], texts: Texts, rule: str | None = None
) -> dict[str, dict[str, Scores]]:
    """Dimension → value → number and accuracy; a question with two tags counts for both."""
    right = hits(benchmark, items, texts, rule)
    hits_by_label: dict[str, dict[str, list[bool]]] = {}
    for item, hit in zip(items, right, strict=True):
        for dimension, value in item.labels:
            hits_by_label.setdefault(dimension, {}).setdefault(value, []).append(bool(hit))
    return {
        dimension: {
            value: {"n": len(h), "accuracy": round(100 * sum(h) / len(h), 4)}
            for value, h in sorted(values.items())
        }
        for dimension, values in hits_by_label.items()
    }


def by_rule(benchmark: str, items: Sequence[Item], texts: Texts) -> dict[str, Scores]:
    """Each rule's own figure, over the questions that it counts."""
    by_name: dict[str, Scores] = {}
    for name in dict.fromkeys(r.name for i in items for r in rules_for(benchmark, i)):
        used = [(r, i) for i in items for r in rules_for(benchmark, i) if r.name == name]
        counted = [(r, i) for r, i in used if not r.drops(texts.get(i.id), i)]
        right = sum(r.right(texts.get(i.id), i) for r, i in counted)
        by_name[name] = {
            "version": used[0][0].version,
            "source": used[0][0].source,
            "n": len(counted),
            "left_out": len(used) - len(counted),
            "right": right,
            "accuracy": round(100 * right / len(counted), 4) if counted else None,
        }
    return by_name


def flips(benchmark: str, items: Sequence[Item], texts: Texts) -> list[Scores]:
    """The questions that not every rule judges alike."""
    flipped: list[Scores] = []
    for item in items:
        text = texts.get(item.id)
        judged: dict[str, bool | None] = {}
        for rule in rules_for(benchmark, item):
            judged[rule.name] = None if rule.drops(text, item) else rule.right(text, item)
        if len(set(judged.values())) > 1:
            flipped.append(
                {
                    "id": item.id,
                    "question": item.question,
                    "truth": item.truth,
                    "prediction": text,
                    "right": judged,
                }
            )
    return flipped


def _is_yes_no(items: Sequence[Item]) -> bool:
    return bool(items) and all(i.kind == "yes-no" for i in items)
