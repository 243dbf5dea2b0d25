"""The baseline, and controls that look at no counterfactual (arXiv 2504.10020, "Mirage")."""

from __future__ import annotations

import torch

from core.methods.base import Case, Prepared
from core.options import ContrastOptions

PLAIN = ContrastOptions(alpha=0.0, beta=0.0)
YES_SUFFIX = " Whenever possible, please select yes."
YES_BIAS = 1.0


def baseline(case: Case) -> Prepared:
    """The model as it is: plain decoding of the video itself."""
    return Prepared(case.base, None, PLAIN, {"kind": "none"})


def blank(case: Case) -> Prepared:
    """A control: the second view is a video without content, of the channel means."""
    video = torch.zeros_like(case.encoded.video)
    state = case.prefill(video)
    return Prepared(case.base, state, case.options.contrast, {"kind": "blank"}, video=video)


def head_only(case: Case) -> Prepared:
    """A control: the plausibility head without contrast; it matters only when sampling."""
    rule = ContrastOptions(alpha=0.0, beta=case.options.contrast.beta)
    return Prepared(case.base, None, rule, {"kind": "none"})


def prompt_bias(case: Case) -> Prepared:
    """A control: the prompt asks for "yes" (Mirage's prompt-based adjustment)."""
    encoded = case.lm.encode_frames(case.encoded.frames, case.encoded.question, YES_SUFFIX)
    return Prepared(case.lm.prefill(encoded, encoded.video), None, PLAIN, {"kind": "none"})


def output_bias(case: Case) -> Prepared:
    """A control: a constant on the logit of "yes" (Mirage's output-layer modification)."""
    first = {case.lm.tokens(word)[0] for word in ("yes", "Yes")}
    return Prepared(case.base, None, PLAIN, {"kind": "none"}, dict.fromkeys(first, YES_BIAS))


def always_yes(case: Case) -> Prepared:
    """A control: no model at all. What does not beat it has shown nothing."""
    return Prepared(case.base, None, PLAIN, {"kind": "none"}, said="yes")
