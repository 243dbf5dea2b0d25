"""The loop: one token of each hypothesis after the other, fed to all of its views."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from macd_studio.core.decoding.views import DecodedViews, Scored, ViewsNeeded
from macd_studio.core.rules import ScoreRule
from macd_studio.core.types import TokenStep


@dataclass(frozen=True, eq=False)
class Decoded:
    """A token of one hypothesis. row: the hypothesis, as they were numbered at the start."""

    row: int
    step: TokenStep


def decode_views(
    views: DecodedViews,
    rule: ScoreRule,
    choose: Callable[[int, Scored], int | None],
    indices: Iterable[int],
    keep: int,
) -> Iterator[Decoded | ViewsNeeded]:
    """The loop: one token of each hypothesis after the other, the same to all of its views.

    It continues where the views stand. A hypothesis leaves the batch with its end token.
    choose: the next token of the hypothesis with that number, for the greedy search that with the
    largest score; None ends it. indices: of the tokens, which also say how many there are at most.
    keep: how many candidates of each view a step holds at least. `ViewsNeeded` comes where a token
    needs second views that were not handed over yet; the loop continues with them.
    Raises NumericalError at a logit that is not finite, naming the token.
    """
    rows = list(range(views.rows))
    for index in indices:
        scored = yield from views.wait_for_scores(index, rule)
        fed: dict[int, int] = {}
        for at, (row, one) in enumerate(zip(rows, scored, strict=True)):
            token = choose(row, one)
            if token is None:
                continue
            yield Decoded(row, views.record(one, index, token, rule, keep, at))
            if token not in views.lm.end_tokens:
                fed[at] = token
        if not fed:
            return
        if len(fed) < len(rows):
            views.select(list(fed))
            rows = [rows[at] for at in fed]
        views.step(list(fed.values()))
