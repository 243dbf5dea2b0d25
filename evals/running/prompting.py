"""Backbones that ask otherwise: in a benchmark's prompt, or for all views in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from macd_studio.core.backbones.base import Encoded, Prune, Reader
from macd_studio.core.backbones.local import DecodeState, LocalLM
from macd_studio.core.options import Fit
from macd_studio.core.run.order import DecodingViews
from macd_studio.core.types import Clip, ModelFrames, Progress


class PromptedLM:
    """The model, with text around each question that is asked of it.

    Views that encode the question again, on fewer or smaller frames, ask in the same prompt.
    """

    def __init__(self, lm: Reader, before: str, after: str) -> None:
        self._lm, self._before, self._after = lm, before, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)

    def reading(self, picture: bool) -> PromptedLM:
        """See `LocalLM.reading`; the prompt stays."""
        return PromptedLM(self._lm.reading(picture), self._before, self._after)

    def stopping_when(
        self, cancelled: Callable[[], bool], waiting: Progress | None = None
    ) -> PromptedLM:
        """See `Reader.stopping_when`; the prompt stays."""
        return PromptedLM(self._lm.stopping_when(cancelled, waiting), self._before, self._after)

    def encode_frames(
        self, frames: ModelFrames, question: str, suffix: str = "", before: str = ""
    ) -> Encoded:
        """See `LocalLM.encode_frames`; these arguments come nearer to the question."""
        return self._lm.encode_frames(frames, question, suffix + self._after, self._before + before)

    def encode(self, clip: Clip, question: str, suffix: str = "", fit: Fit = "pad") -> Encoded:
        """See `LocalLM.encode`."""
        return self.encode_frames(self._lm.preprocess(clip, fit), question, suffix)


BATCH = 16


@dataclass(frozen=True, eq=False)
class DeferredState:
    """Stands for a DecodeState until the views are read."""

    index: int


class GatheringLM:
    """A LocalLM that only notes the views it is asked to prefill; everything else is the model's.

    Views of another prompt, and pruned ones, are read at once: they fit no common batch.
    """

    def __init__(self, lm: LocalLM) -> None:
        self._lm = lm
        self._encoded: Encoded | None = None
        self._videos: list[Tensor] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)

    def query_logits(
        self, encoded: Encoded, video: Tensor, low_memory: bool = False, *_: Any
    ) -> Tensor:
        """The model's, sharing nothing: the base is deferred still."""
        return self._lm.query_logits(encoded, video, low_memory)

    def prefill(
        self,
        encoded: Encoded,
        video: Tensor,
        prune: Prune | None = None,
        reuse: DecodeState | None = None,
        graph: bool = False,
    ) -> Any:
        """A DeferredState, or the DecodeState where it cannot wait."""
        self._encoded = self._encoded or encoded
        if graph or prune is not None or encoded is not self._encoded or video.ndim != 4:
            return self._lm.prefill(encoded, video, prune, _read(reuse), graph)
        self._videos.append(video)
        return DeferredState(len(self._videos) - 1)

    def prefill_with_graph(self, encoded: Encoded, video: Tensor) -> tuple[DecodeState, Tensor]:
        """The model's; other views of its prompt are gathered."""
        self._encoded = self._encoded or encoded
        return self._lm.prefill_with_graph(encoded, video)

    def join(self, states: Sequence[Any]) -> DecodeState:
        """The model's, for a view that is decoded from before the others are read."""
        return self._lm.join([self._now(s) for s in states])

    def _now(self, state: Any) -> DecodeState:
        if not isinstance(state, DeferredState):
            read: DecodeState = state
            return read
        assert self._encoded is not None
        return self._lm.prefill(self._encoded, self._videos[state.index])

    def resolve(self, deferred: list[DecodingViews]) -> list[DecodingViews]:
        """The same views, prefilled."""
        states: list[DecodeState] = []
        for at in range(0, len(self._videos), BATCH):
            assert self._encoded is not None
            views = torch.stack(self._videos[at : at + BATCH])
            whole = self._lm.prefill(self._encoded, views)
            states += [self._lm.select(whole, [i]) for i in range(len(views))]

        def state(maybe_deferred: Any) -> Any:
            return (
                states[maybe_deferred.index]
                if isinstance(maybe_deferred, DeferredState)
                else maybe_deferred
            )

        def read(views: DecodingViews) -> DecodingViews:
            assert views.built is not None
            seconds = tuple(replace(z, state=state(z.state)) for z in views.seconds)
            built = replace(views.built, seconds=seconds)
            return replace(views, base=state(views.base), built=built)

        return [read(views) for views in deferred]


def _read(reuse: Any) -> DecodeState | None:
    """What is read already; None for a state that is still deferred: nothing is shared with it."""
    return None if isinstance(reuse, DeferredState) else reuse
