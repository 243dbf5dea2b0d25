"""Which example the lessons show in each role, such as "opening".

A role takes an example by its `kind` in the index.json of its folder. The folder that
MACD_EXAMPLES_DIR names comes first, so that a teacher's own clip of a kind is preferred.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from macd_studio.core.decoding.contrast import flip_points
from macd_studio.core.errors import TraceError
from macd_studio.core.truth import is_right
from macd_studio.core.types import TokenStep, Trace
from macd_studio.macd_ui.examples import SHIPPED, Example, examples_in
from macd_studio.macd_ui.learn.chapters import Value
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
    raise TraceError("no example has a readable trace", "python -m toyworld.make_examples")


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
    if step.counter is None:
        return []
    points = flip_points(step.base, step.counter, beta, repeats=step.repeats)
    return [float(alpha) for alpha, _ in points[1:] if alpha <= ALPHA_MAX]


def _listed(words: list[str]) -> str:
    """Words as a list in a sentence.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
