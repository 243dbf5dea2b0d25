"""Positions of a prompt on three axes (time, row, column), as the Qwen-VL weights were trained.

Text counts on all three axes alike. Inside a video, time counts temporal patches (Qwen2-VL) or time
(Qwen2.5-VL). The text after it goes on at the largest position on any axis, plus one: so in the
authors' training code (QwenLM/Qwen2.5-VL, qwen-vl-finetune/qwenvl/data/rope2d.py), in vLLM, and in
transformers before 5.3. From 5.3 on, transformers lets that text begin right after the video's rows
and columns, however long the video is, which puts it before the end of a long one
(huggingface/transformers, issue 45381). So nothing here asks transformers for positions.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def positions_of(
    is_video: NDArray[np.bool_],
    grid: tuple[int, int, int],
    step: float = 1.0,
) -> Tensor:
    """(3, L) positions of a prompt with one video in one or more unbroken blocks.

    is_video: (L,) bool, which tokens stand for pixels. grid: (t, h, w) of the video in tokens; with
    several blocks, each holds the same share of t. step: positions from one temporal patch to the
    next; a fraction is kept and the product rounded down.

    >>> positions_of(np.array([False, True, True, True, False]), (3, 1, 1), step=2.5)[0].tolist()
    [0, 1, 3, 6, 7]
    """
    ends = np.flatnonzero(np.diff(is_video, append=not is_video[-1]))
    lengths = np.diff(ends, prepend=-1)
    blocks = int(is_video[ends].sum())
    times, rows, columns = grid[0] // max(1, blocks), grid[1], grid[2]
    axes = torch.meshgrid(
        (torch.arange(times) * step).long(),
        torch.arange(rows),
        torch.arange(columns),
        indexing="ij",
    )
    block = torch.stack(axes).reshape(3, -1)
    after_block = int(block.max()) + 1
    runs, start = [], 0
    for video, length in zip(is_video[ends], lengths, strict=True):
        runs.append(start + (block if video else torch.arange(int(length)).expand(3, -1)))
        start += after_block if video else length
    return torch.cat(runs, 1)
