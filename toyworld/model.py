"""The embedded backbone: Qwen2.5-VL with a small config, and a forward pass made for training.

The training pass equals the transformers one (a test holds them together) but runs the vision
tower over all temporal slices in one batch, and packs several questions behind one video.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from macd_studio.core.backbones.positions import positions_of
from macd_studio.toyworld.questions import (
    END,
    IMAGE,
    PAD,
    START,
    VIDEO,
    VISION_END,
    VISION_START,
    build_tokenizer,
    vocabulary,
)

SIZE, FRAMES = 96, 8
PATCH, MERGE, TEMPORAL = 16, 2, 2
GRID = SIZE // PATCH
CELLS = GRID // MERGE  # merged cells along a side
GROUPS = FRAMES // TEMPORAL
TOKENS_PER_SECOND = 2

Qa = tuple[str, str]


def config(width: int = 192, layers: int = 4, heads: int = 6) -> Qwen2_5_VLConfig:
    """The shipped configuration: 4 + 4 layers of width 192, tied embeddings, about 5 M weights."""
    ids = {word: i for i, word in enumerate(vocabulary())}
    half = width // heads // 2
    time = half // 4
    section = [time, (half - time) // 2, half - time - (half - time) // 2]
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": -(-len(ids) // 32) * 32,
            "hidden_size": width,
            "intermediate_size": 3 * width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "max_position_embeddings": 2048,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1000.0,
                "mrope_section": section,
            },
            "bos_token_id": None,
            "eos_token_id": ids[END],
            "pad_token_id": ids[PAD],
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": layers,
            "hidden_size": width,
            "intermediate_size": 3 * width,
            "num_heads": heads,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": TEMPORAL,
            "window_size": SIZE,
            "fullatt_block_indexes": list(range(layers)),
            "out_hidden_size": width,
            "tokens_per_second": TOKENS_PER_SECOND,
        },
        tie_word_embeddings=True,
        image_token_id=ids[IMAGE],
        video_token_id=ids[VIDEO],
        vision_start_token_id=ids[VISION_START],
        vision_end_token_id=ids[VISION_END],
    )


def build(**size: int) -> Qwen2_5_VLForConditionalGeneration:
    """A freshly initialised backbone."""
    model = Qwen2_5_VLForConditionalGeneration(config(**size))
    model.config._attn_implementation = "sdpa"
    return model


def use_fused_norms(model: nn.Module) -> None:
    """Replaces the RMS norms' forward by torch's fused one for training on a CPU."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = _FusedNorm(module)


class _FusedNorm:
    def __init__(self, norm: nn.Module) -> None:
        self.norm = norm

    def __call__(self, x: Tensor) -> Tensor:
        w = self.norm.weight
        return F.rms_norm(x, (x.shape[-1],), w.to(x.dtype), self.norm.variance_epsilon)


