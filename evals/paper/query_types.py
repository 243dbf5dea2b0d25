"""Sorts questions by reasoning depth, content and length, for the table of query types.

The paper does not say how its questions were sorted. Here: reasoning-heavy where a word asks for
order, cause, purpose or the outcome of an action over time; attribute-centric where it is asked
whether a thing is there, how many, what colour, kind or place; long above the median of words.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from macd_studio.evals.benchmarks.base import Item

REASONING = re.compile(
    r"\b(why|how did|how does|because|cause[ds]?|reason|before|after|then|while|until|first|last"
    r"|comes|finally|result|in order to|so that|succeed\w*|successful\w*|fail\w*|complete[ds]?"
    r"|accident|unexpected|throughout|entire|whole|manage[ds]?|able to)\b"
)
ATTRIBUTE = re.compile(
    r"^(is|are|was|were) there\b|\bhow many\b|\bwhat colou?r\b|\bwhich (animal|vehicle|kind)"
    r"\b|\bwearing\b|\bwhere is\b|\b(is|are) (it|he|she|they|the \w+) (a|an|in|on|at)\b"
)
DIMENSIONS = ("reasoning depth", "content focus", "query length")


def label_queries(items: Sequence[Item]) -> dict[str, dict[str, str]]:
    """Question id → dimension → value.

    >>> from dataclasses import replace
    >>> one = Item("1", "v", "r", "", "yes-no", "Is there a dog in the video?", "yes")
    >>> two = replace(one, id="2", question="Did the man fall after he had jumped over it there?")
    >>> list(label_queries([one, two])["1"].values())
    ['descriptive', 'attribute-centric', 'short']
    >>> list(label_queries([one, two])["2"].values())
    ['reasoning-heavy', 'event-centric', 'long']
    """
    lengths = {i.id: len(i.question.split()) for i in items}
    median = statistics.median(lengths.values()) if lengths else 0
    labels = {}
    for item in items:
        text = item.question.lower()
        values = (
            "reasoning-heavy" if REASONING.search(text) else "descriptive",
            "attribute-centric" if ATTRIBUTE.search(text) else "event-centric",
            "long" if lengths[item.id] > median else "short",
        )
        labels[item.id] = dict(zip(DIMENSIONS, values, strict=True))
    return labels
