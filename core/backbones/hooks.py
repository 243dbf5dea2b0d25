"""Changes to a model's layers for the length of a `with` block: hide, watch, keep less memory.

For decoders whose layers call `self_attn` with keyword arguments and rotary embeddings, as the
Qwen and Llama families do. Only the rows and layers asked for are computed by hand: asking
transformers for all attentions would force eager attention and store every layer's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from macd_studio.core.backbones.base import Prune
from macd_studio.core.backbones.local import Watch, Watched


@contextmanager
def pruned(layers: Any, prune: Prune | None, vision: Tensor) -> Iterator[list[Tensor]]:
    """While inside, layers from `prune.layer` on see only the least-attended vision tokens.

    vision: positions of the vision tokens in the cache. Every row of a batch chooses for itself.
    Yields a list that holds the hidden positions (B, H) of the last pass, empty without `prune`.
    """
    hidden: list[Tensor] = []
    if prune is None:
        yield hidden
        return

    def rank_tokens(attention: Any, _: Any, named: dict[str, Any], __: Any) -> None:
        weights = last_row(attention, named)
        count = prune.kept(len(vision))
        order = weights[:, vision].argsort(dim=-1, stable=True)
        hidden[:] = [vision[order[:, count:]]]

    def hide(index: int, _: Any, positional: Any, keywords: dict[str, Any]) -> Any:
        return positional, hide_tokens(positional, keywords, hidden[0], index)

    handles = [
        layers[prune.layer - 1].self_attn.register_forward_hook(rank_tokens, with_kwargs=True),
        *(
            layer.register_forward_pre_hook(partial(hide, index), with_kwargs=True)
            for index, layer in enumerate(layers)
            if index >= prune.layer
        ),
    ]
    try:
        yield hidden
    finally:
        for handle in handles:
            handle.remove()


def hide_tokens(
    positional: Any, keywords: dict[str, Any], hidden: Tensor, layer: int
) -> dict[str, Any]:
    """A decoder layer's arguments with a mask that hides some cached tokens besides its own.

    The layer's own mask hides the future, and what lies outside its window where it has one.

    hidden: (B, H) long, positions in the cache; layer: the layer's index, whose own part of the
    cache says how many tokens came before.
    """
    states = positional[0] if positional else keywords["hidden_states"]
    length, dtype = states.shape[1], states.dtype
    total = keywords["past_key_values"].get_seq_length(layer) + length
    unseen = torch.zeros(len(states), total, dtype=torch.bool, device=states.device)
    unseen.scatter_(1, hidden, True)
    mask = added_mask(keywords.get("attention_mask"), length, total, states)
    mask = mask.expand(len(states), -1, -1, -1)
    least = torch.finfo(dtype).min
    return keywords | {"attention_mask": mask.masked_fill(unseen[:, None, None], least)}


def added_mask(own: Tensor | None, length: int, total: int, like: Tensor) -> Tensor:
    """A layer's own mask (B or 1, 1, length, total) as what is added to scores.

    own: as transformers gives it to the layer: none, where it hides the future alone; True where a
    key is seen; or what is added already.
    """
    if own is None:
        own = torch.ones(length, total, dtype=torch.bool, device=like.device)
        own = own.tril(total - length)[None, None]
    own = own[..., :total]
    if own.dtype != torch.bool:
        return own
    mask = torch.zeros(own.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill(~own, torch.finfo(like.dtype).min)


def hidden_among(vision: Tensor, unseen: Sequence[Tensor]) -> Tensor | None:
    """(B, N) bool over the vision tokens, from the hidden positions (B, H) of each row."""
    if not unseen:
        return None
    return torch.stack([torch.isin(vision, row) for row in unseen[0]])


def last_row(attention: Any, named: dict[str, Any]) -> Tensor:
    """Attention of the last query over all keys, mean over heads: (B, length).

    Under the layer's own mask, and beside its sinks, which take a share that no key gets.
    """
    states, (cos, sin) = named["hidden_states"][:, -1:], named["position_embeddings"]
    rotate = sys.modules[type(attention).__module__].apply_rotary_pos_emb
    rows = states.shape[0]
    query = attention.q_proj(states).view(rows, 1, -1, attention.head_dim)
    if hasattr(attention, "q_norm"):
        query = attention.q_norm(query)
    query = query.transpose(1, 2)
    query, _ = rotate(query, query, cos[:, -1:], sin[:, -1:])
    keys = named["past_key_values"].layers[attention.layer_idx].keys
    keys = keys.repeat_interleave(query.shape[1] // keys.shape[1], 1)
    scores: Tensor = (query @ keys.transpose(-1, -2)).float() * attention.scaling
    if (own := named.get("attention_mask")) is not None:
        scores = scores + added_mask(own, own.shape[-2], keys.shape[-2], scores)[:, :, -1:]
    if (sinks := getattr(attention, "sinks", None)) is not None:
        beside = sinks.float().view(1, -1, 1, 1).expand(rows, -1, 1, 1)
        scores = torch.cat([scores, beside], -1)
    return scores.softmax(-1)[..., : keys.shape[-2]].mean(1)[:, 0]


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


@contextmanager
def eager_attention(decoder: Any) -> Iterator[None]:
    """While inside, the decoder's attention is transformers' plainest, which gives its weights."""
    given: Iterator[Any] = (getattr(module, "config", None) for module in decoder.modules())
    configs = {id(c): c for c in given if hasattr(c, "_attn_implementation")}.values()
    former = [config._attn_implementation for config in configs]
    try:
        for config in configs:
            config._attn_implementation = "eager"
        yield
    finally:
        for config, name in zip(configs, former, strict=True):
            config._attn_implementation = name


class EagerRows:
    """The attention of the last row of a pass, as the layers of any decoder give it themselves.

    Inside `reading`, `begin` is called before the passes of a step and `after` when each has ended;
    their rows follow each other. layers: those that are kept, of those that have an index and give
    weights (B, heads, queries, keys) beside their output.
    """

    def __init__(self, decoder: Any, layers: Sequence[int]) -> None:
        self.seen = Watched()
        self._decoder, self._layers = decoder, set(layers)
        self._found: dict[int, Tensor] = {}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While inside, passes are eager and their last rows are kept."""
        handles = [
            module.register_forward_hook(self._keep)
            for module in self._decoder.modules()
            if getattr(module, "layer_idx", None) in self._layers
        ]
        try:
            with eager_attention(self._decoder):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _keep(self, module: Any, _: Any, out: Any) -> None:
        weights = out[1] if isinstance(out, tuple) and len(out) > 1 else None
        if isinstance(weights, Tensor) and weights.ndim == 4:
            self._found[module.layer_idx] = weights[:, :, -1].float().mean(1)

    def begin(self) -> None:
        """Forgets the rows of the step before."""
        self.seen.attention.clear()

    def after(self, length: int, vision: Tensor) -> None:
        """Fills `seen` from the pass that ended at `length` tokens; vision: as for `watched`.

        A layer with a window gives the weights of the last keys alone; those before have none.
        """
        for layer, row in self._found.items():
            whole = row.new_zeros(len(row), max(length, row.shape[1]))
            whole[:, whole.shape[1] - row.shape[1] :] = row
            before = [self.seen.attention[layer]] if layer in self.seen.attention else []
            self.seen.attention[layer] = torch.cat([*before, whole[:, vision]])
        self._found = {}


@contextmanager
def checkpointed(model: Any) -> Iterator[None]:
    """Gradient checkpointing by layer while inside; the model is in `eval()` before and after.

    transformers checkpoints only layers in training mode: that flag is set on the layers alone, so
    that nothing below them, dropout above all, changes.
    """
    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    towers = [m for m in model.modules() if hasattr(m, "set_grad_checkpointing")]  # timm's own way
    # weights that are fetched for a layer go when it ends; stopping before would leave them there
    moved = len({str(place) for place in getattr(model, "hf_device_map", {}).values()}) > 1
    how = {"use_reentrant": False} | ({"early_stop": False} if moved else {})
    kind = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"
    getattr(model, f"{kind}_checkpointing_enable")(how)
    try:
        for layer in layers:
            layer.training = True
        for tower in towers:
            tower.set_grad_checkpointing(True)
        yield
    finally:
        for tower in towers:
            tower.set_grad_checkpointing(False)
        for layer in layers:
            layer.training = False
        getattr(model, f"{kind}_checkpointing_disable")()
        model.disable_input_require_grads()  # enabling left hooks that make every pass keep a graph
