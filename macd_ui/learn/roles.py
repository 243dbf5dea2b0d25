"""Which example the lessons show in each role, such as "opening".

A role takes an example by its `kind` in the index.json of its folder. The folder that
MACD_EXAMPLES_DIR names comes first, so that a teacher's own clip of a kind is preferred.

The placeholders of the chapters stand for this: key → text, or the number of a wording.

report.…, former.…, companion.…, table.…   committed figures, see `figures`
example.ROLE.…                   of the example in that role
frames.…, fade.…, quiz.…, …      of what `toyworld.make_lessons` computed, below
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from macd_studio.core.decoding.contrast import flip_points
from macd_studio.core.errors import TraceError
from macd_studio.core.shipped import assets
from macd_studio.core.truth import is_right
from macd_studio.core.types import TokenStep, Trace
from macd_studio.macd_ui.examples import SHIPPED, Example, examples_in
from macd_studio.macd_ui.learn.chapters import Value
from macd_studio.macd_ui.learn.figures import figures, percent
from macd_studio.viewer.constants import ALPHA_MAX

ROLES = {
    "opening": ("repaired", "small", "background"),
    "habit": ("co-occurrence", "background", "repaired"),
    "harmed": ("harmed", "unchanged"),
    "motion": ("motion-leak", "harmed"),
}
"""Role → the kinds of example that fit it, the best first; without one, any example is taken."""


@dataclass(frozen=True, eq=False)
class RoleExample:
    """An example in its role. kind: as its index names it, "" where the index names none."""

    role: str
    kind: str
    example: Example
    trace: Trace


def examples_by_role(folders: list[Path] | None = None) -> dict[str, RoleExample]:
    """An example for every role. Raises TraceError where no example can be read at all."""
    extra = os.environ.get("MACD_EXAMPLES_DIR")
    places = folders or [*([Path(extra)] if extra else []), SHIPPED]
    candidates = [(kind, example) for place in places for kind, example in _kinds(place)]
    return {role: _example_for(role, kinds, candidates) for role, kinds in ROLES.items()}


def _kinds(folder: Path) -> list[tuple[str, Example]]:
    """The folder's examples with their kind."""
    listed = examples_in(folder)  # none where the index cannot be read
    rows = json.loads((folder / "index.json").read_text(encoding="utf-8")) if listed else []
    kinds = {r.get("video"): r.get("kind") for r in rows if isinstance(r, dict)}
    pairs = ((kinds.get(example.video.name), example) for example in listed)
    return [(kind if isinstance(kind, str) else "", example) for kind, example in pairs]


def _example_for(
    role: str, kinds: tuple[str, ...], candidates: list[tuple[str, Example]]
) -> RoleExample:
    order = [row for kind in kinds for row in candidates if row[0] == kind]
    for kind, example in [*order, *candidates]:
        if example.trace is None:
            continue
        try:
            trace = example.load_trace()
        except TraceError:
            continue
        if {"baseline", "macd"} <= set(trace.answers) and trace.answers["macd"].tokens:
            return RoleExample(role, kind, example, trace)
    raise TraceError("no example has a readable trace", "Run python -m toyworld.make_examples")


def example_values(shown: RoleExample) -> dict[str, Value]:
    """What chapters may say of an example, as `example.ROLE.FIGURE`."""
    trace, key = shown.trace, f"example.{shown.role}"
    base, macd = trace.answers["baseline"], trace.answers["macd"]
    truth = shown.example.answer
    right = [bool(is_right(a.text, truth)) for a in (base, macd)]
    levels = trace.counterfactual
    labels = [t.label for t in trace.tracks]
    masked = [n for n, v in zip(labels, levels.level, strict=True) if v] if levels else []
    flips = flips_of(macd.tokens[0], macd.beta)
    return {
        f"{key}.question": trace.question,
        f"{key}.truth": truth,
        f"{key}.drawn": shown.example.truth,
        f"{key}.baseline": base.text,
        f"{key}.macd": macd.text,
        f"{key}.alpha": f"{macd.alpha:g}",
        f"{key}.beta": f"{macd.beta:g}",
        f"{key}.objects": _listed([f"“{n}”" for n in labels]) if labels else "no object",
        f"{key}.masked": _listed([f"“{n}”" for n in masked]) if masked else "none of them",
        f"{key}.outcome": {(False, True): 0, (True, False): 1, (True, True): 2}.get(
            (right[0], right[1]), 3
        ),
        f"{key}.flips": min(len(flips), 2),
        f"{key}.flip": f"{flips[0]:.2f}" if flips else "none",
    }


def flips_of(step: TokenStep, beta: float) -> list[float]:
    """Each α of the slider at which the choice changes.

    See `core.decoding.contrast.flip_points`; empty for an answer of one view.
    """
    if not step.others:
        return []
    points = flip_points(step.base, step.others[0], beta, repeats=step.repeats)
    return [float(alpha) for alpha, _ in points[1:] if alpha <= ALPHA_MAX]


