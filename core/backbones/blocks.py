"""Views that a model of transformers decodes, in blocks of rows that share a cache.

A prefill makes a block for each view, as every view is read by itself. Blocks of one length become
one, whose rows are stepped in one pass, where every layer of the cache holds tensors whose first
axis is that of the rows, as keys, values and recurrent states are, and beside them equal values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from macd_studio.core.backbones.base import Encoded

PER_TOKEN = {"attention_mask": 1, "token_type_ids": 0, "mm_token_type_ids": 0}
"""Inputs of one value a token, and that of text."""
CACHE = "past_key_values"
ALONG = {"position_ids", *PER_TOKEN}
"""What the model continues from that is (…, B, L), or (…, 1, L) for all rows."""


@dataclass(frozen=True, eq=False)
class Origin:
    """What a row was read from; None where it was text alone."""

    encoded: Encoded | None = None
    video: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that are stepped in one pass.

    ids: (B, L) all tokens so far. kwargs: what the model's own `prepare_inputs_for_generation`
    goes on from, of all rows. origins: B of them.
    """

    ids: Tensor
    kwargs: dict[str, Any]
    origins: tuple[Origin, ...]

    @property
    def layers(self) -> list[Any]:
        """The layers of its cache."""
        found: list[Any] = self.kwargs[CACHE].layers
        return found

    def take(self, rows: Sequence[int]) -> list[Block]:
        """The rows in that order, repeated ones copied, as blocks that can go on by themselves."""
        if len(self.origins) == 1:
            return [replace(self, kwargs=self.kwargs | {CACHE: deepcopy(self.kwargs[CACHE])})
                    for _ in rows]  # fmt: skip
        index = torch.tensor(list(rows), device=self.ids.device)
        kwargs = {
            k: v.index_select(-2, index) if k in ALONG and v is not None else v
            for k, v in self.kwargs.items()
        }
        kwargs[CACHE] = _cache([self], lambda z: z[0][index])
        return [Block(self.ids[index], kwargs, tuple(self.origins[r] for r in rows))]

    def cropped(self, length: int) -> Block | None:
        """As it was with `length` tokens; None where its cache cannot forget."""
        lost = self.ids.shape[1] - length
        if lost and not all(type(z).__name__ == "DynamicLayer" for z in self.layers):
            return None
        cache = deepcopy(self.kwargs[CACHE])
        kwargs = self.kwargs | {CACHE: cache}
        if lost:
            cache.crop(-lost)
            for name in ALONG:
                if (value := kwargs.get(name)) is not None:
                    kwargs[name] = value[..., : value.shape[-1] - lost]
        return replace(self, ids=self.ids[:, :length], kwargs=kwargs)


def lengthened(inputs: dict[str, Any], n: int) -> dict[str, Any]:
    """Inputs of one value a token, for n more tokens of text."""
    for name, value in PER_TOKEN.items():
        if isinstance(given := inputs.get(name), Tensor):
            more = given.new_full((*given.shape[:-1], n), value)
            inputs = inputs | {name: torch.cat([given, more], -1)}
    return inputs


def joined(blocks: Sequence[Block]) -> Block | None:
    """One block of all rows in order; None where the caches do not allow it. The given ones stay.

    Of the model's inputs it has those of one value a token, and plain values that are the same in
    all; what was made of pixels is left behind, as a step after the prompt does not read it.
    """
    if len({_kind(b) for b in blocks}) > 1:
        return None
    kwargs: dict[str, Any] = {}
    for name, value in blocks[0].kwargs.items():
        values = [b.kwargs[name] for b in blocks]
        if name in ALONG and isinstance(value, Tensor):
            kwargs[name] = torch.cat(  # one may hold a single row for all
                [
                    v.expand(*v.shape[:-2], len(b.origins), v.shape[-1])
                    for v, b in zip(values, blocks, strict=True)
                ],
                -2,
            )
        elif value is None or isinstance(value, bool | int | float | str):
            if any(v != value for v in values):
                return None
            kwargs[name] = value
    try:
        kwargs[CACHE] = _cache(blocks, torch.cat)
    except _Apart:
        return None
    ids = torch.cat([b.ids for b in blocks])
    return Block(ids, kwargs, tuple(o for b in blocks for o in b.origins))


def take_rows(blocks: Sequence[Block], rows: Sequence[int]) -> list[Block]:
    """Rows of all blocks in that order, neighbours in a block together."""
    places = [(b, r) for b in blocks for r in range(len(b.origins))]
    runs = groupby((places[r] for r in rows), key=lambda place: id(place[0]))
    return [
        made for run in (list(z) for _, z in runs) for made in run[0][0].take([r for _, r in run])
    ]


def _kind(block: Block) -> tuple[tuple[str, ...], int, frozenset[tuple[str, bool]]]:
    """What must be the same in blocks that become one."""
    kinds = tuple(type(layer).__name__ for layer in block.layers)
    given = frozenset((k, isinstance(v, Tensor)) for k, v in block.kwargs.items())
    return kinds, block.ids.shape[1], given


class _Apart(Exception):
    """A layer holds something that is not a row's, and differs."""


def _cache(blocks: Sequence[Block], change: Callable[[list[Tensor]], Tensor]) -> DynamicCache:
    """A cache of what `change` makes of the blocks' tensors; the rest is as in the first."""
    rows = [len(b.origins) for b in blocks]
    made: DynamicCache = copy(blocks[0].kwargs[CACHE])
    made.layers = []
    for layers in zip(*(b.layers for b in blocks), strict=True):
        layer = copy(layers[0])
        vars(layer).update(_merged([vars(z) for z in layers], rows, change))
        made.layers.append(layer)
    return made


def _merged(values: list[Any], rows: list[int], change: Callable[[list[Tensor]], Tensor]) -> Any:
    first = values[0]
    if isinstance(first, Mapping):
        if any(v.keys() != first.keys() for v in values):
            raise _Apart
        return {k: _merged([v[k] for v in values], rows, change) for k in first}
    if not isinstance(first, Tensor):
        if any(v != first for v in values):
            raise _Apart
        return first
    if first.ndim > 1 and all(len(v) == n for v, n in zip(values, rows, strict=True)):
        return change(values)
    if not all(v.shape == first.shape and torch.equal(v, first) for v in values):
        raise _Apart
    return first
