"""What the viewer's scripts compute of tokens and sentences, beside what the core computes.

The cases are those of parity_masks.py, which says what a case is, and these.
"""

from dataclasses import asdict, replace
from itertools import product
from typing import Any

import numpy as np

from macd_studio.core.decoding.certificate import Errors, certify
from macd_studio.core.decoding.contrast import (
    flip_points,
    floor_of,
    kept_candidates,
    score,
)
from macd_studio.core.macd import plausibility_threshold, plausible, weighted
from macd_studio.core.options import (
    ContrastOptions,
    RuleOptions,
)
from macd_studio.core.repeats import Repeats, penalised
from macd_studio.core.rules import RULES, Season, Setting, find_rule
from macd_studio.core.text.words import signed
from macd_studio.core.token_logits import log_partition
from macd_studio.core.types import (
    Answer,
    StepWeights,
    TokenStep,
)
from macd_studio.viewer.constants import ALPHA_MAX, FLIP_ALPHAS, FLIP_BETAS
from tests.browser.parity_masks import CASES, ENTRIES, Case, a_trace, case, sent
from tests.browser.sentences import claims, facts, reports

VOCABULARY = 60
HEADS = ("probability", "raw")
ALPHAS, BETAS = (0, 0.5, 1, 2.6, ALPHA_MAX), (0, 0.0036, 0.1, 0.5, 0.9, 1, 1.2)
__all__ = ["CASES", "ENTRIES", "Case"]


