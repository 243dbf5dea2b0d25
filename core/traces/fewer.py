"""A trace with fewer candidates per token, for a page that must be small.

Of a long answer the candidates take most of the room. The choice at every α and β stays exact;
probabilities become upper bounds where the cut lets a token through that is left out, and the
floor of the step says where.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from macd_studio.core.decoding.contrast import all_winners
from macd_studio.core.types import TokenStep, Trace


def with_fewer_candidates(trace: Trace, keep: int) -> Trace:
    """The trace with the `keep` best candidates of each view at every token, keep ≥ 1.

    What else is kept: every token that wins for some α in [0, 20] and β in [0, 1], the tokens that
    an answer has at the same index, and those that evidence was measured for.
    """
    needed: dict[int, set[int]] = defaultdict(set)
    for answer in trace.answers.values():
        for step in answer.tokens:
            needed[step.index].add(step.token)
    for found in trace.evidence:
        target = found.target
        needed[target.index].add(target.token)
        if target.against is not None:
            needed[target.index].add(target.against)
    answers = {
        name: replace(
            answer, tokens=tuple(_fewer(step, keep, needed[step.index]) for step in answer.tokens)
        )
        for name, answer in trace.answers.items()
    }
    return replace(trace, answers=answers)


def _fewer(step: TokenStep, keep: int, needed: Collection[int]) -> TokenStep:
    kept = np.isin(step.candidates, list(needed))
    for view in (step.base, *step.others):
        kept[np.argsort(-view, kind="stable")[:keep]] = True
    if step.others:
        kept[all_winners(step.base, step.others[0], step.repeats)] = True
    if kept.all():
        return step
    highest = np.asarray(step.base[~kept].max())
    above = float(np.nextafter(highest, np.inf, dtype=highest.dtype))
    return replace(
        step,
        candidates=step.candidates[kept],
        texts=tuple(text for text, stays in zip(step.texts, kept, strict=True) if stays),
        base=step.base[kept],
        others=tuple(row[kept] for row in step.others),
        repeats=step.repeats and step.repeats.among(kept),
        floor=max(step.floor, above),
    )
