"""Which example the lessons show in each role, such as "opening".

A role takes an example by its `kind` in the index.json of its folder. The folder that
MACD_EXAMPLES_DIR names comes first, so that a teacher's own clip of a kind is preferred; the
shipped clips of a camera come last, and have kinds of their own.

What chapters may say of it is `example.ROLE.…`, see `example_values`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.decoding.contrast import flip_points
from macd_studio.core.errors import TraceError
from macd_studio.core.measurements import ControlReport
from macd_studio.core.objects.truth import is_right
from macd_studio.core.types import Answer, TokenStep, Trace, Track
from macd_studio.macd_ui.examples import OF_CAMERA, OF_COURSE, SHIPPED, Example, examples_in
from macd_studio.macd_ui.learn.chapters import Value
from macd_studio.macd_ui.learn.figures import signed
from macd_studio.viewer.constants import ALPHA_MAX

ROLES = {
    "opening": ("repaired", "controls", "small"),
    "habit": ("co-occurrence", "background", "question-prior"),
    "harmed": ("harmed", "unchanged"),
    "controls": ("controls", "repaired"),
    "not-looked": ("not-looked", "unchanged"),
    "subsets": ("repaired", "question-prior", "small"),
    "real-tracks": ("real-tracks",),
    "real-strengths": ("real-strengths",),
    "real-harmed": ("real-harmed",),
}
"""Role → the kinds of example that fit it, the best first; without one, any example is taken."""
NEEDS: dict[str, Callable[[Trace], bool]] = {
    "controls": lambda trace: bool(trace.controls and same_random(trace.controls)[1]),
    "not-looked": lambda trace: trace.occlusion is not None and _asked(trace) is not None,
    "subsets": lambda trace: _repairs_by_choice(trace),
}
"""Role → what a trace must hold for it, where the sentences rest on more than two answers."""


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
    places = [*(folders or [*([Path(extra)] if extra else []), SHIPPED]), OF_CAMERA, OF_COURSE]
    candidates = [(kind, example) for place in places for kind, example in with_kinds(place)]
    return {role: _example_for(role, kinds, candidates) for role, kinds in ROLES.items()}


def with_kinds(folder: Path) -> list[tuple[str, Example]]:
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
        whole = {"baseline", "macd"} <= set(trace.answers) and trace.answers["macd"].tokens
        if whole and (role not in NEEDS or NEEDS[role](trace)):
            return RoleExample(role, kind, example, trace)
    raise TraceError(
        f"no example has a trace that can be shown as {role!r}",
        "Run python -m toyworld.make_examples",
    )


def _says(trace: Trace, change: float, hidden: bool) -> int:
    """What hiding the asked object says: 0 the answer stays, 1 nothing, for parts of it stay in
    sight, 2 the answer rests on it.

    change: of the answer's log odds. hidden: whether it is, on every frame.
    """
    first = trace.answers["baseline"].tokens[0]
    p = float(np.exp(first.base.max() - first.base_log_z))
    if np.log(p / (1 - p)) + change <= 0:
        return 2
    return 0 if hidden else 1


def _repairs_by_choice(trace: Trace) -> bool:
    """Whether some subsets make a wrong answer right, and hiding every object does not."""
    found = trace.choice_map
    if found is None or is_right(trace.answers["baseline"].text, trace.truth) is not False:
        return False
    layer = found.layer(found.own.frames)
    right = [bool(s.answer and is_right(s.answer, trace.truth)) for s in layer]
    return any(right) and not right[-1]


def choice_values(trace: Trace, key: str) -> dict[str, Value]:
    """What chapters may say of every choice of objects; nothing where no map was measured."""
    found, plain = trace.choice_map, trace.answers["baseline"].text
    if found is None:
        return {}
    layer = found.layer(found.own.frames)
    right = [bool(is_right(s.answer or plain, trace.truth)) for s in layer]
    return {
        f"{key}.choices": str(len(layer)),
        f"{key}.repairs": str(sum(right)),
        f"{key}.own-repairs": int(bool(is_right(found.own.answer or plain, trace.truth))),
        f"{key}.everything": layer[-1].answer or plain,
        f"{key}.framed": int(found.own.frames),
    }


def example_values(shown: RoleExample) -> dict[str, Value]:
    """What chapters may say of an example, as `example.ROLE.FIGURE`."""
    trace, key = shown.trace, f"example.{shown.role}"
    base, macd = trace.answers["baseline"], trace.answers["macd"]
    truth = shown.example.answer
    right = [bool(is_right(a.text, truth)) for a in (base, macd)]
    levels = trace.counterfactual
    names = track_names(trace)
    hidden = levels.level > 0 if levels else np.zeros(len(names), bool)
    masked = [n for n, v in zip(names, hidden, strict=True) if v]
    kept = [n for n, v in zip(names, hidden, strict=True) if not v]
    named = [t.label == truth for t in trace.tracks]
    masks = [_found(t) for t, v, n in zip(trace.tracks, hidden, named, strict=True) if v and n]
    flips = flips_of(macd.tokens[0], macd.beta)
    values: dict[str, Value] = {
        f"{key}.question": trace.question,
        f"{key}.truth": truth,
        f"{key}.drawn": shown.example.truth,
        f"{key}.baseline": base.text,
        f"{key}.macd": macd.text,
        f"{key}.alpha": f"{macd.alpha:g}",
        f"{key}.beta": f"{macd.beta:g}",
        f"{key}.steps": str(len(trace.steps)),
        f"{key}.one-step": int(len(trace.steps) != 1),
        f"{key}.tracks": str(len(names)),
        f"{key}.plain-right": int(right[0]),
        f"{key}.objects": _quoted(names) if names else "no object",
        f"{key}.masked": _quoted(masked) if masked else "none of them",
        f"{key}.kept": _quoted(kept) if kept else "none of them",
        f"{key}.frames": str(len(trace.frames)),
        f"{key}.truth-found": int(not any(named)),  # 0: an object is called as the true answer
        f"{key}.truth-hidden": str(sum(map(any, zip(*masks, strict=True)))),
        f"{key}.groups": str(len(trace.groups)),
        f"{key}.hidden-groups": str(int((levels.frame_level > 0).sum())) if levels else "0",
        f"{key}.outcome": {(False, True): 0, (True, False): 1, (True, True): 2}.get(
            (right[0], right[1]), 3
        ),
        f"{key}.flips": min(len(flips), 2),
        f"{key}.flip": f"{flips[0]:.2f}" if flips else "none",
    }
    more = choice_values(trace, key)
    return values | _lead_values(key, macd) | _report_values(key, trace) | more


def _lead_values(key: str, macd: Answer) -> dict[str, Value]:
    """How far the plain answer leads its rival in both views, from logits with two digits.

    grows: 0 where the lead is larger behind the masks, 1 where smaller, 2 where neither.
    """
    first, rival = _rivals(macd)
    step = macd.tokens[0]
    views = [step.base, *step.others[:1]]
    leads = [round(float(z[first]), 2) - round(float(z[rival]), 2) for z in views]
    change = round(leads[-1] - leads[0], 2)
    return {
        f"{key}.first": step.texts[first].strip(),
        f"{key}.rival": step.texts[rival].strip(),
        f"{key}.lead": signed(leads[0]),
        f"{key}.behind": signed(leads[-1]),
        f"{key}.score-lead": signed(leads[0] - macd.alpha * change, 2),
        f"{key}.grows": 0 if change > 0 else 1 if change < 0 else 2,
    }


def _rivals(macd: Answer) -> tuple[int, int]:
    """Places of the plain answer's token and, by the score, of its strongest plausible rival.

    Where nothing else is plausible: the second by the logits.
    """
    step = macd.tokens[0]
    base = np.asarray(step.base, float)
    other = np.asarray(step.others[0], float) if step.others else base
    first = int(base.argmax())
    inside = base >= base[first] + np.log(max(macd.beta, 1e-9))
    inside[first] = False
    score = np.where(inside, base + macd.alpha * (base - other), -np.inf)
    second = int(np.argsort(-base)[1])
    return first, int(score.argmax()) if inside.any() else second


def _report_values(key: str, trace: Trace) -> dict[str, Value]:
    """What the example's controls and its measured effects say, as far as they were measured.

    random-bin: see `random_bin`; choice: see `CHOICE`. asked-says: of hiding what the question
    asks for: 0 hardly any effect, 1 that too, but it was not found on every frame, 2 an effect.
    """
    values: dict[str, Value] = {}
    if trace.controls:
        same, of = same_random(trace.controls)
        others = same_controls(trace.controls)
        values |= {
            f"{key}.random": f"{same} of {of}",
            f"{key}.random-n": str(of),
            f"{key}.random-bin": random_bin(same, of),
            f"{key}.choice": CHOICE.index(choice_by_controls(trace.controls)),
            f"{key}.others": listed([CONTROLS[name] for name in others]) or "none of them",
        }
    if trace.occlusion and trace.tracks:
        names, odds = track_names(trace), trace.occlusion.odds_change
        most = int(np.abs(odds).argmax())
        values |= {f"{key}.most": names[most], f"{key}.most-effect": signed(float(odds[most]))}
    if trace.occlusion and (k := _asked(trace)) is not None:
        seen = [_found(t).sum() for t in trace.tracks]
        values |= {
            f"{key}.asked": names[k],
            f"{key}.asked-effect": signed(float(odds[k])),
            f"{key}.asked-most": int(most != k),
            f"{key}.asked-frames": str(seen[k]),
            f"{key}.asked-says": _says(trace, float(odds[k]), seen[k] == len(trace.frames)),
        }
    return values


CONTROLS = {
    "mask-all": "every object masked", "reversed": "reversed signs", "blank": "a blank video",
}  # fmt: skip


def same_random(controls: ControlReport) -> tuple[int, int]:
    """How many random masks do what MACD does, and how many were drawn."""
    same = [o.same for o in controls.outcomes if o.name == "random"]
    return sum(same), len(same)


def same_controls(controls: ControlReport) -> list[str]:
    """The controls besides random masks that do what MACD does."""
    return [o.name for o in controls.outcomes if o.same and o.name in CONTROLS]


def random_bin(same: int, of: int) -> int:
    """0 where at most a quarter of the random masks do as MACD does, 1 at most three quarters, 2
    more.
    """
    share = same / max(1, of)
    return 0 if share <= 0.25 else 1 if share <= 0.75 else 2


CHOICE = ("matters", "open", "any", "all")
"""What the controls say of the choice of objects, see `choice_by_controls`."""


def choice_by_controls(controls: ControlReport) -> str:
    """By the questions of chapter 7, one of CHOICE.

    any: nearly all random masks do as MACD does. all: they do not, but masking every object does,
    so that no choice among the objects was needed. matters: hardly any random mask does, and
    neither do reversed signs. open: anything else.
    """
    chance, others = random_bin(*same_random(controls)), same_controls(controls)
    if chance == 2:
        return "any"
    if "mask-all" in others:
        return "all"
    return "matters" if chance == 0 and "reversed" not in others else "open"


def _asked(trace: Trace) -> int | None:
    """The only track whose label the question names; None where there is none, or several."""
    words = re.sub(r"\W+", " ", trace.question).lower().split()
    named = [k for k, t in enumerate(trace.tracks) if set(t.label.lower().split()) <= set(words)]
    return named[0] if len(named) == 1 else None


def _found(track: Track) -> NDArray[np.bool_]:
    """(T,) whether the detector has it on a frame."""
    lost: NDArray[np.bool_] = np.isnan(track.boxes[:, 0])
    return ~lost


def track_names(trace: Trace) -> list[str]:
    """The objects as the viewer calls them, by number and label."""
    return [f"{t.id} {t.label}" for t in trace.tracks]


def flips_of(step: TokenStep, beta: float) -> list[float]:
    """Each α of the slider at which the choice changes.

    See `core.decoding.contrast.flip_points`; empty for an answer of one view.
    """
    if not step.others:
        return []
    points = flip_points(step.base, step.others[0], beta, repeats=step.repeats)
    return [float(alpha) for alpha, _ in points[1:] if alpha <= ALPHA_MAX]


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> listed(["a", "b", "c"]), listed([])
    ('a, b and c', '')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _quoted(names: Sequence[str]) -> str:
    return listed([f"“{n}”" for n in names])


def lean_of(trace: Trace) -> dict[str, Any] | None:
    """The measured effects of an example's objects; None for one that was not measured."""
    report = trace.occlusion
    if report is None or trace.counterfactual is None or not trace.tracks:
        return None
    return {
        "labels": track_names(trace),
        "answer": trace.answers["baseline"].text,
        "gradient": rounded(report.gradient, 6),
        "level": rounded(trace.counterfactual.level),
        "odds": rounded(report.odds_change),
    }


def rounded(values: Any, digits: int = 4) -> list[float]:
    """Numbers as a page gets them."""
    return [round(float(x), digits) for x in values]
