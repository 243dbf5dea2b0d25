"""A model in this process: gradients, caches that can be joined and cropped, hidden states."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.base import Encoded, Forced, Prune, Reader
from macd_studio.core.backbones.host import to_host
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.token_logits import NextTokenLogits


def widen(logits: Tensor) -> Tensor:
    """Logits in float32, or float64 where they are."""
    return logits if logits.dtype == torch.float64 else logits.float()


@dataclass(frozen=True, eq=False)
class VisionCache:
    """What a prefill saw, so that another view can take over what both share.

    video: (B, T, 3, H, W). features: the vision tower's output by temporal patch, (B, G, n, d); one
    tensor, and one more for every decoder layer that is fed features of its own.
    """

    video: Tensor
    features: tuple[Tensor, ...]


@dataclass(eq=False)
class DecodeState:
    """Views being decoded together: next-token logits (B, V), their cache, and how far they are."""

    logits: Tensor
    cache: Any
    length: int
    """Tokens in the cache."""
    prompt: int
    """Tokens of the cache that belong to the prompt."""
    query_logits: Tensor | None = None
    """(B, Q, V), what predicted the question's tokens; it and `vision` come from a prefill only."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    """What the family needs to go on, such as the next position and where the vision tokens are."""
    prune: Prune | None = None
    """What hides vision tokens, from the prefill on."""
    vision: VisionCache | None = None
    hidden: Tensor | None = None
    """(B, N) bool, the vision tokens that `prune` hid when the logits were computed."""
    prompt_tokens: tuple[int, ...] = ()
    """Ids of the prompt, after a prefill and what selects rows of one."""


@dataclass(frozen=True)
class Watch:
    """What the steps inside `LocalLM.watching` keep, and what they are not let see.

    attention: decoder layers, counted from 0, whose last row of attention is kept. lens: whether
    the hidden state after each layer is read out. blocked: indices of vision tokens, in the order
    of the prompt, that no query attends to in `blocked_layers`.
    """

    attention: tuple[int, ...] = ()
    lens: bool = False
    blocked: tuple[int, ...] = ()
    blocked_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.attention and self.blocked:
            raise ValueError("attention is computed without the mask that blocks tokens")


@dataclass(eq=False)
class Watched:
    """What the last step inside `LocalLM.watching` left behind.

    attention: by layer, (B, N) of the last query to each vision token, mean over heads; the rest of
    a row's 1 goes to text. lens: (B, V) logits read out after each layer, the last those of the
    model.
    """

    attention: dict[int, Tensor] = field(default_factory=dict)
    lens: list[Tensor] = field(default_factory=list)


MAX_LOGITS = 2**26
"""Logits that are held at once, a quarter of a gigabyte; above, tokens are stepped one by one."""


