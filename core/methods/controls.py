"""The baseline, and controls that look at no counterfactual (arXiv 2504.10020, "Mirage")."""

from __future__ import annotations

import torch

from core.methods.base import DecodingViews, MethodContext
from core.options import ContrastOptions

PLAIN = ContrastOptions(alpha=0.0, beta=0.0)
YES_SUFFIX = " Whenever possible, please select yes."
YES_BIAS = 1.0


def baseline(case: MethodContext) -> DecodingViews:
    """The model as it is: plain decoding of the video itself."""
    return DecodingViews(case.base, None, PLAIN, {"kind": "none"})


def blank(case: MethodContext) -> DecodingViews:
    """A control: the second view is a video without content, of the channel means."""
    video = torch.zeros_like(case.encoded.video)
    state = case.prefill(video)
    return DecodingViews(case.base, state, case.options.contrast, {"kind": "blank"}, video=video)


def head_only(case: MethodContext) -> DecodingViews:
    """A control: the plausibility head without contrast; it matters only when sampling."""
    rule = ContrastOptions(alpha=0.0, beta=case.options.contrast.beta)
    return DecodingViews(case.base, None, rule, {"kind": "none"})


def prompt_bias(case: MethodContext) -> DecodingViews:
    """A control: the prompt asks for "yes" (Mirage's prompt-based adjustment)."""
    encoded = case.lm.encode_frames(case.encoded.frames, case.encoded.question, YES_SUFFIX)
    return DecodingViews(case.lm.prefill(encoded, encoded.video), None, PLAIN, {"kind": "none"})


def output_bias(case: MethodContext) -> DecodingViews:
    """A control: a constant on the logit of "yes" (Mirage's output-layer modification)."""
    first = {case.lm.tokens(word)[0] for word in ("yes", "Yes")}
    return DecodingViews(case.base, None, PLAIN, {"kind": "none"}, dict.fromkeys(first, YES_BIAS))


def always_yes(case: MethodContext) -> DecodingViews:
    """A control: no model at all. What does not beat it has shown nothing."""
    return DecodingViews(case.base, None, PLAIN, {"kind": "none"}, said="yes")
