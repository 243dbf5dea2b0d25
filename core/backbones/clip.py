"""CLIP's features of pictures, of weights that lie on this machine; nothing is downloaded."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from macd_studio.core.backbones.host import to_host
from macd_studio.core.errors import NotApplicable
from macd_studio.core.types import Pixels

FOLDER, HUB = "MACD_CLIP", "openai/clip-vit-base-patch32"
"""Environment variable that names a folder of CLIP, and what is looked for in the hub's cache."""


@torch.no_grad()
def clip_features(pixels: Pixels) -> NDArray[np.float64]:
    """(T, d) projected features of pictures (T, h, w, 3), RGB 0-255.

    Raises NotApplicable where no CLIP of transformers' layout lies here.
    """
    model, processor = _loaded(os.environ.get(FOLDER, "").strip() or HUB)
    out = model.get_image_features(**processor(images=list(pixels), return_tensors="pt"))
    features = out if isinstance(out, torch.Tensor) else out.pooler_output
    return np.asarray(to_host(features.double()), np.float64)


@lru_cache(1)
def _loaded(source: str) -> tuple[Any, Any]:
    from transformers import CLIPImageProcessor, CLIPModel

    own: dict[str, Any] = {"local_files_only": True}
    try:
        processor = CLIPImageProcessor.from_pretrained(source, **own)
        model = CLIPModel.from_pretrained(source, use_safetensors=True, **own)
    except (OSError, ValueError, RuntimeError) as error:
        raise NotApplicable(
            f"no CLIP lies in {source} ({str(error).splitlines()[0][:120]})",
            f"Name a folder with {HUB} as safetensors in {FOLDER}",
        ) from error
    return model.eval(), processor
