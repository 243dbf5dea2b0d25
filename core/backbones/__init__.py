"""Video language models behind one role (`base.py`); `open_backbone` is the door.

transformers is imported when a model is loaded, not before.
"""

from typing import Any

from macd_studio.core.backbones.base import BackboneInfo, Encoded, Reader
from macd_studio.core.backbones.local import DecodeState, LocalLM
from macd_studio.core.errors import OptionError
from macd_studio.core.remote_address import is_remote
from macd_studio.core.types import Progress
from macd_studio.core.weights_options import Weights

__all__ = [
    "BackboneInfo",
    "DecodeState",
    "Encoded",
    "LocalLM",
    "Reader",
    "load_backbone",
    "open_backbone",
]


def load_backbone(
    name: str = "toyworld",
    device: str = "auto",
    progress: Progress | None = None,
    weights: Weights = "as-is",
    offload: bool = False,
    question: str = "",
    hash_weights: bool = False,
) -> LocalLM:
    """See `core.backbones.load.load_backbone`."""
    from macd_studio.core.backbones.load import load_backbone as load

    return load(name, device, progress, weights, offload, question, hash_weights)


def open_backbone(
    name: str = "toyworld",
    device: str = "auto",
    progress: Progress | None = None,
    weights: Weights = "as-is",
    offload: bool = False,
    question: str = "",
    hash_weights: bool = False,
    concurrency: int | None = None,
) -> Reader:
    """`load_backbone`, or the reader of a server for a name like `vllm:http://HOST:PORT/MODEL`.

    concurrency: requests that a server is sent at once. How weights are held is the server's
    business then: raises OptionError for `weights`, `offload` and `hash_weights`.
    """
    if not is_remote(name):
        held: dict[str, Any] = {
            "weights": weights,
            "offload": offload,
            "hash_weights": hash_weights,
        }
        return load_backbone(name, device, progress, question=question, **held)
    if weights != "as-is" or offload or hash_weights:
        raise OptionError(
            "how weights are held, and their hash, is the business of the server that holds them",
            "Leave these options out, and give them to vLLM where it has them",
        )
    from macd_studio.core.backbones.remote.client import CONCURRENCY
    from macd_studio.core.backbones.remote.open import open_server

    return open_server(name, progress, question, concurrency or CONCURRENCY)
