"""MACD and its relatives: everything whose second view is the clip behind masks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from core.backbones.base import DecodeState
from core.masking.ascent import finalize_ascent
from core.masking.random_masks import place_at_random
from core.methods.base import DecodingViews, MethodContext
from core.options import AscentOptions, MaskOptions


def macd(case: MethodContext) -> DecodingViews:
    """MACD as its paper has it: object and frame masks, ascent, three levels."""
    return _trained(case, case.options.mask)


def macd_object(case: MethodContext) -> DecodingViews:
    """The paper's ablation "No Frame-level Mask": objects alone."""
    return _trained(case, replace(case.options.mask, frame_mask="off"))


def macd_swept(case: MethodContext) -> DecodingViews:
    """This project's variant: masks swept over time, so that they do not tell the motion."""
    return _trained(case, replace(case.options.mask, swept=True))


def macd_continuous(case: MethodContext) -> DecodingViews:
    """The paper's ablation of the three levels: the strengths as the ascent left them."""
    return _trained(case, case.options.mask, replace(case.options.ascent, levels="continuous"))


def macd_fixed(case: MethodContext) -> DecodingViews:
    """The paper's ablation "No Mask Training": every object at r0, no frame mask."""
    return _levelled(case, np.full(len(case.tracks), case.options.ascent.r0))


def mask_all(case: MethodContext) -> DecodingViews:
    """A control: every object fully hidden, whatever the model's loss says."""
    return _levelled(case, np.ones(len(case.tracks)))


def reversed_signs(case: MethodContext) -> DecodingViews:
    """A control: what the loss leans on is left, what it does not need is hidden."""
    mask, options = case.options.mask, case.options.ascent
    view, last = case.ascent(mask)
    if last is None:
        nothing = np.zeros(0)
        return _prepared(case, (case.base, case.encoded.video), nothing, nothing, mask)
    turned = replace(last, gradient=-last.gradient, frame_gradient=-last.frame_gradient)
    found = finalize_ascent(turned, options)
    counter = case.prefill_levels(view, found.level, found.frame_level)
    return _prepared(case, counter, found.level, found.frame_level, mask)


def random_mask(case: MethodContext) -> DecodingViews:
    """A control: MACD's masks, of the same levels and area, moved to random places and frames.

    How well that could be done stands in `view["random"]`; see `core.masking.random_masks`.
    """
    mask = case.options.mask
    found = case.counterfactual(mask)
    x0, y0, x1, y1 = case.encoded.frames.content
    size, groups, seed = (y1 - y0, x1 - x0), case.encoded.groups, case.options.seed
    placed = place_at_random(case.tracks, found.level, found.frame_level, groups, size, mask, seed)
    view = case.masked(mask, placed.tracks)
    counter = case.prefill_levels(view, found.level, placed.frame_level)
    prepared = _prepared(case, counter, found.level, placed.frame_level, mask)
    boxes = [[None if np.isnan(b[0]) else b.tolist() for b in t.boxes] for t in placed.tracks]
    return replace(prepared, view=prepared.view | {"boxes": boxes, "random": placed.as_dict()})


def macd_object_subsampled(case: MethodContext) -> DecodingViews:
    """The paper's ablation "No Frame-level Mask + Frame Extraction": every second frame of V_d."""
    mask = replace(case.options.mask, frame_mask="off")
    view, _ = case.ascent(mask)
    found = case.counterfactual(mask)
    index = list(range(0, len(case.encoded.frames.pixels), 2))
    with torch.no_grad():
        device = view.objects.device
        nothing = torch.zeros(0, device=device)
        video = view.encoded.video
        if len(view.objects):
            video = view.video(torch.as_tensor(found.level, device=device), nothing)
    state = case.lm.prefill(case.subset(index), video[index])
    prepared = _prepared(case, (state, video), found.level, np.zeros(0), mask)
    return replace(prepared, view=prepared.view | {"frames": index})


def _trained(
    case: MethodContext, mask: MaskOptions, ascent: AscentOptions | None = None
) -> DecodingViews:
    view, _ = case.ascent(mask, ascent)
    found = case.counterfactual(mask, ascent)
    counter = case.prefill_levels(view, found.level, found.frame_level)
    return _prepared(case, counter, found.level, found.frame_level, mask)


def _levelled(case: MethodContext, level: np.ndarray[Any, Any]) -> DecodingViews:
    mask = replace(case.options.mask, frame_mask="off")
    counter = case.prefill_levels(case.masked(mask), level, np.zeros(0))
    return _prepared(case, counter, level, np.zeros(0), mask)


def _prepared(
    case: MethodContext,
    counter: tuple[DecodeState, Tensor],
    level: Any,
    frame_level: Any,
    mask: MaskOptions,
) -> DecodingViews:
    state, video = counter
    view = {
        "kind": "masks",
        "level": [float(x) for x in level],
        "frame_level": [float(x) for x in frame_level],
        "swept": mask.swept,
        "frame_mask": mask.frame_mask,
    }
    return DecodingViews(case.base, state, case.options.contrast, view, video=video)
