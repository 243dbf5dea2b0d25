"""Where vision tokens stand in the frames, found by changing patches of these.

A vision tower of transformers may pool, add a summary of each frame, or cut frames into tiles, and
says so nowhere. What enters the decoder tells: of a patch that changes, its own token changes most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.base import Encoded

PROBES = 6
"""Patches of a clip that are changed."""


class _Entered(Exception):
    """What enters the decoder is known, so that it need not run."""


def entering(decoder: Any, read: Callable[[], object]) -> Tensor:
    """(L, d) float, the embeddings of a prompt as they enter its decoder; `read` reads it."""
    found: list[Tensor] = []

    def keep(_: Any, __: Any, named: dict[str, Any]) -> None:
        found.append(named["inputs_embeds"][0].float())
        raise _Entered

    handle = decoder.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        read()
    except _Entered:
        pass
    finally:
        handle.remove()
    return found[0]


@torch.no_grad()
def tokens_lead(encoded: Encoded, embeddings: Callable[[Tensor], Tensor]) -> bool | None:
    """Whether tokens for no place come first in each frame; None where the grid does not hold.

    embeddings: of the vision tokens (N, d) of a view (T, 3, H, W). The grid is
    `Encoded.token_grid`; it holds where more than half of the changed patches move their own token
    most, relative to its length.
    """
    patches, rows, columns = encoded.token_grid
    height, width = encoded.frames.size
    spare = encoded.vision_tokens // patches - rows * columns
    plain = embeddings(encoded.video)
    random, right = np.random.default_rng(0), {False: 0, True: 0}
    for _ in range(PROBES):
        patch, y, x = (int(random.integers(n)) for n in (patches, rows, columns))
        down = slice(y * height // rows, (y + 1) * height // rows)
        across = slice(x * width // columns, (x + 1) * width // columns)
        changed = encoded.video.clone()
        for frame in encoded.groups[patch]:
            changed[frame, :, down, across] *= -1
        moved = (embeddings(changed) - plain).norm(dim=-1) / plain.norm(dim=-1).clamp_min(1e-9)
        own = patch * (rows * columns + spare) + y * columns + x
        for leads in right:
            right[leads] += int(moved.argmax()) == own + leads * spare
    best = max(right, key=lambda leads: right[leads])
    return best if 2 * right[best] > PROBES else None
