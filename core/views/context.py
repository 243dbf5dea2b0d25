"""One clip and one question, with the work that views and methods share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from macd_studio.core.backbones.base import Encoded, Handle, Prune, Reader, normalise
from macd_studio.core.backbones.host import to_float
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.decoding.answers import Thinking, decode
from macd_studio.core.decoding.batch import open_views
from macd_studio.core.errors import NotApplicable, OptionError
from macd_studio.core.macd import (
    MaskCompositor,
    empty_counterfactual,
    finalize_ascent,
    mean_question_loss,
)
from macd_studio.core.masking.ascent import (
    BasePrefill,
    OwnAnswer,
    ascend,
    prefill_base,
    reverse_step,
)
from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.media.sampling import SAME_MOMENTS, other_moments
from macd_studio.core.options import AscentOptions, MaskOptions, RunOptions
from macd_studio.core.records import Thought
from macd_studio.core.rules import Plain
from macd_studio.core.system.cost import Meter, WorkCache
from macd_studio.core.types import AscentStep, Counterfactual, ModelFrames, Track

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Partner:
    """Another clip of the same scene. name, sha256: of its file; frames: as the model reads it."""

    name: str
    sha256: str
    frames: ModelFrames


class MethodContext:
    """One clip and one question, with the work that methods share, done once.

    tracks: the objects, or a call that finds them. reuse: the prefill of another question about the
    same frames, see `prefill_base`.

    cache: keeps the results, with what each took, see `WorkCache`. partner: of the view `pair`,
    where there is one.
    """

    def __init__(
        self,
        lm: Reader,
        encoded: Encoded,
        tracks: tuple[Track, ...] | Callable[[], tuple[Track, ...]],
        options: RunOptions,
        meter: Meter | None = None,
        reuse: Handle | None = None,
    ) -> None:
        self.lm, self.encoded, self._reuse = lm, encoded, reuse
        self._tracks, self.options = tracks, options
        self.meter = meter or Meter(lm.info.device)
        self.cache = WorkCache(self.meter)
        self.thought: Thought | None = None
        self.partner: Partner | None = None
        self.between_reads: Callable[[], None] = lambda: None
        """Called between the reads of an ascent by differences; raises to end it."""

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The objects; tracks_ready for when they are first asked for, where a call gives them."""
        if callable(self._tracks):
            self._tracks = self._tracks()
        return self._tracks

    @tracks.setter
    def tracks(self, tracks: tuple[Track, ...]) -> None:
        self._tracks = tracks

    @property
    def tracks_ready(self) -> bool:
        """Whether the objects are there without looking for them."""
        return not callable(self._tracks)

    def think(self) -> Iterator[int]:
        """Reads what the model writes before its answer, where it does, as a part of the prompt.

        By plain decoding, once for all methods, and before anything is read for them; yields how
        many tokens there are. Not where thoughts are contrasted: each method has its own then.
        """
        lm, options = self.lm, self.options.decode
        if lm.thought_marks is None or options.contrast_thought:
            return
        self._reuse = lm.prefill(self.encoded, self.encoded.video, reuse=self._reuse)
        thinking = Thinking(open_views(lm, self._reuse, [], options))
        for _ in thinking.steps(Plain()):
            yield len(thinking.tokens)
        if thinking.record is not None:
            self.thought = thinking.record
            self.encoded = lm.with_thought(self.encoded, thinking.tokens)

    @property
    def local(self) -> LocalLM:
        """The model, where it is in this process: for what needs its gradient."""
        return cast(LocalLM, self.lm)

    @property
    def ascends(self) -> bool:
        """Whether its masks come from an ascent: by the model's gradient, or by reading alone."""
        return self.options.ascent.gradient == "difference" or "gradient" in self.lm.capabilities

    def need(self, *names: str) -> None:
        """Raises NotApplicable where something that a method needs is not there.

        names: of `core.records.CAPABILITIES`; and "ascent", the gradient unless differences are
        taken.
        """
        met = {"ascent"} if self.ascends else set()
        wanted = (name for name in names if name not in met)
        self.lm.need(*("gradient" if name == "ascent" else name for name in wanted))

    @property
    def base_prefill(self) -> BasePrefill:
        """The video as it is, read as the ascent wants it."""
        options, reuse = self.options.ascent, self._reuse
        return self.cache.memoize(
            "base prefill",
            self.options.ascent,
            lambda: prefill_base(self.local, self.encoded, options, reuse),
        )

    @property
    def base(self) -> Handle:
        """The video as it is, prefilled."""
        return self.base_prefill.state

    def partner_video(self) -> tuple[Tensor, dict[str, str]]:
        """The partner's frames (T, 3, H, W) in the place of the clip's own, normalised alike.

        Also name and hash of its file. Raises NotApplicable where there is no partner, or its
        frames are of another number or size, or seen at other times.
        """
        if self.partner is None:
            raise NotApplicable(
                "no partner of this clip was given", "Give one by --counterpart FILE"
            )
        own, other = self.encoded.frames.pixels.shape, self.partner.frames.pixels.shape
        if own != other:
            sizes = (f"{z[0]} frames of {z[2]}×{z[1]}" for z in (own, other))
            raise NotApplicable(
                f"the model reads {next(sizes)} of this clip and {next(sizes)} of its partner",
                "Give a partner of the same length and shape",
            )
        frames, others = self.encoded.frames, self.partner.frames.times.tolist()
        if cause := other_moments(frames.times.tolist(), others, frames.duration):
            raise NotApplicable(cause, SAME_MOMENTS)
        video = normalise(self.partner.frames.pixels, self.encoded.mean, self.encoded.std)
        about = {"file": self.partner.name, "sha256": self.partner.sha256}
        return video.to(self.encoded.video), about

    def prefill(self, video: Tensor, prune: Prune | None = None) -> Handle:
        """Another view of the same frames; what it shares with the base is not read again.

        video: (T, 3, H, W) as `encoded.video`, or several, (B, …); ValueError for another shape.
        What `subset` encoded is read by `lm.prefill(encoded, encoded.video)`.
        """
        if video.shape[-4:] != self.encoded.video.shape:
            raise ValueError(
                f"the video is {tuple(video.shape)}, the question was encoded with"
                f" {tuple(self.encoded.video.shape)}: prefill a subset by context.lm.prefill"
            )
        if video is self.encoded.video and prune is None:
            return self.base
        return self.lm.prefill(self.encoded, video, prune, self.base)

    def masks(
        self, options: MaskOptions, tracks: tuple[Track, ...] | None = None
    ) -> MaskCompositor:
        """Masks of the tracks (of others, if given) over this clip."""

        def make() -> MaskCompositor:
            masked = self.tracks if tracks is None else tracks
            return self._compositor(self.encoded, masked, options)

        return make() if tracks is not None else self.cache.memoize("masks", options, make)

    @staticmethod
    def _compositor(
        encoded: Encoded, tracks: tuple[Track, ...], options: MaskOptions
    ) -> MaskCompositor:
        frames = encoded.frames
        drawn = draw_masks(tracks, len(frames.pixels), frames.size, options, frames.content)
        return mask_compositor(encoded, drawn, tracks, options)

    def ascent_steps(
        self, mask: MaskOptions, options: AscentOptions | None = None
    ) -> Iterator[AscentStep]:
        """The ascent's steps on those masks, as they come; none where nothing can be masked.

        They are computed once, and only an ascent that was taken to its end is kept.
        """
        mask_and_ascent = mask, options or self.options.ascent
        needs: list[Hashable] = [("base prefill", self.options.ascent), ("masks", mask)]
        if mask_and_ascent[1].objective != "query":
            needs.append(("own answer", self.options.decode))
        yield from self.cache.stream(
            "ascent", mask_and_ascent, lambda: self._ascend(*mask_and_ascent), needs
        )

    def _ascend(self, mask: MaskOptions, options: AscentOptions) -> Iterator[AscentStep]:
        masks = self.masks(mask)
        if not len(masks.objects) and masks.outside is None:
            return
        self.need("ascent")
        if options.gradient == "half":
            half = self._half_size(mask)
            yield from ascend(self.lm, half, options, own_answer=self.own_answer)
        else:
            yield from ascend(
                self.lm, masks, options, self.base_prefill, self.own_answer, self.between_reads
            )

    def own_answer(self) -> OwnAnswer:
        """What plain greedy decoding says, for an ascent that climbs it.

        Raises NumericalError for a logit that is not finite.
        """

        def make() -> OwnAnswer:
            greedy = replace(self.options.decode, search="greedy")
            base = self.local.join([self.base])  # read now, where an evaluation gathers views
            steps = list(decode(self.lm, base, [], Plain(), greedy))
            tokens = [s.token for s in steps if s.token not in self.lm.end_tokens]
            first = steps[0]
            others = (int(t) for t in first.candidates if t != first.token)
            return OwnAnswer(tuple(tokens) or (first.token,), next(others, first.token))

        return self.cache.memoize("own answer", self.options.decode, make)

    def _half_size(self, mask: MaskOptions) -> MaskCompositor:
        """The same masks over frames of half the size."""
        _, _, height, width = self.encoded.video.shape
        frames = self.lm.shrink(self.encoded.frames, (height // 2, width // 2))
        small = self.encode_frames(frames)
        if small.video.shape[2] * small.video.shape[3] > 0.75 * height * width:
            raise OptionError(
                f"frames of {width} × {height} cannot be halved", "Take the exact gradient"
            )
        return self._compositor(small, self.tracks, mask)

    def ascent(
        self, mask: MaskOptions, options: AscentOptions | None = None
    ) -> tuple[AscentStep, ...]:
        """All steps of the ascent on those masks; see `ascent_steps`."""
        return tuple(self.ascent_steps(mask, options))

    def counterfactual(
        self, mask: MaskOptions, options: AscentOptions | None = None, *, reverse: bool = False
    ) -> Counterfactual:
        """Where that ascent ended, as levels; empty where there is nothing to mask.

        reverse: as if the last gradient had the other sign, a control.
        """
        steps = self.ascent(mask, options)
        if not steps:
            return empty_counterfactual()
        last = reverse_step(steps[-1]) if reverse else steps[-1]
        return finalize_ascent(last, options or self.options.ascent)

    def train(self, view: MaskCompositor, options: AscentOptions) -> Counterfactual:
        """Where an ascent on another compositor's strengths ends; it is not kept."""
        *_, last = ascend(
            self.lm, view, options, self.base_prefill, self.own_answer, self.between_reads
        )
        return finalize_ascent(last, options)

    @torch.no_grad()
    def composite(self, masks: MaskCompositor, level: Any, frame_level: Any) -> Tensor:
        """The video (T, 3, h, w) behind masks of the given levels; itself where none masks."""
        device = masks.objects.device
        levels = torch.as_tensor(level, device=device), torch.as_tensor(frame_level, device=device)
        nothing = not len(masks.objects) and masks.outside is None
        if nothing or not to_float(masks.mask(*levels).max()) > 0:
            return self.encoded.video
        return masks.video(*levels)

    def subset(self, index: tuple[int, ...]) -> Encoded:
        """The same question over some of the sampled frames, by their rising indices.

        Raises ValueError for another order: positions and timestamps follow the frames' times. To
        change what is seen at a time, permute `encoded.video`, (T, 3, H, W), instead.
        """
        if any(b <= a for a, b in pairwise(index)):
            raise ValueError(f"frames of a subset must rise, each once: {index}")
        frames = self.encoded.frames.subset(index)
        return self.cache.memoize("encoding", index, lambda: self.encode_frames(frames))

    def encode_frames(self, frames: ModelFrames, suffix: str = "") -> Encoded:
        """The same question over other frames, or with a suffix, and the same thought after it."""
        asked = self.lm.encode_frames(frames, self.encoded.question, suffix)
        return self.lm.with_thought(asked, self.encoded.thought)

    def prefill_text(self) -> Handle:
        """The question without a video, and the same thought after it, prefilled."""
        return self.lm.prefill_text(self.encoded.question, self.encoded.thought)

    def loss(self, view: Handle) -> float:
        """Equation 5 given a view that was prefilled, nats a token."""
        return mean_question_loss(self.lm.question_log_p(self.encoded, view)[0])

    def noise(self, seed: int = 0) -> Tensor:
        """Standard normal noise of the video's shape, the same for every method that asks."""
        generator = torch.Generator().manual_seed(self.options.seed + seed)
        video = self.encoded.video
        return torch.randn(video.shape, generator=generator, dtype=torch.float32).to(video.device)
