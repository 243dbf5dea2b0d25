"""A family of transformers' video language models: what it says of itself, and what all share.

Caches and the states around them are values: a changed one is a new one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from macd_studio.core.backbones.base import MAX_STRETCH, BackboneInfo, Encoded, Prune, normalise
from macd_studio.core.backbones.hooks import checkpointed, hidden_among, pruned, watched
from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.local import (
    DecodeState,
    LocalLM,
    VisionCache,
    Watch,
    Watched,
    widen,
)
from macd_studio.core.backbones.mixing import mixed_frames, vision_layers
from macd_studio.core.backbones.prompt import (
    TokenizerLM,
    metadata_of,
    query_positions,
    read_prompt,
    render_prompt,
    unknown_words,
)
from macd_studio.core.backbones.sizes import (
    at_least,
    cap_pixels,
    fitted,
    own_copy,
    resampling_of,
    shape_errors,
)
from macd_studio.core.errors import OptionError
from macd_studio.core.options import Fit
from macd_studio.core.types import Clip, ModelFrames, Pixels


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
        filter_, capped = resampling_of(video), cap_pixels(video)
        info = replace(info, resample=filter_, cap_pixels_per_frame=capped)
        super().__init__(model, processor, info)
        self.vocabulary = model.config.get_text_config(decoder=True).vocab_size
        self.mean, self.std = (torch.tensor(z) for z in (video.image_mean, video.image_std))

    # `out` is what the processor gave for one clip and one prompt

    @property
    @abstractmethod
    def marker(self) -> str:
        """Text of the rendered prompt after which only the question comes."""

    @property
    def vision_token(self) -> int:
        """Id of the tokens that stand for pixels."""
        return int(self.model.config.video_token_id)

    @property
    def decoder(self) -> Any:
        """The language model without its head."""
        return self.model.model.language_model

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


class HfVideoLM(VideoFamily):
    """Reads clips, questions and tokens with a model of a family; see `VideoFamily`."""

    def reading(self, picture: bool) -> LocalLM:
        """See `LocalLM.reading`: pictures go through the family's own processor for pictures."""
        return self._for_pictures or self if picture else self

    @cached_property
    def _for_pictures(self) -> LocalLM | None:
        from macd_studio.core.backbones.contract import picture_model

        return picture_model(self.model, self.processor, self.info)

    @property
    def head(self) -> Any:
        """Hidden states → logits."""
        return self.model.get_output_embeddings()

    def preprocess(self, clip: Clip, fit: Fit = "pad") -> ModelFrames:
        """See `LocalLM.preprocess`."""
        native = self.native_frames(clip)
        height, width = native.shape[1:3]
        stretch = (width / height) / (clip.size[0] / clip.size[1])
        content = (0, 0, width, height)
        if fit == "pad" and not 1 / MAX_STRETCH <= stretch <= MAX_STRETCH:
            grids = self.grids(len(clip.frames), (height, width), clip.frames.shape[1:3])
            native, content = fitted(clip.frames, grids, self.info.resample, self.mean)
            aspect = (content[2] - content[0]) / (content[3] - content[1])
            stretch = aspect / (clip.size[0] / clip.size[1])
        return ModelFrames(native, clip.times, clip.duration, content, stretch)

    def native_frames(self, clip: Clip) -> Pixels:
        """The clip's frames as the family's own processor resizes them, (T, h, w, 3) RGB 0-255."""
        with shape_errors(self.info.name, clip.size):
            out = self.processor.video_processor(
                # a copy: the clip is read-only, torch is not
                [np.array(at_least(clip.frames, self.min_frames))],
                do_rescale=False,
                do_normalize=False,
                do_sample_frames=False,
                return_tensors="pt",
            )
        rgb = self.unpack(out, len(clip.frames)).float().round().clamp(0, 255).byte()
        return rgb.permute(0, 2, 3, 1).contiguous().numpy()

    def unpack(self, out: Mapping[str, Any], frames: int) -> Tensor:
        """The processor's pixel tensor as a video (T, 3, h, w)."""
        shape, gather = self.shape(out, frames), self.index(out, frames)
        pixels = out[self.pixels]
        video = pixels.new_empty(int(np.prod(shape)))
        video[gather.reshape(-1)] = pixels.reshape(-1)
        unpacked: Tensor = video.reshape(shape)
        return unpacked

    def encode_frames(
        self, frames: ModelFrames, question: str, suffix: str = "", before: str = ""
    ) -> Encoded:
        """See `LocalLM.encode_frames`; timestamps reach the model the way its family takes them."""
        text = before + question + suffix
        self.refuse_control_tokens(text)
        if not self.reads(frames.size):
            raise OptionError(
                f"{self.info.name} cannot read frames of {frames.size[1]}×{frames.size[0]} pixels",
                "Choose the backbone that made the trace",
            )
        content = [{"type": "video"}, {"type": "text", "text": text}]
        prompt = render_prompt(self.processor, content)
        count, times = len(frames.pixels), self.clock(frames.times)
        about = metadata_of(replace(frames, times=times), max(count, self.min_frames))
        videos = self.nested([np.array(at_least(frames.pixels, self.min_frames))])
        out = read_prompt(self.processor, prompt, videos, about)
        ids = out["input_ids"]
        around = (self.marker, self.query_prefix, before)
        query = query_positions(self.tokenizer, prompt, ids[0].tolist(), question, *around)
        to, patch = self.device, self.temporal
        return Encoded(
            question=question,
            prompt=prompt,
            input_ids=ids.to(to),
            query=torch.tensor(query, device=to),
            video=normalise(frames.pixels, self.mean, self.std).to(to),
            frames=frames,
            gather=self.index(out, count).to(to),
            mean=self.mean.to(to),
            std=self.std.to(to),
            groups=tuple(tuple(range(i, min(i + patch, count))) for i in range(0, count, patch)),
            inputs={k: v.to(to) for k, v in self.extra_inputs(out, ids).items()},
            vision_tokens=int((ids[0] == self.vision_token).sum()),
            notes=unknown_words(self.tokenizer, ids[0, query].tolist(), question),
        )

    def query_logits(
        self,
        encoded: Encoded,
        video: Tensor,
        low_memory: bool = False,
        reuse: DecodeState | None = None,
        changed_frames: Tensor | None = None,
    ) -> Tensor:
        """See `LocalLM.query_logits`; the head runs on the question's positions only.

        Layers that compute their activations again cannot read a cache: with `low_memory` only the
        features of untouched frames are taken over.
        """
        low_memory = self.saves(low_memory)
        changed = changed_patches(encoded, video[None], reuse, changed_frames)
        with checkpointed(self.model) if low_memory else nullcontext():
            vision = VisionCache(video[None], self._features(encoded, video[None], changed, reuse))
            first = 0 if low_memory else self._first(encoded, changed, reuse)
            cache = None if low_memory else self._prefix(vision, first, reuse)
            hidden = self._read(encoded, vision, first, cache)
        return widen(self.head(hidden[:, encoded.query - 1 - first])[0])

    def prefill(
        self,
        encoded: Encoded,
        video: Tensor,
        prune: Prune | None = None,
        reuse: DecodeState | None = None,
        graph: bool = False,
    ) -> DecodeState:
        """See `LocalLM.prefill`. Pruned layers see the prompt's end: only features are shared."""
        views = video if video.ndim == 5 else video[None]
        with nullcontext() if graph else torch.no_grad():
            changed = changed_patches(encoded, views, reuse)
            vision = VisionCache(views, self._features(encoded, views, changed, reuse))
            first = 0 if prune else self._first(encoded, changed, reuse)
            cache = self._prefix(vision, first, reuse)
            slots = self._slots(encoded).flatten()
            with pruned(self.decoder.layers, prune, slots) as unseen:
                hidden = self._read(encoded, vision, first, cache)
            query_logits = widen(self.head(hidden[:, encoded.query - 1 - first]))
        with torch.no_grad():
            return DecodeState(
                logits=widen(self.head(hidden.detach()[:, -1])),
                cache=map_cache(cache, Tensor.detach),
                length=encoded.input_ids.shape[1],
                prompt=encoded.input_ids.shape[1],
                query_logits=query_logits,
                inputs={"next": self.next_position(encoded), "vision": slots},
                prune=prune,
                vision=VisionCache(views.detach(), tuple(f.detach() for f in vision.features)),
                hidden=hidden_among(slots, unseen),
                prompt_tokens=tuple(encoded.input_ids[0].tolist()),
            )

    @torch.no_grad()
    def prefill_question(self, question: str) -> DecodeState:
        """See `LocalLM.prefill_question`: the family's chat template around text alone."""
        ids = self.text_inputs(question)["input_ids"].to(self.device)
        length, cache = ids.shape[1], DynamicCache()
        steps = torch.arange(length, device=self.device)
        out = self.decoder(
            input_ids=ids,
            position_ids=self.step_positions(0, 1) + steps,
            past_key_values=cache,
            use_cache=True,
        )
        return DecodeState(
            logits=widen(self.head(out.last_hidden_state[:, -1])),
            cache=cache,
            length=length,
            prompt=length,
            inputs={"next": length, "vision": steps[:0]},
        )

    @property
    def depth(self) -> int:
        """See `LocalLM.depth`."""
        return len(self.decoder.layers)

    def answer_hidden(
        self,
        encoded: Encoded,
        video: Tensor,
        answer: Sequence[int] = (),
        low_memory: bool = False,
        reuse: DecodeState | None = None,
    ) -> Tensor:
        """See `LocalLM.answer_hidden`."""
        views = video if video.ndim == 5 else video[None]
        low_memory = self.saves(low_memory)
        changed = changed_patches(encoded, views, reuse)
        with checkpointed(self.model) if low_memory else nullcontext():
            vision = VisionCache(views, self._features(encoded, views, changed, reuse))
            first = 0 if low_memory else self._first(encoded, changed, reuse)
            cache = self._prefix(vision, first, reuse) if first else None
            return self._read(encoded, vision, first, cache, answer)[:, -1]

    def read_out(self, hidden: Tensor) -> Tensor:
        """See `LocalLM.read_out`."""
        return widen(self.head(hidden))

    def watching(self, state: DecodeState, watch: Watch) -> AbstractContextManager[Watched]:
        """See `LocalLM.watching`."""
        return watched(self.decoder, self.read_out, watch, state.inputs["vision"])

    def prefill_mixed(self, encoded: Encoded, video: Tensor, share: float) -> DecodeState:
        """See `LocalLM.prefill_mixed`."""
        with mixed_frames(vision_layers(self.model), len(encoded.groups), share):
            return self.prefill(encoded, video)

    @torch.no_grad()
    def frame_features(
        self, encoded: Encoded, reuse: DecodeState | None = None
    ) -> NDArray[np.float64]:
        """See `Reader.frame_features`: after the projector, as the decoder is given them."""
        views = encoded.video[None]
        changed = changed_patches(encoded, views, reuse)
        features = self._features(encoded, views, changed, reuse)[0][0]
        return np.asarray(to_host(features.double().mean(1)), np.float64)

    def _slots(self, encoded: Encoded) -> Tensor:
        """(G, n) positions of each temporal patch's tokens in the prompt.

        Tokens of that id after them are an answer's own.
        """
        slots = (encoded.input_ids[0] == self.vision_token).nonzero()[: encoded.vision_tokens, 0]
        return slots.view(len(encoded.groups), -1)

    def _features(
        self, encoded: Encoded, views: Tensor, changed: Tensor, reuse: DecodeState | None
    ) -> tuple[Tensor, ...]:
        """(B, G, n, d) each: new where changed, each patch once; those of `reuse` elsewhere."""
        at = changed.nonzero()
        distinct, copies = distinct_patches(encoded, views, at)
        at, copies = at.to(self.device), copies.to(self.device)
        if reuse is None or reuse.vision is None:
            read = self.encode_patches(encoded, views, at[distinct])
            features = tuple(f[copies] for f in read)
        else:
            rows = len(views)
            features = tuple(
                f.expand(rows, -1, -1, -1).reshape(-1, *f.shape[2:]) for f in reuse.vision.features
            )
            if len(at):
                where = at[:, 0] * changed.shape[1] + at[:, 1]
                new = self.encode_patches(encoded, views, at[distinct])
                features = tuple(
                    f.index_copy(0, where, n[copies]) for f, n in zip(features, new, strict=True)
                )
        return tuple(f.view(*changed.shape, *f.shape[1:]) for f in features)

    def _first(self, encoded: Encoded, changed: Tensor, reuse: DecodeState | None) -> int:
        """The first token that must be read; those before it are taken from `reuse`.

        The few tokens before the video are not worth it: with a cache attention needs a mask, which
        costs more than they do.
        """
        before_the_question = int(to_host(encoded.query[0])) - 1
        if reuse is None or reuse.vision is None or reuse.prune is not None:
            return 0
        patches = changed.any(0).nonzero()
        if not len(patches):
            return before_the_question
        patch = int(patches[0, 0])
        return int(to_host(self._slots(encoded)[patch, 0])) if patch else 0

    def _prefix(self, vision: VisionCache, first: int, reuse: DecodeState | None) -> DynamicCache:
        """A cache of the tokens before `first`, one row per view; empty where nothing is shared."""
        if not first or reuse is None:
            return DynamicCache()
        rows = len(vision.video)
        return map_cache(reuse.cache, lambda z: z[:, :, :first].expand(rows, -1, -1, -1))

    def _read(
        self,
        encoded: Encoded,
        vision: VisionCache,
        first: int,
        cache: DynamicCache | None,
        answer: Sequence[int] = (),
    ) -> Tensor:
        """Last hidden states (B, L − first + A, d) of the prompt from `first` on, and of `answer`.

        Fills the cache.
        """
        slots = self._slots(encoded).flatten()
        at = slots[slots >= first] - first
        features = [f.flatten(1, 2)[:, len(slots) - len(at) :] for f in vision.features]
        ids = encoded.input_ids[0, first:]
        ids = torch.cat([ids, ids.new_tensor(answer)]) if answer else ids
        words = self.decoder.get_input_embeddings()(ids).expand(len(vision.video), -1, -1)
        positions = [self.positions(encoded, first, len(words))]
        start = self.next_position(encoded) if answer else 0
        positions += [self.step_positions(start + i, len(words)) for i in range(len(answer))]
        out = self.decoder(
            inputs_embeds=words.index_copy(1, at, features[0].to(words.dtype)),
            position_ids=torch.cat(positions, -1),
            past_key_values=cache,
            use_cache=cache is not None,
            **self.deepstack_inputs(features[1:], at, words.shape[1]),
        )
        hidden: Tensor = out.last_hidden_state
        return hidden

    def join(self, states: Sequence[DecodeState]) -> DecodeState:
        """See `LocalLM.join`. Raises ValueError for different lengths or prunings."""
        first = states[0]
        if any((s.length, s.prune) != (first.length, first.prune) for s in states):
            raise ValueError("only states of one length and pruning can be joined")
        cache = DynamicCache()
        for i in range(len(first.cache.layers)):
            layers = [s.cache.layers[i] for s in states]
            keys, values = (torch.cat([getattr(z, k) for z in layers]) for k in ("keys", "values"))
            cache.update(keys, values, i)
        unseen = [s.hidden for s in states if s.hidden is not None]
        return replace(
            first,
            logits=torch.cat([s.logits for s in states]),
            cache=cache,
            query_logits=None,
            vision=None,
            hidden=torch.cat(unseen) if unseen else None,
        )

    def select(self, state: DecodeState, rows: Sequence[int]) -> DecodeState:
        """See `LocalLM.select`."""
        index = torch.tensor(rows, device=self.device)
        return replace(
            state,
            logits=state.logits[index],
            cache=map_cache(state.cache, lambda z: z[index]),
            query_logits=None,
            vision=None,
            hidden=None if state.hidden is None else state.hidden[index],
        )

    def crop(self, state: DecodeState, length: int) -> DecodeState:
        """See `LocalLM.crop`."""
        cache = map_cache(state.cache, lambda z: z[:, :, :length])
        return replace(state, cache=cache, length=length, query_logits=None, vision=None)

    def step(self, state: DecodeState, tokens: Sequence[int]) -> DecodeState:
        """See `LocalLM.step`."""
        return self._feed(state, [[token] for token in tokens])

    def advance(self, state: DecodeState, tokens: Sequence[Sequence[int]]) -> DecodeState:
        """See `LocalLM.advance`; what is hidden is chosen again at every token, one by one."""
        return super().advance(state, tokens) if state.prune else self._feed(state, tokens)

    @torch.no_grad()
    def _feed(self, state: DecodeState, tokens: Sequence[Sequence[int]]) -> DecodeState:
        """The tokens (B, n) in one pass."""
        at, more = state.inputs["next"] + state.length - state.prompt, len(tokens[0])
        positions = [self.step_positions(at + i, len(tokens)) for i in range(more)]
        with pruned(self.decoder.layers, state.prune, state.inputs["vision"]) as unseen:
            out = self.model(
                input_ids=torch.tensor(tokens, device=self.device),
                past_key_values=state.cache,
                position_ids=positions[0] if more == 1 else torch.cat(positions, -1),
                use_cache=True,
                **({} if more == 1 else {"logits_to_keep": 1}),
            )
        return replace(
            state,
            logits=widen(out.logits[:, -1]),
            cache=out.past_key_values,
            length=state.length + more,
            query_logits=None,
            vision=None,
            hidden=hidden_among(state.inputs["vision"], unseen),
            prompt_tokens=(),
        )


