"""Video language models behind one role (`base.py`), opened by `open_backbone`.

torch is imported when a model or a role is first used, transformers when a model is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from macd_studio.core.backbones.remote_address import is_remote
from macd_studio.core.backbones.weights_options import Dtype, Weights
from macd_studio.core.embedded import EMBEDDED
from macd_studio.core.errors import OptionError
from macd_studio.core.types import Progress

if TYPE_CHECKING:
    from macd_studio.core.backbones.base import BackboneInfo, Encoded, Reader
    from macd_studio.core.backbones.load import load_backbone
    from macd_studio.core.backbones.local import DecodeState, LocalLM

__all__ = [
    "BackboneInfo",
    "DecodeState",
    "Encoded",
    "LocalLM",
    "Reader",
    "load_backbone",
    "open_backbone",
]

_PLACES = {
    "BackboneInfo": "base",
    "DecodeState": "local",
    "Encoded": "base",
    "LocalLM": "local",
    "Reader": "base",
    "load_backbone": "load",
}


def open_backbone(
    name: str = EMBEDDED,
    device: str = "auto",
    progress: Progress | None = None,
    weights: Weights = "as-is",
    offload: bool = False,
    question: str = "",
    hash_weights: bool = False,
    dtype: Dtype = "auto",
    concurrency: int | None = None,
) -> Reader:
    """`load_backbone`, or the reader of a server for a name like `vllm:http://HOST:PORT/MODEL`.

    concurrency: requests that a server is sent at once. How weights are held is the server's
    business then: raises OptionError for `weights`, `offload`, `hash_weights` and `dtype`.
    """
    if not is_remote(name):
        from macd_studio.core.backbones.load import load_backbone

        return load_backbone(
            name, device, progress, weights, offload, question, hash_weights, dtype
        )
    if weights != "as-is" or offload or hash_weights or dtype != "auto":
        raise OptionError(
            "how weights are held, and their hash, is the business of the server that holds them",
            "Leave these options out, and give them to vLLM where it has them",
        )
    from macd_studio.core.backbones.remote.client import CONCURRENCY
    from macd_studio.core.backbones.remote.reader import open_server

    return open_server(name, progress, question, concurrency or CONCURRENCY)


def __getattr__(name: str) -> Any:
    """The roles, which import torch, when they are first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
