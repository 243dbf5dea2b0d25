"""The interface of a backbone, and the data it returns. Knows neither masks nor decoding rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.host import to_host
from macd_studio.core.checkpoint.adapter import Adapter
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.options import Fit
from macd_studio.core.records import CAPABILITIES
from macd_studio.core.types import Clip, ModelFrames, Pixels


@dataclass(frozen=True)
class BackboneInfo:
    """Who the model is. revision: commit on the hub, empty for a folder.

    domain: what it was trained on, where that is narrower than everyday video. resample: the filter
    that frames are really resized with, which may not be the one its processor asks for.
    cap_pixels_per_frame: whether frames share a budget of pixels; None where the family has none.
    repetition_penalty: of its generation config, taken after the contrast; 1 changes nothing.
    quantised: how its weights are packed, empty where they are not; held_bytes: what they take
    then. offloaded: the places that hold them where that is not the device alone. weights_hash: see
    `core.checkpoint.files.weights_hash`. adapter: what was applied over the weights.
    """

    name: str
    family: str
    parameters: int
    device: str
    dtype: str
    revision: str = ""
    domain: str = ""
    domain_title: str = ""
    resample: str = ""
    cap_pixels_per_frame: bool | None = None
    repetition_penalty: float = 1.0
    quantised: str = ""
    held_bytes: int = 0
    offloaded: str = ""
    weights_hash: str = ""
    adapter: Adapter | None = None

    @property
    def weight_bytes(self) -> int:
        """What the weights take."""
        if self.held_bytes:
            return self.held_bytes
        dtype: torch.dtype = getattr(torch, self.dtype.removeprefix("torch."))
        return self.parameters * dtype.itemsize


@dataclass(frozen=True, eq=False)
class Encoded:
    """One clip and one question, ready for the model.

    input_ids: (1, L). query: (Q,) positions of the question's tokens, and of nothing else.
    frames: what the model reads, in 8 bits. video: (T, 3, h, w) float, the same normalised by
    `normalise`, and nothing else, so that equal frames give equal videos. gather: index into a
    flattened video that gives the model's own pixel tensor, so that layouts stay exact and
    differentiable. mean, std: (3,), video = (rgb − mean)/std with rgb in [0, 1]. groups: frames of
    each temporal patch. inputs: the family's further inputs. thought: the last tokens of
    `input_ids`, which the model wrote itself before its answer.
    """

    question: str
    prompt: str
    input_ids: Tensor
    query: Tensor
    video: Tensor
    frames: ModelFrames
    gather: Tensor
    mean: Tensor
    std: Tensor
    groups: tuple[tuple[int, ...], ...]
    inputs: Mapping[str, Any]
    vision_tokens: int = 0
    notes: tuple[str, ...] = field(default=())
    thought: tuple[int, ...] = ()

    @property
    def token_grid(self) -> tuple[int, int, int]:
        """Vision tokens by temporal patch, row and column, in the order of the prompt."""
        patches, (height, width) = len(self.groups), self.frames.size
        each = self.vision_tokens // patches
        rows = max(1, round((each * height / width) ** 0.5))
        return patches, rows, each // rows

    def layout(self, video: Tensor) -> Tensor:
        """(T, 3, H, W) → the pixel tensor the model takes; exact and differentiable.

        Of views (B, T, 3, H, W) the pixel tensors follow each other along the first axis.
        """
        if video.ndim == 4:
            return video.reshape(-1)[self.gather]
        return torch.cat([self.layout(v) for v in video])


MAX_STRETCH = 1.05
"""A source frame may look this much wider or narrower than it is before it is padded instead."""


def normalise(pixels: Pixels, mean: Tensor, std: Tensor) -> Tensor:
    """(T, h, w, 3) RGB 0-255 → (T, 3, h, w) float32, (rgb/255 − mean)/std."""
    rgb = torch.from_numpy(np.array(pixels)).permute(0, 3, 1, 2).float()
    return (rgb - 255 * mean[:, None, None]) / (255 * std[:, None, None])


def to_pixels(video: Tensor, mean: Tensor, std: Tensor) -> Pixels:
    """The inverse of `normalise`, (…, 3, h, w) → (…, h, w, 3); what lies outside RGB is clamped."""
    rgb = (video.detach().float() * std[:, None, None] + mean[:, None, None]) * 255
    return to_host(rgb.round().clamp(0, 255).byte().movedim(-3, -1).contiguous())


def widen(logits: Tensor) -> Tensor:
    """Logits in float32, or float64 where they are."""
    return logits if logits.dtype == torch.float64 else logits.float()


@dataclass(frozen=True)
class Prune:
    """From decoder layer `layer` on, all but the least-attended `ratio` of vision tokens hide.

    Attention is that of the last query row at the layer before, mean over heads, chosen again at
    every step (SID).
    """

    layer: int
    ratio: float

    def kept(self, vision_tokens: int) -> int:
        """How many vision tokens stay, at least one: 100 of 576 by default."""
        return max(1, round(self.ratio * vision_tokens))


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
    """Views being decoded together: next-token logits (B, V), their cache, and how far they are.

    length: tokens in the cache; prompt: tokens of it that belong to the prompt. hidden: (B, N)
    bool, the vision tokens that `prune` hid when the logits were computed.
    query_logits: (B, Q, V), what predicted the question's tokens; it and `vision` come from a
    prefill only. inputs: what the family needs to go on, its own business: the next position, and
    where the vision tokens are. prune: what hides them, from the prefill on. prompt_tokens: ids of
    the prompt, after a prefill and what selects rows of one.
    """

    logits: Tensor
    cache: Any
    length: int
    prompt: int
    query_logits: Tensor | None = None
    inputs: Mapping[str, Any] = field(default_factory=dict)
    prune: Prune | None = None
    vision: VisionCache | None = None
    hidden: Tensor | None = None
    prompt_tokens: tuple[int, ...] = ()


@dataclass(frozen=True)
class Watch:
    """What the steps inside `VideoLM.watching` keep, and what they are not let see.

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
    """What the last step inside `VideoLM.watching` left behind.

    attention: by layer, (B, N) of the last query to each vision token, mean over heads; the rest of
    a row's 1 goes to text. lens: (B, V) logits read out after each layer, the last those of the
    model.
    """

    attention: dict[int, Tensor] = field(default_factory=dict)
    lens: list[Tensor] = field(default_factory=list)