def _listed(words: list[str]) -> str:
    """Words as a list in a sentence.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


LESSONS = assets() / "learn"
PARTS = ("habits", "frames", "fade", "lean", "caption", "quiz")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
BINS = (0.05, 0.2, 0.5)
"""Bounds of the answers to the question of how much probability is left."""


@cache
def lesson(name: str) -> dict[str, Any]:
    """What `toyworld.make_lessons` computed for a widget. Raises TraceError where it is missing."""
    try:
        content: dict[str, Any] = json.loads((LESSONS / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TraceError(
            f"the lessons' data {name}.json cannot be read", "Run python -m toyworld.make_lessons"
        ) from error
    return content


def all_values(examples: dict[str, RoleExample]) -> dict[str, Value]:
    """Every key that a chapter may name."""
    values: dict[str, Value] = dict(figures()["values"])
    for example in examples.values():
        values |= example_values(example)
    return values | frames_values() | fade_values() | other_values()


def frames_values() -> dict[str, Value]:
    """Of the clip whose motion is shown frame by frame."""
    data = lesson("frames")
    first, last = data["rows"][0], data["rows"][-1]
    words = data["words"]
    best = words[max(range(len(words)), key=lambda i: first[i])]
    groups, high, wide = data["grid"]
    return {
        "frames.question": data["question"],
        "frames.label": data["label"],
        "frames.usual": data["usual"],
        "frames.truth": data["truth"],
        "frames.usually": _motion(data["usual"]),
        "frames.truly": _motion(data["truth"]),
        "frames.n": str(len(data["frames"])),
        "frames.side": str(data["size"][0]),
        "frames.groups": str(groups),
        "frames.per-group": str(len(data["groups"][0])),
        "frames.rows": str(high),
        "frames.columns": str(wide),
        "frames.tokens": str(groups * high * wide),
        "frames.words": str(len(data["tokens"])),
        "frames.vocabulary": str(data["vocabulary"]),
        "frames.first": {data["usual"]: 0, data["truth"]: 1}.get(best, 2),
        "frames.best": best,
        "frames.first-p": percent(max(first), 0),
        "frames.last-p": percent(last[words.index(data["truth"])], 0),
    }


def fade_values() -> dict[str, Value]:
    """Of the object that fades, beside its companion and alone."""
    data = lesson("fade")
    together, alone = data["together"][-1], data["alone"][-1]
    return {
        "fade.asked": data["asked"],
        "fade.companion": data["companion"],
        "fade.question": data["question"],
        "fade.clips": str(data["clips"]),
        "fade.together": percent(together, 0),
        "fade.alone": percent(alone, 0),
        "fade.bin": sum(together >= bound for bound in BINS),
        "fade.more": 0 if together > 2 * alone else 1,
    }


def lean_of(shown: RoleExample) -> dict[str, Any] | None:
    """The measured effects of an example's objects; None for one that was not measured."""
    row: dict[str, Any] | None = lesson("lean").get(shown.kind)
    matches = row is not None and row["labels"] == [t.label for t in shown.trace.tracks]
    return row if matches else None


def other_values() -> dict[str, Value]:
    """Of the world's habits, the captions and the clips of the quizzes."""
    habits, quiz, caption = lesson("habits"), lesson("quiz"), lesson("caption")
    first, second = next(iter(habits["partner"].items()))
    invented = caption["invented"]
    fewer = len(invented["macd"]) < len(invented["baseline"])
    return {
        "habits.first": first,
        "habits.second": second,
        "habits.partner": _fraction(habits["p_partner"]),
        "habits.motion": percent(habits["p_motion"], 0),
        "habits.yes": percent(habits["p_yes"], 0),
        "habits.classes": str(habits["classes"]),
        "habits.scenes": str(habits["scenes"]),
        "quiz.before": NUMBERS[len(quiz["before"])],
        "quiz.after": NUMBERS[len(quiz["after"])],
        "quiz.before.clips": len(quiz["before"]),
        "quiz.after.clips": len(quiz["after"]),
        "caption.truth": caption["truth"],
        "caption.baseline": caption["answers"]["baseline"]["text"],
        "caption.macd": caption["answers"]["macd"]["text"],
        "caption.outcome": 0 if fewer else 1 if invented["macd"] == invented["baseline"] else 2,
    }


def _motion(word: str) -> str:
    """A motion as the end of a sentence.

    >>> _motion("left"), _motion("still")
    ('moves left', 'stays still')
    """
    return "stays still" if word == "still" else f"moves {word}"


def _fraction(share: float) -> str:
    """A share as "3 of 4", else as percent.

    >>> _fraction(0.75), _fraction(0.33)
    ('3 of 4', '33 %')
    """
    for whole in (2, 3, 4, 5):
        if abs(share * whole - round(share * whole)) < 1e-9:
            return f"{round(share * whole)} of {whole}"
    return percent(share, 0)
