"""What the viewer's scripts compute, beside what the core computes of the same traces.

Each case is a fixture that Python writes: traces, as the payload sends them, the script that is
run on them in the browser, and what the core says. scripts/js_mutants.py runs them too, on scripts
with planted faults.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from macd_studio.core.decoding.contrast import (
    flip_points,
    floor_of,
    kept_candidates,
    log_partition,
    score,
)
from macd_studio.core.macd import above, cut_floor, frame_levels, quantize_strengths, weighted
from macd_studio.core.masking.masks import combine_masks, draw_masks
from macd_studio.core.options import (
    FUSIONS,
    AscentOptions,
    ContrastOptions,
    MaskOptions,
    RuleOptions,
    RunOptions,
)
from macd_studio.core.repeats import Repeats, penalised
from macd_studio.core.rules import RULES, Setting, find_rule
from macd_studio.core.types import (
    INTERPOLATED,
    LOST,
    SEEN,
    Answer,
    AscentStep,
    Counterfactual,
    ModelFrames,
    StepWeights,
    Stroke,
    TokenStep,
    Trace,
    Track,
)
from macd_studio.viewer import JS, payload
from macd_studio.viewer.constants import ALPHA_MAX, FLIP_ALPHAS, FLIP_BETAS
from tests.browser.sentences import claims, facts, reports

ENTRIES = tuple(JS / name for name in ("masks.js", "rescore.js", "text.js", "strings.js"))
SCRIPTS = (
    "frameMasks", "levelsAt", "levelsOfStep", "unionMask", "rescore", "flipPoints", "flipRow",
    "unpackBits", "controlText",
)  # fmt: skip
HEIGHT, WIDTH = 18, 24
VOCABULARY = 60
HEADS = ("probability", "raw")
ALPHAS, BETAS = (0, 0.5, 1, 2.6, ALPHA_MAX), (0, 0.0036, 0.1, 0.5, 0.9, 1, 1.2)


@dataclass(frozen=True)
class Case:
    """given: plain values; code: a function of them, which sees what the scripts export.

    compare: takes what the function gave; raises AssertionError where the core says otherwise.
    """

    given: Any
    code: str
    compare: Callable[[Any], None]

    def run(self, page: Any, script: str) -> None:
        """Runs the code of one bundle in a page, and compares."""
        names = ", ".join(SCRIPTS)
        self.compare(
            page.evaluate(
                f"(given) => {{ const {{ {names} }} = {script};\nreturn ({self.code})(given); }}",
                self.given,
            )
        )


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Registers a case by its name."""
    CASES[make.__name__] = make
    return make


# masks


def a_trace(mask: MaskOptions | None = None) -> Trace:
    """Three frames in padded model frames, and five tracks that overlap.

    They have outlines with holes, strokes, a frame where they are lost, and one no area.
    """
    frames = np.zeros((3, 2 * HEIGHT, 2 * WIDTH, 3), np.uint8)
    pixels = np.zeros((3, HEIGHT + 5, WIDTH + 3, 3), np.uint8)
    ring = np.array([[0.5, 0.0], [1.0, 0.75], [0.625, 0.5], [0.125, 1.0]], np.float32)
    hole = np.array([[0.375, 0.375], [0.625, 0.375], [0.5, 0.625]], np.float32)
    strokes = (
        Stroke(np.array([[0.25, 1.375], [0.875, 1.125]], np.float32), 0.125),
        Stroke(np.array([[0.5, 0.5]], np.float32), 0.0625, True),
    )
    low = np.array([[0.125, 0.25], [0.25, 0.125], [0.3125, 0.375], [0.5, 0.0]])
    sides = np.array([[0.5, 0.5], [0.5, 0.625], [0.375, 0.375], [0.25, 0.5]])
    boxes = np.concatenate([low, low + sides], 1)[:, None].repeat(3, 1).astype(np.float32)
    boxes += np.array([0, 0.0625, 0.125], np.float32)[None, :, None]
    boxes[1, 2] = np.nan
    flat = np.tile(np.float32([0.5, 0.25, 0.5, 0.75]), (3, 1))
    seen = np.full(3, SEEN, np.int8)
    tracks = (
        Track(1, "dog", 0.9, boxes[0], seen, 3, outlines=((ring, hole), None, (ring,))),
        Track(4, "cup", 0.4, boxes[1], np.array([SEEN, INTERPOLATED, LOST], np.int8), 2, strokes),
        Track(5, "cat", 0.7, boxes[2], seen, 3, strokes[1:], ((ring,), (ring, hole), None)),
        Track(6, "car", 0.2, boxes[3], seen, 3),
        Track(7, "ant", 0.5, flat, seen, 3, outlines=((ring,),) * 3),
    )
    level, frame_level = np.array([1.0, 0.75, 0.0, 0.25, 1.0]), np.array([0.75, 0.25])
    return Trace(
        question="?",
        frames=frames,
        times=np.arange(3.0),
        groups=((0, 1), (2,)),
        options=RunOptions(ascent=AscentOptions(r0=0.625)),
        model_frames=ModelFrames(pixels, np.arange(3.0), 3.0, (2, 4, 2 + WIDTH, 4 + HEIGHT)),
        mask=mask or MaskOptions(),
        tracks=tracks,
        counterfactual=Counterfactual(
            level, level, level, frame_level, frame_level, frame_level
        ),
    )  # fmt: skip


def sent(trace: Trace) -> dict[str, Any]:
    """The trace as the viewer gets it."""
    return payload(trace, frames=False)["trace"]


