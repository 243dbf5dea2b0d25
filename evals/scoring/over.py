"""What a figure is a share of: all questions, those with a readable answer, or groups."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import OptionError

Over = Literal["all", "answered", "groups"]
OVER: tuple[str, ...] = get_args(Over)
WORDS = {
    "all": "all questions",
    "answered": "questions whose answer the rule can read",
    "groups": "groups, right where all of their questions are",
}
Array = NDArray[Any]


def check_over(value: str) -> Over:
    """The way of counting. Raises OptionError."""
    if value not in OVER:
        raise OptionError(f"{value!r} is no way of counting", f"Choose one of {', '.join(OVER)}")
    return value  # type: ignore[return-value]


def sums(right: Array, counted: Array, groups: Array, over: Over) -> tuple[Array, Array]:
    """(top, bottom) of a figure by question, (N,) of 0 and 1: the figure is Σ top / Σ bottom.

    right, counted: (N,) bool, counted where the answer can be read; groups: (N,) keys, each
    question's own where it has no group. What a group adds stands at its first question.

    >>> right, groups = np.array([True, False, True]), np.array(["a", "a", "b"])
    >>> [z.tolist() for z in sums(right, right, groups, "groups")]
    [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]
    """
    if over == "answered":
        return (right & counted).astype(float), counted.astype(float)
    if over == "all" or not len(right):
        return right.astype(float), np.ones(len(right))
    _, first, index = np.unique(groups, return_index=True, return_inverse=True)
    wrong = np.bincount(index, weights=~right, minlength=len(first))
    top, bottom = np.zeros(len(right)), np.zeros(len(right))
    bottom[first] = 1.0
    top[first] = wrong == 0
    return top, bottom
