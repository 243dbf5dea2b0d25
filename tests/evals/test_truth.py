"""Contrast that looks better against contrast that says "no" more often: the report tells."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.printing.report import markdown, sections
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.running.rows import Row
from macd_studio.evals.statistics.constant import (
    DELTAS,
    answers_by_first,
    same_counts,
    tune,
    with_constants,
)
from macd_studio.evals.statistics.table import summarise, tabulate

N = 400
SHIFT = 1.5


@dataclass
class Planted:
    """Yes-no questions whose baseline leans towards yes, balanced ones, and words."""

    name: str = "planted"
    regimes: tuple[str, ...] = ("leaning", "level", "words")
    levels: tuple[str, ...] = ()
    nouns: tuple[str, ...] = ()
    seeds: dict[str, int] = field(default_factory=lambda: {"choose": 1, "test": 2})

    def items(self, split, n):
        return [
            Item(f"{split}/{regime}/{i}", f"{split}/{regime}/{i // 2}", regime, "",
                 "word" if regime == "words" else "yes-no", "?", self.truth(regime, i))
            for regime in self.regimes for i in range(n)
        ]  # fmt: skip

    def truth(self, regime, i):
        return ("dog", "cat", "none")[i % 3] if regime == "words" else ("yes", "no")[i % 2]

    def true_tracks(self, key):
        raise OptionError("not known", "Leave it")

    def present(self, key):
        return ()


def yes_no(item, method, margin):
    text = "yes" if margin > 0 else "no"
    return Row("", item.id, method, text, margin, first=text, scores={"yes": margin, "no": 0.0},
               probability=1 / (1 + np.exp(-abs(margin))), reads=1.0)  # fmt: skip


def worded(item, method, scores):
    text = max(scores, key=scores.get)
    return Row("", item.id, method, text, first=text, scores=scores, probability=0.9, reads=1.0)


def planted_rows(benchmark):
    """Baseline with a lean of SHIFT; "shifted" takes it off; "better" sees more, leaning alike."""
    rng = np.random.default_rng(0)
    rows = []
    for item in benchmark.items("choose", N) + benchmark.items("test", N):
        if item.kind == "word":
            scores = {
                w: float(rng.normal(2.0 * (w == item.truth), 1)) for w in ("dog", "cat", "none")
            }
            rows.append(worded(item, "baseline", scores))
            rows.append(worded(item, "macd", scores))
            seen = {w: s + 1.5 * (w == item.truth) for w, s in scores.items()}
            rows.append(worded(item, "mask-all", seen))
            continue
        sign = 1 if item.truth == "yes" else -1
        lean = SHIFT if item.regime == "leaning" else 0.0
        margin = float(rng.normal(1.2 * sign + lean, 1))
        rows.append(yes_no(item, "baseline", margin))
        rows.append(yes_no(item, "macd", margin - SHIFT))
        rows.append(yes_no(item, "mask-all", margin + 1.2 * sign))
    return rows


METHODS = ["baseline", "yes-bias", "macd", "mask-all"]


@pytest.fixture(scope="module")
def report():
    benchmark = Planted()
    return summarise(benchmark, planted_rows(benchmark), METHODS, N, N)


def test_a_shift_is_told_from_a_better_look(report):
    shifted = report["regimes"]["leaning"]["methods"]["macd"]
    assert shifted["delta"][0] > 0.1
    assert shifted["holm"] < 1e-6
    assert shifted["constant"]["share"][0] >= 0.9
    assert shifted["constant"]["delta_on_yes"] == pytest.approx(-SHIFT, abs=0.1)
    assert shifted["constant"]["remains"][1] <= 0 <= shifted["constant"]["remains"][2]
    better = report["regimes"]["level"]["methods"]["mask-all"]
    assert better["delta"][0] > 0.05
    assert better["constant"]["share"][0] <= 0.1
    assert better["constant"]["remains"][1] > 0
    worded = report["regimes"]["words"]["methods"]["mask-all"]
    assert worded["constant"]["share"][0] <= 0.1


def test_the_ranking_shows_who_sees_more(report):
    for regime in ("leaning", "level"):
        cells = report["auroc"][regime]
        assert cells["macd"]["delta"][0] == pytest.approx(0, abs=1e-12)
        # no resample differs either, which is no proof that no other clip would
        assert cells["macd"]["delta"][1] < 0 < cells["macd"]["delta"][2] < 0.04
        assert cells["yes-bias"]["delta"] == pytest.approx((0, 0, 0), abs=1e-12)
        assert cells["mask-all"]["delta"][1] > 0
        assert cells["mask-all"]["holm"] < 0.002
    lean = report["regimes"]["leaning"]["methods"]["baseline"]["yes_no"]
    assert lean["criterion"] < -0.5
    assert abs(report["regimes"]["leaning"]["methods"]["macd"]["yes_no"]["criterion"]) < 0.2


def test_the_constant_is_tuned_on_the_other_split_and_found_again(report):
    # over both regimes of yes-no questions, of which one leans by SHIFT
    assert -SHIFT <= report["constants"]["yes"] < 0
    assert report["regime_constants"]["leaning"]["yes"] == pytest.approx(-SHIFT, abs=0.5)
    assert abs(report["regime_constants"]["level"].get("yes", 0)) <= 0.5
    row = report["regimes"]["leaning"]["methods"]["yes-bias"]
    assert row["delta"][1] > 0
    assert row["left_out"] == 0
    assert len(DELTAS) == len(GRID)


def test_methods_are_held_against_each_other_on_the_same_questions(report):
    pairs = {(c["method"], c["against"]): c for c in report["paired"]["leaning"]}
    assert set(pairs) == {("macd", "yes-bias"), ("macd", "mask-all"), ("mask-all", "yes-bias")}
    hits = {m: report["regimes"]["leaning"]["methods"][m]["right"][0] for m in METHODS}
    cell = pairs["macd", "mask-all"]
    assert cell["delta"][0] == pytest.approx(hits["macd"] - hits["mask-all"])
    assert cell["holm"] >= cell["p_clips"]


def test_where_no_constant_helps_is_said_by_regime(report):
    words = report["constant_free"]["words"]
    assert not words["helps"]
    assert set(report["constant_free"]) == {"words"}
    assert words["methods"]["mask-all"]["delta"][1] > 0
    assert words["methods"]["macd"]["delta"][0] == 0


def test_the_report_prints_all_of_it(report):
    whole = report | {
        "benchmark": "planted", "methods": METHODS, "contrasts": {"macd": [1.0, 0.1]},
        "how_chosen": "given", "boxes": "none", "split": "test", "seed": 2, "resamples": 4000,
        "machine": "here", "grid": {"alpha_beta": len(GRID), "constant": len(DELTAS)},
        "made_by": {"version": "1", "code": "abc"},
    }  # fmt: skip
    short = markdown(whole)
    assert "criterion c" not in short
    assert "where no constant helps" not in short
    text = "\n".join(map(str, sections(whole)))
    for part in ("Would a bias do the same?", "AUROC", "Method against method", "Tuned constant",
                 "where no constant helps", "Calibration", "criterion c"):  # fmt: skip
        assert part in text
    assert "nan" not in text


def test_what_does_not_apply_is_left_out_and_counted():
    benchmark = Planted(regimes=("level",))
    items = benchmark.items("test", 20)
    answers = {}
    for i, item in enumerate(items):
        answers[item.id, "baseline"] = yes_no(item, "baseline", 1.0)
        answers[item.id, "olm"] = (
            Row("", item.id, "olm", left_out="no") if i < 5 else yes_no(item, "olm", -1.0)
        )
    cell = tabulate(benchmark, items, answers, ["baseline", "olm"])["regimes"]["level"]["methods"]
    assert cell["olm"]["left_out"] == 5
    assert cell["olm"]["n"] == 15
    assert cell["olm"]["errors"] == 0
    right = [i.truth == "no" for i in items[5:]]
    assert cell["olm"]["right"][0] == pytest.approx(np.mean(right))
    assert cell["olm"]["delta"][0] == pytest.approx(np.mean(right) - (1 - np.mean(right)))


def test_constants_for_words_are_found_one_by_one():
    benchmark = Planted(regimes=("words",))
    items = benchmark.items("choose", 90)
    rng = np.random.default_rng(1)
    biased = {"dog": 3.0, "cat": 0.0, "none": -2.0}
    plain = {
        i.id: worded(i, "baseline", {
            w: float(rng.normal(2.5 * (w == i.truth) + biased[w], 0.7)) for w in biased
        })
        for i in items
    }  # fmt: skip
    constants = tune(items, plain)
    texts = answers_by_first(list(plain.values()))
    before = np.mean([plain[i.id].text == i.truth for i in items])
    after = np.mean([with_constants(i, plain[i.id], constants, texts).text == i.truth
                     for i in items])  # fmt: skip
    assert before < 0.7
    assert after > 0.9
    assert constants.get("dog", 0) < constants.get("none", 0)


def right_with(items, plain, constants):
    texts = {"yes": "yes", "no": "no", "dog": "dog", "cat": "cat", "none": "none"}
    answered = [with_constants(i, plain[i.id], constants, texts).text for i in items]
    return sum(a == i.truth for a, i in zip(answered, items, strict=True))


def test_yes_no_questions_whose_answers_are_all_no_get_a_constant():
    items = [Item(f"{i}", f"{i}", "r", "", "yes-no", "?", "no") for i in range(8)]
    plain = {i.id: yes_no(i, "baseline", 0.5) for i in items}
    constants = tune(items, plain)
    assert constants["yes"] < 0
    assert right_with(items, plain, {}) == 0
    assert right_with(items, plain, constants) == 8


def test_a_constant_gets_when_applied_what_it_was_chosen_for():
    """Scores of low precision are often equal."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        items = [Item(f"{i}", f"{i}", "r", "", "yes-no", "?", ("yes", "no")[rng.integers(2)])
                 for i in range(8)]  # fmt: skip
        plain = {i.id: yes_no(i, "baseline", float(rng.integers(-4, 5)) / 4) for i in items}
        best = max(right_with(items, plain, {"yes": d}) for d in (0.0, *DELTAS))
        assert right_with(items, plain, tune(items, plain)) == best
        items = Planted(regimes=("words",)).items("choose", 12)
        plain = {i.id: worded(i, "baseline", {
            w: float(rng.integers(-2, 3)) / 4 for w in ("dog", "cat", "none")
        }) for i in items}  # fmt: skip
        constants = tune(items, plain)
        last = [right_with(items, plain, constants | {"none": d}) for d in (0.0, *DELTAS)]
        assert right_with(items, plain, constants) == max(last)


def test_a_caption_takes_no_constant():
    item = Item("c", "c", "captions", "", "caption", "?", "a dog")
    assert with_constants(
        item, Row("", "c", "baseline", "a cat", scores={"a": 1.0}), {}, {}
    ).left_out


def test_same_counts_gives_every_answer_as_often():
    rng = np.random.default_rng(2)
    rows = [Row("", str(i), "baseline", scores={w: float(rng.normal()) for w in "abc"})
            for i in range(60)]  # fmt: skip
    firsts = ["a"] * 30 + ["b"] * 20 + ["c"] * 10
    assigned, delta = same_counts(rows, firsts)
    assert sorted(assigned) == sorted(firsts)
    assert delta is None
    # and they are what some constants give: no two questions would gain by swapping
    score = np.array([[r.scores[w] for w in "abc"] for r in rows])
    own = np.array(["abc".index(w) for w in assigned])
    for i in range(60):
        for j in range(i):
            kept = score[i, own[i]] + score[j, own[j]]
            assert kept >= score[i, own[j]] + score[j, own[i]] - 1e-9
