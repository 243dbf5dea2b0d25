"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL. Two frames make one temporal patch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from macd_studio.core.backbones.base import BackboneInfo, Encoded
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.positions import positions_of
from macd_studio.core.types import ModelFrames


class Qwen2VL(HfVideoLM):
    """A `Qwen2VLForConditionalGeneration`; also what its successors share with it.

    The video is one block without timestamps.

    splits_video: whether each temporal patch is a block of its own, with text between.
    """

    capabilities = HfVideoLM.capabilities - {"times"}
    marker = "<|vision_end|>"
    splits_video = False

    def __init__(self, model: Any, processor: Any, info: BackboneInfo) -> None:
        super().__init__(model, processor, info)
        group_windows(model.model.visual)
        embed_by_matrix(model.model.visual)
        self._index_of: dict[tuple[int, int, int, int], Tensor] = {}

    @property
    def temporal(self) -> int:
        """See `HfVideoLM.temporal`."""
        return int(self.processor.video_processor.temporal_patch_size)

    def shape(self, out: Mapping[str, Any], frames: int) -> tuple[int, int, int, int]:
        """See `HfVideoLM.shape`."""
        patch = int(self.processor.video_processor.patch_size)
        _, height, width = (int(n) for n in out["video_grid_thw"][0])
        return frames, 3, height * patch, width * patch

    def index(self, out: Mapping[str, Any], frames: int) -> Tensor:
        """Asks the processor itself where each value goes, by sending coordinates through it.

        Each coordinate is a small integer, exact in float32.
        """
        shape = self.shape(out, frames)
        if shape not in self._index_of:
            self._index_of = {shape: self._make_index(shape)}  # only the last one is worth keeping
        return self._index_of[shape]

    def _make_index(self, shape: tuple[int, int, int, int]) -> Tensor:
        index = torch.zeros(1, dtype=torch.long)
        for axis, n in enumerate(shape):
            view = [1, 1, 1, 1]
            view[axis] = n
            plane = torch.arange(n, dtype=torch.float32).reshape(view).expand(shape)
            if shape[0] < self.min_frames:
                plane = plane.expand(self.min_frames, -1, -1, -1)
            laid = self.processor.video_processor(
                [plane],
                do_resize=False,
                do_rescale=False,
                do_normalize=False,
                do_sample_frames=False,
                return_tensors="pt",
            )["pixel_values_videos"]
            index = index * n + laid.round().long()
        return index

    def encode_patches(self, encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, ...]:
        """See `HfVideoLM.encode_patches`; attention never leaves a temporal patch."""
        _, height, width = to_host(encoded.inputs["video_grid_thw"][0]).tolist()
        groups, place = torch.unique(at[:, 1], return_inverse=True)
        order = encoded.gather.view(len(encoded.groups), -1)[groups].flatten()
        laid = views.flatten(1).gather(1, order.expand(len(views), -1))  # (B, groups · P · pixels)
        patches = laid.view(len(views) * len(groups), height * width, -1)
        pixels = patches.index_select(0, at[:, 0] * len(groups) + place).flatten(0, 1)
        grid = torch.tensor([[len(at), height, width]], device=self.device)
        out = self.model.model.visual(pixels.to(self.dtype), grid_thw=grid)
        return tuple(f.view(len(at), -1, f.shape[-1]) for f in self.outputs(out))

    def outputs(self, out: Any) -> list[Tensor]:
        """What of the vision tower's output the decoder is given: (tokens, d) each."""
        return [out.pooler_output]

    def encode_frames(
        self, frames: ModelFrames, question: str, suffix: str = "", before: str = ""
    ) -> Encoded:
        """See `LocalLM.encode_frames`; notes where other programs count other positions."""
        encoded = super().encode_frames(frames, question, suffix, before)
        end = self.next_position(encoded) - 1
        blocks = len(encoded.groups) if self.splits_video else 1
        text = encoded.input_ids.shape[1] - encoded.vision_tokens
        theirs = text + blocks * (max(frames.size) // self.unit) - 1
        # no other program runs the weights of the demo, whose info names its narrow domain
        if self.info.domain or end == theirs:
            return encoded
        note = (
            f"the prompt ends at position {end}, as it did in training; transformers 5.3 and"
            f" later end it at {theirs}, so programs that use them unchanged may answer differently"
        )
        return replace(encoded, notes=(*encoded.notes, note))

    def extra_inputs(self, out: Mapping[str, Any], ids: Tensor) -> dict[str, Any]:
        """The grid, and explicit positions (3, 1, L)."""
        frames, height, width = (int(n) for n in out["video_grid_thw"][0])
        merge = int(self.processor.video_processor.merge_size)
        positions = positions_of(
            to_host(ids[0] == self.vision_token),
            (frames, height // merge, width // merge),
            self.time_step(out),
        )
        return {"video_grid_thw": out["video_grid_thw"], "position_ids": positions[:, None]}

    def positions(self, encoded: Encoded, first: int, views: int) -> Tensor:
        """See `HfVideoLM.positions`: time, row and column, (3, B, L − first)."""
        position_ids: Tensor = encoded.inputs["position_ids"][:, :, first:]
        return position_ids.expand(-1, views, -1)

    def continue_prompt(self, encoded: Encoded, tokens: Sequence[int]) -> Encoded:
        """See `LocalLM.continue_prompt`; text counts on in all three positions alike."""
        longer = super().continue_prompt(encoded, tokens)
        at = encoded.inputs["position_ids"]
        start = self.next_position(encoded)
        more = torch.arange(start, start + len(tokens), dtype=at.dtype, device=at.device)
        at = torch.cat([at, more.expand(*at.shape[:2], -1)], 2)
        return replace(longer, inputs={**encoded.inputs, "position_ids": at})

    @property
    def unit(self) -> int:
        """Sides of a model frame are multiples of this many pixels: a merged patch."""
        video = self.processor.video_processor
        return int(video.patch_size * video.merge_size)

    def pixel_bounds(self, frames: int) -> tuple[int, int]:
        """Fewest and most pixels that the processor gives one of so many frames."""
        size = self.processor.video_processor.size
        return int(size["shortest_edge"]), int(size["longest_edge"])

    def most_pixels(self, frames: int) -> int:
        """See `Reader.most_pixels`; sides are rounded up to whole units."""
        return 2 * self.pixel_bounds(frames)[1]

    def grids(
        self, frames: int, native: tuple[int, int], source: tuple[int, int]
    ) -> list[tuple[int, int]]:
        """See `HfVideoLM.grids`: for every height the widths around the source's aspect.

        Within the processor's bounds a frame gets no more pixels than the source has, as there.
        """
        unit, (fewest, most) = self.unit, self.pixel_bounds(frames)
        pixels = max(min(max(source[0] * source[1], fewest), most), native[0] * native[1])
        cells, aspect = pixels // unit**2, source[1] / source[0]
        return [
            (unit * rows, unit * max(1, min(columns, cells // rows)))
            for rows in range(1, cells + 1)
            for columns in (int(rows * aspect), int(rows * aspect) + 1)
        ]

    def reads(self, size: tuple[int, int]) -> bool:
        """See `HfVideoLM.reads`."""
        return all(n % self.unit == 0 for n in size)

    def shrink(self, frames: ModelFrames, size: tuple[int, int]) -> ModelFrames:
        """See `LocalLM.shrink`."""
        height, width = (self.unit * max(1, round(n / self.unit)) for n in size)
        pixels = np.stack(
            [
                np.asarray(Image.fromarray(f).resize((width, height), Image.Resampling.BICUBIC))
                for f in frames.pixels
            ]
        )
        across, down = width / frames.size[1], height / frames.size[0]
        x0, y0, x1, y1 = frames.content
        content = (round(x0 * across), round(y0 * down), round(x1 * across), round(y1 * down))
        return replace(frames, pixels=pixels, content=content)

    def time_step(self, out: Mapping[str, Any]) -> float:
        """Positions on the time axis from one temporal patch to the next."""
        return 1.0

    def next_position(self, encoded: Encoded) -> int:
        """See `HfVideoLM.next_position`: after the prompt's last token, which is text."""
        return int(to_host(encoded.inputs["position_ids"][0, 0, -1])) + 1

    def step_positions(self, at: int, rows: int) -> Tensor:
        """See `HfVideoLM.step_positions`."""
        return torch.full((3, rows, 1), at, device=self.device)


class Qwen25VL(Qwen2VL):
    """A `Qwen2_5_VLForConditionalGeneration`, the embedded backbone's: time is in its positions."""

    capabilities = HfVideoLM.capabilities

    def clock(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Times count from the first frame: positions know seconds a patch, not the clock."""
        return np.asarray(times - times[0])

    def time_step(self, out: Mapping[str, Any]) -> float:
        """See `Qwen2VL.time_step`: seconds per temporal patch × positions per second."""
        seconds = float(out["second_per_grid_ts"][0])
        return seconds * float(self.model.config.vision_config.tokens_per_second)


class Qwen3VL(Qwen2VL):
    """A `Qwen3VLForConditionalGeneration`; its timestamps are text, and positions know no time.

    Each temporal patch is a block of its own in the prompt.

    Features of several depths of the vision tower go into the first decoder layers (DeepStack).
    """

    capabilities = HfVideoLM.capabilities
    min_frames = 2
    splits_video = True

    def pixel_bounds(self, frames: int) -> tuple[int, int]:
        """See `Qwen2VL.pixel_bounds`: here the processor's bounds are those of the whole video."""
        fewest, most = super().pixel_bounds(frames)
        count = max(frames, self.min_frames)
        video = self.processor.video_processor
        share = most // count
        if self.info.cap_pixels_per_frame:
            share = min(share, int(video.max_video_tokens) * self.unit**2)
        return fewest // count, share

    def outputs(self, out: Any) -> list[Tensor]:
        """See `Qwen2VL.outputs`."""
        return [*super().outputs(out), *out.deepstack_features]

    def deepstack_inputs(
        self, features: Sequence[Tensor], slots: Tensor, length: int
    ) -> dict[str, Any]:
        """Which tokens stand for pixels, and their features by layer."""
        mask = torch.zeros(len(features[0]), length, dtype=torch.bool, device=self.device)
        mask[:, slots] = True
        return {
            "visual_pos_masks": mask,
            "deepstack_visual_embeds": [f.flatten(0, 1) for f in features],
        }


# The vision tower made faster, with the same numbers. transformers calls attention once a window
# and layer, each time after asking the device for the windows' lengths: windows of one length fit
# one batch, on a CPU equal to the last bit. And it embeds patches, which lie one a row, by a
# convolution as large as a patch: the matrix product is the same sum, in a sixth of the time.


def group_windows(tower: Any) -> None:
    """Makes every attention of a vision tower take windows of one length together.

    A tower that was set to flash attention is left alone: it takes all lengths at once already.
    """
    if tower.config._attn_implementation != "sdpa":
        return
    plan = _Plan()
    for module in tower.modules():
        if all(hasattr(module, name) for name in ("qkv", "proj", "num_heads", "scaling")):
            module.forward = _Grouped(module, plan)


class _Plan:
    """Which tokens make windows of one length; kept while the same boundaries come again."""

    def __init__(self) -> None:
        self._of: Tensor | None = None
        self._windows: list[Tensor] = []

    def windows(self, bounds: Tensor) -> list[Tensor]:
        """(W, length) indices for every length there is; bounds: (windows + 1,) rising."""
        if self._of is not bounds:
            starts, lengths = bounds[:-1], bounds.diff()
            self._windows = [
                starts[lengths == n, None] + torch.arange(n, device=bounds.device)
                for n in sorted(set(to_host(lengths).tolist()))
            ]
            self._of = bounds
        return self._windows


class _Grouped:
    def __init__(self, attention: Any, plan: _Plan) -> None:
        self.attention, self.plan = attention, plan

    def __call__(
        self,
        hidden_states: Tensor,
        cu_seqlens: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        **_: Any,
    ) -> Tensor:
        own = self.attention
        tokens = len(hidden_states)
        q, k, v = own.qkv(hidden_states).view(tokens, 3, own.num_heads, -1).unbind(1)
        rotate = sys.modules[type(own).__module__].apply_rotary_pos_emb_vision
        q, k = rotate(q, k, *position_embeddings)
        out = torch.empty_like(q)
        for index in self.plan.windows(cu_seqlens):
            # (W, length, heads, d) → (W, heads, length, d)
            a, b, c = (z[index].transpose(1, 2) for z in (q, k, v))
            attended = F.scaled_dot_product_attention(a, b, c, scale=own.scaling)
            out = out.index_put((index,), attended.transpose(1, 2))
        projected: Tensor = own.proj(out.reshape(tokens, -1))
        return projected


def embed_by_matrix(tower: Any) -> None:
    """Replaces the convolution of a vision tower's patch embedding."""
    tower.patch_embed.forward = _MatrixEmbedding(tower.patch_embed.proj)


class _MatrixEmbedding:
    def __init__(self, convolution: Any) -> None:
        self.convolution = convolution

    def __call__(self, hidden_states: Tensor) -> Tensor:
        weight, bias = self.convolution.weight, self.convolution.bias
        return F.linear(hidden_states.to(weight.dtype), weight.flatten(1), bias)
