"""Rows → figures: each regime by itself, each method against others on the same questions.

`summarise` takes all rows of a run, and `tabulate` those of one split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.base import Benchmark, Item
from macd_studio.evals.running.contrasts import CONSTANT
from macd_studio.evals.running.output import count_objects
from macd_studio.evals.running.rows import PACKED, Row, seeded, unpack
from macd_studio.evals.statistics.constant import (
    Constants,
    answers_by_first,
    same_counts,
    takes_constant,
    tune,
    with_constants,
)
from macd_studio.evals.statistics.intervals import auroc_change, auroc_interval, clustered_share
from macd_studio.evals.statistics.metrics import (
    auroc,
    calibration,
    certified_tokens,
    chair,
    clamped_shares,
    margin_d_prime,
    mentioned,
    normalised,
    open_shares,
    read_yes_no,
    yes_no_metrics,
)
from macd_studio.evals.statistics.objects import (
    asked_objects,
    gradient_auc,
    groups_of,
    object_ranking,
)
from macd_studio.evals.statistics.stats import (
    bootstrap_ratio,
    enough_differ,
    holm,
    mcnemar,
    mean_difference,
    sign_flip,
)

Figures = dict[str, Any]
Answers = Mapping[tuple[str, str], Row]
"""(item id, method) → its row"""
Bools = NDArray[np.bool_]

JUDGED = ("macd", "macd-measured")
RIVALS = (
    CONSTANT,
    "random-place",
    "random-objects",
    "random-mask",
    "mask-all",
    "reversed",
    "vcd",
)
"""What each of JUDGED is compared with; each rival is compared with the constant, too. Rows from
before `random-place` hold `random-mask` instead."""

HELPS_FROM = 0.01
"""The gain from which constants are said to help a regime's questions."""


def right(item: Item, text: str, benchmark: Benchmark) -> bool:
    """Whether an answer counts: yes/no as read, words exactly, captions without an invention."""
    if item.kind == "yes-no":
        return read_yes_no(text) == item.truth
    if item.kind == "caption":
        named = mentioned(text, benchmark.nouns)
        return bool(named) and named <= set(benchmark.present(item.clip))
    return normalised(text) == normalised(item.truth)


@dataclass(frozen=True, eq=False)
class Judged:
    """Answers of several methods to the same questions. hits, applies: method → (N,)."""

    items: list[Item]
    rows: dict[str, list[Row]]
    hits: dict[str, Bools]
    applies: dict[str, Bools]
    clips: NDArray[Any]

    @classmethod
    def of(
        cls, benchmark: Benchmark, items: list[Item], answers: Answers, methods: Sequence[str]
    ) -> Judged:
        """Judges every answer once."""
        rows = {m: [answers[i.id, m] for i in items] for m in methods}
        hits = {
            m: np.array([right(i, r.text, benchmark) for i, r in zip(items, own, strict=True)])
            for m, own in rows.items()
        }
        applies = {m: np.array([not r.left_out for r in own]) for m, own in rows.items()}
        return cls(items, rows, hits, applies, np.array([i.clip for i in items]))

    def only(self, keep: Bools) -> Judged:
        """Some of the questions."""
        at = np.flatnonzero(keep)
        return Judged(
            [self.items[i] for i in at],
            {m: [own[i] for i in at] for m, own in self.rows.items()},
            {m: z[at] for m, z in self.hits.items()},
            {m: z[at] for m, z in self.applies.items()},
            self.clips[at],
        )

    def kind(self, *kinds: str) -> Judged:
        """The questions of some kinds."""
        return self.only(np.array([i.kind in kinds for i in self.items], bool))

    @property
    def methods(self) -> list[str]:
        """In the order of the table."""
        return list(self.rows)


def summarise(
    benchmark: Benchmark, rows: Iterable[Row], methods: Sequence[str], n: int, split: int
) -> Figures:
    """Tunes the constants on the choose split and tabulates the test split.

    rows: of the baseline on the choose split, of every method but yes-bias on the test split.
    n, split: questions a regime. Raises OptionError where a row is missing.
    """
    answers = {(row.item, row.method): row for row in rows}
    chosen, items = benchmark.items("choose", split), benchmark.items("test", n)
    try:
        chosen = [i for i in chosen if i.kind != "caption"]
        plain = {i.id: answers[i.id, "baseline"] for i in chosen}
        constants = tune(chosen, plain)
        texts = answers_by_first(list(plain.values()))
        for item in items:
            baseline = answers[item.id, "baseline"]
            answers[item.id, CONSTANT] = with_constants(item, baseline, constants, texts)
        by_regime = {
            regime: tune([i for i in chosen if i.regime == regime], plain)
            for regime in benchmark.regimes
        }
        figures = tabulate(benchmark, items, answers, methods, by_regime)
    except KeyError as error:
        raise OptionError(f"there is no row of {error.args[0]}", "Run it again") from None
    asked = {i.id for i in items}
    objects = count_objects(row for (item, _), row in answers.items() if item in asked)
    return figures | {
        "constants": constants,
        "regime_constants": by_regime,
        "objects": objects,
    }


