"""Qwen2.5-VL, the embedded backbone's family. Two frames make one temporal patch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.video_utils import VideoMetadata

from core.backbones.base import BackboneInfo, Encoded, Prune, State, VideoLM
from core.backbones.prompt import query_positions
from core.backbones.prune import pruned
from core.question import refuse_special
from core.types import Clip

VIDEO_END = "<|vision_end|>"


class Qwen25VL(VideoLM):
    """A `Qwen2_5_VLForConditionalGeneration` with its processor; parameters are frozen."""

    def __init__(self, model: Any, processor: Any, info: BackboneInfo) -> None:
        self.info = info
        self.model = model.eval().requires_grad_(False)
        self.processor, self.tokenizer = processor, processor.tokenizer
        self.device, self.dtype = model.device, model.dtype
        ends = model.generation_config.eos_token_id
        ends = [ends] if isinstance(ends, int) else list(ends or ())
        self._ends = frozenset([*ends, self.tokenizer.eos_token_id]) - {None}
        self._special = [t for t in self.tokenizer.all_special_tokens if t]

    @property
    def _layers(self) -> Any:
        return self.model.model.language_model.layers

    @property
    def end_tokens(self) -> frozenset[int]:
        """The generation config's and the tokenizer's end tokens."""
        return self._ends

    def encode(self, clip: Clip, question: str, suffix: str = "") -> Encoded:
        """See `VideoLM.encode`; timestamps reach the model as seconds per temporal patch."""
        refuse_special(question + suffix, self._special)
        content = [{"type": "video"}, {"type": "text", "text": question + suffix}]
        prompt = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
        )
        out = self.processor(
            text=[prompt],
            videos=[np.array(clip.frames)],  # the clip is read-only, torch wants its own
            video_metadata=[_metadata(clip)],
            do_sample_frames=False,
            return_tensors="pt",
        )
        ids = out["input_ids"]
        query = query_positions(self.tokenizer, prompt, ids[0].tolist(), question, VIDEO_END)
        processor = self.processor.video_processor
        grid = out["video_grid_thw"]
        frames, patch = len(clip.frames), processor.temporal_patch_size
        height, width = (int(n) * processor.patch_size for n in grid[0, 1:])
        gather = self._gather(frames, height, width)
        video = torch.empty(frames * 3 * height * width)
        video[gather.reshape(-1)] = out["pixel_values_videos"].float().reshape(-1)
        video = video.reshape(frames, 3, height, width)
        mean, std = (torch.tensor(z) for z in (processor.image_mean, processor.image_std))
        rgb = (video * std[:, None, None] + mean[:, None, None]) * 255
        positions, _ = self.model.model.get_rope_index(
            ids,
            mm_token_type_ids=out["mm_token_type_ids"],
            video_grid_thw=grid,
            second_per_grid_ts=torch.as_tensor(out["second_per_grid_ts"]),
        )
        to = self.device
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
            inputs={
                "video_grid_thw": grid.to(to),
                "mm_token_type_ids": out["mm_token_type_ids"].to(to),
                "position_ids": positions.to(to),
            },
            notes=self._unknown_words(ids[0, query].tolist(), question),
        )

    def _gather(self, frames: int, height: int, width: int) -> Tensor:
        """Index of every value of the model's pixel tensor in a flattened (T, 3, H, W) video.

        Asks the processor itself, by sending coordinates through it; each is a small exact integer.
        """
        shape = (frames, 3, height, width)
        index = torch.zeros(1, dtype=torch.long)
        for axis, n in enumerate(shape):
            view = [1, 1, 1, 1]
            view[axis] = n
            plane = torch.arange(n, dtype=torch.float32).reshape(view).expand(shape)
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

    def query_logits(self, encoded: Encoded, video: Tensor) -> Tensor:
        """See `VideoLM.query_logits`; the head runs on the question's positions only."""
        out = self._run(encoded, video, use_cache=False, logits_to_keep=encoded.query - 1)
        return _wide(out.logits[0])

    @torch.no_grad()
    def prefill(self, encoded: Encoded, video: Tensor, prune: Prune | None = None) -> State:
        """See `VideoLM.prefill`."""
        length = encoded.input_ids.shape[1]
        last = torch.tensor([length - 1], device=encoded.query.device)
        keep = torch.cat([encoded.query - 1, last])
        seen = encoded.inputs["mm_token_type_ids"][0].nonzero()[:, 0]
        with pruned(self._layers, prune, seen):
            out = self._run(encoded, video, use_cache=True, logits_to_keep=keep)
        return State(
            logits=_wide(out.logits[:, -1]),
            cache=out.past_key_values,
            length=length,
            prompt=length,
            query_logits=_wide(out.logits[:, :-1]),
            inputs={"next": int(encoded.inputs["position_ids"].max()) + 1, "vision": seen},
            prune=prune,
        )

    def _run(self, encoded: Encoded, video: Tensor, **how: Any) -> Any:
        views = 1 if video.ndim == 4 else len(video)
        inputs = encoded.inputs
        return self.model(
            input_ids=encoded.input_ids.expand(views, -1),
            pixel_values_videos=encoded.layout(video).to(self.dtype),
            video_grid_thw=inputs["video_grid_thw"].expand(views, -1),
            mm_token_type_ids=inputs["mm_token_type_ids"].expand(views, -1),
            position_ids=inputs["position_ids"].expand(-1, views, -1),
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
        """See `VideoLM.step`. Positions are explicit: the model's own counter is shared state."""
        rows = len(tokens)
        at = state.inputs["next"] + state.length - state.prompt
        with pruned(self._layers, state.prune, state.inputs["vision"]):
            out = self.model(
                input_ids=torch.tensor(tokens, device=self.device)[:, None],
                past_key_values=state.cache,
                position_ids=torch.full((3, rows, 1), at, device=self.device),
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
