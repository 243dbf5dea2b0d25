"""What every family of transformers' video language models shares; a family adds its few facts.

A family says how its pixels are laid out, which inputs go with them, and where its decoder's
layers are. Everything else is the same: prompt, query span, prefill, caches, stepping.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.video_utils import VideoMetadata

from core.backbones.base import BackboneInfo, Encoded, Prune, State, VideoLM
from core.backbones.prompt import query_positions
from core.backbones.prune import pruned
from core.question import refuse_special
from core.types import Clip


class HfVideoLM(VideoLM):
    """A transformers model with its processor; parameters are frozen.

    pixels: name of the model's pixel input. lead: what the processor writes between the video and
    the question.
    """

    pixels = "pixel_values_videos"
    lead = ""

    def __init__(self, model: Any, processor: Any, info: BackboneInfo) -> None:
        self.info = info
        self.model = model.eval().requires_grad_(False)
        self.processor, self.tokenizer = processor, processor.tokenizer
        self.device, self.dtype = model.device, model.dtype
        ends = model.generation_config.eos_token_id
        ends = [ends] if isinstance(ends, int) else list(ends or ())
        self._ends = frozenset([*ends, self.tokenizer.eos_token_id]) - {None}
        self._special = [t for t in self.tokenizer.all_special_tokens if t]

    # what a family must say

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
    def layers(self) -> Any:
        """The decoder's layers."""

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

    def further(self, out: Mapping[str, Any], ids: Tensor) -> dict[str, Any]:
        """Inputs that go with one view's pixels, all with a batch axis; see `batch_axis`."""
        return {}

    def batch_axis(self, name: str) -> int:
        """Which axis of a further input counts views."""
        return 0

    def given(self, clip: Clip) -> Clip:
        """The clip as the processor takes it."""
        return clip

    def nested(self, videos: list[Any]) -> list[Any]:
        """One prompt's videos as the processor takes them."""
        return videos

    def pixel_input(self, encoded: Encoded, video: Tensor) -> Tensor:
        """One view (T, 3, H, W) or several (B, T, 3, H, W) as the model takes them."""
        return encoded.layout(video)

    def next_position(self, encoded: Encoded) -> int:
        """Position of the first token after the prompt."""
        return int(encoded.input_ids.shape[1])

    def step_positions(self, at: int, rows: int) -> Tensor:
        """Explicit positions of one token in every row; the model's own counter is shared state."""
        return torch.full((rows, 1), at, device=self.device)

    # what they share

    @property
    def end_tokens(self) -> frozenset[int]:
        """The generation config's and the tokenizer's end tokens."""
        return self._ends

    def encode(self, clip: Clip, question: str, suffix: str = "") -> Encoded:
        """See `VideoLM.encode`; timestamps reach the model the way its family takes them."""
        refuse_special(question + suffix, self._special)
        content = [{"type": "video"}, {"type": "text", "text": question + suffix}]
        prompt = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        given = self.given(clip)
        out = self.processor(
            text=[prompt],
            videos=self.nested([np.array(given.frames)]),  # the clip is read-only, torch is not
            video_metadata=[_metadata(given)],
            do_sample_frames=False,
            return_tensors="pt",
        )
        ids, frames = out["input_ids"], len(clip.frames)
        query = query_positions(
            self.tokenizer, prompt, ids[0].tolist(), question, self.marker, self.lead
        )
        shape, gather = self.shape(out, frames), self.index(out, frames)
        pixels = out[self.pixels].float().reshape(-1)
        video = torch.empty(int(np.prod(shape)))
        video[gather.reshape(-1)] = pixels
        video = video.reshape(shape)
        normalise = self.processor.video_processor
        mean, std = (torch.tensor(z) for z in (normalise.image_mean, normalise.image_std))
        rgb = (video * std[:, None, None] + mean[:, None, None]) * 255
        to, patch = self.device, self.temporal
        return Encoded(
            question=question,
            prompt=prompt,
            input_ids=ids.to(to),
            query=torch.tensor(query, device=to),
            video=video.to(to),
            frames=rgb.round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy(),
            gather=gather.to(to),
            mean=mean.to(to),
            std=std.to(to),
            groups=tuple(tuple(range(i, min(i + patch, frames))) for i in range(0, frames, patch)),
            inputs={k: v.to(to) for k, v in self.further(out, ids).items()},
            notes=self._unknown_words(ids[0, query].tolist(), question),
        )

    def query_logits(self, encoded: Encoded, video: Tensor, low_memory: bool = False) -> Tensor:
        """See `VideoLM.query_logits`; the head runs on the question's positions only."""
        with checkpointed(self.model) if low_memory else nullcontext():
            out = self._run(encoded, video, use_cache=False, logits_to_keep=encoded.query - 1)
        return _wide(out.logits[0])

    @torch.no_grad()
    def prefill(self, encoded: Encoded, video: Tensor, prune: Prune | None = None) -> State:
        """See `VideoLM.prefill`."""
        length = encoded.input_ids.shape[1]
        last = torch.tensor([length - 1], device=encoded.query.device)
        keep = torch.cat([encoded.query - 1, last])
        seen = (encoded.input_ids[0] == self.vision_token).nonzero()[:, 0]
        with pruned(self.layers, prune, seen):
            out = self._run(encoded, video, use_cache=True, logits_to_keep=keep)
        return State(
            logits=_wide(out.logits[:, -1]),
            cache=out.past_key_values,
            length=length,
            prompt=length,
            query_logits=_wide(out.logits[:, :-1]),
            inputs={"next": self.next_position(encoded), "vision": seen},
            prune=prune,
        )

    def _run(self, encoded: Encoded, video: Tensor, **how: Any) -> Any:
        views = 1 if video.ndim == 4 else len(video)
        further = {}
        for name, value in encoded.inputs.items():
            shape = list(value.shape)
            shape[self.batch_axis(name)] = views * shape[self.batch_axis(name)]
            further[name] = value.expand(shape).contiguous() if views > 1 else value
        return self.model(
            input_ids=encoded.input_ids.expand(views, -1),
            **{self.pixels: self.pixel_input(encoded, video).to(self.dtype)},
            **further,
            **how,
        )

    def join(self, states: Sequence[State]) -> State:
        """See `VideoLM.join`."""
        first = states[0]
        if any((s.length, s.prune) != (first.length, first.prune) for s in states):
            raise ValueError("only states of one length and pruning can be joined")
        cache = DynamicCache()
        for i in range(len(first.cache.layers)):
            layers = [s.cache.layers[i] for s in states]
            keys, values = (torch.cat([getattr(z, k) for z in layers]) for k in ("keys", "values"))
            cache.update(keys, values, i)
        logits = torch.cat([s.logits for s in states])
        return State(logits, cache, first.length, first.prompt, None, first.inputs, first.prune)

    def select(self, state: State, rows: Sequence[int]) -> State:
        """See `VideoLM.select`."""
        index = torch.tensor(rows, device=self.device)
        cache = DynamicCache()
        for i, layer in enumerate(state.cache.layers):
            cache.update(layer.keys[index], layer.values[index], i)
        return replace(state, logits=state.logits[index], cache=cache, query_logits=None)

    def crop(self, state: State, length: int) -> State:
        """See `VideoLM.crop`."""
        cache = DynamicCache()
        for i, layer in enumerate(state.cache.layers):
            cache.update(layer.keys[:, :, :length], layer.values[:, :, :length], i)
        return replace(state, cache=cache, length=length, query_logits=None)

    @torch.no_grad()
    def step(self, state: State, tokens: Sequence[int]) -> State:
        """See `VideoLM.step`."""
        at = state.inputs["next"] + state.length - state.prompt
        with pruned(self.layers, state.prune, state.inputs["vision"]):
            out = self.model(
                input_ids=torch.tensor(tokens, device=self.device)[:, None],
                past_key_values=state.cache,
                position_ids=self.step_positions(at, len(tokens)),
                use_cache=True,
            )
        return State(
            _wide(out.logits[:, -1]),
            out.past_key_values,
            state.length + 1,
            state.prompt,
            None,
            state.inputs,
            state.prune,
        )

    def text(self, tokens: Sequence[int]) -> str:
        """See `VideoLM.text`."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True)).strip()

    def tokens(self, text: str) -> list[int]:
        """See `VideoLM.tokens`."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def piece(self, token: int) -> str:
        """See `VideoLM.piece`."""
        return str(self.tokenizer.decode([token]))

    def _unknown_words(self, query: list[int], question: str) -> tuple[str, ...]:
        unknown = self.tokenizer.unk_token_id
        if unknown is None or unknown not in query:
            return ()
        spans = self.tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)
        words = [
            question[a:b]
            for i, (a, b) in zip(spans["input_ids"], spans["offset_mapping"], strict=True)
            if i == unknown
        ]
        return (f"the backbone does not know these words: {', '.join(dict.fromkeys(words))}",)


@contextmanager
def checkpointed(model: Any) -> Iterator[None]:
    """Gradient checkpointing by layer while inside; the model is in `eval()` before and after.

    transformers checkpoints only layers in training mode: that flag is set on the layers alone, so
    that nothing below them, dropout above all, changes.
    """
    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    kind = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"
    getattr(model, f"{kind}_checkpointing_enable")({"use_reentrant": False})
    try:
        for layer in layers:
            layer.training = True
        yield
    finally:
        for layer in layers:
            layer.training = False
        getattr(model, f"{kind}_checkpointing_disable")()
        model.disable_input_require_grads()  # enabling left hooks that make every pass keep a graph


def _metadata(clip: Clip) -> VideoMetadata:
    """Timestamps in milliseconds as frame numbers of a 1000 fps video: exact for any rate."""
    at = np.round(clip.times * 1000).astype(int)
    step = float(np.median(np.diff(clip.times))) if len(clip.times) > 1 else clip.duration
    total = max(int(at[-1]) + 1, round(1000 * step * len(at)))
    return VideoMetadata(
        total_num_frames=total,
        fps=1000.0,
        duration=total / 1000,
        frames_indices=at.tolist(),
        width=clip.frames.shape[2],
        height=clip.frames.shape[1],
    )


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()
