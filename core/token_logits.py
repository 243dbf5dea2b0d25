"""Next-token logits of one view, whole or in part. Pure NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def log_partition(logits: NDArray[Any]) -> float:
    """log Σ exp(logit), so that p(t) = exp(logit − log_partition)."""
    x = np.asarray(logits, np.float64)
    top = x.max()
    return float(top + np.log(np.exp(x - top).sum()))


@dataclass(frozen=True, eq=False)
class NextTokenLogits:
    """What a reader says of the next token in one view: of every token, or of some.

    values: (C,) logits, or log-probabilities; they differ by a constant of the view. ids: (C,) the
    token of each, None where C is the vocabulary. floor: no token that is left out has a larger
    value. log_z: log Σ exp(value) over the whole vocabulary; None: that of the values here.
    """

    values: NDArray[np.floating[Any]]
    ids: NDArray[np.int64] | None = None
    floor: float = -np.inf
    log_z: float | None = None

    @property
    def log_partition(self) -> float:
        """log Σ exp(value) over the whole vocabulary, so that log p(t) = value − log_partition."""
        return log_partition(self.values) if self.log_z is None else self.log_z

    def token(self, place: int) -> int:
        """The token at a place of `values`."""
        return place if self.ids is None else int(self.ids[place])

    def best(self) -> int:
        """The likeliest token."""
        return self.token(int(self.values.argmax()))

    def ranked(self, count: int) -> list[int]:
        """The `count` likeliest tokens, the best one first."""
        order = np.argsort(-self.values, kind="stable")[:count]
        return [self.token(int(place)) for place in order]

    def among(self, ids: NDArray[np.int64]) -> NextTokenLogits:
        """Of these tokens alone. Raises KeyError for one that the row does not hold."""
        if self.ids is None:
            places = np.asarray(ids)
        else:
            place_of = {token: place for place, token in enumerate(self.ids.tolist())}
            places = np.array([place_of[token] for token in np.asarray(ids).tolist()], np.int64)
        left = np.delete(self.values, places)
        floor = max([self.floor, *([float(left.max())] if len(left) else [])])
        return NextTokenLogits(
            self.values[places], np.asarray(ids, np.int64), floor, self.log_partition
        )

    def log_p(self, token: int) -> float:
        """log p(token). Raises KeyError for a token that the row does not hold."""
        value = self.values[token] if self.ids is None else self.among(np.array([token])).values[0]
        return float(value) - self.log_partition