class VideoLM(ABC):
    """A frozen video language model, mostly differentiable with respect to its pixels."""

    info: BackboneInfo
    notes: tuple[str, ...] = ()
    """What must be known of how its weights were read, and what libraries reported meanwhile."""
    thought_marks: tuple[int, int] | None = None
    """Tokens between which it thinks before it answers; None where its words have no such."""
    thinks: bool = False
    """Whether answers may begin with a thought: it has such tokens, and its chat template no switch
    that turns thinking off."""
    capabilities: frozenset[str] = frozenset(CAPABILITIES) - {"images"}
    """Of `core.records.CAPABILITIES`. What is missing makes a run cost more, or a method not
    applicable."""

    reasons: Mapping[str, str] = {}
    """Capability that was found lacking at load → why."""

    def need(self, *names: str) -> None:
        """Raises NotApplicable, with the reason, where the model lacks one of these."""
        for name in names:
            if name not in self.capabilities:
                why = f" ({self.reasons[name]})" if name in self.reasons else ""
                raise NotApplicable(
                    f"not with {self.info.name}: {CAPABILITIES[name]}{why}",
                    "Choose another method or another backbone",
                )

    def lose(self, name: str, reason: str) -> None:
        """Takes a capability that was found wanting."""
        self.capabilities = self.capabilities - {name}
        self.reasons = {**self.reasons, name: reason}

    def lacks(self, picture: bool) -> tuple[str, ...]:
        """The capabilities that it lacks. picture: whether a picture is asked about."""
        return tuple(
            n for n in CAPABILITIES if n not in self.capabilities and (picture or n != "images")
        )

    def reading(self, picture: bool) -> VideoLM:
        """What reads such clips: another way for pictures where the model has one, else itself."""
        return self

    @abstractmethod
    def preprocess(self, clip: Clip, fit: Fit = "pad") -> ModelFrames:
        """Source frames → the frames that this family reads.

        fit "pad": the source keeps its shape to within MAX_STRETCH, by the grid that fits best or
        by padding with the mean colour; "native": whatever the family's own processor does.
        """

    @abstractmethod
    def encode_frames(
        self, frames: ModelFrames, question: str, suffix: str = "", before: str = ""
    ) -> Encoded:
        """Model frames and question → prompt. `before` and `suffix` enclose the question.

        Neither is part of it: the query loss is over the question's own tokens.

        The pixels are read as they are: the same frames always give the same video. Raises
        QuestionError where the question holds one of the model's special tokens, and OptionError
        for frames of a size that the family cannot read.
        """

    def encode(self, clip: Clip, question: str, suffix: str = "", fit: Fit = "pad") -> Encoded:
        """Clip and question → prompt; see `preprocess` and `encode_frames`."""
        return self.encode_frames(self.preprocess(clip, fit), question, suffix)

    def shrink(self, frames: ModelFrames, size: tuple[int, int]) -> ModelFrames:
        """The frames at another size (h, w), rounded to what the family can read.

        Raises OptionError where the family reads frames of one size only.
        """
        raise OptionError(
            f"{self.info.name} reads frames of one size only", "Choose the exact gradient"
        )

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

    def continue_prompt(self, encoded: Encoded, tokens: Sequence[int]) -> Encoded:
        """The prompt with other tokens in the place of the question's: as `query`.

        So that `query_logits` of the result predict these tokens, each after those before it.
        """
        ids = encoded.input_ids
        start, more = ids.shape[1], torch.tensor([list(tokens)], dtype=ids.dtype, device=ids.device)
        return replace(
            encoded,
            input_ids=torch.cat([ids, more], 1),
            query=torch.arange(start, start + len(tokens), device=encoded.query.device),
        )

    def with_thought(self, encoded: Encoded, tokens: Sequence[int]) -> Encoded:
        """The prompt with a thought after it; its question stays what it was."""
        if not tokens:
            return encoded
        longer = self.continue_prompt(encoded, tokens)
        return replace(longer, query=encoded.query, thought=(*encoded.thought, *tokens))

    @abstractmethod
    def prefill_text(self, question: str) -> DecodeState:
        """Runs the prompt of the question alone, without any video; a DecodeState of one row."""

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

    @abstractmethod
    def text(self, tokens: Sequence[int]) -> str:
        """Tokens → text, special tokens left out."""

    @abstractmethod
    def tokens(self, text: str) -> list[int]:
        """Text → tokens, without special ones."""

    @abstractmethod
    def token_text(self, token: int) -> str:
        """One token's exact text; special tokens and byte fallbacks visible."""

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

    def _no_evidence(self) -> OptionError:
        return OptionError(
            f"{self.info.name} cannot say where its evidence lies", "Choose another backbone"
        )

    @property
    @abstractmethod
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end an answer."""


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
