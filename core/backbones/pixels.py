"""What a model's own processor does to frames: the size it gives them and the scale of values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as tv

from macd_studio.core.types import Pixels

ROUNDS = 4
"""Passes after which a size that still changes is kept."""
MAX_DRIFT = 1.1
"""Of the first size's shape: some processors choose another grid for what they have resized."""
_RESIZING = re.compile(r"_?upsample_(bilinear|bicubic|nearest_exact|nearest|lanczos)2d(_aa)?")


class _Resizes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While inside, `found` grows by each size (h, w), its filter and whether it is antialiased."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[tuple[tuple[int, int], InterpolationMode, bool]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if named := _RESIZING.match(func.__name__):
            mode = InterpolationMode(named[1].replace("_", "-"))
            self.found.append(((out.shape[-2], out.shape[-1]), mode, named[2] is not None))
        return out


@dataclass(frozen=True, eq=False)
class Scale:
    """What a processor does to colours in [0, 1].

    mean, std: (3,), (rgb − mean) / std is what the model is given; 255 times as much is where the
    processor leaves colours as they are, 0-255. brightest: what 1 is before mean and deviation are
    taken. step: what the model sees of one step of 8 bits, at most.
    """

    mean: Tensor
    std: Tensor
    brightest: float
    step: float


def scale_of(part: Any) -> Scale:
    """That of a video or image processor, by its own settings."""
    rescales = getattr(part, "do_rescale", True)
    brightest = 255 * float(part.rescale_factor) if rescales else 255.0
    own = (getattr(part, "image_mean", None), getattr(part, "image_std", None))
    used = getattr(part, "do_normalize", True) and own[0] and own[1] and len(own[0]) == 3
    mean, std = map(torch.tensor, own if used else ([0.0] * 3, [1.0] * 3))
    unit = brightest if rescales else 1.0
    return Scale(mean / brightest, std / unit, brightest, brightest / 255 / float(std.min()))


def as_read(frames: Pixels, process: Callable[[Pixels], int]) -> Pixels:
    """Frames (T, H, W, 3) at the size in which a processor lays them out, so that it keeps it.

    Where it reads one picture at several sizes, at the largest.

    process: runs the processor, and says how many values it laid out, each counted once.
    """
    shown, aspect = frames, 0.0
    for _ in range(ROUNDS):
        with _Resizes() as seen:
            laid = process(shown)
        if not seen.found:
            break
        size, mode, antialias = max(seen.found, key=lambda f: f[0][0] * f[0][1])
        values = 3 * len(frames) * size[0] * size[1]
        overview = len({f[0] for f in seen.found}) == 1 and laid >= shown.size + values
        if overview and size[0] <= shown.shape[1] and size[1] <= shown.shape[2]:
            break  # tiles hold every pixel already
        aspect = aspect or size[1] / size[0]
        if not 1 / MAX_DRIFT <= size[1] / size[0] / aspect <= MAX_DRIFT:
            break
        rgb = torch.from_numpy(np.array(frames)).permute(0, 3, 1, 2)
        resized = tv.resize(rgb, list(size), mode, antialias=antialias)
        shown = resized.permute(0, 2, 3, 1).contiguous().numpy()
    return shown
