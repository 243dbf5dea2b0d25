"""Views of a model that another process holds: each next token is asked for by those before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from macd_studio.core.backbones.base import Handle, Reader
from macd_studio.core.decoding.contrast import check_finite
from macd_studio.core.decoding.views import DecodedViews
from macd_studio.core.errors import NotApplicable
from macd_studio.core.rules import ScoreRule
from macd_studio.core.token_logits import NextTokenLogits


class AskedViews(DecodedViews):
    """The views of any reader; a second view is asked for the tokens that the video's row holds.

    others: None where `open` hands them over; they are then asked only at tokens that they can
    change. Raises NotApplicable for a model with a repetition penalty: the sign of a score decides
    what it does, and log-probabilities have lost the sign of the logits.
    """

    def __init__(
        self, lm: Reader, base: Handle, others: Sequence[Handle] | None, rows: int = 1
    ) -> None:
        if lm.info.repetition_penalty != 1.0:
            raise NotApplicable(
                f"{lm.info.name} has a repetition penalty, which needs logits, and its reader gives"
                " log-probabilities",
                "Set repetition_penalty to 1 where the model is held",
            )
        self.lm, self.rows = lm, rows
        self._base, self._others = base, None if others is None else list(others)
        self._lazy = others is None
        self._fed: list[list[int]] = [[] for _ in range(rows)]

    def next_logits(self, index: int, rule: ScoreRule) -> list[Sequence[NextTokenLogits]] | None:
        """See `DecodedViews.next_logits`."""
        where = f"token {index + 1}"
        own = [self._video_row(n, where, rule) for n in range(self.rows)]
        if self._lazy and all(_decided(rule, row) for row in own):
            return [own]
        if self._others is None:
            return None
        views: list[Sequence[NextTokenLogits]] = [own]
        for view in self._others:
            found = []
            for n, row in enumerate(own):
                if row.ids is None:
                    found.append(self._row(view, n, where, whole=True))
                else:
                    found.append(self._row(view, n, where, row.ids.tolist()).among(row.ids))
            views.append(found)
        return views

    def video_logits(self) -> NextTokenLogits:
        """See `DecodedViews.video_logits`."""
        return self._row(self._base, 0, "token 1")

    def _video_row(self, n: int, where: str, rule: ScoreRule) -> NextTokenLogits:
        """Of every token where the rule, or its cut, needs that and the reader can give it."""
        row = self._row(self._base, n, where, whole=rule.needs_every_logit)
        short = row.ids is not None and rule.second_views and row.floor >= rule.floor(row.values)
        if short and "rows" in self.lm.capabilities:
            row = self._row(self._base, n, where, whole=True)
        return row

    def _row(
        self, view: Handle, n: int, where: str, ids: Sequence[int] = (), whole: bool = False
    ) -> NextTokenLogits:
        (row,) = self.lm.next_logits(view, self._fed[n], ids, whole)
        check_finite(row.values, where)
        return row

    def open(self, views: Sequence[Handle]) -> None:
        """See `DecodedViews.open`."""
        self._others = list(views)

    @property
    def prompt(self) -> Sequence[int]:
        """See `DecodedViews.prompt`."""
        return self.lm.prompt_of(self._base)

    def fed(self, row: int) -> Sequence[int]:
        """See `DecodedViews.fed`."""
        return self._fed[row]

    def step(self, tokens: Sequence[int]) -> None:
        """See `DecodedViews.step`."""
        self._fed = [[*fed, token] for fed, token in zip(self._fed, tokens, strict=True)]

    def crop(self, kept: int) -> None:
        """See `DecodedViews.crop`."""
        self._fed = [fed[:kept] for fed in self._fed]

    def select(self, rows: Sequence[int]) -> None:
        """See `DecodedViews.select`."""
        self._fed, self.rows = [self._fed[r] for r in rows], len(rows)


def _decided(rule: ScoreRule, row: NextTokenLogits) -> bool:
    """Whether the video alone decides; not where tokens that are left out may pass the cut."""
    reaches = row.floor == -np.inf or row.floor < rule.floor(row.values)
    return reaches and rule.decides(row.values)
