"""Looks into a decoder's steps, or blocks attention in them, by hooks that are always removed.

Only the rows and layers asked for are computed: asking transformers for all attentions would force
eager attention and store every layer's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from macd_studio.core.backbones.base import Watch, Watched
from macd_studio.core.backbones.prune import hide_tokens, last_row


@contextmanager
def watched(decoder: Any, head: Any, watch: Watch, vision: Tensor) -> Iterator[Watched]:
    """While inside, the decoder's passes fill what is yielded; see `Watch`.

    head: hidden states → logits. vision: (N,) positions of the vision tokens in the cache. For
    decoders with `layers` and a final `norm`, as the Qwen and Llama families have them. Raises
    IndexError for a layer or a vision token that is not there.
    """
    layers = decoder.layers
    seen = Watched()
    blocked = vision[torch.tensor(watch.blocked, dtype=torch.long, device=vision.device)][None]

    def keep_row(attention: Any, _: Any, keywords: dict[str, Any], __: Any) -> None:
        seen.attention[attention.layer_idx] = last_row(attention, keywords)[:, vision]

    def read_out(index: int, _: Any, __: Any, out: Any) -> None:
        if index == 0:
            seen.lens.clear()
        hidden = (out if isinstance(out, Tensor) else out[0])[:, -1]
        seen.lens.append(head(decoder.norm(hidden)))

    def block(index: int, _: Any, positional: Any, keywords: dict[str, Any]) -> Any:
        states = positional[0] if positional else keywords["hidden_states"]
        hidden = blocked.expand(len(states), -1)
        return positional, hide_tokens(positional, keywords, hidden, index)

    handles = [
        layers[i].self_attn.register_forward_hook(keep_row, with_kwargs=True)
        for i in watch.attention
    ]
    if watch.lens:
        handles += [
            layer.register_forward_hook(partial(read_out, i)) for i, layer in enumerate(layers)
        ]
    if watch.blocked:
        handles += [
            layers[i].register_forward_pre_hook(partial(block, i), with_kwargs=True)
            for i in watch.blocked_layers
        ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
