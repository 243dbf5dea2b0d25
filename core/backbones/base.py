"""What reads a clip and a question, wherever its weights are, and the data it returns.

`Reader` is what any process may hold: it gives log-probabilities of tokens. A model in this process
is a `core.backbones.local.LocalLM`, which has gradients and caches too. Knows neither masks nor
decoding rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.host import to_host
from macd_studio.core.checkpoint.adapter import Adapter
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.options import Fit
from macd_studio.core.records import CAPABILITIES
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.types import Clip, ModelFrames, Pixels, Progress


@dataclass(frozen=True)
class BackboneInfo:
    """Who the model is."""

    name: str
    family: str
    parameters: int
    device: str
    dtype: str
    revision: str = ""
    """Commit on the hub, empty for a folder."""
    domain: str = ""
    """What it was trained on, where that is narrower than everyday video."""
    domain_title: str = ""
    resample: str = ""
    """The filter that frames are really resized with, which may not be the one its processor asks
    for."""
    cap_pixels_per_frame: bool | None = None
    """Whether frames share a budget of pixels; None where the family has none."""
    repetition_penalty: float = 1.0
    """Repetition penalty of its generation config, taken after the contrast; 1 changes nothing."""
    quantised: str = ""
    """How its weights are packed, empty where they are not."""
    held_bytes: int = 0
    """What the packed weights take."""
    offloaded: str = ""
    """The places that hold the weights, where that is not the device alone."""
    weights_hash: str = ""
    """Hash of the weights, see `core.checkpoint.files.weights_hash`."""
    adapter: Adapter | None = None
    """The adapter that was applied over the weights."""
    server: str = ""
    """The program that holds the model, where that is another process; else empty."""
    log_p_error: float = 0.0
    """How far each log-probability of a server may be off, nats; 0 without a server."""
    video_log_p_error: float = 0.0
    """The same of the plain video alone; 0 where `log_p_error` holds of it too."""

    @property
    def weight_bytes(self) -> int:
        """What the weights take."""
        if self.held_bytes:
            return self.held_bytes
        dtype: torch.dtype = getattr(torch, self.dtype.removeprefix("torch."))
        return self.parameters * dtype.itemsize


@dataclass(frozen=True, eq=False)
class Encoded:
    """One clip and one question, ready for the model."""

    question: str
    prompt: str
    input_ids: Tensor
    """(1, L) ids of the prompt's tokens."""
    query: Tensor
    """(Q,) positions of the question's tokens, and of nothing else."""
    video: Tensor
    """(T, 3, h, w) float, the frames normalised by `normalise`, and nothing else, so that equal
    frames give equal videos."""
    frames: ModelFrames
    """What the model reads, in 8 bits."""
    gather: Tensor
    """Index into a flattened video that gives the model's own pixel tensor, so that layouts stay
    exact and differentiable."""
    mean: Tensor
    std: Tensor
    """`mean` and `std`: (3,), video = (rgb − mean)/std with rgb in [0, 1]."""
    groups: tuple[tuple[int, ...], ...]
    """Frames of each temporal patch."""
    inputs: Mapping[str, Any]
    """Further inputs of the family's model."""
    vision_tokens: int = 0
    notes: tuple[str, ...] = field(default=())
    thought: tuple[int, ...] = ()
    """The last tokens of `input_ids`, which the model wrote itself before its answer."""

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


def outside_rgb(video: Tensor, mean: Tensor, std: Tensor) -> float:
    """The share of values of a video (…, 3, h, w), normalised, that `to_pixels` clamps."""
    rgb = (video.detach().float() * std[:, None, None] + mean[:, None, None]) * 255
    return float(((rgb.round() < 0) | (rgb.round() > 255)).float().mean())


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


Handle = Any
"""Views that a reader has read, one row each. Only the reader knows what is in it."""


@dataclass(frozen=True, eq=False)
class Forced:
    """Views read with given tokens after the prompt, each after those before it.

    question: gives (B, Q) log p of the question's tokens. rows: index of a token → a row for each
    view, of what may stand at its place; it holds the token, and those that are named beside it.
    """

    question: Callable[[], NDArray[np.float64]]
    rows: Callable[[int, Sequence[int]], Sequence[NextTokenLogits]]


