"""Key-value caches and the states around them as values: a changed one is a new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from transformers import DynamicCache

from macd_studio.core.backbones.base import DecodeState, Encoded
from macd_studio.core.backbones.host import to_host


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
