"""How far a server's log-probabilities move when pixels do: what its errors are measured by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from macd_studio.core.backbones.remote.ways import CommonWay, View, Wanted, Way
from macd_studio.core.backbones.remote.wire import Said

REPEATS = 3
"""How often a view is read again alone, and how often pixels are dithered."""
HEAD = 12.0
"""Nats below the likeliest token within which changes count: no cut reaches further down."""


def one_of(way: Way, view: View, wanted: Wanted, tokens: Sequence[int] = ()) -> Said:
    """What follows one view and `tokens`."""
    asked = way.row(view, tokens, wanted)
    return way.read_row(view, tokens, way.client.all([asked])[0])


def rounding(way: Way, view: View, wanted: Wanted) -> float:
    """The largest change where every value is dithered by a step of 8 bits, up or down or not."""
    assert view.encoded is not None
    assert view.video is not None
    generator, step = torch.Generator().manual_seed(0), way.step(view.encoded)
    shape = view.video.shape
    moves = [step * torch.randint(-1, 2, shape, generator=generator) for _ in range(REPEATS)]
    return _moved(way, view, wanted, moves)


def flat(way: Way, view: View, wanted: Wanted) -> float:
    """The largest change where pixels of 0 are moved by the way's step, see `_moved_frames`."""
    assert view.encoded is not None
    return _moved_frames(way, view, wanted, torch.zeros(3, 1, 1))


def padding(way: Way, view: View, wanted: Wanted) -> float:
    """The same of pixels of the colour that stands around a clip of another shape."""
    encoded = view.encoded
    assert encoded is not None
    if isinstance(way, CommonWay):
        return 0.0
    mean, std = (z[:, None, None] for z in (encoded.mean, encoded.std))
    return _moved_frames(way, view, wanted, ((255 * mean).round() / 255 - mean) / std)


def _moved_frames(way: Way, view: View, wanted: Wanted, colour: Tensor) -> float:
    """The largest change where frames of one colour are moved by the way's step: all, and half.

    colour: (3, 1, 1), normalised. Arithmetic and rounding move all of a channel alike, which
    filters of a trained model may add up: one copy is moved down, another by colour. In the third
    each value has a drawn sign.
    """
    assert view.encoded is not None
    assert view.video is not None
    step = way.step(view.encoded)
    if not step.any():
        return 0.0
    shape, generator = view.video.shape, torch.Generator().manual_seed(0)
    drawn = 2.0 * torch.randint(0, 2, shape, generator=generator) - 1
    signs = (-torch.ones(3, 1, 1), torch.tensor([1.0, -1.0, 1.0])[:, None, None], drawn)
    found = []
    for groups in (view.encoded.groups, view.encoded.groups[::2]):
        at = [frame for group in groups for frame in group]
        moves = [torch.zeros(shape) for _ in signs]
        for move, sign in zip(moves, signs, strict=True):
            move[at] = (step * sign).expand(shape)[at]
        video = view.video.clone()
        video[at] = colour.expand(shape)[at]
        found.append(_moved(way, replace(view, video=video), wanted, moves))
    return max(found)


def _moved(way: Way, view: View, wanted: Wanted, moves: Sequence[Tensor]) -> float:
    """The largest change of log-probabilities near the best when pixels are moved so."""
    assert view.video is not None
    views = [view, *(replace(view, video=view.video + move) for move in moves)]
    answers = way.client.all([way.row(one, (), wanted) for one in views])
    first, *rest = (way.read_row(v, (), a) for v, a in zip(views, answers, strict=True))
    return max(change(first, other) for other in rest)


def change(first: Said, again: Said) -> float:
    """The largest change of a log-probability within HEAD of the best, nats."""
    best = max(first.log_p.values())
    near = [i for i, value in first.log_p.items() if value > best - HEAD and i in again.log_p]
    # told of other tokens alone: finite, as a trace holds ε, and more than any cut reaches
    return max(abs(first.log_p[i] - again.log_p[i]) for i in near) if near else HEAD