class LocalLM(Reader):
    """A frozen video language model, mostly differentiable with respect to its pixels."""

    vocabulary: int = 0
    """Tokens that the head tells apart; 0 where that is not known."""

    def reading(self, picture: bool) -> LocalLM:
        """See `Reader.reading`."""
        return self

    @abstractmethod
    def query_logits(
        self,
        encoded: Encoded,
        video: Tensor,
        low_memory: bool = False,
        reuse: DecodeState | None = None,
        changed_frames: Tensor | None = None,
    ) -> Tensor:
        """(Q, V) float logits that predict the question's tokens, with a graph back to `video`.

        low_memory: keeps few activations and computes the rest again on the way back; same result.
        reuse: see `prefill`; changed_frames: (T,) bool, the frames that `video` can differ on from
        that one. Gradients reach no other frame.
        """

    @abstractmethod
    def prefill(
        self,
        encoded: Encoded,
        video: Tensor,
        prune: Prune | None = None,
        reuse: DecodeState | None = None,
        graph: bool = False,
    ) -> DecodeState:
        """Runs the prompt of one view (T, 3, H, W), or of several (B, T, 3, H, W) in one pass.

        A DecodeState of one row per view. prune: for these views only. reuse: the prefill of one
        view of the same prompt; what both share is taken over, the features of temporal patches
        that are equal and the cache up to the first that is not. It changes the cost and nothing
        else. graph: `query_logits` keep a graph back to `video`; the rest never has one.
        """

    def prefill_mixed(self, encoded: Encoded, video: Tensor, share: float) -> DecodeState:
        """Runs the prompt of one view (T, 3, H, W) whose frames are mixed inside the vision tower.

        After each of its layers every temporal patch's states become (1 − share)·h + share·mean of
        h over the patches. Raises NotApplicable where the layers are not known to be reached.
        """
        raise NotApplicable(
            f"the layers of the vision tower of {self.info.name} cannot be changed",
            "Choose another method or another backbone",
        )

    def prefill_with_graph(self, encoded: Encoded, video: Tensor) -> tuple[DecodeState, Tensor]:
        """A view's prefill, and its logits (Q, V) of the question with a graph back to `video`."""
        state = self.prefill(encoded, video, graph=True)
        assert state.query_logits is not None
        return replace(state, query_logits=state.query_logits.detach()), state.query_logits[0]

    @torch.no_grad()
    def question_log_p(self, encoded: Encoded, views: DecodeState) -> NDArray[np.float64]:
        """See `Reader.question_log_p`; of a prefill, which has not been stepped."""
        assert views.query_logits is not None
        log_p = views.query_logits.log_softmax(-1)
        of_tokens = log_p[:, range(len(encoded.query)), encoded.input_ids[0, encoded.query]]
        return np.asarray(to_host(of_tokens), np.float64)

    @torch.no_grad()
    def next_logits(
        self,
        views: DecodeState,
        tokens: Sequence[int] = (),
        ids: Sequence[int] = (),
        whole: bool = True,
    ) -> list[NextTokenLogits]:
        """See `Reader.next_logits`: of the whole vocabulary."""
        if tokens:
            rows = range(len(views.logits))
            views = self.advance(self.select(views, rows), [list(tokens) for _ in rows])
        return [NextTokenLogits(logits) for logits in to_host(views.logits)]

    @abstractmethod
    def prefill_question(self, question: str) -> DecodeState:
        """Runs the prompt of the question alone, without any video; a DecodeState of one row."""

    def prefill_text(self, question: str, thought: Sequence[int] = ()) -> DecodeState:
        """See `Reader.prefill_text`."""
        state = self.prefill_question(question)
        if not thought:
            return state
        state = self.advance(state, [thought])
        return replace(state, prompt=state.length)

    def prompt_of(self, views: DecodeState) -> Sequence[int]:
        """See `Reader.prompt_of`."""
        return views.prompt_tokens

    @torch.no_grad()
    def forced(
        self,
        encoded: Encoded,
        videos: Tensor,
        tokens: Sequence[int],
        reuse: DecodeState | None = None,
    ) -> Forced:
        """See `Reader.forced`: one pass over the prompt and the tokens, where its logits fit."""
        longer, asked = self.continue_prompt(encoded, tokens), len(encoded.query)
        if len(videos) * (asked + len(tokens)) * self.vocabulary > MAX_LOGITS:
            return super().forced(encoded, videos, tokens, reuse)
        both = replace(longer, query=torch.cat([encoded.query, longer.query]))
        views = self.prefill(both, videos, reuse=reuse)
        assert views.query_logits is not None
        logits = views.query_logits
        question = replace(views, query_logits=logits[:, :asked])

        def rows(index: int, ids: Sequence[int] = ()) -> list[NextTokenLogits]:
            return [NextTokenLogits(row) for row in to_host(logits[:, asked + index])]

        return Forced(lambda: self.question_log_p(encoded, question), rows)

    @abstractmethod
    def join(self, states: Sequence[DecodeState]) -> DecodeState:
        """States of one length and pruning → one DecodeState, rows in order. The originals stay.

        Of all, `prompt_tokens` are the first one's.
        """

    @abstractmethod
    def select(self, state: DecodeState, rows: Sequence[int]) -> DecodeState:
        """The given rows in that order, repeated ones copied. The original state is kept."""

    @abstractmethod
    def crop(self, state: DecodeState, length: int) -> DecodeState:
        """The state as it was `length` tokens into the cache; step it before reading logits."""

    @abstractmethod
    def step(self, state: DecodeState, tokens: Sequence[int]) -> DecodeState:
        """Feeds one token to every row; returns the state after it."""

    def advance(self, state: DecodeState, tokens: Sequence[Sequence[int]]) -> DecodeState:
        """Feeds every row its tokens, as many to each; returns the state after the last.

        What `step` does to the state for each token in turn; in one pass where the model can.
        """
        for column in zip(*tokens, strict=True):
            state = self.step(state, column)
        return state

    # what only the evidence of a token needs; a model without it can do everything else

    @property
    def depth(self) -> int:
        """Decoder layers."""
        raise self._no_evidence()

    def answer_hidden(
        self,
        encoded: Encoded,
        video: Tensor,
        answer: Sequence[int] = (),
        low_memory: bool = False,
        reuse: DecodeState | None = None,
    ) -> Tensor:
        """(B, d) last hidden state that predicts the token after `answer`, which is read with it.

        video: one view (T, 3, H, W) or several (B, T, 3, H, W); where it requires a gradient, the
        result has a graph back to it. low_memory, reuse: see `query_logits` and `prefill`.
        """
        raise self._no_evidence()

    def read_out(self, hidden: Tensor) -> Tensor:
        """Last hidden states (…, d) → float logits (…, V)."""
        raise self._no_evidence()

    def watching(self, state: DecodeState, watch: Watch) -> AbstractContextManager[Watched]:
        """While inside, each `step` of a state like this one is watched; see `Watch`."""
        raise self._no_evidence()

    @property
    def attention_layers(self) -> tuple[int, ...]:
        """The decoder layers, from 0, whose attention `watching` can give."""
        return tuple(range(self.depth))

    def placed(self, encoded: Encoded) -> Tensor:
        """Which vision tokens, in the order of the prompt, fill `Encoded.token_grid`, flattened.

        Raises NotApplicable where that is not known.
        """
        return torch.arange(encoded.vision_tokens)

    def _no_evidence(self) -> NotApplicable:
        return NotApplicable(
            f"{self.info.name} cannot say where its evidence lies", "Choose another backbone"
        )


def device_of(name: str = "auto") -> torch.device:
    """ "auto" takes the GPU where there is one. Raises OptionError for a device that is not."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or (device.type == "cuda" and not torch.cuda.is_available()):
        raise OptionError(f"there is no device {name!r} here", "Choose auto or cpu")
    return device
