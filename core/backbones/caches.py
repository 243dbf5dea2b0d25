"""Key-value caches as values: a changed one is a new one."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from transformers import DynamicCache


def map_cache(cache: DynamicCache, change: Callable[[Tensor], Tensor]) -> DynamicCache:
    """A new cache of the changed keys and values (B, heads, L, d)."""
    out = DynamicCache()
    for i, layer in enumerate(cache.layers):
        out.update(change(layer.keys), change(layer.values), i)
    return out
