"""The ascent as the options choose it: what it raises, along which gradient, with what it shares.

The steps themselves are those of `core.macd`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.base import Encoded, Handle, Reader
from macd_studio.core.backbones.host import to_float
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.errors import HALF_OR_DAMAGED, BlindGradient, NumericalError, OptionError
from macd_studio.core.macd import (
    MaskCompositor,
    gradient_ascent,
    gradient_at,
    query_loss,
    question_loss_from_logits,
)
from macd_studio.core.masking.difference import Losses, difference_gradient, losses_by
from macd_studio.core.options import AscentOptions, Objective
from macd_studio.core.types import AscentStep


@dataclass(frozen=True)
class OwnAnswer:
    """What plain decoding says about the video. tokens: without the end; at least one.

    runner_up: the token with the second best logit at the first place.
    """

    tokens: tuple[int, ...]
    runner_up: int


def objective_loss(
    lm: LocalLM,
    encoded: Encoded,
    video: Tensor,
    objective: Objective = "query",
    own_answer: Callable[[], OwnAnswer] | None = None,
    low_memory: bool = False,
    reuse: Handle | None = None,
    changed_frames: Tensor | None = None,
) -> Tensor:
    """The loss that an objective names, given `video` (T, 3, H, W) normalised, with a graph.

    "query": `query_loss`, the paper's. "answer": mean negative log likelihood of the own answer's
    tokens, nats a token. "margin": logit of the runner-up less that of the answer's first token.
    own_answer: gives the answer, called only where the objective needs it. Raises ValueError
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
        return question_loss_from_logits(logits, longer)
    return logits[0, answer.runner_up] - logits[0, tokens[0]]


@dataclass(frozen=True, eq=False)
class BasePrefill:
    """V itself, prefilled. slope, loss: dL/dV (T, 3, H, W) and L(V), for the gradient "base"."""

    state: Handle
    slope: Tensor | None = None
    loss: float = np.nan


def prefill_base(
    lm: LocalLM, encoded: Encoded, options: AscentOptions, reuse: Handle | None = None
) -> BasePrefill:
    """Prefills V; with the gradient "base", the way back to its pixels belongs to the same pass.

    reuse: the prefill of another question about the same frames, whose video is not read again
    where no gradient of it is needed. Only with memory "low" the video is read twice: layers that
    compute their activations again keep no cache.
    """
    if options.gradient != "base":
        return BasePrefill(lm.prefill(encoded, encoded.video, reuse=reuse))
    video = encoded.video.clone().requires_grad_()
    if options.memory == "low":
        state, loss = lm.prefill(encoded, encoded.video), query_loss(lm, encoded, video, True)
    else:
        state, logits = lm.prefill_with_graph(encoded, video)
        loss = question_loss_from_logits(logits, encoded)
    return BasePrefill(state, torch.autograd.grad(loss, video)[0], to_float(loss))


def ascend(
    lm: Reader,
    view: MaskCompositor,
    options: AscentOptions,
    base: BasePrefill | None = None,
    own_answer: Callable[[], OwnAnswer] | None = None,
    between_reads: Callable[[], None] = lambda: None,
) -> Iterator[AscentStep]:
    """The steps of `core.macd.gradient_ascent` with the loss and the gradient that `options` name.

    lm: a `LocalLM` for every gradient but "difference", which leaves a slope 0 where it is lost in
    noise: that all of them are is an answer then. between_reads: called before each batch that it
    reads; what it raises ends the ascent.

    own_answer: see `objective_loss`. base: V as `prefill_base` gave it, so that frames no mask
    touches are not read again. Where objects share one strength, they stay equal from step to step.
    Raises BlindGradient if no gradient depends on the video, NumericalError if one is not finite,
    and OptionError for masks that take the objects' gradients (`MaskOptions.check_trainable`).
    """
    if len(view.objects) and view.outside is not None:
        view.options.check_trainable()
    if options.gradient == "difference":
        losses = losses_by(lm, view.encoded, None if base is None else base.state, between_reads)
        yield from _ascend_by_reading(losses, view, options)
        return
    local = cast(LocalLM, lm)
    reads: dict[str, Any] = {
        "low_memory": options.memory == "low",
        "reuse": None if base is None else base.state,
        "changed_frames": None if base is None else view.changed_frames(),
    }
    loss = partial(query_loss, local, view.encoded, **reads)
    if options.objective != "query":
        own: dict[str, Any] = {"objective": options.objective, "own_answer": own_answer}
        loss = partial(objective_loss, local, view.encoded, **own, **reads)
    gradient: Callable[..., tuple[float, Tensor, Tensor]] = gradient_at
    if options.gradient == "base":
        plain = base or prefill_base(local, view.encoded, options)
        gradient = partial(_base_gradient, plain, options.strengths == "shared")
    elif options.strengths == "shared":
        gradient = _shared_gradient
    for step in gradient_ascent(view, options, loss, gradient):
        check_step(step)
        yield step


