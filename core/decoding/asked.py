"""Views of a model that another process holds: each next token is asked for by those before it."""

from __future__ import annotations

from collections.abc import Sequence

from macd_studio.core.backbones.base import Handle, Reader
from macd_studio.core.decoding.views import DEFAULTS, DecodedViews
from macd_studio.core.errors import NotApplicable
from macd_studio.core.options import DecodeOptions
from macd_studio.core.rules import ScoreRule
from macd_studio.core.token_logits import NextTokenLogits


class AskedViews(DecodedViews):
    """The views of any reader; a second view is asked for the tokens that the video's row holds.

    others: None where `open` hands them over; they are then asked only at tokens that they can
    change. Raises NotApplicable for a model with a repetition penalty: the sign of a score decides
    what it does, and log-probabilities have lost the sign of the logits.
    """

    def __init__(
        self,
        lm: Reader,
        base: Handle,
        others: Sequence[Handle] | None,
        rows: int = 1,
        options: DecodeOptions = DEFAULTS,
    ) -> None:
        if lm.info.repetition_penalty != 1.0:
            raise NotApplicable(
                f"{lm.info.name} has a repetition penalty, which needs logits, and its reader gives"
                " log-probabilities",
                "Set repetition_penalty to 1 where the model is held",
            )
        self.lm, self.rows, self.options, self.lazy = lm, rows, options, others is None
        self._base, self._others = base, None if others is None else list(others)
        self._fed: list[list[int]] = [[] for _ in range(rows)]

    def _second_rows(
        self, own: Sequence[NextTokenLogits]
    ) -> list[Sequence[NextTokenLogits]] | None:
        if self._others is None:
            return None
        return [[self._like(row, view, n) for n, row in enumerate(own)] for view in self._others]

    def _like(self, row: NextTokenLogits, view: Handle, n: int) -> NextTokenLogits:
        """A second view's row over the tokens of the video's."""
        if row.ids is None:
            return self._row(view, n, whole=True)
        return self._row(view, n, row.ids.tolist()).among(row.ids)

    def _video_rows(self, rule: ScoreRule | None) -> list[NextTokenLogits]:
        return [self._video_row(n, rule) for n in range(self.rows)]

    def _video_row(self, n: int, rule: ScoreRule | None) -> NextTokenLogits:
        """Of every token where the rule, or its cut, needs that and the reader can give it."""
        row = self._row(self._base, n, whole=rule is not None and rule.needs_every_logit)
        if rule is None or row.ids is None or not rule.second_views:
            return row
        if row.floor >= rule.floor(row.values) and "rows" in self.lm.capabilities:
            row = self._row(self._base, n, whole=True)
        return row

    def _row(
        self, view: Handle, n: int, ids: Sequence[int] = (), whole: bool = False
    ) -> NextTokenLogits:
        (row,) = self.lm.next_logits(view, self._fed[n], ids, whole)
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
