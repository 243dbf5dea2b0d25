"""Key-value caches and the states around them as values: a changed one is a new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from transformers import DynamicCache

from macd_studio.core.backbones.base import Encoded
from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.local import DecodeState


def map_cache(cache: DynamicCache, change: Callable[[Tensor], Tensor]) -> DynamicCache:
    """A new cache of the changed keys and values (B, heads, L, d)."""
    out = DynamicCache()
    for i, layer in enumerate(cache.layers):
        out.update(change(layer.keys), change(layer.values), i)
    return out


def join_states(states: Sequence[DecodeState]) -> DecodeState:
    """One state of all rows in order. Raises ValueError for different lengths or prunings."""
    first = states[0]
    if any((s.length, s.prune) != (first.length, first.prune) for s in states):
        raise ValueError("only states of one length and pruning can be joined")
    cache = DynamicCache()
    for i in range(len(first.cache.layers)):
        layers = [s.cache.layers[i] for s in states]
        keys, values = (torch.cat([getattr(z, k) for z in layers]) for k in ("keys", "values"))
        cache.update(keys, values, i)
    unseen = [s.hidden for s in states if s.hidden is not None]
    return DecodeState(
        torch.cat([s.logits for s in states]),
        cache,
        first.length,
        first.prompt,
        None,
        first.inputs,
        first.prune,
        hidden=torch.cat(unseen) if unseen else None,
        prompt_tokens=first.prompt_tokens,
    )


def select_rows(state: DecodeState, index: Tensor) -> DecodeState:
    """The rows at `index` (N,) long, in that order."""
    return replace(
        state,
        logits=state.logits[index],
        cache=map_cache(state.cache, lambda z: z[index]),
        query_logits=None,
        vision=None,
        hidden=None if state.hidden is None else state.hidden[index],
    )


def crop_state(state: DecodeState, length: int) -> DecodeState:
    """The state as it was `length` tokens into the cache; its logits are not those of then."""
    cache = map_cache(state.cache, lambda z: z[:, :, :length])
    return replace(state, cache=cache, length=length, query_logits=None, vision=None)


def changed_patches(
    encoded: Encoded,
    views: Tensor,
    reuse: DecodeState | None,
    changed_frames: Tensor | None = None,
) -> Tensor:
    """(B, G) bool: temporal patches to look at, because they are not those of `reuse`.

    On the CPU, where it decides what is read.
    """
    if reuse is None or reuse.vision is None:
        return torch.ones(len(views), len(encoded.groups), dtype=torch.bool)
    if changed_frames is None:
        frames = (views != reuse.vision.video).flatten(2).any(-1)
    else:
        frames = changed_frames.expand(len(views), -1)
    changed = torch.stack([frames[:, list(g)].any(-1) for g in encoded.groups], 1)
    return torch.from_numpy(to_host(changed))


def distinct_patches(encoded: Encoded, views: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """Of temporal patches of several views, the distinct ones, and which of them each one is.

    at: (M, 2) view and patch. Returns rows of `at` (D,), and (M,) places among these. A patch is
    compared with those at its own place in other views, bit by bit, and only where no gradient is
    asked for: that of a copy would be lost.
    """
    alone = torch.arange(len(at))
    if len(views) < 2 or views.requires_grad or len(at) < 2:
        return alone, alone
    distinct: list[int] = []
    copies = alone.clone()
    for g, frames in enumerate(encoded.groups):
        rows = (at[:, 1] == g).nonzero()[:, 0].tolist()
        patches = views[at[rows, 0].to(views.device)][:, list(frames)].flatten(1)
        sums = to_host(patches.double().sum(1)).tolist()
        known: dict[float, list[int]] = {}
        for i, (row, total) in enumerate(zip(rows, sums, strict=True)):
            alike = known.setdefault(total, [])
            same = next((j for j in alike if torch.equal(patches[j], patches[i])), None)
            if same is None:
                alike.append(i)
                copies[row] = len(distinct)
                distinct.append(row)
            else:
                copies[row] = copies[rows[same]]
    if len(distinct) == len(at):
        return alone, alone  # in the order in which they came
    return torch.tensor(distinct), copies


def detach_cache(cache: Any) -> None:
    """Takes the graph off whatever the layers of a cache hold: keys, values, recurrent states."""
    for layer in cache.layers:
        for name, value in vars(layer).items():
            if isinstance(value, Tensor):
                setattr(layer, name, value.detach())
            elif isinstance(value, list | tuple | dict):
                setattr(layer, name, tree_map(_plain, value))


def _plain(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value