def summarise_again(report: Figures, folder: Path) -> Figures:
    """The report of a run with its figures computed again from the rows in its folder."""
    rows = unpack(folder / PACKED)
    benchmark = seeded(find_benchmark(report["benchmark"]), report["seed_step"])
    asked = report["asked"]
    return report | summarise(benchmark, rows, report["methods"], asked["test"], asked["choose"])


def tabulate(
    benchmark: Benchmark,
    items: Sequence[Item],
    answers: Answers,
    methods: Sequence[str],
    constants: Mapping[str, Constants] | None = None,
) -> Figures:
    """Figures a regime, a level and a method; nothing is pooled over regimes.

    constants: regime → constants tuned on that regime's own questions of the choose split.
    """
    judged = {}
    for regime in benchmark.regimes:
        of_regime = [i for i in items if i.regime == regime]
        if of_regime:
            judged[regime] = Judged.of(benchmark, of_regime, answers, methods)
    regimes = {regime: _regime(benchmark, part) for regime, part in judged.items()}
    _adjust([part["methods"] for part in regimes.values()])
    for part in regimes.values():
        _adjust([level["methods"] for level in part["levels"].values()])
    return {
        "regimes": regimes,
        "auroc": _auroc_table(judged),
        "paired": _paired_table(judged),
        "constant_free": _constant_free(judged, constants or {}),
        "breakdown": _breakdown(benchmark, judged),
        "gradient_auc": gradient_auc(benchmark, items, answers),
        "ranking": object_ranking(benchmark, items, answers, methods),
        **clamped_shares({m: [answers[i.id, m] for i in items] for m in methods}),
    }


def _regime(benchmark: Benchmark, judged: Judged) -> Figures:
    levels = {}
    for level in benchmark.levels:
        part = judged.only(np.array([i.level == level for i in judged.items]))
        if part.items:
            levels[level] = {"n": len(part.items), "methods": _methods(benchmark, part)}
    return {
        "n": len(judged.items),
        "clips": len(set(judged.clips)),
        "methods": _methods(benchmark, judged),
        "levels": levels,
    }


def _methods(benchmark: Benchmark, judged: Judged) -> dict[str, Figures]:
    methods: dict[str, Figures] = {}
    for m in judged.methods:
        part = judged.only(judged.applies[m])
        reads = [r.reads for r in part.rows[m] if r.reads is not None]
        methods[m] = {
            "right": clustered_share(part.hits[m], part.clips),
            "n": len(part.items),
            "left_out": len(judged.items) - len(part.items),
            "errors": sum(bool(r.error) for r in part.rows[m]),
            "reads": float(np.mean(reads)) if reads else None,
            **open_shares(part.rows[m]),
            **certified_tokens(part.rows[m]),
        }
        if not part.items:
            continue
        if m != "baseline" and "baseline" in judged.methods:
            methods[m] |= _against(part, "baseline", m)
            methods[m] |= _constant_share(part, m)
        methods[m] |= _yes_no(part, m)
        methods[m] |= _calibration(part, m)
        if all(i.kind == "caption" for i in part.items):
            methods[m] |= _captions(benchmark, part, m)
    return methods


def _against(judged: Judged, first: str, second: str) -> Figures:
    """Change from the first method to the second, on the questions that both answer."""
    both = judged.only(judged.applies[first] & judged.applies[second])
    a, b = both.hits[first], both.hits[second]
    difference = b.astype(int) - a.astype(int)
    tested = len(a) and enough_differ(difference, both.clips)
    return {
        "delta": mean_difference(a, b, both.clips),
        "p": mcnemar(a, b),
        "p_clips": sign_flip(difference, both.clips) if tested else float("nan"),
        "repaired": int((b & ~a).sum()),
        "spoiled": int((a & ~b).sum()),
    }


def _adjust(tables: Sequence[Mapping[str, Figures]]) -> None:
    """Adds Holm's p over all methods of all these tables, `holm`, from `p_clips`.

    A comparison in which too few clips differ has no `p_clips` and is no test.
    """
    cells = [f for table in tables for f in table.values() if "p_clips" in f]
    for cell, adjusted in zip(cells, holm([c["p_clips"] for c in cells]), strict=True):
        cell["holm"] = adjusted


