"""One token of one trace under both views, with the work that kinds of evidence share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.local import DecodeState
from macd_studio.core.errors import HALF_OR_DAMAGED, Cancelled, NumericalError
from macd_studio.core.evidence.kinds import grid_of, mean_to
from macd_studio.core.evidence.options import EvidenceOptions
from macd_studio.core.macd import MaskCompositor
from macd_studio.core.masking.masks import soft_boxes
from macd_studio.core.measurements import Target
from macd_studio.core.types import ModelFrames
from macd_studio.core.views.context import MethodContext

TRACE_OF_MASK, ENOUGH = 0.02, 0.25
"""Share of a cell that a mask must cover to count, and of a vision token's area to hold it."""


def inside_of(box: Sequence[float], frames: ModelFrames) -> NDArray[np.float32]:
    """(h, w) how much of each pixel of the model's frames a box covers, given in shares of those of
    the source."""
    x0, y0, x1, y1 = frames.content
    inside = np.zeros(frames.size, np.float32)
    one = np.asarray([box], np.float32)
    inside[y0:y1, x0:x1] = soft_boxes(one, (y1 - y0, x1 - x0), 0.0, 0.0)[0]
    return inside


class EvidenceCase:
    """What every kind needs: both views, prefilled; the answer before the token; how it is read.

    prefix: the answer's tokens before the target's. layers: decoder layers, from 0, that attention
    is averaged over. views: by name, (T, 3, H, W) normalised pixels. stopped: whether the rest is
    not needed any more, asked between batches.
    """

    def __init__(
        self,
        context: MethodContext,
        target: Target,
        prefix: Sequence[int],
        views: dict[str, Tensor],
        options: EvidenceOptions,
        layers: tuple[int, ...],
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.context, self.lm, self.encoded = context, context.local, context.encoded
        self.target, self.prefix = target, list(prefix)
        self.views, self.options, self.layers = views, options, layers
        self._stopped = stopped
        _, rows, columns = self.encoded.token_grid
        self.tokens_of_frame = rows, columns
        self.grid = grid_of(rows, columns)
        self._states: dict[str, DecodeState] = {}
        self._unhidden: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}

    def raise_if_stopped(self) -> None:
        """Raises Cancelled where the rest is not needed any more."""
        if self._stopped():
            raise Cancelled("stopped while evidence was measured", "What was there before is kept")

    def state(self, view: str) -> DecodeState:
        """The view, prefilled."""
        if view not in self._states:
            self._states[view] = self.context.prefill(self.views[view])
        return self._states[view]

    @cached_property
    def coverage(self) -> NDArray[np.float64]:
        """(K, T, R, C) how much of each cell each object's mask covers, [0, 1].

        A smaller share counts as none, because soft masks have no edge.
        """
        covered = mean_to(to_host(self.masks.objects), self.grid)
        return np.where(covered < TRACE_OF_MASK, 0.0, covered)

    @cached_property
    def masks(self) -> MaskCompositor:
        """The run's own masks of the objects."""
        return self.context.masks(self.context.options.mask)

    def over(self, view: str) -> MaskCompositor:
        """The same masks and fill, over what a view shows."""
        return replace(self.masks, encoded=replace(self.encoded, video=self.views[view]))

    def read(self, hidden: Tensor) -> Tensor:
        """(B, d) last hidden states → (B,) the target's number."""
        logits = self.lm.read_out(hidden)
        number = logits[:, self.target.token]
        if self.target.against is not None:
            number = number - logits[:, self.target.against]
        return number

    def read_random(self, hidden: Tensor) -> Tensor:
        """(B,) the same by a head of random weights, the same ones each time.

        A row of the head is a direction; its length does not matter for the order of cells.
        """
        generator = torch.Generator().manual_seed(self.context.options.seed)
        row = torch.randn(hidden.shape[-1], generator=generator, dtype=torch.float64)
        return hidden.double() @ row.to(hidden.device)

    @torch.no_grad()
    def scores(self, view: str, videos: Tensor) -> tuple[NDArray[Any], NDArray[Any]]:
        """(B,) target's numbers of videos (B, T, 3, H, W), by the model's head and a random one.

        What the videos share with the view is not read again.
        """
        hidden = self.lm.answer_hidden(self.encoded, videos, self.prefix, reuse=self.state(view))
        return to_host(self.read(hidden).double()), to_host(self.read_random(hidden))

    def unhidden(self, view: str) -> tuple[NDArray[Any], NDArray[Any]]:
        """`scores` of the view itself, (1,) each, read once."""
        if view not in self._unhidden:
            self._unhidden[view] = self.scores(view, self.views[view][None])
        return self._unhidden[view]

    def score(self, view: str) -> float:
        """The target's number under a view."""
        number = float(self.unhidden(view)[0][0])
        if not np.isfinite(number):
            raise NumericalError("the token's logit is not finite", HALF_OR_DAMAGED)
        return number

    def before_last(self, view: str) -> tuple[DecodeState, int]:
        """The state before the token that predicts the target is read, and that token."""
        line = [int(to_host(self.encoded.input_ids[0, -1])), *self.prefix]
        state = self.lm.crop(self.state(view), self.state(view).prompt - 1)
        for token in line[:-1]:
            state = self.lm.step(state, [token])
        return state, line[-1]

    def spread(self, of_tokens: Tensor) -> NDArray[np.float64]:
        """(N,) by vision token → (T, R, C): a token's amount is shared by its frames and cells."""
        patches, rows, columns = self.encoded.token_grid
        placed = to_host(of_tokens)[to_host(self.lm.placed(self.encoded))]
        amounts = placed.astype(np.float64).reshape(patches, rows, columns)
        times = self.grid[0] // rows
        fine = amounts.repeat(times, 1).repeat(times, 2) / times**2
        values = np.zeros((len(self.encoded.video), *self.grid))
        for group, frames in enumerate(self.encoded.groups):
            values[list(frames)] = fine[group] / len(frames)
        return values

    def region(self, box: Sequence[float]) -> NDArray[np.float64]:
        """(T, R, C) how much of each cell a box in shares of the source frame covers."""
        frames = self.encoded.frames
        return mean_to(inside_of(box, frames)[None], self.grid).repeat(len(frames.pixels), 0)

    def tokens_in(self, coverage: NDArray[np.float64]) -> tuple[int, ...]:
        """Vision tokens of a region (T, R, C): those it covers to a quarter.

        In a frame group where it covers none that far, the one it covers most. In the order of the
        prompt.
        """
        by_token = mean_to(coverage, self.tokens_of_frame)
        chosen: list[int] = []
        each = by_token[0].size
        for group, frames in enumerate(self.encoded.groups):
            covered = by_token[list(frames)].max(0).ravel()
            if covered.max() <= 0:
                continue
            enough = covered >= min(ENOUGH, float(covered.max()))
            chosen += (group * each + np.flatnonzero(enough)).tolist()
        return tuple(chosen)
