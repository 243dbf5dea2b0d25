"""Views of a model in this process, all in one batch with one cache, kept in step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.base import Handle, Reader
from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.local import DecodeState, LocalLM, Watch
from macd_studio.core.decoding.asked import AskedViews
from macd_studio.core.decoding.views import DEFAULTS, DecodedViews
from macd_studio.core.errors import NotApplicable
from macd_studio.core.options import DecodeOptions
from macd_studio.core.rules import ScoreRule
from macd_studio.core.token_logits import NextTokenLogits


class ViewBatch(DecodedViews):
    """The views of a local model.

    Views share one batch and one cache with the video where their prompts are of one length; a view
    with a prompt of its own (fewer frames) has its own. The given states are left as they are; they
    are of one row, which is each hypothesis' own, or of a row for each of them.
    Logits of a joint batch agree with those of single passes to rounding (1e-5 in float32), not bit
    for bit.
    """

    lm: LocalLM
    states: list[DecodeState]

    def __init__(
        self,
        lm: LocalLM,
        base: DecodeState,
        others: Sequence[DecodeState],
        rows: int = 1,
        options: DecodeOptions = DEFAULTS,
    ) -> None:
        self.lm, self.rows, self.options = lm, rows, options
        self._prompt = base.prompt_tokens
        self._fed: list[list[int]] = [[] for _ in range(rows)]
        self._watch, self._seen = Watch(), list[Tensor]()
        self._join([base, *others])
        if rows > 1 and len(base.logits) == 1:
            self.states = [
                lm.select(s, [v for v in range(len(s.logits)) for _ in range(rows)])
                for s in self.states
            ]

    def _join(self, views: Sequence[DecodeState]) -> None:
        """Takes the states of the video and its second views, as many rows of each."""
        base = views[0]
        alike = [(v.length, v.prune) == (base.length, base.prune) for v in views]
        joint = [i for i, same in enumerate(alike) if same]
        apart = [i for i, same in enumerate(alike) if not same]
        join = self.lm.join
        self.states = [
            join([views[i] for i in joint]),
            *(join([views[i]]) for i in apart),
        ]
        self._blocks = [*joint, *apart]
        """Which view each block of rows of the states, one after the other, belongs to."""

    def _place(self, view: int) -> tuple[DecodeState, int]:
        """The state that holds a view, 0 the video, and the first of its rows there."""
        block = self._blocks.index(view)
        for state in self.states:
            blocks = len(state.logits) // self.rows
            if block < blocks:
                return state, block * self.rows
            block -= blocks
        raise AssertionError("every view lies in one of the states")

    def _rows_of_view(self, view: int) -> list[NextTokenLogits]:
        """Over the whole vocabulary."""
        state, first = self._place(view)
        return [NextTokenLogits(one) for one in to_host(state.logits[first : first + self.rows])]

    def _video_rows(self, rule: ScoreRule | None) -> list[NextTokenLogits]:
        return self._rows_of_view(0)

    def _second_rows(
        self, own: Sequence[NextTokenLogits]
    ) -> list[Sequence[NextTokenLogits]] | None:
        return [self._rows_of_view(view) for view in range(1, len(self._blocks))]

    def attention(self, layers: tuple[int, ...]) -> list[NDArray[np.float32]]:
        """See `DecodedViews.attention`.

        From the first call on each step is watched. What it did not see, the prompt's last token
        and what `select` leaves, is fed again to a copy.
        """
        if not set(layers) <= set(self.lm.attention_layers):
            raise NotApplicable(
                f"not every layer of {', '.join(map(str, layers))} of {self.lm.info.name} has"
                " attention that can be read",
                "Choose other layers, another rule or another backbone",
            )
        if self._watch.attention != layers or not self._seen:
            self._watch = Watch(attention=layers)
            last = [fed[-1] if fed else self._prompt[-1] for fed in self._fed]
            self._stepped([self.lm.crop(s, s.length - 1) for s in self.states], last)
        seen = [to_host(z).reshape(-1, self.rows, z.shape[-1]) for z in self._seen]
        blocks = [block for state in seen for block in state]
        return [blocks[self._blocks.index(view)] for view in range(len(self._blocks))]

    def _stepped(self, states: Sequence[DecodeState], tokens: Sequence[int]) -> list[DecodeState]:
        """The states after the tokens, each fed to all of its views, and what was watched."""
        self._seen, after = [], []
        for state in states:
            fed = list(tokens) * (len(state.logits) // self.rows)
            if not self._watch.attention:
                after.append(self.lm.step(state, fed))
                continue
            with self.lm.watching(state, self._watch) as seen:
                after.append(self.lm.step(state, fed))
            self._seen.append(torch.stack(list(seen.attention.values())).float().sum(0))
        return after

    def open(self, views: Sequence[Handle]) -> None:
        """See `DecodedViews.open`; here they are there from the start."""
        raise AssertionError("the second views are there")

    @property
    def prompt(self) -> Sequence[int]:
        """See `DecodedViews.prompt`."""
        return self._prompt

    def fed(self, row: int) -> Sequence[int]:
        """See `DecodedViews.fed`."""
        return self._fed[row]

    def hidden(self, row: int = 0) -> NDArray[np.bool_] | None:
        """See `DecodedViews.hidden`."""
        if len(self._blocks) < 2:
            return None
        state, first = self._place(1)
        return None if state.hidden is None else to_host(state.hidden[first + row])

    def step(self, tokens: Sequence[int]) -> None:
        """See `DecodedViews.step`."""
        self._fed = [[*fed, token] for fed, token in zip(self._fed, tokens, strict=True)]
        self.states = self._stepped(self.states, tokens)

    def crop(self, kept: int) -> None:
        """See `DecodedViews.crop`."""
        self.states = [self.lm.crop(s, s.prompt + kept) for s in self.states]
        self._fed = [fed[:kept] for fed in self._fed]

    def select(self, rows: Sequence[int]) -> None:
        """See `DecodedViews.select`."""
        kept = []
        for s in self.states:
            offsets = range(0, len(s.logits), self.rows)
            kept.append(self.lm.select(s, [o + r for o in offsets for r in rows]))
        self.states, self.rows, self._seen = kept, len(rows), []
        self._fed = [self._fed[r] for r in rows]


IDLE_TOKENS = 6
"""How many decided tokens in a row a second view is still fed with the video, once it was needed.

