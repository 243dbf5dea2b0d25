"""Questions about simulated clips, with their true answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from macd_studio.core.backbones.everyday import CLASSES
from macd_studio.everyday import language as say
from macd_studio.everyday.habits import habits
from macd_studio.everyday.language import KINDS, NONE, NUMBERS, STILL
from macd_studio.everyday.scenes import Scene, Thing

Qa = tuple[str, str]
P_DOUBT = 0.01
"""Share of the yes-no questions with the wrong answer, which keeps margins finite."""
SHARES = {
    "exists": 0.22, "kind": 0.03, "which": 0.11, "count": 0.12, "colour": 0.09, "where": 0.11,
    "relation": 0.06, "moves": 0.09, "way": 0.09, "enters": 0.04, "order": 0.02, "describe": 0.02,
}  # fmt: skip
"""How often each kind of question is asked; one that the clip gives no truth for is drawn again."""


@dataclass(frozen=True)
class Asked:
    """One question with its answer and kind."""

    question: str
    answer: str
    kind: str


def ask(scene: Scene, rng: np.random.Generator, n: int) -> list[Asked]:
    """n questions about a clip."""
    kinds, shares = list(SHARES), np.array(list(SHARES.values()))
    out: list[Asked] = []
    while len(out) < n:
        kind = str(rng.choice(kinds, p=shares / shares.sum()))
        found = (_ASK[kind](scene, rng) for _ in range(6))
        if qa := next(filter(None, found), None):
            question, answer = qa
            if answer in ("yes", "no") and rng.random() < P_DOUBT:
                answer = "no" if answer == "yes" else "yes"
            out.append(Asked(question, answer, kind))
    return out


def _pick(rng: np.random.Generator, options: list[int]) -> int:
    return options[int(rng.integers(len(options)))]


def _exists(scene: Scene, rng: np.random.Generator) -> Qa | None:
    present = scene.present()
    if present and rng.random() < 0.5:
        label = _pick(rng, list(present))
        return say.ask_exists(rng, say.call(rng, CLASSES[label])), "yes"
    hidden, u = scene.absent_hidden(), rng.random()
    false = sorted({t.label for t in scene.false} - set(present))
    if hidden and u < 0.45:
        label = _pick(rng, hidden)
    elif false and u < 0.6:
        label = _pick(rng, false)
    elif present and u < 0.85:
        label = int(rng.choice(len(CLASSES), p=habits()[1][_pick(rng, list(present))]))
    else:
        label = int(rng.integers(len(CLASSES)))
    answer = "yes" if label in present else "no"
    return say.ask_exists(rng, say.call(rng, CLASSES[label])), answer


def _kind_of(rng: np.random.Generator) -> tuple[str, list[int]]:
    kind = say.choose(rng, list(KINDS))
    return kind, [CLASSES.index(c) for c in KINDS[kind][1]]


def _seen(scene: Scene) -> dict[int, list[Thing]]:
    """Things by class that can be told to be there, those of most weight first."""
    found = {c: [t for t in ts if t.seen] for c, ts in scene.present().items()}
    found = {c: ts for c, ts in found.items() if ts}
    return dict(sorted(found.items(), key=lambda item: -max(map(_weight, item[1]))))


def _weight(thing: Thing) -> float:
    """How much a thing stands out: its size and how long it is there."""
    sides = thing.boxes[:, 2:] - thing.boxes[:, :2]
    return float((np.sqrt(sides.prod(1)) * thing.there).mean())


def _likely_kind(scene: Scene, rng: np.random.Generator) -> tuple[str, list[int]]:
    """A kind that is mostly there."""
    kind, labels = _kind_of(rng)
    for _ in range(6):
        if any(c in scene.present() for c in labels) or rng.random() < 0.12:
            break
        kind, labels = _kind_of(rng)
    return kind, labels


def _which(scene: Scene, rng: np.random.Generator) -> Qa | None:
    kind, labels = _likely_kind(scene, rng)
    seen = [c for c in _seen(scene) if c in labels]
    if not seen and any(c in scene.present() for c in labels):
        return None
    return say.ask_which(rng, kind), CLASSES[seen[0]] if seen else NONE


def _some_kind(scene: Scene, rng: np.random.Generator) -> Qa | None:
    kind, labels = _likely_kind(scene, rng) if rng.random() < 0.5 else _kind_of(rng)
    there = any(c in scene.present() for c in labels)
    return say.ask_exists_kind(rng, kind), "yes" if there else "no"


def _count(scene: Scene, rng: np.random.Generator) -> Qa | None:
    present = scene.present()
    if not present or rng.random() < 0.08:
        label = int(rng.integers(len(CLASSES)))
        if label in present:
            return None
        return say.ask_count(rng, say.call(rng, CLASSES[label])), NUMBERS[0]
    labels = sorted(present, key=lambda c: -len(present[c]))
    label = labels[0] if rng.random() < 0.6 else _pick(rng, labels)
    things = present[label]
    if not all(t.seen for t in things):
        return None
    n = int(np.sum([t.there for t in things], 0).max())
    return say.ask_count(rng, say.call(rng, CLASSES[label])), NUMBERS[min(n, 6)]


def _single(
    scene: Scene, rng: np.random.Generator, fits: Callable[[Thing], bool] = lambda thing: True
) -> Thing | None:
    """A thing that is the only one of its class, and can be told to be there."""
    alone = [ts[0] for ts in scene.present().values() if len(ts) == 1 and ts[0].seen]
    hidden = {t.label for t in scene.things if t.hidden}
    alone = [t for t in alone if t.label not in hidden and fits(t)]
    return alone[int(rng.integers(len(alone)))] if alone else None


def _colour(scene: Scene, rng: np.random.Generator) -> Qa | None:
    thing = _single(scene, rng, lambda t: CLASSES[t.label] != "person")
    if thing is None:
        return None
    return say.ask_colour(rng, say.call(rng, CLASSES[thing.label])), thing.colour


def _middles(scene: Scene, thing: Thing) -> np.ndarray:
    """(T', 2) middles as shares of the picture, of the frames that it is in."""
    x0, y0, x1, y1 = scene.content
    middle = (thing.boxes[:, :2] + thing.boxes[:, 2:]) / 2
    return np.asarray(((middle - (x0, y0)) / (x1 - x0, y1 - y0))[thing.there])


def _where(scene: Scene, rng: np.random.Generator) -> Qa | None:
    thing = _single(scene, rng)
    if thing is None:
        return None
    x = float(np.median(_middles(scene, thing)[:, 0]))
    if min(abs(x - 0.38), abs(x - 0.62)) < 0.03:
        return None
    side = "left" if x < 0.38 else "right" if x > 0.62 else "middle"
    return say.ask_where(rng, say.call(rng, CLASSES[thing.label])), side


def _relation(scene: Scene, rng: np.random.Generator) -> Qa | None:
    one, other = _single(scene, rng), _single(scene, rng)
    if one is None or other is None or one is other:
        return None
    both = one.there & other.there
    if not both.any():
        return None
    relation = say.choose(rng, list(say.RELATIONS))
    answer = relation_of(scene, one.boxes[both], other.boxes[both], relation)
    if answer is None:
        return None
    nouns = (say.call(rng, CLASSES[t.label]) for t in (one, other))
    first, second = nouns
    return say.ask_relation(rng, first, relation, second), "yes" if answer else "no"


def relation_of(scene: Scene, one: np.ndarray, other: np.ndarray, relation: str) -> bool | None:
    """Whether boxes (T, 4) stand so to others; None where it cannot be told.

    In front: they overlap, and the nearer one's lower edge is lower. Beside: at one height, with no
    gap or a narrow one.
    """
    x0, y0, x1, y1 = scene.content
    scale = np.array([x1 - x0, y1 - y0])
    gap = (np.median((one[:, :2] + one[:, 2:]) / 2, 0)
           - np.median((other[:, :2] + other[:, 2:]) / 2, 0)) / scale  # fmt: skip
    axis, sign = {"left": (0, -1), "right": (0, 1), "above": (1, -1), "below": (1, 1)}.get(
        relation, (0, 0)
    )
    if sign:
        return None if abs(gap[axis]) < 0.12 else bool(gap[axis] * sign > 0)
    a, b = np.median(one, 0), np.median(other, 0)
    common = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    smaller = np.minimum(a[2:] - a[:2], b[2:] - b[:2])
    if relation == "beside":
        level = common[1] > 0.25 * smaller[1]
        apart = -common[0] / scale[0]
        if level and -0.1 < apart < 0.12:
            return True
        return False if apart > 0.25 else None
    if (common < 0.3 * smaller).any():
        return False if (common < -0.05).any() else None
    lower = (a[3] - b[3]) / scale[1]
    return None if abs(lower) < 0.04 else bool(lower > 0)


P_TURNING = 0.4
"""How often a question about movement is asked of a camera that turns, where it could be."""


def _movers(scene: Scene, rng: np.random.Generator) -> list[Thing]:
    """All things of a class of which it can be said whether they move; empty where of none."""
    if scene.frames < 3 or not (scene.steady or rng.random() < P_TURNING):
        return []
    hidden = {t.label for t in scene.things if t.hidden}
    groups = [ts for c, ts in scene.present().items()
              if c not in hidden and all(t.seen and t.there.sum() > 2 for t in ts)]  # fmt: skip
    if not groups:
        return []
    moving = [ts for ts in groups if any(t.moves for t in ts)]
    chosen = moving if moving and rng.random() < 0.6 else groups
    return chosen[int(rng.integers(len(chosen)))]


def _moves(scene: Scene, rng: np.random.Generator) -> Qa | None:
    things = _movers(scene, rng)
    if not things or any(not t.moves and not t.there.all() for t in things):
        return None
    if any(t.moves == "?" and np.ptp(_middles(scene, t), 0).max() < 0.12 for t in things):
        return None
    still = rng.random() < 0.15
    moving = any(t.moves for t in things)
    noun = say.call(rng, CLASSES[things[0].label])
    question = say.ask_moves(rng, noun, len(things) > 1, still)
    return question, "yes" if moving != still else "no"


def _way(scene: Scene, rng: np.random.Generator) -> Qa | None:
    things = _movers(scene, rng)
    ways = {t.moves for t in things}
    if len(ways) != 1 or "?" in ways:
        return None
    (way,) = ways
    if not way and (rng.random() < 0.6 or not all(t.there.all() for t in things)):
        return None
    noun = say.call(rng, CLASSES[things[0].label])
    return say.ask_way(rng, noun, len(things) > 1), way or STILL


def _enters(scene: Scene, rng: np.random.Generator) -> Qa | None:
    present = scene.present()
    if not present or scene.frames < 4:
        return None
    change = [c for c, ts in present.items() if not np.any([t.there for t in ts], 0).all()]
    label = _pick(rng, change if change and rng.random() < 0.7 else list(present))
    things = present[label]
    if not any(t.seen for t in things):
        return None
    there = np.any([t.there for t in things], 0)
    leaves = bool(rng.random() < 0.45)
    ends = there[::-1] if leaves else there
    if 0 < ends.argmax() < 2 and scene.frames > 6 and rng.random() < 0.5:
        return None
    question = say.ask_enters(rng, say.call(rng, CLASSES[label]), leaves)
    return question, "yes" if not ends[0] and there.any() else "no"


def _order(scene: Scene, rng: np.random.Generator) -> Qa | None:
    seen = _seen(scene)
    if len(seen) < 2 or scene.frames < 4:
        return None
    first = {c: int(np.any([t.there for t in ts], 0).argmax()) for c, ts in seen.items()}
    one, other = rng.choice(list(seen), 2, replace=False)
    if abs(first[one] - first[other]) < (1 if scene.frames < 6 else 2):
        return None
    nouns = [say.call(rng, CLASSES[c]) for c in (one, other)]
    early = one if first[one] < first[other] else other
    return say.ask_order(rng, *nouns), CLASSES[early]


def _describe(scene: Scene, rng: np.random.Generator) -> Qa | None:
    counts = []
    for label, things in list(_seen(scene).items())[:6]:
        n = int(np.sum([t.there for t in things], 0).max())
        counts.append((CLASSES[label], n))
    return say.ask_describe(rng), say.listed(counts)


_ASK: dict[str, Callable[[Scene, np.random.Generator], Qa | None]] = {
    "exists": _exists, "kind": _some_kind, "which": _which, "count": _count, "colour": _colour,
    "where": _where, "relation": _relation, "moves": _moves, "way": _way, "enters": _enters,
    "order": _order, "describe": _describe,
}  # fmt: skip