def _constant_share(judged: Judged, method: str) -> Figures:
    """How much of a method's gain constants explain that give each answer as often as it does.

    Over short answers. share: the constants' gain over the method's; remains: the method's less the
    constants'. share is None where the method does not gain.
    """
    base = judged.rows["baseline"]
    takes = [takes_constant(i, r) for i, r in zip(judged.items, base, strict=True)]
    part = judged.only(np.array(takes, bool))
    if not part.items:
        return {}
    base, delta = part.rows["baseline"], None
    assigned = np.empty(len(base), object)
    yes_no = np.array([i.kind == "yes-no" for i in part.items])
    for group in (yes_no, ~yes_no):
        at = np.flatnonzero(group)
        if len(at):
            firsts = [_first(part.rows[method][i]) for i in at]
            assigned[at], shift = same_counts([base[i] for i in at], firsts)
            delta = shift if group is yes_no else delta
    truths = [normalised(i.truth).split(" ")[0] for i in part.items]
    plain, own = part.hits["baseline"].astype(float), part.hits[method].astype(float)
    # a question whose answer the constants leave counts as the baseline's own answer does
    same = np.array([w == _first(r) for w, r in zip(assigned, base, strict=True)])
    shifted = np.where(same, plain, assigned == np.array(truths))
    gains = own.sum() > plain.sum()
    share = bootstrap_ratio(shifted - plain, own - plain, part.clips) if gains else None
    return {
        "constant": {
            "n": len(part.items),
            "delta_on_yes": delta,
            "gain": mean_difference(plain, own, part.clips),
            "constant_gain": mean_difference(plain, shifted, part.clips),
            "share": share,
            "remains": mean_difference(shifted, own, part.clips),
        }
    }


def _first(row: Row) -> str:
    """How a row's answer begins, as the words of `Row.scores`; a row without tokens by its text."""
    return row.first.strip().lower() or normalised(row.text).split(" ")[0]


def _yes_no(judged: Judged, method: str) -> Figures:
    asked = judged.kind("yes-no")
    if not asked.items:
        return {}
    truth = [i.truth for i in asked.items]
    rows = asked.rows[method]
    answered = [read_yes_no(r.text) for r in rows]
    figures: Figures = dict(yes_no_metrics(truth, answered))
    figures["n"] = len(asked.items)
    figures["always_yes"] = truth.count("yes") / len(truth)
    positive = np.array([t == "yes" for t in truth])
    for kind, values in (("yes", positive), ("no", ~positive)):
        figures[f"right_of_{kind}"] = clustered_share(
            asked.hits[method][values], asked.clips[values]
        )
    if all(r.margin is not None for r in rows):
        margins = np.array([r.margin for r in rows], float)
        area = auroc(positive, margins)
        figures["margin_auroc"] = area
        pairs = int(positive.sum() * (~positive).sum())
        figures["margin_d_prime"] = margin_d_prime(area, pairs)
    return {"yes_no": figures}


def _calibration(judged: Judged, method: str) -> Figures:
    pairs = [
        (r.probability, hit)
        for i, r, hit in zip(
            judged.items, judged.rows[method], judged.hits[method].tolist(), strict=True
        )
        if i.kind != "caption" and r.probability is not None
    ]
    if not pairs:
        return {}
    return {"calibration": calibration(*zip(*pairs, strict=True))}


def _captions(benchmark: Benchmark, judged: Judged, method: str) -> Figures:
    present = [benchmark.present(i.clip) for i in judged.items]
    counts = {
        m: chair([mentioned(r.text, benchmark.nouns) for r in judged.rows[m]], present)
        for m in {method, "baseline"} & set(judged.rows)
    }
    own = counts[method]
    figures: Figures = {
        "chair_i": bootstrap_ratio(own["invented"], own["named"], judged.clips),
        "recall": bootstrap_ratio(own["found"], own["there"], judged.clips),
    }
    if method != "baseline" and "baseline" in counts:
        base = counts["baseline"]
        for name, top, bottom in (("chair_i", "invented", "named"), ("recall", "found", "there")):
            figures[f"{name}_delta"] = bootstrap_ratio(
                own[top], own[bottom], judged.clips, minus=(base[top], base[bottom])
            )
    return figures


