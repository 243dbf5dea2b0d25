"""What a method is: from one clip and question to the views its tokens are chosen by."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from core.ascent import BaseRead, ascend, conclude, read_base
from core.backbones.base import Encoded, Prune, State, VideoLM
from core.backbones.host import to_float
from core.errors import OptionError
from core.masks import draw_masks
from core.options import AscentOptions, ContrastOptions, MaskOptions, RunOptions
from core.types import AscentStep, Clip, Counterfactual, Track
from core.views import MaskedView, masked_view

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Prepared:
    """The views a method decodes from. Without `counter` it decodes from `base` alone.

    bias: added to the scores of some tokens; said: an answer that needs no model at all.
    view: what the second view is, for whoever shows it. Its `kind` is "none", "masks" (with level,
    frame_level), "noise" (scale), "frames" (frames), "pruned" (layer, ratio), "blank", or another
    one with its caption as `said`.
    """

    base: State
    counter: State | None
    contrast: ContrastOptions
    view: dict[str, Any] = field(default_factory=dict)
    bias: dict[int, float] | None = None
    said: str | None = None


class Case:
    """One clip and one question, with the work that methods share, done once.

    `shared` counts how many methods each piece served that another had made; the first to need a
    piece pays for it.
    """

    def __init__(
        self,
        lm: VideoLM,
        clip: Clip,
        encoded: Encoded,
        tracks: tuple[Track, ...],
        options: RunOptions,
    ) -> None:
        self.lm, self.clip, self.encoded = lm, clip, encoded
        self.tracks, self.options = tracks, options
        self.shared: dict[str, int] = {}
        self._used: set[str] | None = None
        self._done: dict[Hashable, Any] = {}

    def begin(self) -> None:
        """From here on another method asks."""
        self._used = set()

    def once(self, name: str, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, made at most once for a key."""
        if (name, key) not in self._done:
            self._done[name, key] = make()
        elif self._used is not None and name not in self._used:
            self.shared[name] = self.shared.get(name, 0) + 1
        if self._used is not None:
            self._used.add(name)
        found: T = self._done[name, key]
        return found

    def know(self, name: str, key: Hashable, result: Any) -> None:
        """Hands in a piece of work that was done elsewhere already."""
        self._done[name, key] = result

    @property
    def read(self) -> BaseRead:
        """The video as it is, read as the ascent wants it."""
        options = self.options.ascent
        return self.once("base prefill", None, lambda: read_base(self.lm, self.encoded, options))

    @property
    def base(self) -> State:
        """The video as it is, prefilled."""
        return self.read.state

    def prefill(self, video: Tensor, prune: Prune | None = None) -> State:
        """Another view of the same frames; what it shares with the base is not read again."""
        return self.lm.prefill(self.encoded, video, prune, self.base)

    def masked(self, mask: MaskOptions, tracks: tuple[Track, ...] | None = None) -> MaskedView:
        """Masks of the tracks (of others, if given) over this clip."""

        def make() -> MaskedView:
            found = self.tracks if tracks is None else tracks
            size = (self.encoded.frames.shape[1], self.encoded.frames.shape[2])
            masks = draw_masks(found, len(self.encoded.frames), size, mask)
            return masked_view(self.encoded, masks, found, mask)

        return make() if tracks is not None else self.once("masks", mask, make)

    def climb(self, mask: MaskOptions, options: AscentOptions) -> Iterator[AscentStep]:
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
        small = self.lm.encode(self.clip, self.encoded.question, size=(height // 2, width // 2))
        if small.video.shape[2] * small.video.shape[3] > 0.75 * height * width:
            raise OptionError(
                f"frames of {width} × {height} cannot be halved", "Take the exact gradient"
            )
        masks = draw_masks(self.tracks, len(small.frames), small.frames.shape[1:3], mask)
        return masked_view(small, masks, self.tracks, mask)

    def ascent(
        self, mask: MaskOptions, options: AscentOptions | None = None
    ) -> tuple[MaskedView, AscentStep | None]:
        """The masks and the last step of the ascent on them, None where nothing can be masked."""
        chosen = options or self.options.ascent

        def make() -> AscentStep | None:
            last = None
            for step in self.climb(mask, chosen):
                last = step
            return last

        return self.masked(mask), self.once("ascent", (mask, chosen), make)

    def found(self, mask: MaskOptions, options: AscentOptions | None = None) -> Counterfactual:
        """Where that ascent ended, as levels; none at all where there is nothing to mask."""
        chosen = options or self.options.ascent
        _, last = self.ascent(mask, chosen)
        if last is None:
            none = np.zeros(0)
            return Counterfactual(none, none, none, none, none, none)
        return conclude(last, chosen)

    @torch.no_grad()
    def prefill_levels(self, view: MaskedView, level: Any, frame_level: Any) -> State:
        """The view under given levels, prefilled; the base itself where nothing is hidden."""
        device = view.objects.device
        levels = torch.as_tensor(level, device=device), torch.as_tensor(frame_level, device=device)
        if not len(view.objects) and view.outside is None:
            return self.base
        if not to_float(view.mask(*levels).max()) > 0:
            return self.base
        return self.prefill(view.video(*levels))

    def subset(self, index: list[int]) -> Encoded:
        """The same question over some of the sampled frames."""

        def make() -> Encoded:
            clip = replace(self.clip, frames=self.clip.frames[index], times=self.clip.times[index])
            return self.lm.encode(clip, self.encoded.question)

        return self.once("encoding", tuple(index), make)

    def noise(self, seed: int = 0) -> Tensor:
        """Standard normal noise of the video's shape, the same for every method that asks."""
        generator = torch.Generator().manual_seed(self.options.seed + seed)
        video = self.encoded.video
        return torch.randn(video.shape, generator=generator, dtype=torch.float32).to(video.device)
