"""The kinds of example: how the clips of each are drawn, and what a trace of it must show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from macd_studio.core.options import AscentOptions, RunOptions
from macd_studio.core.types import Trace
from macd_studio.toyworld.example_draws import (
    SEED,
    Case,
    Rng,
    draw_against_habit,
    draw_background,
    draw_clear,
    draw_occluded,
    draw_partner,
    draw_present_by_habit,
    draw_presupposed,
    draw_small,
    searched_case,
)

FIVE_STEPS = RunOptions(ascent=AscentOptions(steps=5))
TEN_STEPS = RunOptions(ascent=AscentOptions(steps=10, tau=0.005))
HARDLY = 0.2
"""Log-odds, nats, that an answer still has where it does not rest on what was hidden."""
OPENING = "repaired"
"""The kind of the opening example, which `example_search` looks for."""


Right = dict[str, bool]
"""Method → whether its answer is right."""


@dataclass(frozen=True)
class Kind:
    """One kind of example: how its clips are drawn, and what a trace of it must show.

    beside: the methods that show it, kept in the trace beside baseline and MACD.
    outcome_in_title: the title already says what came of it.
    confirms: what the trace with occlusion report and controls must show in addition.
    baseline: whether `shows` asks for a right or a wrong baseline, so that the first token alone,
        which costs one forward pass, tells most of the other clips; None where it asks for neither.

    What every example must hold beside that: `example_truth.readable`.
    """

    name: str
    title: str
    draw: Callable[[Rng], Case]
    shows: Callable[[Right, Trace, Case], bool]
    beside: tuple[str, ...] = ()
    confirms: Callable[[Right, Trace, Case], bool] | None = None
    options: RunOptions = field(default_factory=RunOptions)
    outcome_in_title: bool = False
    baseline: bool | None = None

    def case(self, number: int, seed: int = SEED) -> Case:
        """Clip `number`, from 0, of those that are drawn for it."""
        if self.name == OPENING:
            return searched_case(number, seed)
        return self.draw(np.random.default_rng([seed, *self.name.encode(), number]))


def _repaired(right: Right, trace: Trace, case: Case) -> bool:
    return not right["baseline"] and right["macd"]


def _wrong(right: Right, trace: Trace, case: Case) -> bool:
    return not right["baseline"]


def _asked_is_masked(trace: Trace, case: Case) -> bool:
    """The object that the question names is tracked under its name, and masked."""
    levels = () if trace.counterfactual is None else trace.counterfactual.level
    pairs = zip(trace.tracks, levels, strict=True)
    return any(level > 0 and track.label in case.question for track, level in pairs)


def _hides(trace: Trace) -> bool:
    return trace.counterfactual is not None and bool(trace.counterfactual.level.any())


def _several_large(trace: Trace) -> bool:
    """Three or more tracks, with at least two of them of a fifth of the frame's side or more."""
    large = 0
    for track in trace.tracks:
        sides = track.boxes[:, 2:] - track.boxes[:, :2]
        large += bool(np.nanmax(sides) >= 0.2)
    return len(trace.tracks) > 2 and large > 1


def _never_looked(right: Right, trace: Trace, case: Case) -> bool:
    """The answer about an object is right, and stays the likelier one with that object hidden.

    The object is tracked on every frame, so that nothing of it stays in sight.
    """
    if trace.occlusion is None or not right["baseline"]:
        return False
    first = trace.answers["baseline"].tokens[0]
    p = float(np.exp(first.base.max() - first.base_log_z))
    odds = np.log(p / (1 - p))
    changes = zip(trace.tracks, trace.occlusion.odds_change, strict=True)
    asked = [z for t, z in changes if t.label in case.question and np.isfinite(t.boxes).all()]
    return bool(asked) and odds + min(asked) > HARDLY


def _controls_do_the_same(trace: Trace) -> bool:
    """Every control chooses what MACD chooses, and at least three of four random masks."""
    if trace.controls is None:
        return False
    random = [o.same for o in trace.controls.outcomes if o.name == "random"]
    others = [o.same for o in trace.controls.outcomes if o.name != "random"]
    return all(others) and 4 * sum(random) >= 3 * len(random)


def _clear_controls(right: Right, trace: Trace, case: Case) -> bool:
    """The answer is repaired, and nearly all random masks do the same, or hardly any."""
    assert trace.controls is not None
    same, draws = trace.controls.random()
    return _repaired(right, trace, case) and not 0.25 < same / draws < 0.75


