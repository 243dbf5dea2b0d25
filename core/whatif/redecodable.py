"""Which answers of a trace can be decoded on under another α and β, and why others cannot.

Imports no torch; `core.whatif.redecoding` does it.
"""

from __future__ import annotations

from macd_studio.core.errors import OptionError
from macd_studio.core.methods import Method, find_method
from macd_studio.core.types import Trace
from macd_studio.core.validation import shown


def why_not_redecode(trace: Trace, name: str) -> str:
    """The reason why an answer cannot be decoded on; empty where its view and rule can be built.

    >>> import numpy as np
    >>> why_not_redecode(Trace("Is it?", np.zeros((1, 2, 2, 3), np.uint8), np.zeros(1), ()), "vcd")
    "the trace holds no answer of 'vcd'"
    """
    if trace.backbone.is_recorded:
        return "another program computed this answer, so no model here can decode it on"
    answer = trace.answers.get(name)
    if answer is None:
        return f"the trace holds no answer of {shown(name)}"
    if trace.model_frames is None:
        return "the trace does not hold the pixels that the backbone read"
    if trace.options.decode.search != "greedy":
        return "only a greedy answer can be decoded on"
    if not answer.tokens:
        return "this answer holds no tokens"
    if answer.thought is not None:
        return "thoughts were contrasted in this run, so each answer stands on its own"
    if trace.options.lazy:
        return "this run was lazy, so the second view's logits are not known at every token"
    if not answer.tokens[0].others:
        return "this answer has no second view, so α does not change it"
    if answer.rule != "linear":
        return f"only answers of the rule linear are decoded on, and this one is of {answer.rule}"
    if any(token.weights is not None for token in answer.tokens):
        return "its tokens were weighed one by one, so α and β do not say how"
    try:
        method = find_method(name)
    except OptionError:
        return f"no method here is called {shown(name)}, so its second view cannot be built"
    if method.fixed is not None or method.rule != "linear":
        return f"the method {name} is not the one that gave this answer"
    return ""


def redecodable(trace: Trace, name: str) -> Method:
    """The method of an answer that can be decoded on. Raises OptionError with the reason."""
    if why := why_not_redecode(trace, name):
        raise OptionError(why, "Choose another answer, or run the clip with the new α and β")
    return find_method(name)
