"""The slope of the loss by reading alone: central differences, and which of them are noise.

For a model whose gradient cannot be had: held by another process, or with weights that no gradient
passes through. One step of the ascent needs the signs of the slopes only (equations 6 and 7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.base import Encoded, Handle, Reader
from macd_studio.core.macd import MaskCompositor
from macd_studio.core.masking.composite import BATCH
from macd_studio.core.options import DITHERS

Float64Array = NDArray[np.float64]
Losses = Callable[[Tensor], Float64Array]
"""Videos (B, T, 3, H, W) → the query loss of each (B,), nats a token."""

TIMES_NOISE = 3.0
"""A difference is decided above so many standard deviations of the dithered losses."""


class Point(NamedTuple):
    """Strengths (K,) and (G,) at which the loss is read."""

    r: Tensor
    rf: Tensor


def losses_by(
    lm: Reader,
    encoded: Encoded,
    reuse: Handle | None = None,
    before: Callable[[], None] = lambda: None,
) -> Losses:
    """Equation 5 of several videos at once, by prefills without a graph. before: called first."""

    @torch.no_grad()
    def losses(videos: Tensor) -> Float64Array:
        before()
        views = lm.prefill(encoded, videos.to(encoded.video.dtype), reuse=reuse)
        return np.asarray(-lm.question_log_p(encoded, views).mean(1), np.float64)

    return losses


def difference_gradient(
    view: MaskCompositor,
    losses: Losses,
    r: Tensor,
    rf: Tensor,
    h: float,
    shared: bool = False,
    seed: int = 0,
) -> tuple[float, Tensor, Tensor]:
    """L(V_d(r)), and the slopes by r (K,) and r_f (G,), 0 where they are undecided.

    A slope is D(h/2) = (L(r + h/2) − L(r − h/2)) / h along one strength, or along all objects' at
    once where they share one; at the ends of [0, 1] to one side. It is decided where D(h) has the
    same sign and |2h·D(h/2)| exceeds `TIMES_NOISE` standard deviations of L over `DITHERS` dithers
    of V_d(r): noise of half a step of 8-bit pixels, below which a reader may round. h: in (0, 1).
    """
    along = list(_directions(r, rf, shared))
    points = [_moved(r, rf, one, step) for one in along for step in (h, -h, h / 2, -h / 2)]
    middle = view.video(r, rf)
    videos = chain(_dithered(view.encoded, middle, seed), (view.video(p.r, p.rf) for p in points))
    value, *rest = _read(losses, chain([middle], videos))
    if not np.isfinite(rest).all():
        value = np.nan  # whoever takes the step says so
    dithers, moved = np.array(rest[:DITHERS]), np.array(rest[DITHERS:]).reshape(-1, 4)
    noise, slopes = float(dithers.std(ddof=1)), np.zeros(len(along))
    for i, one in enumerate(along):
        plus, minus, half_plus, half_minus = (_place(p, one) for p in points[4 * i : 4 * i + 4])
        wide = (moved[i, 0] - moved[i, 1]) / (plus - minus)
        narrow = (moved[i, 2] - moved[i, 3]) / (half_plus - half_minus)
        sure = abs((plus - minus) * narrow) > TIMES_NOISE * noise
        slopes[i] = narrow if wide * narrow > 0 and sure else 0.0
    g = torch.as_tensor(slopes, device=r.device)
    objects = len(along) - len(rf)
    return value, g[:objects].expand_as(r) if shared else g[:objects], g[objects:]


def _directions(r: Tensor, rf: Tensor, shared: bool) -> Iterator[Point]:
    """Which strengths move together, 1 where they do: each by itself, or all objects'."""
    each = torch.ones_like(r)[None] if shared and len(r) else torch.eye(len(r), dtype=r.dtype)
    for one in each:
        yield Point(one.to(r.device), torch.zeros_like(rf))
    for one in torch.eye(len(rf), dtype=rf.dtype):
        yield Point(torch.zeros_like(r), one.to(rf.device))


def _moved(r: Tensor, rf: Tensor, along: Point, step: float) -> Point:
    return Point((r + step * along.r).clamp(0, 1), (rf + step * along.rf).clamp(0, 1))


def _place(point: Point, along: Point) -> float:
    """Where a point lies along a direction, by the first strength that moves."""
    return float(torch.cat(point)[torch.cat(along).argmax()])


def _dithered(encoded: Encoded, video: Tensor, seed: int) -> Iterator[Tensor]:
    """The video under noise of half a step of 8-bit pixels, in normalised units."""
    generator = torch.Generator().manual_seed(seed)
    step = (1 / 255 / encoded.std)[:, None, None].to(video)
    for _ in range(DITHERS):
        noise = torch.rand(video.shape, generator=generator, dtype=torch.float32) - 0.5
        yield video + step * noise.to(video)


def _read(losses: Losses, videos: Iterable[Tensor]) -> list[float]:
    found, left = list[float](), iter(videos)
    while some := list(islice(left, BATCH)):
        found += losses(torch.stack(some)).tolist()
    return found
