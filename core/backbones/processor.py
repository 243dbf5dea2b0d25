"""A model's own processor, run on frames: whole clips, and what is drawn on their pixels."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision.transforms.functional import to_pil_image
from transformers import AutoImageProcessor, AutoProcessor, AutoTokenizer, AutoVideoProcessor
from transformers.processing_utils import ProcessingKwargs, TextKwargs, VideosKwargs
from transformers.video_utils import VideoMetadata

from macd_studio.core.backbones.prompt import (
    TokenizerLM,
    check_template,
    disable_thinking,
    media_part,
    metadata_of,
    render_prompt,
    split_prompt,
)
from macd_studio.core.backbones.sizes import STEP, Scale, alike, as_read, scale_of, shape_errors
from macd_studio.core.errors import UnsupportedBackbone
from macd_studio.core.options import Fit
from macd_studio.core.types import Clip, ModelFrames, Pixels

ONE_VIDEO = ("nemotron_h_omni",)
"""Families whose processors take the metadata of one video instead of a list."""


def uncropped(processor: Any) -> Any:
    """The processor with parts that read whole frames: masks reach to the borders.

    Where one cuts out the middle of a frame, the frame is resized to the size of that instead.
    """
    processor = copy(processor)
    for name in ("video_processor", "image_processor"):
        part: Any = copy(getattr(processor, name, None))
        if getattr(part, "do_center_crop", False) and (crop := part.crop_size):
            part.do_center_crop = False
            part.size = type(part.size)(height=crop["height"], width=crop["width"])
            setattr(processor, name, part)
    return processor


class ProcessorLM(TokenizerLM):
    """Frames go through `processor`, as a video where it reads video; `model` says the rest."""

    _pil_only = False
    """Whether the processor was found to refuse pictures as tensors, as that of Idefics 2."""

    def preprocess(self, clip: Clip, fit: Fit = "pad") -> ModelFrames:
        """The clip's frames as `resized` gives them, whatever `fit` is."""
        height, width = clip.frames.shape[1:3]
        stretch = (width / height) / (clip.size[0] / clip.size[1])
        content = (0, 0, width, height)
        with shape_errors(self.info.name, clip.size):
            return self.resized(
                ModelFrames(clip.frames, clip.times, clip.duration, content, stretch)
            )

    def resized(self, frames: ModelFrames) -> ModelFrames:
        """The frames at the size of the model's pixels: what is drawn on them is not averaged.

        Where the processor would lay these out otherwise than the frames that were given (another
        grid of tiles, another number of tokens, other pixels), the frames stay as they are: it
        makes of them what it always does, and masks are drawn at their size.
        """
        count = len(frames.pixels)
        about = self._about(frames) if self._reads_video(count) else None
        part = self.processor.video_processor if about else self.processor.image_processor
        copies = 1 if about else int(getattr(part, "temporal_patch_size", 1) or 1)
        head, tail = self._around(count, "?")

        def process(pixels: Pixels, **more: Any) -> Mapping[str, Any]:
            rgb = torch.from_numpy(np.array(pixels)).permute(0, 3, 1, 2)
            return self._laid_out(rgb, head + "?" + tail, about, **more)

        try:
            read = as_read(frames.pixels, process, copies)
        except (ValueError, RuntimeError):
            own = getattr(self.processor, "videos_kwargs", {})
            if about is None or own.get("do_resize", True):
                raise
            # it is told to leave sizes alone, and cannot read this one: as its part resizes it
            read = as_read(frames.pixels, partial(process, do_resize=True), copies)
        if not alike(read.own, read.laid, STEP * scale_of(part).step):
            return frames
        pixels = read.frames
        (h, w), (height, width) = frames.size, pixels.shape[1:3]
        stretch = frames.stretch * (width / height) / (w / h)
        return replace(frames, pixels=pixels, content=(0, 0, width, height), stretch=stretch)

    def scale(self, as_video: bool) -> Scale:
        """What becomes of colours in a video, or in a picture."""
        processor = self.processor
        return scale_of(processor.video_processor if as_video else processor.image_processor)

    def _around(self, count: int, text: str) -> tuple[str, str]:
        """The prompt before and after a text about so many frames."""
        media = [{"type": "image"}] * count
        if self._reads_video(count):
            media = [{"type": "video"}]
        return split_prompt(self.processor, [*media, {"type": "text", "text": text}])

    def own_inputs(self, frames: ModelFrames, text: str) -> dict[str, Any]:
        """What the model's own processor makes of frames as they are, by `apply_chat_template`.

        What a user of transformers hands over to `generate`, and what everything here must equal.
        """
        rgb = torch.from_numpy(np.array(frames.pixels)).permute(0, 3, 1, 2)
        media = [{"type": "image", "image": frame} for frame in self._pictures(rgb)]
        how: dict[str, Any] = dict(self._asked_for)
        if self._reads_video(len(rgb)):
            rgb = rgb[[0] * self._min_frames] if len(rgb) < self._min_frames else rgb
            media = [{"type": "video", "video": rgb}]
            how |= self._as_read | {"video_metadata": self._told(self._about(frames))}
        call = self.processor.apply_chat_template
        nested = "processor_kwargs" in inspect.signature(call).parameters
        out = call(
            [{"role": "user", "content": [*media, {"type": "text", "text": text}]}],
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
            add_generation_prompt=True,
            **({"processor_kwargs": how} if nested else how),
            **disable_thinking(self.processor),
        )
        return {k: v for k, v in out.items() if k != "video_metadata"}

    def _laid_out(
        self, rgb: Tensor, prompt: str, about: VideoMetadata | None, **more: Any
    ) -> dict[str, Any]:
        """What the processor makes of frames (T, 3, H, W); pictures without `about`.

        Called as transformers' `apply_chat_template` calls it, so that what a family sets for its
        processor holds.
        """
        if self._pil_only and rgb.is_floating_point():  # its part for pictures takes tensors
            return dict(self.processor.image_processor([list(rgb)], return_tensors="pt", **more))
        how = {"images": [self._pictures(rgb)]} | more
        if about is not None:
            rgb = rgb[[0] * self._min_frames] if len(rgb) < self._min_frames else rgb
            how = {"videos": [[rgb]], "video_metadata": self._told(about)} | self._as_read | more
        words = self.tokenizer
        if words.bos_token and prompt.startswith(words.bos_token):
            how["add_special_tokens"] = False
        ask = partial(self.processor, text=prompt, return_tensors="pt", **self._asked_for)
        try:
            out = dict(ask(**how))
        except TypeError:
            if about is not None or self._pil_only or rgb.is_floating_point():
                raise
            self._pil_only = True
            out = dict(ask(**how | {"images": [self._pictures(rgb)]}))
        out.pop("video_metadata", None)
        return out

    def _pictures(self, rgb: Tensor) -> list[Any]:
        """Frames (T, 3, H, W) as the processor takes pictures."""
        return [to_pil_image(frame) for frame in rgb] if self._pil_only else list(rgb)

    @cached_property
    def _accepts(self) -> frozenset[str]:
        """Names that the model's forward pass takes."""
        return frozenset(inspect.signature(self.model.forward).parameters)

    @cached_property
    def _asked_for(self) -> dict[str, Any]:
        """What each token stands for, where the model takes it and the processor can say it."""
        known = getattr(self.processor, "valid_processor_kwargs", ProcessingKwargs)
        can = "return_mm_token_type_ids" in _names_in(known) | _names_in(TextKwargs)
        wanted = can and "mm_token_type_ids" in self._accepts
        return {"return_mm_token_type_ids": True} if wanted else {}

    @cached_property
    def _as_read(self) -> dict[str, Any]:
        """How a video's frames are handed over that were chosen already."""
        known = _names_in(getattr(self.processor.video_processor, "valid_kwargs", VideosKwargs))
        how = {"do_sample_frames": False, "return_metadata": True}
        return {k: v for k, v in how.items() if k == "do_sample_frames" or k in known}

    def _told(self, about: VideoMetadata) -> Any:
        """Metadata as the processor takes it, which may change what it is given."""
        one = deepcopy(about)
        return one if self.model.config.model_type in ONE_VIDEO else [one]

    def _about(self, frames: ModelFrames) -> VideoMetadata:
        """What the processor is told of a video."""
        return metadata_of(frames, max(len(frames.pixels), self._min_frames))

    def _reads_video(self, frames: int) -> bool:
        """Whether frames are handed over as a video; a single one is a picture where it can be."""
        if getattr(self.processor, "video_processor", None) is None:
            return False
        if getattr(self.processor, "image_processor", None) is None:
            return True
        return frames > 1 or not self.writes_pictures

    @cached_property
    def writes_pictures(self) -> bool:
        """Whether the chat template knows pictures; false where `contract` found it wanting."""
        text = [{"type": "text", "text": "?"}]
        try:
            without = render_prompt(self.processor, text)
            return render_prompt(self.processor, [{"type": "image"}, *text]) != without
        except UnsupportedBackbone:
            return False

    @property
    def _min_frames(self) -> int:
        return int(getattr(self.processor.video_processor, "temporal_patch_size", 1) or 1)


