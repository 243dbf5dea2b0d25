"""Video language models behind one role. `load_backbone` is the door."""

from core.backbones.base import BackboneInfo, Encoded, State, VideoLM
from core.backbones.load import load_backbone

__all__ = ["BackboneInfo", "Encoded", "State", "VideoLM", "load_backbone"]
