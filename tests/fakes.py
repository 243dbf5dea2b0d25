"""Small stand-ins with the roles of backbone and detector, for tests that need no weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.base import BackboneInfo, Encoded, Prune, normalise
from macd_studio.core.backbones.local import DecodeState, LocalLM
from macd_studio.core.masking.composite import mask_compositor
from macd_studio.core.masking.masks import draw_masks
from macd_studio.core.objects.segment import follow
from macd_studio.core.options import DetectOptions, Fit, MaskOptions
from macd_studio.core.text.question import refuse_special
from macd_studio.core.types import SEEN, Clip, Detections, ModelFrames, Pixels, Track

END, VIDEO, VOCABULARY = 256, 257, 258


class ByteLM(LocalLM):
    """A random recurrent model over bytes that looks at the mean colour of 2×2 regions.

    Differentiable, deterministic, and its answer depends on the video. `answer_length` ends it.
    """

    def __init__(self, seed: int = 0, answer_length: int = 6, blind: bool = False) -> None:
        self.info = BackboneInfo("bytes", "fake", 1, "cpu", "float64")
        g = torch.Generator().manual_seed(seed)
        self.see = torch.randn(12, 32, generator=g, dtype=torch.float64)
        self.read = torch.randn(VOCABULARY, 32, generator=g, dtype=torch.float64)
        self.say = torch.randn(32, VOCABULARY, generator=g, dtype=torch.float64)
        self.answer_length, self.blind = answer_length, blind
        self.poison_at: int | None = None

    def preprocess(self, clip: Clip, fit: Fit = "pad") -> ModelFrames:
        height, width = clip.frames.shape[1:3]
        return ModelFrames(clip.frames, clip.times, clip.duration, (0, 0, width, height))

    def encode_frames(
        self, frames: ModelFrames, question: str, suffix: str = "", before: str = ""
    ) -> Encoded:
        refuse_special(question, ["<|end|>"])
        tokens = list(question.encode())
        mean = std = torch.full((3,), 0.5)
        video = normalise(frames.pixels, mean, std).double()
        return Encoded(
            question=question,
            prompt=question,
            input_ids=torch.tensor([[VIDEO, *tokens]]),
            query=torch.arange(1, len(tokens) + 1),
            video=video,
            frames=frames,
            gather=torch.arange(video.numel()),
            mean=mean,
            std=std,
            groups=tuple((i, i + 1) for i in range(0, len(video) - 1, 2)) or ((0,),),
            inputs={},
            vision_tokens=len(video),
        )

    def _features(self, video: Tensor) -> Tensor:
        if self.blind:
            return torch.zeros(12, dtype=torch.float64) + 0 * video.sum()
        pooled = torch.nn.functional.adaptive_avg_pool2d(video.double(), 2).mean(0)
        return pooled.reshape(-1)

    def _logits(self, features: Tensor, tokens: list[int]) -> Tensor:
        """(len(tokens), V): what follows each prefix."""
        steps = torch.arange(1, len(tokens) + 1, dtype=torch.float64)[:, None]
        hidden = self.read[tokens].cumsum(0) / steps.sqrt() + features @ self.see
        return torch.tanh(hidden) @ self.say

    def query_logits(
        self,
        encoded: Encoded,
        video: Tensor,
        low_memory: bool = False,
        reuse: DecodeState | None = None,
        changed_frames: Tensor | None = None,
    ) -> Tensor:
        logits = self._logits(self._features(video), encoded.input_ids[0].tolist())
        return logits[encoded.query - 1]

    def tokens(self, text: str) -> list[int]:
        return list(text.encode())

    def prefill(
        self,
        encoded: Encoded,
        video: Tensor,
        prune: Prune | None = None,
        reuse: DecodeState | None = None,
        graph: bool = False,
    ) -> DecodeState:
        if video.ndim == 5:
            views = [self.prefill(encoded, v, prune) for v in video]
            asked = torch.cat([v.query_logits for v in views])
            return replace(self.join(views), query_logits=asked)
        tokens = encoded.input_ids[0].tolist()
        features = self._features(video) * (1 if prune is None else prune.ratio)
        logits = self._logits(features, tokens)
        return DecodeState(
            logits[-1:],
            [(features, tokens)],
            len(tokens),
            len(tokens),
            logits[None, encoded.query - 1],
            prompt_tokens=tuple(tokens),
        )

    def prefill_question(self, question: str) -> DecodeState:
        tokens, features = list(question.encode()), torch.zeros(12, dtype=torch.float64)
        logits = self._logits(features, tokens)
        return DecodeState(logits[-1:], [(features, tokens)], len(tokens), len(tokens))

    def join(self, states: Sequence[DecodeState]) -> DecodeState:
        rows = [row for s in states for row in s.cache]
        first = states[0]
        return replace(first, logits=torch.cat([s.logits for s in states]), cache=rows)

    def select(self, state: DecodeState, rows: Sequence[int]) -> DecodeState:
        cache = [state.cache[i] for i in rows]
        return replace(state, logits=state.logits[list(rows)], cache=cache)

    def crop(self, state: DecodeState, length: int) -> DecodeState:
        rows = [(f, t[:length]) for f, t in state.cache]
        return DecodeState(state.logits, rows, length, state.prompt)

    def step(self, state: DecodeState, tokens: Sequence[int]) -> DecodeState:
        rows = [(f, [*t, n]) for (f, t), n in zip(state.cache, tokens, strict=True)]
        logits = torch.stack([self._logits(f, t)[-1] for f, t in rows])
        done = state.length + 1 - state.prompt
        if done >= self.answer_length:
            logits[:, END] = 1e3
        if self.poison_at == done:
            logits[:, 0] = float("nan")
        return DecodeState(logits, rows, state.length + 1, state.prompt)

    def text(self, tokens: Sequence[int]) -> str:
        return bytes(t for t in tokens if t < 256).decode("utf-8", "replace")

    def token_text(self, token: int) -> str:
        return bytes([token]).decode("latin-1") if token < 256 else f"<|{token}|>"

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset([END])


class BoxDetector:
    """Finds the same boxes in every frame, moved by `shift` a frame."""

    name = "boxes"
    open_vocabulary = False

    def __init__(
        self,
        boxes: Sequence[tuple[str, float, tuple[float, float, float, float]]] = (
            ("dog", 0.9, (0.1, 0.1, 0.4, 0.4)),
            ("ball", 0.7, (0.6, 0.5, 0.9, 0.9)),
        ),
        shift: float = 0.0,
    ) -> None:
        self.boxes, self.shift = boxes, shift
        self.calls = 0

    def input_size(self, frames: Pixels, options: DetectOptions) -> int:
        return max(frames.shape[1:3])

    def detect(self, frames: Pixels, options: DetectOptions) -> Iterator[Detections]:
        self.calls += 1
        for i in range(len(frames)):
            kept = [b for b in self.boxes if b[1] >= options.floor]
            coordinates = np.array([b[2] for b in kept], np.float32).reshape(-1, 4)
            yield Detections(
                boxes=(coordinates + i * self.shift).clip(0, 1),
                scores=np.array([b[1] for b in kept], np.float32),
                labels=tuple(b[0] for b in kept),
            )


def clip(frames: int = 4, size: int = 16, seed: int = 0, dense: int = 8) -> Clip:
    """A random clip."""
    rng = np.random.default_rng(seed)
    times = (np.arange(frames) + 0.5) / frames * 2
    return Clip(
        frames=rng.integers(0, 256, (frames, size, size, 3), dtype=np.uint8),
        times=times,
        dense_frames=rng.integers(0, 256, (dense, size, size, 3), dtype=np.uint8),
        dense_times=np.linspace(0, 2, dense),
        name="clip.mp4",
        sha256=f"{seed:064d}",
        duration=2.0,
        size=(size, size),
    )


def tracks(*boxes, frames=4):
    """A track that stands still for each box, of falling confidence."""
    state = np.full(frames, SEEN, np.int8)
    return [
        Track(i, "dog", 0.9 - 0.2 * i, np.tile(np.array(b, np.float32), (frames, 1)), state, 8)
        for i, b in enumerate(boxes)
    ]


FOUND = tracks((0.1, 0.1, 0.5, 0.5), (0.4, 0.4, 0.9, 0.9))


def a_view(lm, found, **options):
    """The masks of tracks over the random clip, in double precision."""
    chosen = MaskOptions(**options)
    masks = draw_masks(found, 4, (16, 16), chosen)
    return mask_compositor(lm.encode(clip(), "is it?"), masks, found, chosen, torch.float64)


def segment(frames, times, at, points, segmenter, label="object", cuts=()):
    """The track of the object under points of a frame, at once; see `objects.segment.follow`."""
    following = follow(segmenter, frames, times, at, points, cuts)
    while True:
        try:
            next(following)
        except StopIteration as end:
            return replace(end.value, label=label)
