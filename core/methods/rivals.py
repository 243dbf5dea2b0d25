"""SID and TCD."""

from __future__ import annotations

import numpy as np

from core.backbones.base import Prune
from core.methods.base import DecodingViews, MethodContext


def sid(case: MethodContext) -> DecodingViews:
    """SID (Huo et al., ICLR 2025): one video, but the second branch sees the least-attended tokens.

    Its public greedy path ignores β; here the head rule holds for every search.
    """
    options = case.options.sid
    prune = Prune(options.layer, options.ratio)
    state = case.prefill(case.encoded.video, prune)
    grid = case.encoded.token_grid
    view = {"kind": "pruned", "layer": options.layer, "ratio": options.ratio, "grid": grid}
    return DecodingViews(case.base, state, options.contrast, view)


PUBLISHED = {16: 4, 12: 8, 32: 8}


def tcd_subset(frames: int, keep: int | None = None) -> list[int]:
    """A chronological uniform subset: 16→4, 12→8, 32→8 as published, else half.

    >>> tcd_subset(16), tcd_subset(8)
    ([0, 5, 10, 15], [0, 2, 5, 7])
    """
    n = min(frames, keep or PUBLISHED.get(frames) or max(1, frames // 2))
    return sorted({round(float(i)) for i in np.linspace(0, frames - 1, n)})


def tcd(case: MethodContext) -> DecodingViews:
    """TCD (EventHallusion, Zhang et al. 2024): the same question over fewer of the sampled frames.

    Tokens are dropped where logit < β·max logit, in raw logits.
    """
    options = case.options.tcd
    index = tcd_subset(len(case.encoded.frames.pixels), options.keep)
    encoded = case.subset(index)
    state = case.lm.prefill(encoded, encoded.video)
    return DecodingViews(case.base, state, options.contrast, {"kind": "frames", "frames": index})
