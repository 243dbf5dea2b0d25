"""The everyday model: LLaVA-NeXT-Video with YOLO11n as its tower, and its training pass.

The training pass starts from simulated peaks instead of pictures, packs several questions behind
each clip, and leaves out part of the tokens of empty cells; a test compares it with transformers'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlavaNextVideoConfig, LlavaNextVideoForConditionalGeneration, Qwen3Config

from macd_studio.core.backbones.everyday import (
    CLASSES,
    COLOURS,
    Peaks,
    PeakTokens,
    Yolo11TowerConfig,
    evidence_of,
    places_in,
)
from macd_studio.everyday.language import (
    END,
    IMAGE,
    KINDS,
    PAD,
    START,
    VIDEO,
    build_tokenizer,
    nouns,
)
from macd_studio.everyday.looks import Seen
from macd_studio.everyday.questions import Asked

FRAMES = 8
POOL = 2
CELLS = Yolo11TowerConfig().image_size // Yolo11TowerConfig().patch_size
EACH = (CELLS // POOL) ** 2
"""Tokens of a frame."""


def config(width: int = 192, layers: int = 6, heads: int = 4) -> LlavaNextVideoConfig:
    """The shipped configuration."""
    words = build_tokenizer()
    one = words.convert_tokens_to_ids
    text = Qwen3Config(
        vocab_size=-(-len(words) // 32) * 32,
        hidden_size=width,
        intermediate_size=3 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=64,
        max_position_embeddings=32768,
        rope_parameters={"rope_type": "default", "rope_theta": 1e7},
        bos_token_id=None,
        eos_token_id=one(END),
        pad_token_id=one(PAD),
        tie_word_embeddings=True,
    )
    return LlavaNextVideoConfig(
        vision_config=Yolo11TowerConfig(hidden_size=width),
        text_config=text,
        image_token_index=one(IMAGE),
        video_token_index=one(VIDEO),
        projector_hidden_act="linear",
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
        spatial_pool_mode="average",
        spatial_pool_stride=POOL,
        image_grid_pinpoints=[[448, 448]],
        video_seq_length=EACH,
        image_seq_length=CELLS**2,
        tie_word_embeddings=True,
    )


MATCHING, SLOW = (0, 1), 14
"""Layers that begin with heads which match words with cells, and the first of the rotary pairs
that hardly turn over a whole prompt: what these heads compare lies there."""
LATE_HEAD, EARLY_HEAD, ROTARY_PAIR = 1, 2, 10
"""Heads of the second of these layers which prefer late and early frames, and their rotary pair,
which turns half over a prompt of eight frames."""


@torch.no_grad()
def build(**size: int) -> LlavaNextVideoForConditionalGeneration:
    """A model to be trained, in which a word finds the cells with its thing from the start.

    Matching a word with what is seen is slow to be learned from nothing. So words of one class
    begin alike, classes of one kind share a part, nouns a mark and peaks another, and heads of the
    first layers compare words with cells. A peak says its place in the words for it, and two heads
    subtract what is seen early from what is seen late. All of it is trained on.
    """
    cfg = config(**size)
    model = LlavaNextVideoForConditionalGeneration(cfg)
    model.config._attn_implementation = "sdpa"
    words, width = build_tokenizer(), cfg.text_config.hidden_size
    table = model.model.language_model.embed_tokens.weight
    table.normal_(0, width**-0.5)
    noun, seen = (F.normalize(torch.randn(width), dim=0) for _ in range(2))
    one = words.convert_tokens_to_ids
    tokens: PeakTokens = model.model.vision_tower.tokens
    kinds = {kind: F.normalize(torch.randn(width), dim=0) for kind in KINDS}
    for c, label in enumerate(CLASSES):
        own = table[one(label)].clone()
        own += 0.6 * sum(kinds[k] for k, (_, members) in KINDS.items() if label in members)
        own = F.normalize(own, dim=0)
        for name in nouns(label):
            for word in (name.singular, name.plural):
                row = table[one(word)]
                row.copy_((own if word == label else 0.85 * own + 0.5 * row) + 0.5 * noun)
        tokens.label[c] = own
    for kind, (names, _) in KINDS.items():
        for word in {w for name in names for w in name.split() if w not in ("of", "kind", "piece")}:
            table[one(word)] = kinds[kind] + 0.5 * noun
    for c, name in enumerate(COLOURS):
        tokens.colour[c] = table[one(name)]
    tokens.cell.normal_(0, 0.01)
    tokens.cell -= 0.7 / POOL**2 * seen
    nn.init.normal_(tokens.outer.weight, 0, 0.02)
    tokens.outer.bias.copy_(1.4 * seen)
    _say_places(tokens, {word: table[one(word)] for word in PLACE_WORDS})
    table[one(START)] = seen + 0.3 * table[one(START)]
    projector = model.model.multi_modal_projector
    for linear, gain in ((projector.linear_1, POOL**2), (projector.linear_2, 1.0)):
        linear.weight.copy_(gain * torch.eye(width))
        linear.bias.zero_()
    decoder = model.model.language_model
    for number, layer in enumerate(decoder.layers[:3]):
        attention = layer.self_attn
        nn.init.orthogonal_(attention.v_proj.weight)
        attention.o_proj.weight.copy_(0.5 * attention.v_proj.weight.T)
        if number in MATCHING:
            _match(attention, noun, seen)
        if number == MATCHING[-1] and cfg.text_config.num_attention_heads > EARLY_HEAD + 1:
            _subtract(attention, noun, seen, table[[one(word) for word in PLACE_WORDS]])
    decoder.norm.weight.fill_(0.3)
    model.model.vision_tower.network.requires_grad_(False)
    return model


PLACE_WORDS = ("left", "right", "middle", "up", "above", "down", "below", "towards", "away")


def _say_places(tokens: PeakTokens, words: dict[str, Tensor]) -> None:
    """Makes the place of a peak begin as the words for it: cosines of its middle, and its size."""
    tokens.place.weight.normal_(0, 0.01)
    tokens.place.bias.zero_()
    x, y, wide, high = tokens.place.weight.T.unflatten(
        0, (4, -1)
    )  # of each: itself, sines, cosines
    once, twice = 5, 6  # cosines of half a turn over the picture, and of a whole one
    x[once] += words["left"] - words["right"]
    x[twice] -= 0.7 * words["middle"]
    y[once] += 0.7 * (words["up"] + words["above"] - words["down"] - words["below"])
    for side in (wide, high):
        side[0] += words["towards"] - words["away"]


def _subtract(attention: Any, noun: Tensor, seen: Tensor, words: Tensor) -> None:
    """Makes two matching heads prefer late and early frames; the second counts with a minus."""
    size = attention.head_dim
    rows = [slice(head * size, (head + 1) * size) for head in (LATE_HEAD, EARLY_HEAD)]
    values = torch.randn(size, len(seen))
    values[: len(words)] = words
    values = torch.linalg.qr(values.T)[0].T
    written = torch.linalg.qr(torch.randn(len(seen), size))[0]
    for sign, own in zip((1, -1), rows, strict=True):
        attention.v_proj.weight[own] = values
        attention.o_proj.weight[:, own] = sign * written
        attention.k_proj.weight[own.start + ROTARY_PAIR] = 0.35 * seen
        attention.q_proj.weight[own.start + ROTARY_PAIR] = sign * 0.5 * noun


def _match(attention: Any, noun: Tensor, seen: Tensor) -> None:
    """Makes heads look from nouns for cells with the same content: all but the last one."""
    size = attention.head_dim
    slow = [*range(SLOW, size // 2), *range(size // 2 + SLOW, size)]
    for head in range(len(attention.q_proj.weight) // size - 1):
        rows = [head * size + i for i in slow]
        keys = torch.zeros(len(rows), len(noun))
        nn.init.orthogonal_(keys)
        queries = keys + keys @ (1.4 * seen - noun)[:, None] @ noun[None]
        for projection, weight in ((attention.k_proj, keys), (attention.q_proj, queries)):
            projection.weight[head * size : (head + 1) * size].normal_(0, 0.005)
            projection.weight[rows] = weight
    attention.q_norm.weight.fill_(1.2)


@dataclass(frozen=True, eq=False)
class Batch:
    """Clips of T frames as the tower sees them, and questions packed behind each.

    logits (B, T, P, 80), boxes (B, T, P, 4), colours (B, T, P, 11), means (B, T, cells², 3),
    content (B, 4) are those of `Seen`; of the packed tokens each field is (B, L).
    """

    logits: Tensor
    boxes: Tensor
    colours: Tensor
    means: Tensor
    content: Tensor
    kept: Tensor
    """(B, K), tokens of the video that are read."""
    ids: Tensor
    """Token ids."""
    segment: Tensor
    """Number of the question that a token belongs to, -1 for padding."""
    position: Tensor
    """Place of a token in its question."""
    question: Tensor
    """Whether a token counts in the loss of questions."""
    answer: Tensor
    """Whether a token counts in the loss of answers."""
    kind: Tensor
    """Number of the question's kind, -1 for padding."""