def logits(seed: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two rows over the vocabulary, in steps that neither float32 nor the payload rounds."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(size=(2, VOCABULARY)) * 3 * 32) / 32 + shift
    return rows[0], rows[1]


def a_step(
    base: np.ndarray,
    *others: np.ndarray,
    weights: StepWeights | None = None,
    keep: int = VOCABULARY,
    repeats: Repeats | None = None,
) -> TokenStep:
    """The record of one token, of ids that are not places among the candidates."""
    ids = kept_candidates([base, *others[:1]], keep, -np.inf, int(base.argmax()), repeats)
    return TokenStep(
        index=0,
        token=int(base.argmax()),
        text="x",
        candidates=ids,
        texts=tuple(f"t{i}" for i in ids),
        base=base[ids].astype(np.float32),
        base_log_z=log_partition(base),
        others=tuple(row[ids].astype(np.float32) for row in others),
        others_log_z=tuple(map(log_partition, others)),
        floor=floor_of(base, ids),
        weights=weights,
        repeats=repeats and repeats.among(ids),
    )


def a_penalty(seed: int) -> Repeats:
    """On half of the vocabulary; of some seeds one that raises scores instead."""
    rng = np.random.default_rng(100 + seed)
    return Repeats((1.05, 3.0, 0.5)[seed % 3], rng.random(VOCABULARY) < 0.5)


def sent_steps(steps: list[TokenStep]) -> list[dict[str, Any]]:
    """The steps as the viewer gets them."""
    answer = Answer("macd", "x", tuple(steps), True)
    return sent(replace(a_trace(), answers={"macd": answer}))["answers"]["macd"]["tokens"]


SCORED = """({ steps, asked }) => asked.map(([i, alpha, beta, head]) => {
  const { rows, chosen, exact } = rescore(steps[i], alpha, beta, head);
  const numbers = (name) => rows.map((r) => (Number.isFinite(r[name]) ? r[name] : null));
  return { ids: rows.map((r) => r.id), score: numbers("score"), before: numbers("before"),
    after: numbers("after"), inside: rows.map((r) => r.inside), chosen, exact };
})"""


def check_scores(found: Any, step: TokenStep, own: np.ndarray, atol: float = 1e-9) -> None:
    """own: the core's scores of the candidates, −inf outside of the head."""
    assert found["ids"] == step.candidates.tolist()
    assert found["inside"] == np.isfinite(own).tolist()
    mine = np.array([-np.inf if x is None else x for x in found["score"]])
    np.testing.assert_allclose(mine, own, atol=atol)
    assert found["chosen"] == own.argmax()
    before = np.exp(step.base.astype(np.float64) - step.base_log_z)
    np.testing.assert_allclose(found["before"], before, atol=atol)
    after = np.exp(own - own.max())
    np.testing.assert_allclose(found["after"], after / after.sum(), atol=atol)


@case
def scores_over_alpha_and_beta() -> Case:
    """The linear rule, both cuts; where all logits are negative, where all tie, and penalised."""
    rows = [logits(0), logits(1, 4.0), logits(2, -12.0)]
    tied = tuple(row.copy() for row in rows[0])
    best = int(tied[0].argmax())
    for row in tied:  # two tokens that no α and β can tell apart, before all others
        row[[best, 7]] = row.max() + 1, row.max() + 1
    rows.append(tied)
    rows += rows
    steps = [a_step(*r, repeats=a_penalty(i) if i > 3 else None) for i, r in enumerate(rows)]
    asked = [list(a) for a in product(range(len(rows)), ALPHAS, BETAS, HEADS)]

    def compare(found: Any) -> None:
        for told, (i, alpha, beta, head) in zip(found, asked, strict=True):
            own = score(rows[i][0], rows[i][1], alpha, beta, head)[steps[i].candidates]
            check_scores(told, steps[i], penalised(own, steps[i].repeats))

    return Case({"steps": sent_steps(steps), "asked": asked}, SCORED, compare)


@case
def probabilities_of_a_stored_part() -> Case:
    """`exact` says whether the whole head is stored; then `after` is that of the vocabulary."""
    rows = [logits(seed, 2.0) for seed in range(6)]
    steps = [a_step(*r, keep=4 * (i + 1)) for i, r in enumerate(rows[:5])]
    steps.append(a_step(*rows[5]))
    asked = [list(a) for a in product(range(6), (0, 1), BETAS, HEADS)]
    assert any(len(s.candidates) < VOCABULARY for s in steps)

    def compare(found: Any) -> None:
        seen = set()
        for told, (i, alpha, beta, head) in zip(found, asked, strict=True):
            base, counter = rows[i]
            stored = steps[i].candidates
            head_ids = np.flatnonzero(plausible(base, plausibility_threshold(base, beta, head)))
            exact = bool(np.isin(head_ids, stored).all())
            assert told["exact"] == exact
            seen.add(exact)
            own = score(base, counter, alpha, beta, head)
            p = np.exp(own - own.max())
            p /= p.sum()
            if exact:
                np.testing.assert_allclose(told["after"], p[stored], atol=1e-9)
            else:
                assert (np.array(told["after"]) >= p[stored] - 1e-12).all()
        assert seen == {True, False}

    return Case({"steps": sent_steps(steps), "asked": asked}, SCORED, compare)


@case
def scores_by_every_rule() -> Case:
    """Steps that hold their weights; what α, β and head are asked for makes no difference."""
    setting = Setting(
        ContrastOptions(), RuleOptions(), lambda text: [len(text) % VOCABULARY], "Is there a dog?"
    )
    steps, whole = [], []
    for name in sorted(RULES):
        rule = find_rule(name).create(setting)
        if isinstance(rule, Season):  # what attention gave for this token
            rule = replace(rule, shares=(0.25, 0.75))
        for seed, index in ((3, 0), (4, 2)):
            base, counter = logits(seed)
            more = (logits(40 + k)[0] for k in range(rule.second_views - 1))
            others = [counter, *more][: rule.second_views]
            steps.append(a_step(base, *others, weights=rule.weigh(base, others, index)))
            whole.append((base, counter))
    base, counter = (row + 0.123456 / 3 for row in logits(5))
    floor = float(np.float32(np.sort(base)[-7]))  # a logit, which the payload rounds
    bias = ((int(base.argmin()), 40.0), (3, -1.5))
    steps.append(a_step(base, counter, weights=StepWeights(1.5, (-0.25,), floor, bias[1:])))
    steps.append(a_step(*logits(6), weights=StepWeights(1.5, (-0.25,), -np.inf, bias)))
    assert sum(bool(s.weights.bias) for s in steps) >= 3
    assert sum(np.isfinite(s.weights.floor) for s in steps) >= 6
    asked = [[i, 5, 0.9, head] for i in range(len(steps)) for head in HEADS]

    def compare(found: Any) -> None:
        for told, (i, *_) in zip(found, asked, strict=True):
            step = steps[i]
            own = weighted(step.base, step.others, step.weights, step.candidates)
            check_scores(told, step, own, 1e-4 if i == len(steps) - 2 else 1e-9)

    return Case({"steps": sent_steps(steps), "asked": asked}, SCORED, compare)


@case
def flips() -> Case:
    """Where the choice changes with α, exactly."""
    rows = [logits(seed % 6 + 10) for seed in range(12)]
    steps = [a_step(*r, repeats=a_penalty(i) if i > 5 else None) for i, r in enumerate(rows)]
    asked = [list(a) for a in product(range(12), (0.0, 0.003, 0.1, 0.6, 1), (0.5, 20))]
    code = """({ steps, asked }) => asked.map(([i, beta, limit]) =>
      flipPoints(steps[i], beta, "probability", limit).map((p) => [p.alpha, p.row.id]))"""

    def compare(found: Any) -> None:
        assert max(map(len, found)) >= 3
        for told, (i, beta, limit) in zip(found, asked, strict=True):
            stored = steps[i].candidates
            views = rows[i][0][stored], rows[i][1][stored]
            own = flip_points(*views, beta, limit, steps[i].repeats)
            assert [k for _, k in told] == [stored[k] for _, k in own]
            np.testing.assert_allclose([a for a, _ in told], [a for a, _ in own], atol=1e-9)

    return Case({"steps": sent_steps(steps), "asked": asked}, code, compare)


@case
def flip_map() -> Case:
    """Each cell of the map holds the best token of the vocabulary, by both cuts."""
    rows = [logits(seed % 6 + 10, 1.0) for seed in range(9)]
    steps = [a_step(*r, keep=12, repeats=a_penalty(i) if i > 5 else None)
             for i, r in enumerate(rows)]  # fmt: skip
    alphas, betas = list(FLIP_ALPHAS), list(FLIP_BETAS)
    asked = [list(a) for a in product(range(len(rows)), betas, HEADS)]
    code = """({ steps, asked, alphas }) => asked.map(([i, beta, head]) =>
      flipRow(steps[i], alphas, beta, head).map((row) => row.id))"""

    def compare(found: Any) -> None:
        assert len({k for row in found for k in row}) >= 6
        for told, (i, beta, head) in zip(found, asked, strict=True):
            for alpha, k in zip(alphas, told, strict=True):
                own = penalised(score(*rows[i], alpha, beta, head), a_penalty(i) if i > 5 else None)
                assert own[k] >= own.max() - 1e-9, (i, alpha, beta, head)  # ties are no fault

    return Case({"steps": sent_steps(steps), "asked": asked, "alphas": alphas}, code, compare)


@case
def hidden_tokens() -> Case:
    """Vision tokens that a second view did not see, one bit each."""
    hidden = np.random.default_rng(0).random(37) < 0.5
    steps = sent_steps([replace(a_step(*logits(0)), hidden=hidden)])

    def compare(found: Any) -> None:
        assert found == hidden.astype(int).tolist()

    return Case(steps[0]["hidden"], "(bits) => unpackBits(bits, 37)", compare)


@case
def signed_numbers() -> Case:
    """As the sentence about a constant holds one: with ties of rounding, small, and zero."""
    given = [0.0, 1.125, -2.375, 0.01, 0.0099951171875, 0.00125, -3e-9, 12345.678, 0.25, 9.96e-3]
    given += [
        float(x) for x in np.random.default_rng(0).normal(size=200) * 10.0 ** -(np.arange(200) % 6)
    ]

    def compare(found: Any) -> None:
        assert found == [signed(x) for x in given]

    return Case(given, "(all) => all.map((x) => signed(x))", compare)


@case
def sentences_of_controls() -> Case:
    """Every combination of outcomes: what the sentences claim is what the report holds, no less."""
    given = reports()

    def compare(found: Any) -> None:
        for text, report in zip(found, given, strict=True):
            assert claims(text, report.index is not None) == facts(report), (text, report)

    return Case([asdict(r) for r in given], "(all) => all.map(controlText)", compare)


CERTIFIED = """({ steps, asked, errors }) => asked.map(([i, alpha, beta, head, moves, search]) =>
  certify(steps[i], { alpha, beta, head, moves }, errors, search))"""


@case
def certificates_of_tokens() -> Case:
    """Under every α and β, of whole and of short rows; near ties, biases, penalties, searches."""
    error, errors = 1 / 32, Errors(1 / 32, 3 / 32)
    rows = [logits(seed) for seed in range(8)]
    for base, other in rows[:4]:  # two that hardly differ in either view
        best = np.argsort(-base)[:2]
        base[best[1]], other[best[1]] = base[best[0]] - error, other[best[0]] - error
    steps = [a_step(*r, keep=3 if i % 2 else VOCABULARY) for i, r in enumerate(rows)]
    steps += [a_step(rows[0][0]), a_step(*rows[1], repeats=a_penalty(1))]
    weights = StepWeights(2.0, (-0.5,), float(rows[2][0].max()) - 1.0)
    steps += [
        a_step(*rows[2], weights=weights),
        a_step(*rows[2], weights=replace(weights, bias=((int(steps[2].candidates[1]), 0.5),))),
    ]
    few = [  # base and second view of three tokens, of which no other comes near
        ((0, -0.3, -5), (0, -3, -30)),  # the third would win, and does not pass β = 0.5
        ((0, np.log(0.5) + error / 2, -9), (0, -9, -9)),  # the second wins, near the cut
        ((0, -error, -9), (-5, 0, -9)),  # near ties that the second view tells apart
        ((-error, 0, -9), (0, -5, -9)),
        ((0, 0, -9), (0, 0.3, -9)),  # apart by more than the video's error alone would let through
    ]
    for pair in few:
        base, other = np.full((2, VOCABULARY), -20.0)
        base[:3], other[:3] = pair
        steps.append(a_step(base, other))
    one = replace(weights, floor=float(rows[5][0].max()) - 1e-3, bias=((3, 0.5),))
    steps += [a_step(rows[0][0], keep=1), a_step(*rows[5], weights=one)]
    asked = [
        [i, alpha, beta, head, moves, search]
        for i in range(len(steps))
        for alpha, beta in product((0, 0.5, 3), (0, 0.01, 0.1, 0.5, 1))
        for head, moves, search in (
            ("probability", False, "greedy"), ("probability", False, "sample"),
            ("raw", False, "greedy"), ("probability", True, "greedy"),
        )
    ]  # fmt: skip

    def compare(found: Any) -> None:
        seen = set()
        for told, (i, alpha, beta, head, moves, search) in zip(found, asked, strict=True):
            step = steps[i]
            linear = StepWeights(
                1 + alpha, (-alpha,), plausibility_threshold(step.base, beta, head)
            )
            others = step.others or (step.base,)
            scores = weighted(step.base, others, step.weights or linear, step.candidates)
            chosen = int(penalised(scores, step.repeats).argmax())
            chosen = chosen if step.others else int(step.base.argmax())
            own = certify(
                replace(step, token=int(step.candidates[chosen])),
                Answer("macd", "x", (), True, alpha, beta, head, "code" if moves else "linear"),
                errors, search,
            )  # fmt: skip
            assert told == own, (i, alpha, beta, head, moves, search)
            seen.add(own)
        assert seen == {"certified", "close", "head", "rule", "search"}

    return Case(
        {"steps": sent_steps(steps), "asked": asked, "errors": errors._asdict()}, CERTIFIED, compare
    )
