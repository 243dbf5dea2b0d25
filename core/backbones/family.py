"""What a family of transformers' video language models says of itself.

How its pixels are laid out, which inputs go with them, and where its decoder is; `HfVideoLM` does
the rest with it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.base import BackboneInfo, Encoded
from macd_studio.core.backbones.generation import repetition_penalty
from macd_studio.core.backbones.prompt import (
    TokenizerLM,
)
from macd_studio.core.backbones.sizes import (
    cap_pixels,
    own_copy,
    resampling_of,
)
from macd_studio.core.backbones.weights import device_of_model


class VideoFamily(TokenizerLM):
    """A transformers model with its processor, and what its family says; parameters are frozen.

    pixels: name of the model's pixel input. query_prefix: what the processor writes between the
    video and the question. min_frames: the fewest frames that the processor takes.
    """

    pixels = "pixel_values_videos"
    query_prefix = ""
    min_frames = 1

    def __init__(self, model: Any, processor: Any, info: BackboneInfo) -> None:
        processor, video = own_copy(processor)
        self.info = replace(
            info,
            resample=resampling_of(video),
            cap_pixels_per_frame=cap_pixels(video),
            repetition_penalty=repetition_penalty(model.generation_config, info.name),
        )
        self.model = model.eval().requires_grad_(False)
        super().__init__(processor, model.generation_config)
        self.device, self.dtype = device_of_model(model), model.dtype
        self.vocabulary = model.config.get_text_config(decoder=True).vocab_size
        self.mean, self.std = (torch.tensor(z) for z in (video.image_mean, video.image_std))

    # `out` is what the processor gave for one clip and one prompt

    @property
    @abstractmethod
    def marker(self) -> str:
        """Text of the rendered prompt after which only the question comes."""

    @property
    @abstractmethod
    def vision_token(self) -> int:
        """Id of the tokens that stand for pixels."""

    @property
    @abstractmethod
    def decoder(self) -> Any:
        """The language model without its head."""

    @property
    def temporal(self) -> int:
        """Frames in one temporal patch."""
        return 1

    @abstractmethod
    def index(self, out: Mapping[str, Any], frames: int) -> Tensor:
        """Index into a flattened (T, 3, H, W) video that gives the model's pixel tensor."""

    @abstractmethod
    def shape(self, out: Mapping[str, Any], frames: int) -> tuple[int, int, int, int]:
        """(T, 3, H, W) of the processed video."""

    @abstractmethod
    def encode_patches(self, encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """The vision tower on some temporal patches, each of them alone: (M, n, d).

        views: (B, T, 3, H, W); at: (M, 2) long, view and temporal patch. More than one tensor
        where decoder layers are fed features of their own; see `deepstack_inputs`.
        """

    def deepstack_inputs(
        self, features: Sequence[Tensor], slots: Tensor, length: int
    ) -> dict[str, Any]:
        """The decoder's inputs other than embeddings.

        features: (B, N, d) each, for the tokens at `slots` (N,) of the `length` it reads.
        """
        return {}

    def extra_inputs(self, out: Mapping[str, Any], ids: Tensor) -> dict[str, Any]:
        """Inputs that the family needs in addition to pixels."""
        return {}

    def positions(self, encoded: Encoded, first: int, views: int) -> Tensor:
        """Explicit positions of the prompt's tokens from `first` on."""
        length = encoded.input_ids.shape[1]
        return torch.arange(first, length, device=self.device).expand(views, -1)

    def grids(
        self, frames: int, native: tuple[int, int], source: tuple[int, int]
    ) -> list[tuple[int, int]]:
        """Sizes (h, w) of a model frame that come into question for a source of (H, W).

        native: the processor's own choice.
        """
        return [native]

    @abstractmethod
    def reads(self, size: tuple[int, int]) -> bool:
        """Whether the model can read frames of (h, w) as they are."""

    def clock(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """The times (T,) that the family's positions and timestamps count from."""
        return times

    def nested(self, videos: list[Any]) -> list[Any]:
        """One prompt's videos as the processor takes them."""
        return videos

    def next_position(self, encoded: Encoded) -> int:
        """Position of the first token after the prompt."""
        return int(encoded.input_ids.shape[1])

    def step_positions(self, at: int, rows: int) -> Tensor:
        """Explicit positions of one token in every row; the model's own counter is shared state."""
        return torch.full((rows, 1), at, device=self.device)