class Packer:
    """Token ids as the chat template makes them."""

    def __init__(self) -> None:
        self.tokenizer = build_tokenizer()
        one = self.tokenizer.convert_tokens_to_ids
        self.before = [one(START), one("user")]
        self.turn = [one(END), one(START), one("assistant")]
        self.end, self.video = one(END), one(VIDEO)
        self._encoded: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Token ids of a plain text."""
        if text not in self._encoded:
            ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            if len(self._encoded) > 300_000:
                self._encoded.clear()
            self._encoded[text] = ids
        return self._encoded[text]

    def pack(
        self,
        seen: Sequence[Seen],
        asked: Sequence[Sequence[Asked]],
        kinds: Sequence[str],
        rng: np.random.Generator,
        empty: int | None = None,
    ) -> Batch:
        """Clips with their questions. empty: cells without a peak that are read of each clip at
        least; None: all cells are."""
        rows = [self._row(qas, kinds) for qas in asked]
        length = max(len(r[0]) for r in rows)
        columns = []
        for i, fill in enumerate((0, -1, 0, False, False, -1)):
            columns.append(torch.tensor([list(r[i]) + [fill] * (length - len(r[i])) for r in rows]))
        arrays = [np.stack([getattr(s, n) for s in seen]) for n in
                  ("logits", "boxes", "colours", "means", "content")]  # fmt: skip
        kept = _kept(arrays[0], arrays[1], rng, empty)
        tensors = [torch.from_numpy(a) for a in arrays]
        return Batch(*tensors, torch.from_numpy(kept), *columns)

    def _row(self, asked: Sequence[Asked], kinds: Sequence[str]) -> list[list[Any]]:
        row: list[list[Any]] = [[] for _ in range(6)]
        for s, qa in enumerate(asked):
            q, a = self.encode(qa.question), self.encode(qa.answer)
            tokens = [*q, *self.turn, *a, self.end]
            n = len(tokens)
            for column, values in zip(row, (
                tokens, [s] * n, range(n),
                [i < len(q) for i in range(n)], [i >= n - len(a) - 1 for i in range(n)],
                [kinds.index(qa.kind)] * n,
            ), strict=True):  # fmt: skip
                column.extend(values)
        return row


def _kept(
    logits: np.ndarray, boxes: np.ndarray, rng: np.random.Generator, empty: int | None
) -> np.ndarray:
    """(B, K) tokens to read, in order; as many of each clip."""
    b, frames = logits.shape[:2]
    if empty is None:
        return np.repeat(np.arange(frames * EACH)[None], b, 0)
    side = CELLS // POOL
    middle = (boxes[..., :2] + boxes[..., 2:]) / 2
    at = (middle * side).astype(int).clip(0, side - 1)
    cell = np.arange(frames)[None, :, None] * EACH + at[..., 1] * side + at[..., 0]
    full = np.zeros((b, frames * EACH), bool)
    there = logits.max(-1) > -20
    full[np.repeat(np.arange(b), there.sum((1, 2))), cell[there]] = True
    count = min(int(full.sum(1).max()) + empty, frames * EACH)
    key = full + rng.random(full.shape)
    return np.sort(np.argsort(-key, 1)[:, :count], 1)


def video_tokens(model: nn.Module, batch: Batch) -> Tensor:
    """(B, T·EACH, width): what `get_video_features` gives, from peaks instead of pictures."""
    b, frames = batch.logits.shape[:2]
    flat = [z.flatten(0, 1) for z in (batch.logits, batch.boxes, batch.colours, batch.means)]
    logits, boxes, colours, means = flat
    best = logits.amax(-1, keepdim=True)
    there = best > -20
    places = places_in(boxes, batch.content.repeat_interleave(frames, 0))
    peaks = Peaks(evidence_of(logits, best) * there, boxes * there, places * there,
                  colours * there, best[..., 0])  # fmt: skip
    fine = model.model.vision_tower.tokens(peaks, means)
    pooled = model.model.multi_modal_projector(model.model.vision_resampler(fine))
    return pooled.reshape(b, frames * EACH, -1)


def answer_logits(model: nn.Module, packer: Packer, batch: Batch) -> Tensor:
    """Logits that predict each packed token: (B, L, vocabulary)."""
    text = model.model.language_model
    b, length = batch.ids.shape
    video = video_tokens(model, batch)
    kept = batch.kept
    video = video.gather(1, kept[..., None].expand(-1, -1, video.shape[-1]))
    before = text.embed_tokens(torch.tensor(packer.before))[None].expand(b, -1, -1)
    x = torch.cat([before, video, text.embed_tokens(batch.ids)], 1)
    n, first = len(packer.before), len(packer.before) + kept.shape[1]
    end = n + batch.means.shape[1] * EACH
    position = torch.cat([torch.arange(n).expand(b, -1), n + kept, end + batch.position], 1)
    sees = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()[None].repeat(b, 1, 1)
    sees[:, first:, first:] &= batch.segment[:, :, None] == batch.segment[:, None, :]
    states = text(
        inputs_embeds=x,
        attention_mask={"full_attention": sees[:, None]},
        position_ids=position,
        use_cache=False,
    ).last_hidden_state
    index = first - 1 + torch.arange(length).expand(b, -1)
    starts = F.pad(batch.segment[:, 1:] != batch.segment[:, :-1], (1, 0), value=True)
    index = torch.where(starts, first - 1, index)
    picked = states.gather(1, index[..., None].expand(-1, -1, states.shape[-1]))
    return model.lm_head(picked)


LAYER, MATCHED = 1, 2
"""Where heads that compare late with early frames are renewed, and the head whose matching of words
with cells they take over."""
TIMED, WRITES = 0.8, 1.0
"""How large the part is that tells time, beside a head's own, and how strongly both write."""


