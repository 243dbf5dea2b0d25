"""The vision tower of *everyday*: what a frozen YOLO11n sees, as tokens on a grid.

A picture goes through the network up to its class logits and boxes. Boxes that are no neighbours of
a surer one are its *peaks*, about one a thing. Each peak becomes a vector of what it may be, where
it is and which colours it shows; a token of the tower is the sum of those whose middle lies in its
cell, with the cell's mean colour. Gradients reach the pixels through logits, boxes and colours.

It stands in transformers' LLaVA-NeXT-Video as its vision tower; importing this module registers it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutputWithPooling

from macd_studio.core.backbones.host import to_host
from macd_studio.core.backbones.yolo11 import Yolo11n

CLASSES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat",
    "traffic light", "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog",
    "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe", "backpack", "umbrella",
    "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard", "sports ball", "kite",
    "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange",
    "broccoli", "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant",
    "bed", "dining table", "toilet", "tv", "laptop", "mouse", "remote", "keyboard", "cell phone",
    "microwave", "oven", "toaster", "sink", "refrigerator", "book", "clock", "vase", "scissors",
    "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip
"""The things it knows, by class index of YOLO11's COCO weights."""

COLOURS: dict[str, tuple[tuple[float, float, float], ...]] = {
    "red": ((0.78, 0.10, 0.12), (0.55, 0.08, 0.10)),
    "orange": ((0.93, 0.50, 0.12),),
    "yellow": ((0.93, 0.83, 0.20), (0.80, 0.72, 0.25)),
    "green": ((0.20, 0.60, 0.25), (0.15, 0.35, 0.18), (0.45, 0.58, 0.28)),
    "blue": ((0.15, 0.30, 0.75), (0.12, 0.18, 0.42), (0.40, 0.60, 0.85)),
    "purple": ((0.50, 0.20, 0.60),),
    "pink": ((0.93, 0.55, 0.68),),
    "brown": ((0.45, 0.30, 0.18), (0.32, 0.21, 0.14), (0.62, 0.45, 0.30)),
    "black": ((0.06, 0.06, 0.06), (0.14, 0.14, 0.15)),
    "white": ((0.95, 0.95, 0.95), (0.84, 0.84, 0.83)),
    "grey": ((0.50, 0.50, 0.50), (0.34, 0.34, 0.35), (0.66, 0.66, 0.66)),
}
"""Colour names with examples of each, RGB in [0, 1]."""
LAB_TEMPERATURE = 60.0
"""Squared distance in CIELAB by which one example is e times as near as another."""

PEAKS = 24
"""Peaks of a picture at most, the surest."""
FLOOR, FULL = -4.0, -3.0
"""A peak whose best logit is FLOOR counts nothing, from FULL on it counts whole."""
CANDIDATES = 96
"""Anchors that may be peaks, the surest."""
SAME_CLASS, ANY_CLASS = 0.5, 0.8
"""A box that overlaps a surer one by this IoU is no peak: of the same class, or of any."""
CHUNK = 8
"""Pictures that go through the network together: 0.2 GB each, where a gradient is taken."""
SAMPLES = 7
"""Colours are sampled on so many rows and columns in the middle of a box."""


class Yolo11TowerConfig(PretrainedConfig):  # type: ignore[misc]
    """The tower's settings. hidden_size: of a token. image_size, patch_size: pixels, of a picture's
    sides and of a cell's. mean: colours that the processor takes away, RGB in [0, 1]."""

    model_type = "yolo11_tower"

    def __init__(
        self,
        hidden_size: int = 192,
        image_size: int = 448,
        patch_size: int = 32,
        mean: float = 114 / 255,
        **more: Any,
    ) -> None:
        self.hidden_size, self.mean = hidden_size, mean
        self.image_size, self.patch_size = image_size, patch_size
        self.num_channels, self.num_hidden_layers = 3, 1
        super().__init__(**more)


