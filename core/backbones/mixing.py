"""Frames mixed with their mean inside a vision tower, layer by layer, for a `with` block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from macd_studio.core.backbones.tower_rows import NAMES
from macd_studio.core.errors import NotApplicable


def vision_layers(model: Any) -> Sequence[nn.Module]:
    """The layers of a model's vision tower, in order: its `layers`, or its module list.

    Raises NotApplicable where neither is of as many as its configuration says.
    """
    tower = next((z for n in NAMES if (z := getattr(model.base_model, n, None)) is not None), None)
    config = getattr(tower, "config", None)
    depth = getattr(config, "depth", None) or getattr(config, "num_hidden_layers", 0)
    modules = () if tower is None else tower.modules()
    lists: list[Any] = [z for z in modules if isinstance(z, nn.ModuleList)]
    for layers in (getattr(tower, "layers", ()), *lists):
        if depth and len(layers) == depth:
            return list(layers)
    raise NotApplicable(
        f"the layers of the vision tower of {type(model).__name__} are not known",
        "Choose another method or another backbone",
    )


@contextmanager
def mixed_frames(layers: Sequence[nn.Module], frames: int, share: float) -> Iterator[None]:
    """While inside, what a layer gives of each frame is (1 − share)·h + share·mean over frames.

    A layer's states are those of `frames` frames or temporal patches, one after the other, along
    the first axis. Before other hooks, so that what they record is mixed, too.
    """

    def mix(_: Any, __: Any, out: Any) -> Any:
        states: Tensor = out[0] if isinstance(out, tuple) else out
        each = states.reshape(frames, -1, states.shape[-1])
        moved = each.lerp(each.mean(0, keepdim=True), share).reshape(states.shape)
        return (moved, *out[1:]) if isinstance(out, tuple) else moved

    handles = [layer.register_forward_hook(mix, prepend=True) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