@torch.no_grad()
def renew_timed_heads(model: Any, packer: Packer, batch: Batch) -> None:
    """Gives two heads of a trained layer another beginning: what is seen late less what is seen
    early, in the words for places, of the cells that a matching head finds.

    Which direction tells peaks from empty cells, and nouns from other words, is measured.
    """
    text = model.model.language_model
    layer = text.layers[LAYER]
    attention, size = layer.self_attn, layer.self_attn.head_dim
    taken: list[Tensor] = []
    hook = layer.input_layernorm.register_forward_hook(lambda *z: taken.append(z[2]))
    answer_logits(model, packer, batch)
    hook.remove()
    (x,) = taken
    n, first = len(packer.before), len(packer.before) + batch.kept.shape[1]
    logits = batch.logits.flatten(0, 1).amax(-1)
    cells = CELLS // POOL
    middle = ((batch.boxes[..., :2] + batch.boxes[..., 2:]) / 2 * cells).long().clamp(0, cells - 1)
    place = (middle[..., 1] * cells + middle[..., 0]).flatten(0, 1)
    full = torch.zeros(len(logits), EACH, dtype=torch.bool)
    full.scatter_(1, place, logits > -2)
    full = full.reshape(len(x), -1).gather(1, batch.kept)
    video, words = x[:, n:first], x[:, first:]
    known = {packer.tokenizer.convert_tokens_to_ids(w) for c in CLASSES for z in nouns(c)
             for w in (z.singular, z.plural)}  # fmt: skip
    is_noun = torch.isin(batch.ids, torch.tensor(sorted(known))) & batch.question
    empty = F.normalize(video[~full].mean(0), dim=0)
    seen = video[full].mean(0)
    seen = F.normalize(seen - (seen @ empty) * empty, dim=0)  # an empty cell has none of it
    noun = F.normalize(words[is_noun].mean(0) - words[~is_noun & batch.question].mean(0), dim=0)
    own = slice(MATCHED * size, (MATCHED + 1) * size)
    key, query = attention.k_proj.weight[own], attention.q_proj.weight[own]
    lengths = [
        (states @ weight.T).norm(dim=-1).mean()
        for states, weight in ((video[full], key), (words[is_noun], query))
    ]
    marks = (video[full] @ seen).mean(), (words[is_noun] @ noun).mean()
    ids = [packer.tokenizer.convert_tokens_to_ids(word) for word in PLACE_WORDS]
    said = F.normalize(text.embed_tokens.weight[ids], dim=-1)
    values = torch.zeros(size, said.shape[1])
    values[: len(said)] = said
    pair = [ROTARY_PAIR, ROTARY_PAIR + size // 2]
    for sign, head in ((1, 1), (-1, 3)):
        rows = slice(head * size, (head + 1) * size)
        for weight, source in ((attention.k_proj.weight, key), (attention.q_proj.weight, query)):
            weight[rows] = source
            weight[[rows.start + p for p in pair]] = 0
        attention.k_proj.weight[rows.start + ROTARY_PAIR] = TIMED * lengths[0] / marks[0] * seen
        attention.q_proj.weight[rows.start + ROTARY_PAIR] = (
            sign * TIMED * lengths[1] / marks[1] * noun
        )
        attention.v_proj.weight[rows] = values
        attention.o_proj.weight[:, rows] = sign * WRITES * values.T