A token under two views costs about a sixth more than under one, and catching up costs a pass.
"""


class LazyViewBatch(ViewBatch):
    """Views of a local model; second views are read only at tokens that they can change.

    Where the rule does not decide every hypothesis by the video's rows alone, `open` must have
    handed over the second views; they read all tokens since they were last needed in one pass and
    go on beside the video, until `IDLE_TOKENS` tokens were decided.
    """

    lazy = True
    _rows_of: list[int]
    """Which rows of the second views each hypothesis continues, while they are kept separate."""
    _shared: bool
    """Whether their states are the caller's, which are left as they are."""
    _read: int
    """How many tokens they have read."""
    _quiet: int
    """How many tokens in a row were decided, while all go on together."""
    _needed: bool
    """Whether the token that was scored last needed them."""

    def __init__(
        self,
        lm: LocalLM,
        base: DecodeState,
        rows: int = 1,
        options: DecodeOptions = DEFAULTS,
    ) -> None:
        super().__init__(lm, base, [], rows, options)
        self._seconds: list[DecodeState] | None = None
        """The second views while they are kept separate from the video."""

    def open(self, views: Sequence[Handle]) -> None:
        """See `DecodedViews.open`; one row each."""
        self._seconds, self._rows_of, self._read = list(views), [0] * self.rows, 0
        self._shared = True

    def next_logits(self, index: int, rule: ScoreRule) -> list[Sequence[NextTokenLogits]] | None:
        """See `DecodedViews.next_logits`."""
        self._needed = False
        return super().next_logits(index, rule)

    def _second_rows(
        self, own: Sequence[NextTokenLogits]
    ) -> list[Sequence[NextTokenLogits]] | None:
        self._needed = True
        if self._seconds is not None:
            self._catch_up(self._seconds)
        elif len(self._blocks) == 1:
            return None
        return super()._second_rows(own)

    def _catch_up(self, seconds: Sequence[DecodeState]) -> None:
        """All tokens since they were last needed, in one pass a view; then all go on together."""
        tokens = [fed[self._read :] for fed in self._fed]
        views = list(seconds)
        if self._rows_of != list(range(len(views[0].logits))) or (self._shared and tokens[0]):
            views = [self.lm.select(view, self._rows_of) for view in views]
        if tokens[0]:
            views = [self.lm.advance(view, tokens) for view in views]
        self._join([self.states[0], *views])
        self._seconds = None

    def _part(self) -> None:
        """Sets the second views aside, as far as they have read."""
        views: list[DecodeState] = []
        for state in self.states:
            for first in range(0, len(state.logits), self.rows):
                views.append(self.lm.select(state, range(first, first + self.rows)))
        views = [views[self._blocks.index(view)] for view in range(len(views))]
        self.states, self._blocks = views[:1], [0]
        self._seconds, self._rows_of = views[1:], list(range(self.rows))
        self._shared, self._read = False, len(self._fed[0])

    def step(self, tokens: Sequence[int]) -> None:
        """Feeds each hypothesis its token; the second views only while they go on together."""
        if len(self._blocks) > 1:
            self._quiet = 0 if self._needed else self._quiet + 1
            if self._quiet >= IDLE_TOKENS:
                self._part()
        super().step(tokens)

    def crop(self, kept: int) -> None:
        """See `DecodedViews.crop`."""
        super().crop(kept)
        if self._seconds is not None and kept < self._read:
            self._seconds = [self.lm.crop(s, s.prompt + kept) for s in self._seconds]
            self._read = kept

    def select(self, rows: Sequence[int]) -> None:
        """See `DecodedViews.select`."""
        super().select(rows)
        if self._seconds is not None:
            self._rows_of = [self._rows_of[r] for r in rows]


SecondViews = Sequence[Handle] | Callable[[], Sequence[Handle]]
"""The second views, prefilled; or a call that gives them once they are needed."""


def open_views(
    lm: Reader,
    base: Handle,
    others: Sequence[Handle] | None,
    options: DecodeOptions,
    rows: int = 1,
) -> DecodedViews:
    """The views that a method decodes from, so many hypotheses of each.

    base, others: what `Reader.prefill` gave. others: None where they are handed over once a token
    needs them.
    """
    if not isinstance(base, DecodeState):
        return AskedViews(lm, base, others, rows, options)
    local = cast(LocalLM, lm)
    if others is None:
        return LazyViewBatch(local, base, rows, options)
    return ViewBatch(local, base, others, rows, options)
