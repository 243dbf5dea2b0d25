"""Gradient ascent on mask strengths: which objects and frames does the model's loss depend on?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.base import DecodeState, Encoded, VideoLM
from macd_studio.core.backbones.host import to_float, to_host
from macd_studio.core.errors import BlindGradient, NumericalError
from macd_studio.core.masking.composite import MaskCompositor
from macd_studio.core.masking.masks import frame_levels, quantize_strengths
from macd_studio.core.masking.objective import OwnAnswer, loss_of, objective_loss, query_loss
from macd_studio.core.options import AscentOptions
from macd_studio.core.types import AscentStep, Counterfactual


@dataclass(frozen=True, eq=False)
class BaseRead:
    """The video as it is, read once. slope: dL/dV (T, 3, H, W), where the ascent wants it."""

    state: DecodeState
    slope: Tensor | None = None


def read_base(
    lm: VideoLM, encoded: Encoded, options: AscentOptions, former: DecodeState | None = None
) -> BaseRead:
    """Prefills the video itself; with gradient "base" the way back belongs to the same pass.

    former: the prefill of another question about the same frames, whose video is not read again
    where no gradient is wanted of it.

    Only with memory "low" the video is read twice for it: layers that compute their activations
    again keep no cache.
    """
    if options.gradient != "base":
        return BaseRead(lm.prefill(encoded, encoded.video, reuse=former))
    video = encoded.video.clone().requires_grad_()
    if options.memory == "low":
        state, loss = lm.prefill(encoded, encoded.video), query_loss(lm, encoded, video, True)
    else:
        state = lm.prefill(encoded, video, graph=True)
        assert state.query_logits is not None
        loss = loss_of(state.query_logits[0], encoded)
        state = replace(state, query_logits=state.query_logits.detach())
    return BaseRead(state, torch.autograd.grad(loss, video)[0])


def ascend(
    lm: VideoLM,
    view: MaskCompositor,
    options: AscentOptions,
    base: BaseRead | None = None,
    own_answer: Callable[[], OwnAnswer] | None = None,
) -> Iterator[AscentStep]:
    """Yields one AscentStep per step: r ← clamp(r + η·∇_r L, 0, 1) (docs/methods.md, step 7).

    L is what `options.objective` names; own_answer: see `objective_loss`.

    Where objects share one strength, dL/dr of that one is Σ_k ∂L/∂r_k at equal r_k, and every
    entry of the step holds it; so the strengths stay equal from step to step.

    base: the video itself as `read_base` gave it, so that frames no mask touches are not read
    again. With gradient "base" its slope is the only one; its loss is that of the plain video.
    Strengths are float64, so that small steps near r0 do not vanish in rounding; compositing and
    loss are at least float32. Raises BlindGradient if no gradient depends on the video,
    NumericalError if one is not finite, and OptionError for masks that take the objects' gradients
    (`MaskOptions.check_trainable`).
    """
    if len(view.objects) and view.outside is not None:
        view.options.check_trainable()
    device = view.objects.device
    groups = len(view.encoded.groups) if view.outside is not None else 0
    shared = options.strengths == "shared"
    r = torch.full((len(view.objects),), options.r0, dtype=torch.float64, device=device)
    rf = torch.full((groups,), options.r0, dtype=torch.float64, device=device)
    for index in range(options.steps):
        if options.gradient == "base":
            base = base or read_base(lm, view.encoded, options)
            loss, g, gf = _slopes_of_base(view, base, shared)
        else:
            loss, g, gf = _slopes_at(lm, view, r, rf, options, base, own_answer)
            g = g.sum().expand_as(g) if shared else g
        step = AscentStep(
            index=index,
            loss=loss,
            strength=to_host(r),
            gradient=to_host(g),
            frame_strength=to_host(rf),
            frame_gradient=to_host(gf),
        )
        _check(step)
        yield step
        r, rf = (r + options.eta * g).clamp(0, 1), (rf + options.eta * gf).clamp(0, 1)


def _slopes_at(
    lm: VideoLM,
    view: MaskCompositor,
    r: Tensor,
    rf: Tensor,
    options: AscentOptions,
    base: BaseRead | None,
    own_answer: Callable[[], OwnAnswer] | None,
) -> tuple[float, Tensor, Tensor]:
    r, rf = r.clone().requires_grad_(), rf.clone().requires_grad_()
    reuse = None if base is None else base.state
    changed_frames = None if base is None else view.changed_frames()
    loss = objective_loss(
        lm,
        view.encoded,
        view.video(r, rf),
        options.objective,
        own_answer,
        options.memory == "low",
        reuse,
        changed_frames,
    )
    if not loss.requires_grad:  # no mask reaches a single pixel
        return to_float(loss), torch.zeros_like(r), torch.zeros_like(rf)
    leaves = [z for z in (r, rf) if len(z)]
    gradients = dict(zip(map(id, leaves), torch.autograd.grad(loss, leaves), strict=True))
    g, gf = (gradients.get(id(z), torch.zeros_like(z)) for z in (r, rf))
    return to_float(loss), g, gf


def _slopes_of_base(
    view: MaskCompositor, base: BaseRead, shared: bool
) -> tuple[float, Tensor, Tensor]:
    assert base.slope is not None
    assert base.state.query_logits is not None
    loss = to_float(loss_of(base.state.query_logits[0], view.encoded))
    g, gf = view.slopes_at_zero(base.slope, shared)
    return loss, g.double(), gf.double()


def _check(step: AscentStep) -> None:
    gradient = np.concatenate([step.gradient, step.frame_gradient])
    if not np.isfinite(step.loss) or not np.isfinite(gradient).all():
        raise NumericalError(
            f"the loss or its gradient is not finite at ascent step {step.index + 1}",
            "Load the model in float32, or choose another fill",
        )
    if not gradient.any():
        raise BlindGradient(
            "no mask changes the loss: every gradient is exactly zero",
            "Let masks cover something; load weights that gradients pass through (not those"
            " quantised with their activations, such as int8-dynamic); use a chat template that"
            " puts the video before the question",
        )


def finalize_ascent(last: AscentStep, options: AscentOptions) -> Counterfactual:
    """Takes the last step and turns the strengths into levels (docs/methods.md, steps 4, 7, 8)."""
    r = (last.strength + options.eta * last.gradient).clip(0, 1)
    rf = (last.frame_strength + options.eta * last.frame_gradient).clip(0, 1)
    return Counterfactual(
        strength=r,
        margin=r - options.r0,
        level=quantize_strengths(r, options),
        frame_strength=rf,
        frame_margin=rf - options.r0,
        frame_level=frame_levels(rf, options),
    )


def reverse_step(step: AscentStep) -> AscentStep:
    """The step with the sign of its gradient reversed, a control."""
    return replace(step, gradient=-step.gradient, frame_gradient=-step.frame_gradient)