def _ascend_by_reading(
    losses: Losses, view: MaskCompositor, options: AscentOptions
) -> Iterator[AscentStep]:
    shared = options.strengths == "shared"

    def gradient(
        of: MaskCompositor, _: object, r: Tensor, rf: Tensor
    ) -> tuple[float, Tensor, Tensor]:
        return difference_gradient(of, losses, r, rf, options.difference_step, shared)

    for step in gradient_ascent(view, options, _no_graph, gradient):
        check_finite_step(step)
        yield step


def _no_graph(video: Tensor) -> Tensor:
    """Stands for a loss where the slopes do not come from one."""
    raise AssertionError("the loss is read, without a graph")


def _shared_gradient(
    view: MaskCompositor, loss: Callable[[Tensor], Tensor], r: Tensor, rf: Tensor
) -> tuple[float, Tensor, Tensor]:
    """Of one strength that all objects share: Σ_k ∂L/∂r_k at equal r_k, in every entry."""
    value, g, gf = gradient_at(view, loss, r, rf)
    return value, g.sum().expand_as(g), gf


def _base_gradient(
    base: BasePrefill, shared: bool, view: MaskCompositor, *_: object
) -> tuple[float, Tensor, Tensor]:
    """The approximation "base": L of V, and the slope where every strength is 0."""
    assert base.slope is not None
    g, gf = slopes_at_zero(view, base.slope, shared)
    return base.loss, g.double(), gf.double()


def slopes_at_zero(
    view: MaskCompositor, slope: Tensor, shared: bool = False
) -> tuple[Tensor, Tensor]:
    """dL/dr (K,) and dL/dr_f (G,) where every strength is 0, from dL/dV (T, 3, H, W).

    Each strength as if it alone moved; at 0 the maximum of all would split it among them. Raises
    OptionError where strengths are applied twice: at 0 such a mask has no slope.
    shared: of one strength that all objects share, K times the same.
    """
    if view.options.strength_twice:
        raise OptionError(
            "a strength that is applied twice has no slope at 0",
            "Choose the exact gradient, or apply each strength once",
        )
    # a hair above 0, so that what cannot grow brighter ("additive") has no slope
    mask = torch.full_like(view.fill[:, 0], 1e-6).requires_grad_()
    shown = view.composite(mask)
    (per_pixel,) = torch.autograd.grad(shown, mask, slope.to(shown.dtype))
    objects = torch.einsum("thw,kthw->k", per_pixel, view.per_object_mask)
    if shared and len(objects):
        highest = view.options.fusion in ("max", "sum")
        reach = view.per_object_mask.amax(0) if highest else view.per_object_mask.sum(0)
        objects = (per_pixel * reach).sum().expand_as(objects)
    frames = per_pixel.new_zeros(len(view.encoded.groups))
    if view.outside is None:
        return objects, frames[:0]
    each = (per_pixel * view.outside).sum((1, 2))
    return objects, frames.index_add(0, view.group_of, each)


def check_finite_step(step: AscentStep) -> None:
    """Raises NumericalError where the loss or a slope is not finite."""
    if not np.isfinite([step.loss, *step.gradient, *step.frame_gradient]).all():
        raise NumericalError(
            f"the loss or its gradient is not finite at ascent step {step.index + 1}",
            f"{HALF_OR_DAMAGED}; or choose another fill",
        )


def check_step(step: AscentStep) -> None:
    """Raises NumericalError or BlindGradient, see `ascend`."""
    check_finite_step(step)
    if not np.concatenate([step.gradient, step.frame_gradient]).any():
        raise BlindGradient(
            "no mask changes the loss: every gradient is exactly zero",
            "Let masks cover something; load weights that gradients pass through (not those"
            " quantised with their activations, such as int8-dynamic); use a chat template that"
            " puts the video before the question",
        )


def reverse_step(step: AscentStep) -> AscentStep:
    """The step with the sign of its gradient reversed, a control."""
    return replace(step, gradient=-step.gradient, frame_gradient=-step.frame_gradient)
