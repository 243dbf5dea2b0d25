"""What the lessons show besides the examples, and every placeholder that a chapter may name.

The placeholders stand for this: key → text, or the number of a wording.

report.…, table.…                committed figures, see `figures`
example.ROLE.…                   of the example in that role, see `roles`
frames.…, fade.…, quiz.…, …      of what `toyworld.make_lessons` and, for clips of a camera,
                                 `everyday.make_lessons` computed, below
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from macd_studio.core.errors import TraceError
from macd_studio.core.media.webp import URI_PREFIX
from macd_studio.core.system.shipped import assets
from macd_studio.core.types import Trace
from macd_studio.macd_ui.examples import SHIPPED, Example
from macd_studio.macd_ui.learn.chapters import Value
from macd_studio.macd_ui.learn.figures import figures, percent, signed
from macd_studio.macd_ui.learn.roles import (
    RoleExample,
    choice_by_controls,
    example_values,
    random_bin,
    rounded,
    same_controls,
    same_random,
    track_names,
    with_kinds,
)
from macd_studio.viewer.shrink import webp

LESSONS = assets() / "learn"
PARTS = ("habits", "frames", "fade", "caption", "quiz", "real")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
BINS = (0.05, 0.2, 0.5)
"""Bounds of the answers to the question of how much probability is left."""


@cache
def lesson(name: str) -> dict[str, Any]:
    """What `toyworld.make_lessons` computed for a widget, and `everyday.make_lessons` for the real
    clips. Raises TraceError where it is missing.
    """
    try:
        content: dict[str, Any] = json.loads((LESSONS / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TraceError(
            f"the lessons' data {name}.json cannot be read",
            f"Run python -m {'everyday' if name == 'real' else 'toyworld'}.make_lessons",
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


OPTIONS = 3
"""Of a question of a quiz whose options are words: helped, nothing changed, harmed; or the like."""
OUTCOMES = ("right", "same", "wrong")
"""What contrast does to an answer, in the order of the options; as in js/quiz.js."""
QUIZ = {
    "gradient": ("levels", "frames"),
    "levels": ("frames", "small"),
    "controls": ("occluded", "small"),
}
"""What the last quiz also asks about → the kinds of shipped example that it can ask it of."""


@cache
def quiz() -> dict[str, list[dict[str, Any]]]:
    """The clips of the quizzes: drawn ones before and after the course, with shipped examples after
    it, and those of a camera.

    An item has a `kind`, "contrast" or one of QUIZ, and what js/types.d.ts names.
    """
    lists = lesson("quiz") | {"real": lesson("real")["items"]}
    sets = {name: [{"kind": "contrast"} | item for item in items] for name, items in lists.items()}
    candidates = with_kinds(SHIPPED)
    for name, kinds in QUIZ.items():
        item = next(filter(None, (_item(name, row) for k in kinds
                                  for row in candidates if row[0] == k)), None)  # fmt: skip
        if item is not None:
            sets["after"].append(item)
    return sets


def options_of(item: Mapping[str, Any]) -> int:
    """How many options a question of a quiz has; js/quiz.js draws them."""
    listed = {"gradient": "objects", "levels": "options"}.get(item["kind"])
    return len(item[listed]) if listed else OPTIONS


def right_of(item: Mapping[str, Any]) -> int:
    """The index of the right option; js/quiz.js reveals it."""
    return OUTCOMES.index(item["outcome"]) if item["kind"] == "contrast" else int(item["right"])


def _item(kind: str, candidate: tuple[str, Example]) -> dict[str, Any] | None:
    """A question about an example; None where its trace does not hold a clear answer."""
    try:
        trace = candidate[1].load_trace()
    except TraceError:
        return None
    asked = ASKED[kind](trace)
    if asked is None:
        return None
    macd = trace.answers["macd"]
    shown = macd.second_views[0].shown if macd.second_views else None
    boxes = np.stack([t.boxes for t in trace.tracks])
    options, answer = asked
    return {
        "kind": kind,
        "question": trace.question,
        "truth": candidate[1].answer,
        "drawn": candidate[1].truth,
        "answers": {m: {"text": trace.answers[m].text} for m in ("baseline", "macd")},
        "alpha": macd.alpha,
        "beta": macd.beta,
        "frames": _pictures(trace.frames),
        "behind": [] if shown is None else _pictures(shown),
        "boxes": [[None if np.isnan(b).any() else rounded(b) for b in row] for row in boxes],
        "objects": track_names(trace),
        "gradient": rounded(trace.steps[0].gradient),
        "level": rounded(trace.counterfactual.level) if trace.counterfactual else [],
        "odds": rounded(trace.occlusion.odds_change, 2) if trace.occlusion else [],
        "random": list(same_random(trace.controls)) if trace.controls else [0, 0],
        "controls": same_controls(trace.controls) if trace.controls else [],
        "choice": choice_by_controls(trace.controls) if trace.controls else "",
        "options": options,
        "right": answer,
    }


Asked = tuple[list[list[int]], int] | None
"""Options, each as places of objects, and which is right; None where that is not clear."""


def _ask_gradient(trace: Trace) -> Asked:
    """Which object matters most for the answer? Clear where it is not the one that seems to."""
    if trace.occlusion is None or len(trace.tracks) < 3:
        return None
    odds = np.abs(trace.occlusion.odds_change)
    second, most = np.sort(odds)[-2:]
    gradient = trace.steps[0].gradient
    if most < 2 * second or gradient.argmax() == odds.argmax():
        return None
    return [[k] for k in range(len(odds))], int(odds.argmax())


def _ask_levels(trace: Trace) -> Asked:
    """Which objects does one step hide? Clear where it hides some, and keeps two or more."""
    if trace.counterfactual is None or len(trace.steps) != 1:
        return None
    hidden = trace.counterfactual.level > 0
    every = list(range(len(hidden)))
    parts = [[k for k in every if not hidden[k]], [k for k in every if hidden[k]]]
    if not all(parts) or len(every) < 3:
        return None
    return [every, *parts, []], 2


def _ask_controls(trace: Trace) -> Asked:
    """What do the controls say of the choice? Clear where nearly all or hardly any random masks do
    the same."""
    if trace.controls is None or trace.answers["macd"].text == trace.answers["baseline"].text:
        return None
    same, of = same_random(trace.controls)
    choice = choice_by_controls(trace.controls)
    if not of or random_bin(same, of) == 1 or choice == "open":
        return None
    return [[], [], []], int(choice != "matters")


ASKED: dict[str, Callable[[Trace], Asked]] = {
    "gradient": _ask_gradient,
    "levels": _ask_levels,
    "controls": _ask_controls,
}


def _pictures(frames: NDArray[np.uint8], side: int = 192) -> list[str]:
    """Frames as small data URIs."""
    pictures = (webp(Image.fromarray(frame), 70, side) for frame in frames)
    return [URI_PREFIX + b64encode(picture).decode() for picture in pictures]


def other_values() -> dict[str, Value]:
    """Of the world's habits, the captions and the clips of the quizzes."""
    habits, caption, real = lesson("habits"), lesson("caption"), lesson("real")
    invented = caption["invented"]
    fewer = len(invented["macd"]) < len(invented["baseline"])
    counts = {name: len(items) for name, items in quiz().items()}
    return {
        **{f"quiz.{name}": NUMBERS[n] for name, n in counts.items()},
        **{f"quiz.{name}.clips": n for name, n in counts.items()},
        "habits.partner": percent(habits["p_partner"], 0),
        "habits.motion": percent(habits["p_motion"], 0),
        "habits.yes": percent(habits["p_yes"], 0),
        "habits.classes": str(habits["classes"]),
        "habits.scenes": str(habits["scenes"]),
        "real.asked": str(real["asked"]),
        "real.clips": str(real["clips"]),
        "real.most": NUMBERS[real["most"]],
        "real.lead": signed(max(item["lead"] for item in real["items"])),
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
