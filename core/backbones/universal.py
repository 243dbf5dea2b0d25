"""Any model that transformers loads for video and text, through its own processor and decoding.

A video processor is affine in the frames it is given. So masks are blended on the frames, and the
model's processor does the rest, with a graph back to the masks; no family needs pixel code here.
Decoding goes through the model's own `prepare_inputs_for_generation` and cache, as `generate` does.
What it costs: every prompt is read whole, one after another; the families of `load.FAMILIES` do
better. A vision tower that takes frames one a row reads those alone that differ from the first
view, see `tower_rows`, and all views step together, see `blocks`, where both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from transformers import DynamicCache

from macd_studio.core.backbones.base import BackboneInfo, Encoded, Prune, normalise
from macd_studio.core.backbones.blocks import (
    PER_TOKEN,
    Block,
    Origin,
    joined,
    lengthened,
    take_rows,
)
from macd_studio.core.backbones.foreign import foreign_code
from macd_studio.core.backbones.hooks import EagerRows, checkpointed
from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.local import DecodeState, Watch, Watched, widen
from macd_studio.core.backbones.positions import positions_of
from macd_studio.core.backbones.processor import ProcessorLM, uncropped
from macd_studio.core.backbones.prompt import TEXT_FIRST, media_part, query_at, unknown_words
from macd_studio.core.backbones.sizes import Resizes, at_least, floats, named_by_size
from macd_studio.core.backbones.token_places import entering, tokens_lead
from macd_studio.core.backbones.tower_rows import KeptRows, free_rows, reading, tower_rows
from macd_studio.core.errors import NotApplicable, UnsupportedBackbone
from macd_studio.core.types import ModelFrames

TIMES_ON_AN_AXIS = ("qwen2_vl", "qwen2_5_vl")
"""Families whose positions transformers gets wrong after a video; see `positions`."""
VISION_TOKENS = ("video_token_id", "image_token_id", "video_token_index", "image_token_index")


@dataclass(frozen=True)
class Tolerance:
    """affine, logits: largest difference, relative to the largest value; gradient: relative."""

    affine: float
    logits: float
    gradient: float


TOLERANCES = {
    torch.float64: Tolerance(1e-5, 1e-6, 0.02),
    torch.float32: Tolerance(1e-4, 1e-3, 0.1),
    torch.float16: Tolerance(5e-3, 0.05, 0.5),
    torch.bfloat16: Tolerance(2e-2, 0.1, 0.5),
}
"""How far what should be equal may differ, by the precision that a model computes in."""


class UniversalVLM(ProcessorLM):
    """A model of `AutoModelForMultimodalLM` with its `AutoProcessor`; parameters are frozen."""

    capabilities = frozenset({"gradient", "rows", "logits", "maps", "batch"})

    def __init__(self, model: Any, processor: Any, info: BackboneInfo) -> None:
        media_part(processor, info.name)  # or refuse it
        super().__init__(model, uncropped(processor), info)
        self._batch_tried = False
        self._rows: EagerRows | None = None
        self._leads: dict[tuple[Any, ...], bool | None] = {}
        self.own_layers: tuple[int, ...] = ()
        self.tower = tower_rows(model)
        """What reads frames once; None where the model is not known to take them one a row."""

    @cached_property
    def vision_ids(self) -> Tensor:
        """Ids of the tokens that stand for pixels."""
        config = self.model.config
        ids = {getattr(config, name, None) for name in VISION_TOKENS} - {None}
        return torch.tensor(sorted(ids), device=self.device)

    @property
    def decoder(self) -> Any:
        """The language model, without its head."""
        return self.model.get_decoder()

    @property
    def attention_layers(self) -> tuple[int, ...]:
        """See `LocalLM.attention_layers`; known once the model was checked."""
        return self.own_layers

    def watching(self, state: DecodeState, watch: Watch) -> AbstractContextManager[Watched]:
        """See `LocalLM.watching`: attention alone, as the model's own eager layers give it.

        Raises NotApplicable for what else a Watch may ask for.
        """
        self.need(*["knock-out"] * bool(watch.blocked), *["lens"] * watch.lens)
        return self._reading_rows(watch.attention)

    @contextmanager
    def _reading_rows(self, layers: Sequence[int]) -> Iterator[Watched]:
        self._rows = EagerRows(self.decoder, layers)
        try:
            with self._rows.reading():
                yield self._rows.seen
        finally:
            self._rows = None

    def placed(self, encoded: Encoded) -> Tensor:
        """See `LocalLM.placed`; found anew for frames of another size or number."""
        patches, rows, columns = encoded.token_grid
        kind = (encoded.frames.size, patches, encoded.vision_tokens)
        if kind not in self._leads:
            vision = torch.isin(encoded.input_ids[0], self.vision_ids)
            self._leads[kind] = tokens_lead(
                encoded,
                lambda view: entering(self.decoder, lambda: self.query_logits(encoded, view))[
                    vision
                ],
            )
        leads, cells = self._leads[kind], rows * columns
        if leads is None:
            height, width = encoded.frames.size
            raise NotApplicable(
                f"it cannot be found where the tokens of {self.info.name} stand in frames of"
                f" {width}×{height} pixels, so its attention has no map",
                "Choose another kind of map",
            )
        each = encoded.vision_tokens // patches
        first = torch.arange(patches)[:, None] * each + (each - cells) * leads
        return (first + torch.arange(cells)).flatten()

    @property
    def depth(self) -> int:
        """See `LocalLM.depth`."""
        return int(self.model.config.get_text_config(decoder=True).num_hidden_layers)

    def encode_frames(
        self, frames: ModelFrames, question: str, suffix: str = "", before: str = ""
    ) -> Encoded:
        """See `LocalLM.encode_frames`. `gather` is empty: the processor lays pixels out."""
        text = before + question + suffix
        self.refuse_control_tokens(text)
        count = len(frames.pixels)
        as_video = self._reads_video(count)
        scale = self.scale(as_video)
        head, tail = self._around(count, text)
        prompt = head + text + tail
        rgb = at_least(frames.pixels, self._min_frames) if as_video else frames.pixels
        given = torch.from_numpy(np.array(rgb)).permute(0, 3, 1, 2)
        about = self._about(frames) if as_video else None
        with Resizes() as seen, foreign_code(self.info.name, "reads the frames"):
            out = self._laid_out(given, prompt, about)
        ids = out.pop("input_ids").to(self.device)
        vision = torch.isin(ids[0], self.vision_ids)
        if not bool(vision.any()):
            raise UnsupportedBackbone(
                f"the prompt of {self.info.name} holds no token that stands for pixels: neither"
                f" {' nor '.join(map(str, self.vision_ids.tolist()))} of its config.json",
                "Complete its tokenizer and config.json, or choose another backbone",
            )
        query = query_at(self.tokenizer, head, text + tail, ids[0].tolist(), question, before)
        if not vision[: query[0]].any() or vision[query[0] :].any():
            raise UnsupportedBackbone(TEXT_FIRST, "Use a template with the video first")
        inputs = {k: v.to(self.device) if isinstance(v, Tensor) else v for k, v in out.items()}
        encoded = Encoded(
            question=question,
            prompt=prompt,
            input_ids=ids,
            query=torch.tensor(query, device=self.device),
            video=normalise(frames.pixels, scale.mean, scale.std).to(self.device),
            frames=frames,
            gather=torch.empty(0, dtype=torch.long),
            mean=scale.mean.to(self.device),
            std=scale.std.to(self.device),
            groups=self._groups(inputs, count),
            inputs=inputs | {"about": about, "rest": {}},
            vision_tokens=int(vision.sum()),
            notes=unknown_words(self.tokenizer, ids[0, query].tolist(), question),
        )
        plain = all(size == frames.size for size, *_ in seen.found)
        if plain and all(z.dtype == torch.float32 for z in floats(out).values()):
            return encoded  # nothing is resized: 8 bits and floats are laid out alike
        return replace(encoded, inputs={**encoded.inputs, "rest": self._rest(encoded)})

    @torch.no_grad()
    def _rest(self, encoded: Encoded) -> dict[str, Tensor]:
        """What resizing in 8 bits adds to resizing floats, by input: rounding and clipping.

        It is added to every view, so that the untouched clip is what the processor makes of it.
        """
        laid = self._pixels(encoded, encoded.video)
        return {k: encoded.inputs[k].float() - v.float() for k, v in laid.items()}

    def _groups(self, inputs: Mapping[str, Any], count: int) -> tuple[tuple[int, ...], ...]:
        """Frames of each temporal patch: from the grid of the video where there is one."""
        grid = inputs.get("video_grid_thw")
        patches = int(grid[0, 0]) if grid is not None and len(grid) == 1 else count
        each = max(1, -(-count // patches))
        return tuple(tuple(range(i, min(i + each, count))) for i in range(0, count, each))

    def pixel_inputs(self, encoded: Encoded, video: Tensor) -> dict[str, Any]:
        """What the model's own processor makes of a view (T, 3, H, W), with its graph."""
        rest = encoded.inputs["rest"]
        found = {
            k: (v + rest[k] if k in rest else v).to(self.dtype)
            for k, v in self._pixels(encoded, video).items()
        }
        return {k: v for k, v in encoded.inputs.items() if k not in ("about", "rest")} | found

    def _pixels(self, encoded: Encoded, video: Tensor) -> dict[str, Tensor]:
        """The inputs that are made of pixels, of a view in floats. Raises UnsupportedBackbone."""
        exact = video if video.dtype == torch.float64 else video.float()
        rgb = exact * encoded.std[:, None, None] + encoded.mean[:, None, None]
        about = encoded.inputs["about"]
        brightest = self.scale(about is not None).brightest
        with foreign_code(self.info.name, "reads the frames"):
            out = self._laid_out(brightest * rgb, encoded.prompt, about, do_rescale=False)
        given = {k: v for k, v in encoded.inputs.items() if isinstance(v, Tensor)}
        found = {}
        for name, value in floats(out).items():
            place = name if name in given else named_by_size(given, value)
            if place is None:
                continue
            if value.numel() != given[place].numel():
                raise UnsupportedBackbone(
                    f"the processor of {self.info.name} makes {given[place].numel()} values of"
                    f" frames of {encoded.frames.size[1]}×{encoded.frames.size[0]} pixels in 8"
                    f" bits and {value.numel()} of the same in floats, so masks cannot be drawn",
                    "Choose another clip or another backbone",
                )
            found[place] = value.to(self.device).reshape(given[place].shape)
        if not found:
            raise UnsupportedBackbone(
                f"the processor of {self.info.name} gives pixels that its model does not take",
                "Choose another backbone",
            )
        return found

    def generate_inputs(self, encoded: Encoded, frames: ModelFrames) -> dict[str, Any]:
        """What `model.generate` takes to answer about the untouched frames of `encoded`.

        As its own processor makes it, with this adapter's positions where transformers' are wrong.
        """
        own = self.own_inputs(frames, encoded.question)
        inputs = {k: v.to(self.device) if isinstance(v, Tensor) else v for k, v in own.items()}
        taken = self._accepts | PER_TOKEN.keys() | {"input_ids"}
        kwargs = {k: v for k, v in inputs.items() if k in taken}
        for name, value in floats(kwargs).items():
            kwargs[name] = value.to(self.dtype)
        if self.model.config.model_type in TIMES_ON_AN_AXIS:
            kwargs["position_ids"] = self._positions(kwargs["input_ids"], inputs)
        return {k: v for k, v in kwargs.items() if v is not None}

    def _positions(self, ids: Tensor, kwargs: dict[str, Any]) -> Tensor | None:
        """Explicit positions of a prompt, as `generate` would give them, or as they should be."""
        if "position_ids" not in self._accepts:
            return None
        kind = self.model.config.model_type
        if kind in TIMES_ON_AN_AXIS and (grid := kwargs.get("video_grid_thw")) is not None:
            t, h, w = grid[0].tolist()
            merge = self.model.config.vision_config.spatial_merge_size
            step = 1.0
            if kind == "qwen2_5_vl":
                per_second = self.model.config.vision_config.tokens_per_second
                seconds = kwargs.get("second_per_grid_ts")
                step = float(seconds[0] if seconds is not None else 1.0) * per_second
            is_video = to_host(torch.isin(ids[0], self.vision_ids))
            three = positions_of(is_video, (t, h // merge, w // merge), step)
            return three[:, None].to(self.device)
        own: Tensor = self.model._prepare_position_ids_for_generation(
            ids, kwargs | {"input_ids": ids}
        )
        return own

    def _begin(self, ids: Tensor, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The model's further inputs for a prompt."""
        kwargs = {k: v for k, v in inputs.items() if k in self._accepts or k == "attention_mask"}
        if (position_ids := self._positions(ids, dict(inputs))) is not None:
            kwargs["position_ids"] = position_ids
        mask = kwargs.get("attention_mask")
        if mask is not None and bool((mask == 1).all()):
            kwargs["attention_mask"] = None
        return kwargs

    def _read(
        self, ids: Tensor, inputs: Mapping[str, Any], keep: Tensor, cached: bool
    ) -> tuple[Tensor, dict[str, Any]]:
        """Logits (n, V) at the positions `keep` (n,) of a whole prompt, and what goes on from it.

        cached: whether a cache is filled.
        """
        kwargs = self._begin(ids, inputs) | {"use_cache": cached}
        if cached:
            text = self.model.config.get_text_config(decoder=True)
            kwargs["past_key_values"] = DynamicCache(config=text)
        some = {"logits_to_keep": keep} if "logits_to_keep" in self._accepts else {}
        given = self.model.prepare_inputs_for_generation(
            ids, is_first_iteration=True, **kwargs, **some
        )
        out = self.model(**given, return_dict=True)
        logits = out.logits[0] if out.logits.shape[1] == len(keep) else out.logits[0, keep]
        if cached:
            kwargs = self.model._update_model_kwargs_for_generation(out, kwargs)
        return widen(logits), kwargs

    def query_logits(
        self,
        encoded: Encoded,
        video: Tensor,
        low_memory: bool = False,
        reuse: DecodeState | None = None,
        changed_frames: Tensor | None = None,
    ) -> Tensor:
        """See `LocalLM.query_logits`; all but unchanged frames is read again."""
        inputs, kept = self.pixel_inputs(encoded, video), self._kept(reuse)
        free = free_rows(kept, encoded.video, changed_frames, partial(self.pixel_inputs, encoded))
        saving = checkpointed(self.model) if self.saves(low_memory) else nullcontext()
        with saving, reading(kept, free):
            logits, _ = self._read(encoded.input_ids, inputs, encoded.query - 1, cached=False)
        return logits

    def _kept(self, reuse: DecodeState | None) -> KeptRows | None:
        return None if reuse is None or self.tower is None else reuse.inputs.get("rows")

    def prefill(
        self,
        encoded: Encoded,
        video: Tensor,
        prune: Prune | None = None,
        reuse: DecodeState | None = None,
        graph: bool = False,
    ) -> DecodeState:
        """See `LocalLM.prefill`; views are read one after another, equal frames once."""
        if prune is not None:
            self.need("prune")
        views = video if video.ndim == 5 else video[None]
        last = encoded.input_ids.shape[1] - 1
        keep = torch.cat([encoded.query - 1, encoded.query.new_tensor([last])])
        rows, logits, kept = list[Block](), [], self._kept(reuse)
        for view in views:
            first = self.tower is not None and kept is None and not rows
            with nullcontext() if graph else torch.no_grad(), reading(kept, keep=first) as plan:
                inputs = self.pixel_inputs(encoded, view)
                read, kwargs = self._read(encoded.input_ids, inputs, keep, cached=True)
            kept = kept or plan.found
            if graph:
                detach_cache(kwargs["past_key_values"])
            logits.append(read)
            rows.append(Block(encoded.input_ids, kwargs, (Origin(encoded, view.detach()),)))
        both = torch.stack(logits)
        return DecodeState(
            logits=both[:, -1].detach(),
            cache=rows,
            length=last + 1,
            prompt=last + 1,
            query_logits=both[:, :-1],
            inputs={"rows": kept},
            prompt_tokens=tuple(encoded.input_ids[0].tolist()),
        )

    @torch.no_grad()
    def prefill_question(self, question: str) -> DecodeState:
        """See `LocalLM.prefill_question`: the model's chat template around text alone."""
        out = self.text_inputs(question)
        ids = out.pop("input_ids").to(self.device)
        inputs = {k: v.to(self.device) for k, v in out.items() if isinstance(v, Tensor)}
        keep = torch.tensor([ids.shape[1] - 1], device=self.device)
        logits, kwargs = self._read(ids, inputs, keep, cached=True)
        rows = [Block(ids, kwargs, (Origin(),))]
        return DecodeState(logits, rows, ids.shape[1], ids.shape[1])

    @torch.no_grad()
    def step(self, state: DecodeState, tokens: Sequence[int]) -> DecodeState:
        """See `LocalLM.step`."""
        blocks, logits = self._together(state.cache, tokens)
        return DecodeState(logits, blocks, state.length + 1, state.prompt)

    def _together(
        self, blocks: Sequence[Block], tokens: Sequence[int]
    ) -> tuple[list[Block], Tensor]:
        """The blocks after one token a row, and its logits (B, V); in one pass where that is sound.

        Whether it is, is tried at the first step of several views, against each by itself.
        """
        batch = len(blocks) > 1 and "batch" in self.capabilities
        one = joined(blocks) if batch else None
        if one is None:
            return self.each(blocks, tokens)
        if self._batch_tried:
            return self.each([one], tokens)
        self._batch_tried = True
        alone = self.each(blocks, tokens)
        try:
            found = self.each([one], tokens)
        except (RuntimeError, ValueError, LookupError, AttributeError, TypeError) as error:
            # whatever the code of a model meets that wants what was left behind
            self.lose("batch", f"rows in one pass fail: {type(error).__name__}")
            return alone
        scale = alone[1].abs().max().clamp_min(1e-9)
        off = float((found[1] - alone[1]).abs().max() / scale)
        if off <= TOLERANCES.get(self.dtype, TOLERANCES[torch.bfloat16]).logits:
            return found
        self.lose("batch", f"rows in one pass change each other by {off:.1e}")
        return alone

    def each(self, blocks: Sequence[Block], tokens: Sequence[int]) -> tuple[list[Block], Tensor]:
        """A pass for each block."""
        stepped, logits, at = [], [], 0
        if self._rows is not None:
            self._rows.begin()
        for block in blocks:
            rows = len(block.origins)
            more = block.ids.new_tensor(list(tokens[at : at + rows]))[:, None]
            ids, at = torch.cat([block.ids, more], 1), at + rows
            given = self.model.prepare_inputs_for_generation(
                ids, next_sequence_length=1, **block.kwargs
            )
            out = self.model(**given, return_dict=True)
            if self._rows is not None:
                vision = torch.isin(ids[0], self.vision_ids).nonzero()[:, 0]
                self._rows.after(ids.shape[1], vision)
            kwargs = self.model._update_model_kwargs_for_generation(out, dict(block.kwargs))
            stepped.append(replace(block, ids=ids, kwargs=kwargs))
            logits.append(widen(out.logits[:, -1]))
        return stepped, torch.cat(logits)

    def join(self, states: Sequence[DecodeState]) -> DecodeState:
        """See `LocalLM.join`."""
        first = states[0]
        if any(s.length != first.length for s in states):
            raise ValueError("only states of one length can be joined")
        logits = torch.cat([s.logits for s in states])
        rows = [b for s in states for b in take_rows(s.cache, range(len(s.logits)))]
        return DecodeState(
            logits, rows, first.length, first.prompt, prompt_tokens=first.prompt_tokens
        )

    def select(self, state: DecodeState, rows: Sequence[int]) -> DecodeState:
        """See `LocalLM.select`."""
        taken = take_rows(state.cache, rows)
        return replace(state, logits=state.logits[list(rows)], cache=taken, query_logits=None)

    def crop(self, state: DecodeState, length: int) -> DecodeState:
        """See `LocalLM.crop`; what cannot be cropped, such as a recurrent state, is read again."""
        blocks: list[Block] = []
        for block in state.cache:
            kept = block.cropped(length)
            blocks += [kept] if kept is not None else self._read_again(block, length)
        return replace(state, cache=blocks, length=length, query_logits=None)

    @torch.no_grad()
    def _read_again(self, block: Block, length: int) -> list[Block]:
        """The rows as they were, each from its prompt and the tokens after it."""
        again = []
        for ids, origin in zip(block.ids[:, None, :length], block.origins, strict=True):
            encoded, video = origin.encoded, origin.video
            inputs: Mapping[str, Any] = {}
            if encoded is not None and video is not None:
                inputs = self.pixel_inputs(encoded, video)
            prompt = encoded.input_ids.shape[1] if encoded is not None else length
            start, more = ids[:, :prompt], ids[:, prompt:]
            inputs = {
                k: v[..., : start.shape[1]] if k in PER_TOKEN and isinstance(v, Tensor) else v
                for k, v in inputs.items()
            }
            keep = torch.tensor([start.shape[1] - 1], device=self.device)
            _, kwargs = self._read(start, inputs, keep, cached=True)
            rows = [Block(start, kwargs, (origin,))]
            for token in more[0].tolist():
                rows, _ = self.each(rows, [token])
            again += rows
        return again

    def answer_hidden(
        self,
        encoded: Encoded,
        video: Tensor,
        answer: Sequence[int] = (),
        low_memory: bool = False,
        reuse: DecodeState | None = None,
    ) -> Tensor:
        """Logits (B, V) of the token after `answer`: heads differ too much to be split off."""
        longer = self.continue_prompt(encoded, answer) if answer else encoded
        views = video if video.ndim == 5 else video[None]
        keep = torch.tensor([longer.input_ids.shape[1] - 1], device=self.device)
        rows = []
        for view in views:
            inputs = lengthened(self.pixel_inputs(encoded, view), len(answer))
            saving = checkpointed(self.model) if self.saves(low_memory) else nullcontext()
            with saving, reading(self._kept(reuse)):
                rows.append(self._read(longer.input_ids, inputs, keep, cached=False)[0])
        return torch.cat(rows)

    def read_out(self, hidden: Tensor) -> Tensor:
        """What `answer_hidden` gives are logits already."""
        return hidden

    def continue_prompt(self, encoded: Encoded, tokens: Sequence[int]) -> Encoded:
        """See `LocalLM.continue_prompt`."""
        longer = super().continue_prompt(encoded, tokens)
        return replace(longer, inputs=lengthened(dict(encoded.inputs), len(tokens)))


def detach_cache(cache: Any) -> None:
    """Takes the graph off whatever the layers of a cache hold: keys, values, recurrent states."""
    for layer in cache.layers:
        for name, value in vars(layer).items():
            if isinstance(value, Tensor | list | tuple | dict):
                plain = tree_map(lambda z: z.detach() if isinstance(z, Tensor) else z, value)
                setattr(layer, name, plain)