def patchify(frames: Tensor) -> Tensor:
    """(B, T, S, S, 3) in [0, 1] -> (B·T/2·G², 3·2·16²) in [-1, 1], in the processor's order."""
    b, t = frames.shape[:2]
    x = (frames - 0.5) * 2
    x = x.reshape(b, t // TEMPORAL, TEMPORAL, CELLS, MERGE, PATCH, CELLS, MERGE, PATCH, 3)
    x = x.permute(0, 1, 3, 6, 4, 7, 9, 2, 5, 8)
    return x.reshape(b * (t // TEMPORAL) * GRID * GRID, -1)


def see(visual: nn.Module, frames: Tensor) -> Tensor:
    """The vision tower over a batch of clips: (B, T, S, S, 3) -> (B, T/2·9, width)."""
    cfg = visual.config
    b, groups = frames.shape[0], frames.shape[1] // TEMPORAL
    cells, heads = GRID * GRID, cfg.num_heads
    x = F.linear(patchify(frames), visual.patch_embed.proj.weight.reshape(cfg.hidden_size, -1))
    x = x.reshape(b * groups, cells, -1)
    cos, sin = _vision_rotary(cfg.hidden_size // heads, x.device)
    for block in visual.blocks:
        qkv = block.attn.qkv(block.norm1(x)).reshape(b * groups, cells, 3, heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = (_rotate(z, cos.to(z.dtype), sin.to(z.dtype)) for z in (q, k))
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + block.attn.proj(seen.reshape(b * groups, cells, -1))
        x = x + block.mlp(block.norm2(x))
    return visual.merger(x.reshape(b * groups * cells, -1)).reshape(b, groups * CELLS**2, -1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def _vision_rotary(head: int, device: torch.device) -> tuple[Tensor, Tensor]:
    i = torch.arange(GRID, device=device)
    rows, columns = torch.meshgrid(i, i, indexing="ij")

    def in_merge_order(z: Tensor) -> Tensor:
        return z.reshape(CELLS, MERGE, CELLS, MERGE).permute(0, 2, 1, 3).reshape(-1)

    frequency = 1 / 10000 ** (torch.arange(0, head // 2, 2, device=device) / (head // 2))
    angles = [in_merge_order(z)[:, None] * frequency for z in (rows, columns)]
    angle = torch.cat(angles + angles, -1)
    return angle.cos(), angle.sin()


@dataclass(frozen=True, eq=False)
class Packed:
    """Several questions with answers behind one video each; every one sees the video and itself.

    Tensors are (B, L): of integers, or of truth values.
    """

    ids: Tensor
    """Token ids."""
    segment: Tensor
    """Number of the question that a token belongs to, -1 for padding."""
    position: Tensor
    """Place of a token, counted from the first one after the prefix."""
    predictor: Tensor
    """Index, in the whole sequence, of the state that predicts a token: the one before it, or the
    end of the video for the first of a segment."""
    question: Tensor
    """Whether a token counts in the loss of questions."""
    answer: Tensor
    """Whether a token counts in the loss of answers."""

    def to(self, device: torch.device) -> Packed:
        """A copy on `device`."""
        return Packed(*(getattr(self, f).to(device) for f in self.__dataclass_fields__))


class Language:
    """Token ids for prefix, questions and answers, as the chat template would make them."""

    def __init__(self) -> None:
        self.tokenizer = build_tokenizer()
        one = self.tokenizer.convert_tokens_to_ids
        self.video, self.unknown = one(VIDEO), one("<|unknown|>")
        self.before = [one(START), one("user"), one(VISION_START)]
        self.after = [one(VISION_END)]
        self.turn = [one(END), one(START), one("assistant")]
        self.end = one(END)

    @property
    def prefix_length(self) -> int:
        """Tokens before the question for a clip of 8 frames."""
        return len(self.before) + GROUPS * CELLS**2 + len(self.after)

    def encode(self, text: str) -> list[int]:
        """Token ids of a plain text."""
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def pack(self, asked: list[list[Qa]], length: int) -> Packed:
        """Packs each clip's questions into `length` tokens; what does not fit is left out."""
        shape = (len(asked), length)
        ids, position = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
        segment = torch.full(shape, -1)
        question, answer = (torch.zeros(shape, dtype=torch.bool) for _ in range(2))
        for b, qas in enumerate(asked):
            at = 0
            for s, (q, a) in enumerate(qas):
                nq, na = self.encode(q), self.encode(a)
                tokens = [*nq, *self.turn, *na, self.end]
                end = at + len(tokens)
                if end > length:
                    break
                ids[b, at:end] = torch.tensor(tokens)
                segment[b, at:end] = s
                position[b, at:end] = torch.arange(len(tokens))
                question[b, at : at + len(nq)] = True
                answer[b, end - len(na) - 1 : end] = True
                at = end
        index = torch.arange(length) + self.prefix_length - 1
        first = torch.ones(shape, dtype=torch.bool)
        first[:, 1:] = segment[:, 1:] != segment[:, :-1]
        predictor = torch.where(first, self.prefix_length - 1, index)
        return Packed(ids, segment, position, predictor, question, answer)

    def answer_logits(
        self, model: nn.Module, video: Tensor, packed: Packed, seconds: float = 1.0
    ) -> Tensor:
        """Logits that predict each packed token: (B, L, vocabulary). `video` comes from `see`.

        seconds: time between temporal patches, which Qwen2.5-VL writes into its positions.
        """
        device, (b, length) = packed.ids.device, packed.ids.shape
        text_model = model.model.language_model
        embed, n = text_model.embed_tokens, self.prefix_length
        before, after = (
            embed(torch.tensor(z, device=device))[None].expand(b, -1, -1)
            for z in (self.before, self.after)
        )
        x = torch.cat([before, video.to(before.dtype), after, embed(packed.ids)], 1)
        sees = torch.ones(n + length, n + length, dtype=torch.bool, device=device).tril()
        sees = sees[None].repeat(b, 1, 1)
        sees[:, n:, n:] &= packed.segment[:, :, None] == packed.segment[:, None, :]
        prefix = self._prefix_positions(seconds).to(device)
        after = prefix[0, -1] + 1 + packed.position
        position = torch.cat([prefix[:, None].expand(3, b, n), after.expand(3, b, length)], 2)
        states = text_model(
            inputs_embeds=x,
            attention_mask={"full_attention": sees[:, None]},
            position_ids=position,
            use_cache=False,
        ).last_hidden_state
        index = packed.predictor[..., None].expand(-1, -1, states.shape[-1])
        return model.lm_head(states.gather(1, index))

    def _prefix_positions(self, seconds: float) -> Tensor:
        video = np.zeros(self.prefix_length, bool)
        video[len(self.before) : len(self.before) + GROUPS * CELLS**2] = True
        grid = (GROUPS, CELLS, CELLS)
        return positions_of(video, grid, seconds * TOKENS_PER_SECOND)