def _misleads(right: Right, trace: Trace, case: Case) -> bool:
    """The object of the largest effect is not that of the largest gradient, and is so clearly."""
    assert trace.occlusion is not None
    effects = np.abs(trace.occlusion.odds_change)
    second, most = np.sort(effects)[-2:]
    return bool(most >= 2 * second and trace.steps[0].gradient.argmax() != effects.argmax())


def _some_hidden(trace: Trace) -> bool:
    """One step masks some of three or more objects, and not all."""
    levels = () if trace.counterfactual is None else trace.counterfactual.level
    return len(levels) > 2 and bool(np.any(levels)) and not np.all(levels)


def _habit_is_hidden(right: Right, trace: Trace, case: Case) -> bool:
    """A wrong yes stays, although its lead is smaller behind the masks."""
    step = trace.answers["macd"].tokens[0]
    words = [text.strip() for text in step.texts]
    if right["baseline"] or right["macd"] or not {"yes", "no"} <= set(words) or not step.others:
        return False
    yes, no = words.index("yes"), words.index("no")
    given, behind = (float(row[yes] - row[no]) for row in (step.base, step.others[0]))
    return behind < given and _hides(trace)


def _three_levels(right: Right, trace: Trace, case: Case) -> bool:
    """The objects' levels hold 0, r0 and 1."""
    return trace.counterfactual is not None and len(set(trace.counterfactual.level.tolist())) == 3


KINDS = (
    Kind(
        "repaired",
        "Masks that MACD chose make a wrong answer right",
        draw_clear,
        _repaired,
        outcome_in_title=True,
        baseline=False,
    ),
    Kind(
        "harmed",
        "Masks that MACD chose make a right answer wrong",
        draw_against_habit,
        lambda r, t, c: r["baseline"] and not r["macd"] and _several_large(t) and _hides(t),
        options=FIVE_STEPS,
        outcome_in_title=True,
        baseline=True,
    ),
    Kind(
        "controls",
        "MACD makes a wrong answer right, and so does every control",
        draw_clear,
        lambda r, t, c: _repaired(r, t, c) and _several_large(t) and _hides(t),
        confirms=lambda r, t, c: _controls_do_the_same(t),
        options=FIVE_STEPS,
        outcome_in_title=True,
        baseline=False,
    ),
    Kind(
        "not-looked",
        "Right without looking: with the object alone hidden the answer stays",
        draw_present_by_habit,
        lambda r, t, c: r["baseline"] and _several_large(t) and _hides(t),
        confirms=_never_looked,
        options=FIVE_STEPS,
        outcome_in_title=True,
        baseline=True,
    ),
    Kind(
        "unchanged",
        "Objects are masked and the answer stays",
        draw_background,
        lambda r, t, c: r["baseline"] and r["macd"] and _hides(t),
        outcome_in_title=True,
    ),
    Kind(
        "levels",
        "Ten steps of ascent: all three levels",
        draw_clear,
        lambda r, t, c: len(t.tracks) > 2 and _three_levels(r, t, c),
        confirms=_misleads,
        options=TEN_STEPS,
    ),
    Kind(
        "frames",
        "The frame mask decides, the objects' masks do not",
        draw_clear,
        lambda r, t, c: _repaired(r, t, c) and not r["macd-object"] and _some_hidden(t),
        ("macd-object",),
        baseline=False,
    ),
    Kind(
        "background",
        "The scene suggests an object that is not there",
        draw_background,
        _wrong,
        baseline=False,
    ),
    Kind(
        "co-occurrence",
        "One of a pair suggests the other",
        draw_partner,
        _habit_is_hidden,
        baseline=False,
    ),
    Kind(
        "question-prior",
        "The question presupposes what is not there",
        draw_presupposed,
        _wrong,
        baseline=False,
    ),
    Kind(
        "small",
        "A small object",
        draw_small,
        lambda r, t, c: _repaired(r, t, c) and _asked_is_masked(t, c),
        confirms=_clear_controls,
        baseline=False,
    ),
    Kind(
        "occluded",
        "A partly hidden object",
        draw_occluded,
        lambda r, t, c: _wrong(r, t, c) and _asked_is_masked(t, c),
        baseline=False,
    ),
)