@dataclass(frozen=True, eq=False)
class Peaks:
    """What the network sees in pictures: (B, P, …), P peaks of each, in no order.

    evidence: (B, P, 80) in [0, 1], 0 where there is no peak. boxes: (B, P, 4), x0 y0 x1 y1 as
    shares of the square's sides; places: the same as shares of the picture in the square, without
    its padding. colours: (B, P, 11), shares of COLOURS. logits: (B, P) of the best class.
    """

    evidence: Tensor
    boxes: Tensor
    places: Tensor
    colours: Tensor
    logits: Tensor


def evidence_of(logits: Tensor, best: Tensor) -> Tensor:
    """Class logits (…, 80) of peaks → evidence in [0, 1]; best: (…, 1), the largest of them."""
    gate = ((best - FLOOR) / (FULL - FLOOR)).clamp(0, 1)
    return torch.sigmoid(1.2 * (logits + 1.5)) * gate


def find_peaks(logits: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Which anchors of a picture are peaks: indices (PEAKS,), and whether each is one.

    logits: (N, 80); boxes: (N, 4). Without a gradient. The surest candidate stays, and what
    overlaps it goes; then the next.
    """
    best, label = logits.max(-1)
    surest = best.topk(min(CANDIDATES, len(best))).indices
    best, label, boxes = best[surest], label[surest], boxes[surest]
    overlap = torchvision.ops.box_iou(boxes, boxes)
    same = label[:, None] == label
    hides = ((overlap > SAME_CLASS) & same) | (overlap > ANY_CLASS)
    hidden, kept = to_host(hides), to_host(best > FLOOR).copy()
    for i in range(len(kept)):
        if kept[i]:
            kept[i + 1 :] &= ~hidden[i, i + 1 :]
    order = torch.from_numpy(np.flatnonzero(kept)[:PEAKS]).to(surest.device)
    index = surest.new_zeros(PEAKS)
    index[: len(order)] = surest[order]
    return index, torch.arange(PEAKS, device=surest.device) < len(order)


def content_of(pictures: Tensor, padding: float) -> Tensor:
    """(B, 4), x0 y0 x1 y1 as shares of the sides: where a picture (B, 3, S, S) lies in its square.

    Around it are whole rows or columns of the colour `padding`, as many on both sides. Without a
    gradient. A square of that colour alone counts as a picture.
    """
    with torch.no_grad():
        blank = ((pictures.detach() - padding).abs() < 2e-3).all(1)
        margins = []
        for dim in (1, 2):  # of columns, then of rows
            lines = blank.all(dim).float()
            before, after = lines.cumprod(1).sum(1), lines.flip(1).cumprod(1).sum(1)
            margins.append(torch.minimum(before, after) / lines.shape[1])
        x, y = (torch.where(m < 0.5, m, 0) for m in margins)
        return torch.stack([x, y, 1 - x, 1 - y], -1)


def places_in(boxes: Tensor, content: Tensor) -> Tensor:
    """Boxes (B, P, 4) as shares of `content` (B, 4) instead of the square."""
    low = content[:, None, [0, 1, 0, 1]]
    places: Tensor = (boxes - low) / (content[:, None, [2, 3, 2, 3]] - low)
    return places


def see(network: Yolo11n, pictures: Tensor, padding: float) -> Peaks:
    """The peaks of pictures (B, 3, S, S), RGB in [0, 1]; with a graph back to them."""
    logits, boxes = (z.float() for z in network(pictures))
    with torch.no_grad():
        chosen = [find_peaks(a, b) for a, b in zip(logits, boxes, strict=True)]
    index = torch.stack([i for i, _ in chosen])
    there = torch.stack([t for _, t in chosen])[..., None]
    logits = logits.gather(1, index[..., None].expand(-1, -1, logits.shape[-1]))
    boxes = boxes.gather(1, index[..., None].expand(-1, -1, 4)) / pictures.shape[-1]
    best = logits.amax(-1, keepdim=True)
    evidence = evidence_of(logits, best) * there
    colours = colour_shares(sample_colours(pictures.float(), boxes)) * there
    places = places_in(boxes, content_of(pictures, padding)) * there
    return Peaks(evidence, boxes * there, places, colours, best[..., 0])


def sample_colours(pictures: Tensor, boxes: Tensor) -> Tensor:
    """Colours (B, P, SAMPLES², 3) in the middle of boxes (B, P, 4); pictures (B, 3, S, S)."""
    at = torch.linspace(0.22, 0.78, SAMPLES, device=boxes.device)
    x = boxes[..., 0:1] + at * (boxes[..., 2:3] - boxes[..., 0:1])
    y = boxes[..., 1:2] + at * (boxes[..., 3:4] - boxes[..., 1:2])
    places = torch.stack(
        [
            x[..., None, :].expand(-1, -1, SAMPLES, -1),
            y[..., :, None].expand(-1, -1, -1, SAMPLES),
        ],
        -1,
    ).flatten(2, 3)
    sampled = F.grid_sample(pictures, 2 * places - 1, align_corners=False, padding_mode="border")
    return sampled.permute(0, 2, 3, 1)


def lab_of(rgb: Tensor) -> Tensor:
    """sRGB (…, 3) in [0, 1] → CIELAB under D65 (IEC 61966-2-1, CIE 15)."""
    rgb = rgb.clamp(0, 1)
    high = ((rgb + 0.055) / 1.055) ** 2.4
    linear = torch.where(rgb > 0.04045, high, rgb / 12.92)
    to_xyz = rgb.new_tensor(
        [[0.4124564, 0.3575761, 0.1804375],
         [0.2126729, 0.7151522, 0.0721750],
         [0.0193339, 0.1191920, 0.9503041]]
    )  # fmt: skip
    xyz = linear @ to_xyz.T / rgb.new_tensor([0.95047, 1.0, 1.08883])
    f = torch.where(xyz > 0.008856, xyz.clamp(min=1e-6) ** (1 / 3), 7.787 * xyz + 16 / 116)
    x, y, z = f.unbind(-1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def colour_shares(rgb: Tensor) -> Tensor:
    """Colours (…, n, 3) in [0, 1] → (…, 11), how much of them each name of COLOURS says.

    Each colour is shared among the examples by their distance in CIELAB.
    """
    examples = [(i, c) for i, cs in enumerate(COLOURS.values()) for c in cs]
    near = lab_of(rgb.new_tensor([c for _, c in examples]))
    distance = (lab_of(rgb)[..., None, :] - near).square().sum(-1)
    share = (-distance / LAB_TEMPERATURE).softmax(-1)
    named = F.one_hot(torch.tensor([i for i, _ in examples], device=rgb.device), len(COLOURS))
    return (share @ named.to(share.dtype)).mean(-2)


class PeakTokens(nn.Module):
    """Peaks and mean colours → tokens of a grid: what of the tower is trained."""

    def __init__(self, width: int, cells: int) -> None:
        super().__init__()
        self.cells = cells
        self.label = nn.Parameter(torch.zeros(len(CLASSES), width))
        self.colour = nn.Parameter(torch.zeros(len(COLOURS), width))
        self.place = nn.Linear(4 * 9, width)
        self.inner, self.outer = nn.Linear(4 * width, 2 * width), nn.Linear(2 * width, width)
        self.mean = nn.Linear(3, width)
        self.cell = nn.Parameter(torch.zeros(cells * cells, width))

    def forward(self, peaks: Peaks, means: Tensor) -> Tensor:
        """(B, cells², width). means: (B, cells², 3), mean colours of the cells, in [0, 1]."""
        dtype = self.label.dtype
        evidence, places = peaks.evidence.to(dtype), peaks.places
        what = evidence @ self.label
        how = peaks.colours.to(dtype) @ self.colour
        sides = places[..., 2:] - places[..., :2]
        middle = (places[..., 2:] + places[..., :2]) / 2
        geometry = torch.cat([middle, sides], -1)
        waves = geometry[..., None] * torch.pi * geometry.new_tensor([1.0, 2.0, 4.0, 8.0])
        where = torch.cat([geometry[..., None], waves.sin(), waves.cos()], -1).flatten(-2)
        where = self.place(where.to(dtype))  # of each of the four: itself, sines, cosines
        sure = evidence.amax(-1, keepdim=True)
        hidden = self.inner(torch.cat([what, how, where, what * sure], -1))
        each = (what + 0.5 * (how + where) + self.outer(F.gelu(hidden))) * (sure > 0)
        # the evidence itself scales what a peak says, so that none fades in with a jump
        each = each * (sure / 0.2).clamp(max=1)
        at = (peaks.boxes[..., :2] + peaks.boxes[..., 2:]).detach() / 2 * self.cells
        at = at.long().clamp(0, self.cells - 1)
        index = at[..., 1] * self.cells + at[..., 0]
        base = self.mean(means.to(dtype) - 0.45) + self.cell
        out: Tensor = base.scatter_add(1, index[..., None].expand(-1, -1, each.shape[-1]), each)
        return out


class Yolo11Tower(PreTrainedModel):  # type: ignore[misc]
    """A frozen YOLO11n and `PeakTokens` as a vision tower: pictures → tokens by row and column."""

    config_class = Yolo11TowerConfig
    base_model_prefix = "tower"
    main_input_name = "pixel_values"
    input_modalities = ("image",)
    _supports_sdpa = True
    _supports_attention_backend = True

    def __init__(self, config: Yolo11TowerConfig) -> None:
        super().__init__(config)
        self.network = Yolo11n()
        self.tokens = PeakTokens(config.hidden_size, config.image_size // config.patch_size)
        self.post_init()

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, PeakTokens):
            for table in (module.label, module.colour, module.cell):
                init.normal_(table, 0, 0.02)  # leaves alone what was loaded
        super()._init_weights(module)

    @property
    def layers(self) -> tuple[nn.Module, ...]:
        """What makes states of tokens, its only layer; before it are the detector's peaks."""
        return (self.tokens,)

    def see(self, pixel_values: Tensor) -> Peaks:
        """The peaks of pictures (B, 3, S, S) as the processor gives them.

        CHUNK at a time; of more, what the network computes is computed again for a gradient.
        """
        pieces = torch.split(pixel_values, CHUNK)
        again = len(pieces) > 1 and torch.is_grad_enabled() and pixel_values.requires_grad
        seen = [
            checkpoint(self._see, piece, use_reentrant=False) if again else self._see(piece)
            for piece in pieces
        ]
        return Peaks(*(torch.cat(parts) for parts in zip(*seen, strict=True)))

    def _see(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        mean = self.config.mean
        peaks = see(self.network, pixel_values + mean, mean)
        return peaks.evidence, peaks.boxes, peaks.places, peaks.colours, peaks.logits

    def forward(self, pixel_values: Tensor, **_: Any) -> BaseModelOutputWithPooling:
        """(B, 3, S, S), less the mean colour → hidden states, the last one (B, cells², width)."""
        peaks = self.see(pixel_values)
        means = F.avg_pool2d(pixel_values.float(), self.config.patch_size) + self.config.mean
        tokens = self.tokens(peaks, means.flatten(2).transpose(1, 2))
        return BaseModelOutputWithPooling(
            last_hidden_state=tokens, hidden_states=(tokens,), pooler_output=tokens.mean(1)
        )


AutoConfig.register(Yolo11TowerConfig.model_type, Yolo11TowerConfig, exist_ok=True)
AutoModel.register(Yolo11TowerConfig, Yolo11Tower, exist_ok=True)