def same_masks(expected: list[np.ndarray]) -> Callable[[Any], None]:
    """Compares lists of lists of numbers; null stands for a mask of zeros."""

    def compare(found: Any) -> None:
        assert len(found) == len(expected)
        for i, (mine, own) in enumerate(zip(found, expected, strict=True)):
            full = [[0.0] * own.shape[-1] if m is None else m for m in mine]
            np.testing.assert_allclose(full, own, atol=2e-5, err_msg=f"number {i}")

    return compare


def drawn(trace: Trace, options: MaskOptions) -> Any:
    return draw_masks(trace.tracks, 3, (HEIGHT, WIDTH), options)


@case
def masks_of_objects() -> Case:
    """Under each overlap and shape, moving and swept."""
    given, expected = [], []
    for overlap, shape, swept in product(("normalise", "raw"), ("outline", "box"), (False, True)):
        options = MaskOptions(overlap=overlap, shape=shape, swept=swept)
        trace = a_trace(options)
        given.append(sent(trace))
        masks = drawn(trace, options).objects
        expected += [masks[:, t].reshape(5, -1) for t in range(3)]
    code = """(traces) => traces.flatMap((trace) => [0, 1, 2].map((t) =>
      frameMasks(trace, t).objects.map((m) => m && Array.from(m))))"""
    return Case(given, code, same_masks(expected))


@case
def masks_of_a_single_object() -> Case:
    """One track shares no pixel, and wide edges reach all over the frame."""
    given, expected = [], []
    for pad, feather in ((0.02, 0.0145), (0.25, 0.2), (0.0, 0.001)):
        options = MaskOptions(pad=pad, feather=feather)
        trace = replace(a_trace(options), tracks=a_trace().tracks[:1])
        given.append(sent(trace))
        masks = drawn(trace, options)
        expected += [
            np.stack([masks.objects[0, t], masks.outside[t]]).reshape(2, -1) for t in range(3)
        ]
    code = """(traces) => traces.flatMap((trace) => [0, 1, 2].map((t) => {
      const { objects, outside } = frameMasks(trace, t);
      return [Array.from(objects[0]), Array.from(outside)];
    }))"""
    return Case(given, code, same_masks(expected))


@case
def masks_joined() -> Case:
    """Under each fusion and frame mask, with the levels of the objects and of the frames."""
    given, expected = [], []
    for fusion, frame_mask, swept in product(FUSIONS, ("outside", "whole", "off"), (False, True)):
        options = MaskOptions(fusion=fusion, frame_mask=frame_mask, swept=swept)
        trace = a_trace(options)
        given.append(sent(trace))
        final = trace.counterfactual
        joined = combine_masks(
            drawn(trace, options), final.level, final.frame_level, trace.groups,
            [t.confidence for t in trace.tracks], options,
        )  # fmt: skip
        expected.append(joined.reshape(3, -1))
    code = """(traces) => traces.map((trace) => [0, 1, 2].map((t) =>
      Array.from(unionMask(trace, frameMasks(trace, t), levelsAt(trace, t)))))"""
    return Case(given, code, same_masks(expected))


@case
def levels_of_objects_and_frames() -> Case:
    """After the ascent, before it, and with the frame mask off."""
    trace = a_trace()
    off = replace(trace.counterfactual, frame_level=np.zeros(0))
    shown = [
        sent(z)
        for z in (
            trace,
            replace(trace, counterfactual=None),
            replace(trace, counterfactual=off),
        )
    ]
    level = trace.counterfactual.level.tolist()
    expected = [
        [{"objects": level, "frame": f} for f in (0.75, 0.75, 0.25)],
        [{"objects": [0.625] * 5, "frame": 0}] * 3,
        [{"objects": level, "frame": 0}] * 3,
    ]

    def compare(found: Any) -> None:
        assert found == expected

    return Case(
        shown, "(all) => all.map((trace) => [0, 1, 2].map((t) => levelsAt(trace, t)))", compare
    )


@case
def levels_by_step() -> Case:
    """Strengths on and off the edges of the dead band; more frames above r0 than may stay."""
    given, expected = [], []
    r0 = 0.625
    strength = np.array([r0, r0 + 0.125, r0 - 0.125, r0 + 0.1875, r0 - 0.1875])
    frames = np.array([r0 + 0.25, r0 + 0.3125, r0 - 0.25, r0 + 0.25, r0, r0 + 0.125])
    step = AscentStep(0, 1.0, strength, strength, frames, frames)
    for levels, tau, fraction in product(
        ("three", "continuous"), (0.0, 0.125), (0.0, 0.1, 0.5, 1.0)
    ):
        options = AscentOptions(r0=r0, tau=tau, levels=levels, frame_fraction=fraction)
        trace = replace(
            a_trace(), steps=(step,), groups=tuple((g,) for g in range(len(frames))),
            options=RunOptions(ascent=options),
        )  # fmt: skip
        given.append(sent(trace))
        objects = quantize_strengths(strength, options).tolist()
        few = frame_levels(frames, options).tolist()
        expected.append(
            [{"objects": objects, "frames": few}, {"objects": objects, "frame": few[2]}]
        )

    def compare(found: Any) -> None:
        assert found == expected

    code = "(all) => all.map((trace) => [levelsOfStep(trace, 0), levelsAt(trace, 2, 0)])"
    return Case(given, code, compare)


# scores


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
            head_ids = np.flatnonzero(above(base, cut_floor(base, beta, head)))
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
def sentences_of_controls() -> Case:
    """Every combination of outcomes: what the sentences claim is what the report holds, no less."""
    given = reports()

    def compare(found: Any) -> None:
        for text, report in zip(found, given, strict=True):
            assert claims(text, report.index is not None) == facts(report), (text, report)

    return Case([asdict(r) for r in given], "(all) => all.map(controlText)", compare)
