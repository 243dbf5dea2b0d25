"""The query loss: how surprised the model is by the question, given what it sees."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from core.backbones.base import DecodeState, Encoded, VideoLM


def query_loss(
    lm: VideoLM,
    encoded: Encoded,
    video: Tensor,
    low_memory: bool = False,
    reuse: DecodeState | None = None,
    changed_frames: Tensor | None = None,
) -> Tensor:
    """L = mean negative log likelihood of the question's tokens given `video`, in nats.

    video: (T, 3, H, W) normalised; the result has a graph back to it. The paper's next-token
    prediction loss on the input query (docs/methods.md, step 7). low_memory, reuse, changed_frames:
    see `VideoLM.query_logits`.
    """
    return loss_of(lm.query_logits(encoded, video, low_memory, reuse, changed_frames), encoded)


def loss_of(logits: Tensor, encoded: Encoded) -> Tensor:
    """The same from logits (Q, V) that are already there, such as a prefill's."""
    return F.cross_entropy(logits, encoded.input_ids[0, encoded.query])