def map_cache(cache: DynamicCache, change: Callable[[Tensor], Tensor]) -> DynamicCache:
    """A new cache of the changed keys and values (B, heads, L, d)."""
    out = DynamicCache()
    for i, layer in enumerate(cache.layers):
        out.update(change(layer.keys), change(layer.values), i)
    return out


def changed_patches(
    encoded: Encoded,
    views: Tensor,
    reuse: DecodeState | None,
    changed_frames: Tensor | None = None,
) -> Tensor:
    """(B, G) bool: temporal patches to look at, because they are not those of `reuse`.

    On the CPU, where it decides what is read.
    """
    if reuse is None or reuse.vision is None:
        return torch.ones(len(views), len(encoded.groups), dtype=torch.bool)
    if changed_frames is None:
        frames = (views != reuse.vision.video).flatten(2).any(-1)
    else:
        frames = changed_frames.expand(len(views), -1)
    changed = torch.stack([frames[:, list(g)].any(-1) for g in encoded.groups], 1)
    return torch.from_numpy(to_host(changed))


def distinct_patches(encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """Of temporal patches of several views, the distinct ones, and which of them each one is.

    at: (M, 2) view and patch. Returns rows of `at` (D,), and (M,) places among these. A patch is
    compared with those at its own place in other views, bit by bit, and only where no gradient is
    asked for: that of a copy would be lost.
    """
    alone = torch.arange(len(at))
    if len(views) < 2 or views.requires_grad or len(at) < 2:
        return alone, alone
    distinct: list[int] = []
    copies = alone.clone()
    for g, frames in enumerate(encoded.groups):
        rows = (at[:, 1] == g).nonzero()[:, 0].tolist()
        patches = views[at[rows, 0].to(views.device)][:, list(frames)].flatten(1)
        sums = to_host(patches.double().sum(1)).tolist()
        known: dict[float, list[int]] = {}
        for i, (row, total) in enumerate(zip(rows, sums, strict=True)):
            alike = known.setdefault(total, [])
            same = next((j for j in alike if torch.equal(patches[j], patches[i])), None)
            if same is None:
                alike.append(i)
                copies[row] = len(distinct)
                distinct.append(row)
            else:
                copies[row] = copies[rows[same]]
    if len(distinct) == len(at):
        return alone, alone  # in the order in which they came
    return torch.tensor(distinct), copies
