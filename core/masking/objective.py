"""What the ascent climbs: how surprised the model is by the question, or by its own answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from macd_studio.core.backbones.base import DecodeState, Encoded, VideoLM
from macd_studio.core.options import Objective


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


@dataclass(frozen=True)
class OwnAnswer:
    """What plain decoding says about the video. tokens: without the end; at least one.

    runner_up: the token with the second best logit at the first place.
    """

    tokens: tuple[int, ...]
    runner_up: int


def objective_loss(
    lm: VideoLM,
    encoded: Encoded,
    video: Tensor,
    objective: Objective = "query",
    own_answer: Callable[[], OwnAnswer] | None = None,
    low_memory: bool = False,
    reuse: DecodeState | None = None,
    changed_frames: Tensor | None = None,
) -> Tensor:
    """The loss that an objective names, given `video` (T, 3, H, W) normalised, with a graph.

    "query": `query_loss`, nats a token. "answer": mean negative log likelihood of the own answer's
    tokens, nats a token. "margin": logit of the runner-up less that of the answer's first token.
    own_answer: gives the answer, asked for only where the objective needs it. Raises ValueError
    without it.
    """
    if objective == "query":
        return query_loss(lm, encoded, video, low_memory, reuse, changed_frames)
    if own_answer is None:
        raise ValueError(f"the objective {objective!r} needs the own answer")
    answer = own_answer()
    tokens = answer.tokens if objective == "answer" else answer.tokens[:1]
    longer = lm.continue_prompt(encoded, tokens)
    logits = lm.query_logits(longer, video, low_memory, reuse, changed_frames)
    if objective == "answer":
        return loss_of(logits, longer)
    return logits[0, answer.runner_up] - logits[0, tokens[0]]