def _auroc_table(judged: Mapping[str, Judged]) -> Figures:
    """Regime → method → AUROC of the yes-no margin and balanced accuracy, each with its change.

    Both kinds of intervals are over clips; `holm` is over the changes of AUROC of the whole table.
    """
    table: Figures = {}
    for regime, part in judged.items():
        asked = part.kind("yes-no")
        positive = np.array([i.truth == "yes" for i in asked.items], bool)
        if not positive.any() or positive.all():
            continue
        scores = {}
        for m in asked.methods:
            margins = [r.margin for r in asked.rows[m]]
            if all(z is not None for z in margins) and asked.applies[m].all():
                scores[m] = np.array(margins, float)
        table[regime] = {}
        for m, own in scores.items():
            cell: Figures = {
                "auroc": auroc_interval(positive, own, asked.clips),
                "balanced": _balanced(asked, positive, m),
            }
            if m != "baseline" and "baseline" in scores:
                if m == CONSTANT:  # its order is the baseline's by design
                    cell["delta"], cell["p_clips"] = (0.0, 0.0, 0.0), 1.0
                else:
                    cell["delta"], cell["p_clips"] = auroc_change(
                        positive, scores["baseline"], own, asked.clips
                    )
                cell["balanced_delta"] = _balanced(asked, positive, m, "baseline")
            table[regime][m] = cell
    _adjust(list(table.values()))
    return table


def _balanced(
    asked: Judged, positive: Bools, method: str, minus: str | None = None
) -> tuple[float, float, float]:
    """Mean of the shares right of each truth; with `minus`, less that method's."""
    hits = asked.hits[method].astype(float)
    if minus is not None:
        hits = hits - asked.hits[minus]
    halves = np.where(positive, 0.5 / positive.mean(), 0.5 / (1 - positive.mean()))
    return bootstrap_ratio(hits * halves, np.ones(len(hits)), asked.clips)


def _paired_table(judged: Mapping[str, Judged]) -> Figures:
    """Regime → comparisons of two methods on the same questions, Holm's p over all of them."""
    table: Figures = {}
    for regime, part in judged.items():
        there = set(part.methods)
        pairs = [(m, r) for m in JUDGED for r in RIVALS if {m, r} <= there]
        pairs += [(r, CONSTANT) for r in RIVALS if {r, CONSTANT} <= there and r != CONSTANT]
        pairs += [("macd-measured", "macd")] if {"macd", "macd-measured"} <= there else []
        cells = []
        for method, against in pairs:
            both = part.only(part.applies[method] & part.applies[against])
            if both.items:
                cell = {"method": method, "against": against, "n": len(both.items)}
                cells.append(cell | _against(both, against, method))
        table[regime] = cells
    _adjust([dict(enumerate(cells)) for cells in table.values()])  # type: ignore[arg-type]
    return table


def _constant_free(judged: Mapping[str, Judged], constants: Mapping[str, Constants]) -> Figures:
    """Regime → its questions that are not yes-no questions, and whether constants help there.

    gain: of constants tuned on the regime's own questions of the choose split; helps: whether it is
    HELPS_FROM or more. What a method gains where they do not help is not a shift.
    """
    table: Figures = {}
    for regime, part in judged.items():
        if regime not in constants or "baseline" not in part.methods:
            continue
        base = {i.id: r for i, r in zip(part.items, part.rows["baseline"], strict=True)}
        words = part.only(
            np.array([i.kind != "yes-no" and takes_constant(i, base[i.id]) for i in part.items])
        )
        if not words.items:
            continue
        rows = words.rows["baseline"]
        texts = answers_by_first(rows)
        moved = [
            normalised(with_constants(i, r, constants[regime], texts).text) == normalised(i.truth)
            for i, r in zip(words.items, rows, strict=True)
        ]
        gain = mean_difference(words.hits["baseline"], np.array(moved), words.clips)
        own: Figures = {}
        for m in words.methods:
            applicable = words.only(words.applies[m])
            if applicable.items:
                own[m] = {"right": clustered_share(applicable.hits[m], applicable.clips)}
                if m != "baseline":
                    own[m] |= _against(applicable, "baseline", m)
        table[regime] = {
            "n": len(words.items), "gain": gain, "helps": gain[0] >= HELPS_FROM, "methods": own
        }  # fmt: skip
    _adjust([part["methods"] for part in table.values()])
    return table


def _breakdown(benchmark: Benchmark, judged: Mapping[str, Judged]) -> Figures:
    """Regime → property of the asked object → its group → n and, by method, right and change."""
    table: Figures = {}
    for regime, part in judged.items():
        base = part.rows.get("baseline", [])
        facts = asked_objects(benchmark, part.items, base)
        for name, groups in groups_of(facts).items():
            for group, ids in groups.items():
                of_group = part.only(np.array([i.id in ids for i in part.items]))
                own: Figures = {}
                for m in of_group.methods:
                    answered = of_group.only(of_group.applies[m])
                    if answered.items:
                        own[m] = {"right": clustered_share(answered.hits[m], answered.clips)}
                        if m != "baseline" and "baseline" in of_group.methods:
                            own[m] |= _against(answered, "baseline", m)
                cell = {"n": len(of_group.items), "methods": own}
                table.setdefault(regime, {}).setdefault(name, {})[group] = cell
    for properties in table.values():
        _adjust([g["methods"] for groups in properties.values() for g in groups.values()])
    return table
