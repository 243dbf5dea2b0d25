"""Video language models behind one role (`base.py`); `load_backbone` is the door.

torch is imported when a model or a role is first used, transformers when a model is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from macd_studio.core.types import Progress
from macd_studio.core.weights_options import Dtype, Weights

if TYPE_CHECKING:
    from macd_studio.core.backbones.base import BackboneInfo, Encoded
    from macd_studio.core.backbones.local import DecodeState, LocalLM

__all__ = ["BackboneInfo", "DecodeState", "Encoded", "LocalLM", "load_backbone"]

_PLACES = {"BackboneInfo": "base", "DecodeState": "local", "Encoded": "base", "LocalLM": "local"}


def load_backbone(
    name: str = "toyworld",
    device: str = "auto",
    progress: Progress | None = None,
    weights: Weights = "as-is",
    offload: bool = False,
    question: str = "",
    hash_weights: bool = False,
    dtype: Dtype = "auto",
) -> LocalLM:
    """See `core.backbones.load.load_backbone`."""
    from macd_studio.core.backbones.load import load_backbone as load

    return load(name, device, progress, weights, offload, question, hash_weights, dtype)


def __getattr__(name: str) -> Any:
    """The roles, which import torch, when they are first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