class Reader(ABC):
    """A frozen video language model as something that reads clips and says what follows.

    What it has read is known by handles that only it can open: `prefill` gives one.
    """

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
    rounds: bool = False
    """Whether it rounds every view to 8 bits, so that what lies outside RGB is clamped."""

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

    def reading(self, picture: bool) -> Reader:
        """What reads such clips: another way for pictures where the model has one, else itself."""
        return self

    def stopping_when(
        self, cancelled: Callable[[], bool], waiting: Progress | None = None
    ) -> Reader:
        """What reads the same, and raises Cancelled soon after `cancelled` gives True.

        waiting: says whom it waits for, as long as that one is silent. Itself where nothing that
        it does is waited for long.
        """
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

    def most_pixels(self, frames: int) -> int | None:
        """About the most pixels that its processor gives one of so many frames; None: unknown."""
        return None

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
    def prefill(
        self,
        encoded: Encoded,
        video: Tensor,
        prune: Prune | None = None,
        reuse: Handle | None = None,
    ) -> Handle:
        """Reads the prompt with one view (T, 3, H, W), or with several (B, T, 3, H, W).

        prune: for these views only. reuse: the handle of one view of the same prompt, with which
        what both share need not be read again. It changes the cost and nothing else.
        """

    def frame_features(self, encoded: Encoded, reuse: Handle | None = None) -> NDArray[np.float64]:
        """(G, d) what its vision tower makes of each temporal patch, mean over the patch's tokens.

        reuse: see `prefill`. Raises NotApplicable where the tower cannot be read by itself.
        """
        raise NotApplicable(
            f"the vision features of {self.info.name} cannot be read by themselves",
            "Choose the features of a CLIP, or another method",
        )

    @abstractmethod
    def prefill_text(self, question: str, thought: Sequence[int] = ()) -> Handle:
        """Reads the prompt of the question alone, without any video, and a thought after it."""

    @abstractmethod
    def question_log_p(self, encoded: Encoded, views: Handle) -> NDArray[np.float64]:
        """(B, Q) log p of the question's tokens, each after the tokens before it in the prompt."""

    @abstractmethod
    def next_logits(
        self,
        views: Handle,
        tokens: Sequence[int] = (),
        ids: Sequence[int] = (),
        whole: bool = False,
    ) -> list[NextTokenLogits]:
        """What follows in each view after `tokens`, which are fed to every one of them.

        ids: tokens that the rows must hold beside the best ones. whole: of every token, which a
        reader with the capability "rows" can give. The handle stays as it is.
        """

    @abstractmethod
    def prompt_of(self, views: Handle) -> Sequence[int]:
        """The tokens of the prompt that the views were read with."""

    def has_plain_prompt(self, views: Handle) -> bool:
        """Whether views are frames as they are, as `video_log_p_error` has it.

        True of a reader in this process, which is not asked for certificates.
        """
        return True

    def forced(
        self,
        encoded: Encoded,
        videos: Tensor,
        tokens: Sequence[int],
        reuse: Handle | None = None,
    ) -> Forced:
        """Reads views (B, T, 3, H, W) with `tokens` after the prompt; in one pass where it can."""
        views = self.prefill(encoded, videos, reuse=reuse)

        def rows(index: int, ids: Sequence[int] = ()) -> list[NextTokenLogits]:
            return self.next_logits(views, tokens[:index], [tokens[index], *ids])

        return Forced(lambda: self.question_log_p(encoded, views), rows)

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
    def text(self, tokens: Sequence[int]) -> str:
        """Tokens → text, special tokens left out."""

    @abstractmethod
    def tokens(self, text: str) -> list[int]:
        """Text → tokens, without special ones."""

    @abstractmethod
    def token_text(self, token: int) -> str:
        """One token's exact text; special tokens and byte fallbacks visible."""

    @property
    @abstractmethod
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end an answer."""
