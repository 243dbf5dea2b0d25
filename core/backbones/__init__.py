"""Video language models behind one role (`base.py`); `load_backbone` is the door.

transformers is imported when a model is loaded, not before.
"""

from macd_studio.core.backbones.base import BackboneInfo, Encoded
from macd_studio.core.backbones.local import DecodeState, LocalLM
from macd_studio.core.types import Progress
from macd_studio.core.weights_options import Dtype, Weights

__all__ = ["BackboneInfo", "DecodeState", "Encoded", "LocalLM", "load_backbone"]


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
