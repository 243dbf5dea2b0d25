"""Gradient ascent on mask strengths: which objects and frames does the model's loss lean on?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from core.backbones.base import VideoLM
from core.errors import BlindGradient, NumericalError
from core.masks import frame_levels, levels
from core.objective import query_loss
from core.options import AscentOptions
from core.types import AscentStep, Counterfactual
from core.views import MaskedView


def ascend(lm: VideoLM, view: MaskedView, options: AscentOptions) -> Iterator[AscentStep]:
    """Yields one AscentStep per step: r ← clamp(r + η·∇_r L, 0, 1) (METHOD step 7).

    Strengths are float64, so that small steps near r0 do not vanish in rounding; compositing and
    loss are at least float32. Raises BlindGradient if no gradient depends on the video, and
    NumericalError if one is not finite.
    """
    device = view.objects.device
    masked_frames = view.outside is not None
    groups = len(view.encoded.groups) if masked_frames else 0
    r = torch.full((len(view.objects),), options.r0, dtype=torch.float64, device=device)
    rf = torch.full((groups,), options.r0, dtype=torch.float64, device=device)
    for index in range(options.steps):
        r, rf = r.detach().requires_grad_(), rf.detach().requires_grad_()
        loss = query_loss(lm, view.encoded, view.video(r, rf), options.memory == "low")
        leaves = [z for z in (r, rf) if len(z)]
        found = dict(zip(map(id, leaves), torch.autograd.grad(loss, leaves), strict=True))
        g, gf = (found.get(id(z), torch.zeros_like(z)) for z in (r, rf))
        step = AscentStep(
            index=index,
            loss=float(loss.detach()),
            strength=r.detach().cpu().numpy(),
            gradient=g.cpu().numpy(),
            frame_strength=rf.detach().cpu().numpy(),
            frame_gradient=gf.cpu().numpy(),
        )
        _check(step)
        yield step
        r, rf = (r + options.eta * g).clamp(0, 1), (rf + options.eta * gf).clamp(0, 1)


def _check(step: AscentStep) -> None:
    gradient = np.concatenate([step.gradient, step.frame_gradient])
    if not np.isfinite(step.loss) or not np.isfinite(gradient).all():
        raise NumericalError(
            f"the query loss or its gradient is not finite at ascent step {step.index + 1}",
            "Load the model in float32, or choose another fill",
        )
    if not gradient.any():
        raise BlindGradient(
            "no mask changes the query loss at all",
            "The video must stand before the question in the model's chat template",
        )


def conclude(last: AscentStep, options: AscentOptions) -> Counterfactual:
    """Takes the last step and turns the strengths into levels (METHOD steps 4, 7 and 8)."""
    r = (last.strength + options.eta * last.gradient).clip(0, 1)
    rf = (last.frame_strength + options.eta * last.frame_gradient).clip(0, 1)
    return Counterfactual(
        strength=r,
        margin=r - options.r0,
        level=levels(r, options),
        frame_strength=rf,
        frame_margin=rf - options.r0,
        frame_level=frame_levels(rf, options),
    )
