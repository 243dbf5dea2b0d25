"""A vision tower that is given only the pictures that differ from those of an earlier view.

Many towers read each frame, or each tile of one, by itself: a row of their batch. Rows of a view
that are bit by bit those of the view read first need not be read again. That rows do not change
each other is checked when a model is loaded, see `contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from macd_studio.core.backbones.host import to_host

NAMES = ("vision_tower", "visual", "vision_model", "vision_encoder", "video_tower", "image_tower")
"""Where models of transformers hold what reads the frames of a video, or else pictures."""
MAX_BYTES = 2**28
"""What is kept of one view at most; a tower that returns more is read whole every time."""


@dataclass(eq=False)
class KeptRows:
    """What a tower was given and gave for one view: rows of its batch, without a graph."""

    given: tuple[Tensor, ...]
    """Every tensor argument that has a row for each picture; the first holds the pixels (N, …)."""
    made: list[Any]
    """The leaves of what it gave; tensors have N rows."""
    form: Any
    """How the leaves make up the output, as `torch.utils._pytree` says it."""
    free: dict[Any, Tensor] = field(default_factory=dict)
    """What a caller has found out about rows that no change reaches, (N,) bool each."""

    def same(self, given: tuple[Tensor, ...]) -> Tensor | None:
        """(N,) bool on the CPU: rows that are bit by bit those kept; None for another layout."""
        if [(z.shape, z.dtype) for z in given] != [(z.shape, z.dtype) for z in self.given]:
            return None
        same = torch.ones(len(given[0]), dtype=torch.bool, device=given[0].device)
        for mine, theirs in zip(given, self.given, strict=True):
            same &= (mine.detach() == theirs).flatten(1).all(1)
        return torch.from_numpy(to_host(same))


@dataclass(eq=False)
class Reading:
    """What is kept and taken over while a view is read; `found` is what was kept of it."""

    keep: bool = False
    kept: KeptRows | None = None
    free: Tensor | None = None
    found: KeptRows | None = None


_READING: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading(
    kept: KeptRows | None, free: Tensor | None = None, keep: bool = False
) -> Iterator[Reading]:
    """While inside, rows of a tower that equal those kept are not read again.

    free: (N,) bool, the rows that no gradient is asked of, where the pixels have a graph; without
    it all rows of such pixels are read. keep: whether what is read is kept, as `Reading.found`.
    """
    plan = Reading(keep, kept, free)
    token = _READING.set(plan)
    try:
        yield plan
    finally:
        _READING.reset(token)


class TowerRows:
    """Stands for the `forward` of a tower; reads all rows but inside `reading`.

    layers: of the hidden states that the tower returns, those that the model takes; None for all.
    """

    def __init__(self, tower: nn.Module, layers: tuple[int, ...] | None = None) -> None:
        self._forward, self._layers = tower.forward, layers
        self.read = 0
        """Rows that were read so far."""

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """The tower's output of all rows."""
        plan, given = _READING.get(), _rows(positional, named)
        if plan is None or given is None:
            self.read += 0 if given is None else len(given[0])
            return self._forward(*positional, **named)
        if plan.kept is not None and (plan.free is not None or not given[0].requires_grad):
            same = plan.kept.same(given)
            if same is not None and plan.free is not None:
                same &= plan.free
            if same is not None and bool(same.any()):
                return self._joined(plan.kept, same, positional, named)
        self.read += len(given[0])
        out = self._forward(*positional, **named)
        if plan.keep:
            plan.found = self._kept(given, out)
        return out

    def _joined(
        self, kept: KeptRows, same: Tensor, positional: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Any:
        """The output of all rows, those that are the same taken from what was kept."""
        if bool(same.all()):
            made = [z.clone() if isinstance(z, Tensor) else z for z in kept.made]
            return tree_unflatten(made, kept.form)
        count, at = len(same), (~same).nonzero()[:, 0]

        def some(value: Any) -> Any:
            return value[at.to(value.device)] if _has_rows(value, count) else value

        self.read += len(at)
        out = self._forward(*map(some, positional), **{k: some(v) for k, v in named.items()})
        made = [
            own.index_copy(0, at.to(own.device), new) if isinstance(own, Tensor) else own
            for own, new in zip(kept.made, tree_flatten(out)[0], strict=True)
        ]
        return tree_unflatten(made, kept.form)

    def _kept(self, given: tuple[Tensor, ...], out: Any) -> KeptRows | None:
        """None where the output is no rows, or more than `MAX_BYTES`."""
        states = getattr(out, "hidden_states", None)
        if self._layers is not None and isinstance(states, tuple):
            taken = {layer % len(states) for layer in self._layers}
            slim = tuple(z if i in taken else None for i, z in enumerate(states))
            out = type(out)(**(dict(out) | {"hidden_states": slim}))
        leaves, form = tree_flatten(out)
        tensors = [z for z in leaves if isinstance(z, Tensor)]
        if not tensors or any(not _has_rows(z, len(given[0])) for z in tensors):
            return None
        if sum(z.numel() * z.element_size() for z in (*given, *tensors)) > MAX_BYTES:
            return None
        made = [z.detach() if isinstance(z, Tensor) else z for z in leaves]
        return KeptRows(tuple(z.detach() for z in given), made, form)


def tower_rows(model: Any) -> TowerRows | None:
    """Puts a `TowerRows` before a model's vision tower, once; None where none has those names."""
    layers = getattr(model.config, "vision_feature_layer", None)
    taken = (layers,) if isinstance(layers, int) else None if layers is None else tuple(layers)
    for owner in (model, getattr(model, "base_model", None)):
        for name in NAMES:
            tower = getattr(owner, name, None)
            if isinstance(tower, nn.Module):
                if not isinstance(tower.forward, TowerRows):
                    tower.forward = TowerRows(tower, taken)
                return tower.forward
    return None


@torch.no_grad()
def free_rows(
    kept: KeptRows | None,
    video: Tensor,
    changed_frames: Tensor | None,
    inputs: Callable[[Tensor], Mapping[str, Any]],
) -> Tensor | None:
    """(N,) bool: rows that stay as they are kept whatever the changed frames (T,) bool become.

    Found by giving these frames of the video other values. inputs: what the model is given of one.
    None where all frames may change; no row is free where the model's inputs are not the rows.
    """
    if kept is None or changed_frames is None or bool(changed_frames.all()):
        return None
    key, own = tuple(changed_frames.tolist()), kept.given[0]
    if key not in kept.free:
        noise = torch.rand(video.shape, generator=torch.Generator().manual_seed(0)).to(video)
        moved = video + noise * changed_frames.to(video)[:, None, None, None]
        free = torch.zeros(len(own), dtype=torch.bool)
        for value in inputs(moved).values():
            if not isinstance(value, Tensor) or value.ndim < own.ndim:
                continue
            rows = value.to(own.dtype).reshape(-1, *value.shape[1 - own.ndim :])
            if rows.shape == own.shape:
                free = torch.from_numpy(to_host((rows == own).flatten(1).all(1)))
        kept.free[key] = free
    return kept.free[key]


def _rows(positional: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Tensor, ...] | None:
    """The tensors with a row for each picture, pixels first; None where rows are not pictures.

    Patches that lie one a row, as the Qwen families have them, have no more than two axes.
    """
    tensors = [v for v in (*positional, *named.values()) if isinstance(v, Tensor)]
    pixels = next((z for z in tensors if z.is_floating_point() and z.ndim > 2), None)
    if pixels is None or any(not _has_rows(z, len(pixels)) for z in tensors):
        return None
    return (pixels, *(z for z in tensors if z is not pixels))


def _has_rows(value: Any, count: int) -> bool:
    return isinstance(value, Tensor) and value.ndim > 1 and len(value) == count