def _names_in(kwargs: Any) -> set[str]:
    """Names of keyword arguments by their type."""
    return set(getattr(kwargs, "__annotations__", {}))


def read_processor(folder: str, name: str) -> Any:
    """The processor of a folder. Raises UnsupportedBackbone, with what of it is missing."""
    safe: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        processor = AutoProcessor.from_pretrained(folder, **safe)
    except (OSError, ValueError) as error:
        readers = {
            "tokenizer": AutoTokenizer,
            "part for pictures": AutoImageProcessor,
            "part for video": AutoVideoProcessor,
        }
        missing = [part for part, reader in readers.items() if not _reads(reader, folder, safe)]
        if not missing:
            raise
        raise UnsupportedBackbone(
            f"the processor of {name!r} has no {' and no '.join(missing)}",
            ("Complete its folder" if Path(name).is_dir() else "Choose another, or complete a copy")
            + " with the tokenizer's files, processor_config.json, preprocessor_config.json and"
            " video_preprocessor_config.json, as far as it has them",
        ) from error
    pictures = getattr(processor, "image_processor", None)
    if getattr(pictures, "backend", "torchvision") != "torchvision":
        # PIL would round pictures, and has no gradient; before 5.18 the whole processor hands the
        # choice to its part for videos, too, which has none
        fast = AutoImageProcessor.from_pretrained(folder, backend="torchvision", **safe)
        processor.image_processor = fast
    media_part(processor, name)
    check_template(processor)
    return processor


def _reads(reader: Any, folder: str, safe: dict[str, Any]) -> bool:
    try:
        reader.from_pretrained(folder, **safe)
    except (OSError, ValueError):
        return False
    return True
