"""What a method is: from one clip and question to the views its tokens are chosen by."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from core.backbones.base import DecodeState, Encoded, Prune, VideoLM
from core.backbones.host import to_float
from core.errors import OptionError
from core.masking.ascent import BaseRead, ascend, finalize_ascent, read_base
from core.masking.composite import MaskedView, masked_view
from core.masking.masks import draw_masks
from core.metering import Cost, Meter
from core.options import AscentOptions, ContrastOptions, MaskOptions, RunOptions
from core.types import AscentStep, Counterfactual, MaskSet, Track

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class DecodingViews:
    """The views a method decodes from. Without `counter` it decodes from `base` alone.

    bias: added to the scores of some tokens; said: an answer that needs no model at all.
    view: what the second view is, for whoever shows it. Its `kind` is "none", "masks" (with level,
    frame_level), "noise" (scale), "frames" (frames), "pruned" (layer, ratio), "blank", or another
    one with its caption as `said`. "masks" may say where its boxes are (boxes) and how well a
    random placement met its terms (random, see `core.masking.random_masks`). video: the second view
    itself, (T, 3, h, w) normalised, None where it has the pixels of the first.
    """

    base: DecodeState
    counter: DecodeState | None
    contrast: ContrastOptions
    view: dict[str, Any] = field(default_factory=dict)
    bias: dict[int, float] | None = None
    said: str | None = None
    video: Tensor | None = None


class MethodContext:
    """One clip and one question, with the work that methods share, done once.

    `shared` counts how many methods each piece served that another had made; the first to need a
    piece pays for it.
    """

    def __init__(
        self,
        lm: VideoLM,
        encoded: Encoded,
        tracks: tuple[Track, ...],
        options: RunOptions,
        meter: Meter | None = None,
    ) -> None:
        self.lm, self.encoded = lm, encoded
        self.tracks, self.options = tracks, options
        self.shared: dict[str, int] = {}
        self.meter = meter or Meter(lm.info.device)
        self._used: set[str] | None = None
        self._done: dict[Hashable, Any] = {}
        self._costs: dict[Hashable, Cost] = {}
        self._needs: dict[Hashable, set[Hashable]] = {}
        self._making: list[set[Hashable]] = [set()]

    def start_method(self) -> None:
        """From here on another method asks."""
        self._used = set()
        self._making = [set()]

    def memoize(self, name: str, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, made at most once for a key."""
        if (name, key) not in self._done:
            self._making.append(set())
            with self.meter.measure() as cost:
                result = make()
            self.seed_cache(name, key, result, cost, self._making.pop())
        elif self._used is not None and name not in self._used:
            self.shared[name] = self.shared.get(name, 0) + 1
        if self._used is not None:
            self._used.add(name)
        self._making[-1].add((name, key))
        found: T = self._done[name, key]
        return found

    def seed_cache(
        self,
        name: str,
        key: Hashable,
        result: Any,
        cost: Cost | None = None,
        needs: Iterable[Hashable] = (),
    ) -> None:
        """Hands in a piece of work that was done elsewhere, with its cost and what it needed."""
        self._done[name, key] = result
        self._costs[name, key] = cost or Cost()
        self._needs[name, key] = set(needs)

    def memory_mb(self, whole: Cost) -> float:
        """Peak of the tensors alive for what `whole_cost` gave, weights included."""
        return round((self.lm.info.weight_bytes + whole.rise_bytes) / 2**20, 1)

    def needs(self) -> frozenset[Hashable]:
        """The pieces of work that were asked for since `start_method`."""
        return frozenset(self._making[0])

    def whole_cost(self, own: Cost, needs: Iterable[Hashable]) -> Cost:
        """What an answer takes from the prompt on: its own part, and the pieces it needs.

        own: measured around its own work, without the pieces made inside it. A piece counts in full
        whoever made it, with everything that it needed in turn.
        """
        pieces: set[Hashable] = set()
        waiting = set(needs)
        while waiting:
            piece = waiting.pop()
            pieces.add(piece)
            waiting |= self._needs.get(piece, set()) - pieces
        whole = Cost()
        for piece, cost in self._costs.items():  # in the order in which they were made
            if piece in pieces:
                whole.add(cost)
        whole.add(own)
        return whole

    @property
    def read(self) -> BaseRead:
        """The video as it is, read as the ascent wants it."""
        options = self.options.ascent
        return self.memoize("base prefill", None, lambda: read_base(self.lm, self.encoded, options))

    @property
    def base(self) -> DecodeState:
        """The video as it is, prefilled."""
        return self.read.state

    def prefill(self, video: Tensor, prune: Prune | None = None) -> DecodeState:
        """Another view of the same frames; what it shares with the base is not read again."""
        return self.lm.prefill(self.encoded, video, prune, self.base)

    def masked(self, mask: MaskOptions, tracks: tuple[Track, ...] | None = None) -> MaskedView:
        """Masks of the tracks (of others, if given) over this clip."""

        def make() -> MaskedView:
            found = self.tracks if tracks is None else tracks
            return masked_view(self.encoded, self.draw(found, mask, self.encoded), found, mask)

        return make() if tracks is not None else self.memoize("masks", mask, make)

    @staticmethod
    def draw(tracks: tuple[Track, ...], mask: MaskOptions, encoded: Encoded) -> MaskSet:
        """Soft masks of some tracks on the model's frames."""
        frames = encoded.frames
        return draw_masks(tracks, len(frames.pixels), frames.size, mask, frames.content)

    def ascent_steps(self, mask: MaskOptions, options: AscentOptions) -> Iterator[AscentStep]:
        """The ascent's steps on those masks, one by one; none where nothing can be masked."""
        view = self.masked(mask)
        if not len(view.objects) and view.outside is None:
            return
        if options.gradient == "half":
            yield from ascend(self.lm, self._small(mask), options)
        else:
            yield from ascend(self.lm, view, options, self.read)

    def _small(self, mask: MaskOptions) -> MaskedView:
        """The same masks over frames of half the size."""
        _, _, height, width = self.encoded.video.shape
        frames = self.lm.shrink(self.encoded.frames, (height // 2, width // 2))
        small = self.lm.encode_frames(frames, self.encoded.question)
        if small.video.shape[2] * small.video.shape[3] > 0.75 * height * width:
            raise OptionError(
                f"frames of {width} × {height} cannot be halved", "Take the exact gradient"
            )
        return masked_view(small, self.draw(self.tracks, mask, small), self.tracks, mask)

    def ascent(
        self, mask: MaskOptions, options: AscentOptions | None = None
    ) -> tuple[MaskedView, AscentStep | None]:
        """The masks and the last step of the ascent on them, None where nothing can be masked."""
        chosen = options or self.options.ascent

        def make() -> AscentStep | None:
            last = None
            for step in self.ascent_steps(mask, chosen):
                last = step
            return last

        return self.masked(mask), self.memoize("ascent", (mask, chosen), make)

    def counterfactual(
        self, mask: MaskOptions, options: AscentOptions | None = None
    ) -> Counterfactual:
        """Where that ascent ended, as levels; none at all where there is nothing to mask."""
        chosen = options or self.options.ascent
        _, last = self.ascent(mask, chosen)
        if last is None:
            none = np.zeros(0)
            return Counterfactual(none, none, none, none, none, none)
        return finalize_ascent(last, chosen)

    @torch.no_grad()
    def prefill_levels(
        self, view: MaskedView, level: Any, frame_level: Any
    ) -> tuple[DecodeState, Tensor]:
        """The view under given levels, prefilled, and its video (T, 3, h, w).

        The base itself where nothing is hidden.
        """
        device = view.objects.device
        levels = torch.as_tensor(level, device=device), torch.as_tensor(frame_level, device=device)
        nothing = not len(view.objects) and view.outside is None
        if nothing or not to_float(view.mask(*levels).max()) > 0:
            return self.base, self.encoded.video
        video = view.video(*levels)
        return self.prefill(video), video

    def subset(self, index: list[int]) -> Encoded:
        """The same question over some of the sampled frames."""
        frames = self.encoded.frames.subset(index)
        return self.memoize(
            "encoding",
            tuple(index),
            lambda: self.lm.encode_frames(frames, self.encoded.question),
        )

    def noise(self, seed: int = 0) -> Tensor:
        """Standard normal noise of the video's shape, the same for every method that asks."""
        generator = torch.Generator().manual_seed(self.options.seed + seed)
        video = self.encoded.video
        return torch.randn(video.shape, generator=generator, dtype=torch.float32).to(video.device)
