"""Gradient checkpointing for a while: fewer activations are kept, the rest is computed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers.modeling_layers import GradientCheckpointingLayer


@contextmanager
def checkpointed(model: Any) -> Iterator[None]:
    """Gradient checkpointing by layer while inside; the model is in `eval()` before and after.

    transformers checkpoints only layers in training mode: that flag is set on the layers alone, so
    that nothing below them, dropout above all, changes.
    """
    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    kind = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"
    getattr(model, f"{kind}_checkpointing_enable")({"use_reentrant": False})
    try:
        for layer in layers:
            layer.training = True
        yield
    finally:
        for layer in layers:
            layer.training = False
        getattr(model, f"{kind}_checkpointing_disable")()
        model.disable_input_require_grads()  # enabling left hooks that make every pass keep a graph
