"""How often does the model answer by habit.

`python -m evals.studies.habits --n 400 --out FILE.json`.

Random draws as the page makes them: drawn clips that nobody chose, with a question whose answer is
known, answered by the baseline and by MACD with the page's options and the detector's boxes. Told
are the wrong answers, those that a habit suggests, and what MACD changes for better and for worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.objects.detect import Detector, load_detector
from macd_studio.core.objects.truth import is_right, normalized
from macd_studio.core.run.pipeline import run
from macd_studio.core.statistics import wilson
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.toyworld_crossed import random_item
from macd_studio.evals.studies.shared import measure_drawn_clips
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec

FIRST_SEED = 500_000_000
"""Of the draws that are counted, one after the other."""


def suggested_by_habit(item: Item, spec: ClipSpec) -> set[str]:
    """The wrong answers that scene, companion, motion or the question itself suggest.

    Of a question whether something is there: "yes" where it is usual in the scene or its pair is
    there, else "no". Of a question for an animal or a vehicle: those that are usual in the scene,
    those that usually move as one that is there does, and one of a pair where the other is there.
    """
    p = priors()
    answers = {item.prior_answer} if item.prior_answer else set()
    words = item.question.strip("?").split()
    if words[:2] == ["Is", "there"]:
        heads = [head for head, partner in p.partner.items() if partner == words[3]]
        expected = words[3] in p.typical[spec.scene] or any(h in spec.labels for h in heads)
        answers = {"yes" if expected else "no"}
    if words[0] == "Which" and words[1] in ("animal", "vehicle"):
        kind = p.of_kind(words[1])
        moving = {o.motion for o in spec.objects}
        answers |= {c for c in kind if c in p.typical[spec.scene]}
        answers |= {c for c in kind if p.usual_motion[c] in moving}
        answers |= {c for c in kind if p.partner.get(c) in spec.labels}
    return answers - {item.truth}


def count_draws(lm: LocalLM, detector: Detector, seeds: Sequence[int]) -> dict[str, Any]:
    """What came of the draws of these seeds: each count with its share and 95 % interval."""
    counts = dict.fromkeys(("wrong", "by_habit", "repaired", "harmed", "changed"), 0)
    for seed in seeds:
        world, item = random_item(seed)
        clip = world.clip(item.clip)
        *_, last = run(lambda clip=clip: clip, item.question, lambda: lm, lambda: detector)  # type: ignore[misc]
        assert last.trace is not None
        base, macd = (last.trace.answers[name].text for name in ("baseline", "macd"))
        right, after = (bool(is_right(text, item.truth)) for text in (base, macd))
        habits = suggested_by_habit(item, world.spec(item.clip))
        counts["wrong"] += not right
        counts["by_habit"] += not right and normalized(base) in habits
        counts["repaired"] += not right and after
        counts["harmed"] += right and not after
        counts["changed"] += normalized(base) != normalized(macd)
    n = len(seeds)
    return {
        "draws": n,
        "first_seed": seeds[0],
        "counts": counts,
        "shares": {name: wilson(hits, n) for name, hits in counts.items()},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Counts, prints and writes."""

    def count(lm: LocalLM, n: int, seed: int) -> dict[str, Any]:
        return count_draws(lm, load_detector("toyworld"), range(seed, seed + n))

    return measure_drawn_clips(
        "evals.studies.habits", __doc__, count, n=400, seed=FIRST_SEED, argv=argv
    )


if __name__ == "__main__":
    raise SystemExit(main())
