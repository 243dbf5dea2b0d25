"""What stands together in real pictures: counts from the questions of POPE (facts, Apache-2.0).

`python -m everyday.habits FILE` writes `habits.json` anew from its `coco_pope_random.json`, whose
"yes" questions name three things of each picture.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.backbones.everyday import CLASSES

FILE = Path(__file__).with_name("habits.json")


@cache
def habits() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How often each class is there (80,), and with each class each other one (80, 80); rows sum
    to 1. A twentieth of both is spread evenly, as a small sample misses what is rare."""
    counts = json.loads(FILE.read_text())
    alone = np.zeros(len(CLASSES))
    pairs = np.zeros((len(CLASSES), len(CLASSES)))
    for name, n in counts["alone"].items():
        alone[CLASSES.index(name)] = n
    for name, others in counts["with"].items():
        for other, n in others.items():
            pairs[CLASSES.index(name), CLASSES.index(other)] = n
    alone = 0.95 * alone / alone.sum() + 0.05 / len(CLASSES)
    sums = pairs.sum(1, keepdims=True)
    likely = np.where(sums > 0, pairs / np.maximum(sums, 1), alone[None])
    likely = 0.95 * likely + 0.05 * alone[None]
    np.fill_diagonal(likely, 0)
    return alone, likely / likely.sum(1, keepdims=True)


def count(lines: list[str]) -> dict[str, object]:
    """Counts of POPE's rows (JSON lines): of classes, and of pairs in one picture."""
    pictures: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        row = json.loads(line)
        named = re.fullmatch(r"Is there an? (.+) in the image\?", row["text"])
        if row["label"] == "yes" and named and named[1] in CLASSES:
            pictures[row["image"]].add(named[1])
    alone: dict[str, int] = defaultdict(int)
    pairs: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for things in pictures.values():
        for thing in things:
            alone[thing] += 1
        for one, other in permutations(sorted(things), 2):
            pairs[one][other] += 1
    return {
        "source": "POPE, coco_pope_random.json: things that a picture's 'yes' questions name",
        "pictures": len(pictures),
        "alone": dict(sorted(alone.items())),
        "with": {k: dict(sorted(v.items())) for k, v in sorted(pairs.items())},
    }


if __name__ == "__main__":
    import sys

    rows = Path(sys.argv[1]).read_text().splitlines()
    FILE.write_text(json.dumps(count(rows), indent=1) + "\n")
