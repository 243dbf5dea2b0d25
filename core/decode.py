"""The two-view loop: both views in one batch, the same token to both, greedy on the score."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from core.backbones.base import State, VideoLM
from core.contrast import check_finite, kept_candidates, log_partition, score
from core.options import ContrastOptions, DecodeOptions
from core.types import Answer, TokenStep


def decode(
    lm: VideoLM,
    base: State,
    counter: State | None,
    contrast: ContrastOptions,
    options: DecodeOptions,
) -> Iterator[TokenStep]:
    """Yields one TokenStep per token, the end token included.

    base, counter: prefilled states, left as they are; without `counter` this is plain greedy
    decoding. α = 0 gives the same tokens as that. Raises NumericalError at a logit that is not
    finite, naming the token.
    """
    state = lm.join([base] if counter is None else [base, counter])
    for index in range(options.max_tokens):
        views = state.logits.detach().cpu().numpy()
        check_finite(views, f"token {index + 1}")
        step = _token_step(lm, index, views, contrast, options)
        yield step
        if step.token in lm.end_tokens:
            return
        state = lm.step(state, [step.token] * len(views))


def _token_step(
    lm: VideoLM,
    index: int,
    views: np.ndarray,
    contrast: ContrastOptions,
    options: DecodeOptions,
) -> TokenStep:
    base = views[0]
    two = len(views) == 2
    s = score(base, views[1], contrast.alpha, contrast.beta) if two else base
    token = int(s.argmax())
    ids = kept_candidates(views, options.keep, contrast.beta if two else 0.0, token)
    return TokenStep(
        index=index,
        token=token,
        text=lm.piece(token),
        candidates=ids,
        texts=tuple(lm.piece(int(i)) for i in ids),
        base=base[ids].astype(np.float32),
        base_log_z=log_partition(base),
        counter=views[1][ids].astype(np.float32) if two else None,
        counter_log_z=log_partition(views[1]) if two else None,
    )


def answer(
    lm: VideoLM, method: str, steps: list[TokenStep], contrast: ContrastOptions | None = None
) -> Answer:
    """The tokens so far as an Answer."""
    return Answer(
        method=method,
        text=lm.text([s.token for s in steps if s.token not in lm.end_tokens]),
        tokens=tuple(steps),
        finished=bool(steps) and steps[-1].token in lm.end_tokens,
        alpha=contrast.alpha if contrast else 0.0,
        beta=contrast.beta if contrast else 0.0,
    )
