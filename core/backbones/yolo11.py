"""YOLO11n up to its class logits and box distances, as a plain differentiable network.

The same arithmetic as ultralytics' fused model, under the same names of weights, so that one file
of weights serves both; `tests/core/test_everyday.py` compares them. It neither trains nor imports
ultralytics, and gradients reach the pixels.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STRIDES = (8, 16, 32)
BINS = 16
"""A distance from an anchor to a side of its box is a distribution over so many multiples of the
stride."""


class Conv(nn.Module):
    """A convolution with its batch norm folded in, then SiLU or nothing."""

    def __init__(
        self, c1: int, c2: int, k: int = 1, s: int = 1, g: int = 1, act: bool = True
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, k // 2, groups=g)
        self.act = act

    def forward(self, x: Tensor) -> Tensor:
        """(B, c1, h, w) → (B, c2, h/s, w/s)."""
        out: Tensor = self.conv(x)
        return F.silu(out) if self.act else out


class Bottleneck(nn.Module):
    """Two 3 × 3 convolutions beside the identity."""

    def __init__(self, c: int, hidden: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = Conv(c, hidden, 3), Conv(hidden, c, 3)

    def forward(self, x: Tensor) -> Tensor:
        """(B, c, h, w) → the same."""
        out: Tensor = x + self.cv2(self.cv1(x))
        return out


class C3k(nn.Module):
    """Two bottlenecks on one half of the channels."""

    def __init__(self, c: int) -> None:
        super().__init__()
        half = c // 2
        self.cv1, self.cv2, self.cv3 = Conv(c, half), Conv(c, half), Conv(2 * half, c)
        self.m = nn.Sequential(Bottleneck(half, half), Bottleneck(half, half))

    def forward(self, x: Tensor) -> Tensor:
        """(B, c, h, w) → the same."""
        out: Tensor = self.cv3(torch.cat([self.m(self.cv1(x)), self.cv2(x)], 1))
        return out


class C3k2(nn.Module):
    """Splits the channels, and adds what a block makes of the last part."""

    def __init__(self, c1: int, c2: int, hidden: int, deep: bool = False) -> None:
        super().__init__()
        self.cv1, self.cv2 = Conv(c1, 2 * hidden), Conv(3 * hidden, c2)
        block = C3k(hidden) if deep else Bottleneck(hidden, hidden // 2)
        self.m = nn.ModuleList([block])

    def forward(self, x: Tensor) -> Tensor:
        """(B, c1, h, w) → (B, c2, h, w)."""
        parts = list(self.cv1(x).chunk(2, 1))
        out: Tensor = self.cv2(torch.cat([*parts, self.m[0](parts[-1])], 1))
        return out


class SPPF(nn.Module):
    """Maxima over growing neighbourhoods, side by side."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.cv1, self.cv2 = Conv(c, c // 2), Conv(2 * c, c)
        self.m = nn.MaxPool2d(5, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """(B, c, h, w) → the same."""
        parts = [self.cv1(x)]
        for _ in range(3):
            parts.append(self.m(parts[-1]))
        out: Tensor = self.cv2(torch.cat(parts, 1))
        return out


class Attention(nn.Module):
    """Self-attention over all places of a map."""

    def __init__(self, c: int, heads: int) -> None:
        super().__init__()
        self.heads, self.value = heads, c // heads
        self.key = self.value // 2
        self.qkv = Conv(c, c + 2 * self.key * heads, act=False)
        self.proj, self.pe = Conv(c, c, act=False), Conv(c, c, 3, g=c, act=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, c, h, w) → the same."""
        b, c, h, w = x.shape
        qkv = self.qkv(x).view(b, self.heads, 2 * self.key + self.value, h * w)
        q, k, v = qkv.split([self.key, self.key, self.value], 2)
        weights = ((q * self.key**-0.5).transpose(-2, -1) @ k).softmax(-1)
        seen = (v @ weights.transpose(-2, -1)).view(b, c, h, w)
        out: Tensor = self.proj(seen + self.pe(v.reshape(b, c, h, w)))
        return out


class PSABlock(nn.Module):
    """Attention, then a small perceptron, each beside the identity."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.attn = Attention(c, c // 64)
        self.ffn = nn.Sequential(Conv(c, 2 * c), Conv(2 * c, c, act=False))

    def forward(self, x: Tensor) -> Tensor:
        """(B, c, h, w) → the same."""
        x = x + self.attn(x)
        out: Tensor = x + self.ffn(x)
        return out


class C2PSA(nn.Module):
    """One such block on half of the channels."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.width = c // 2
        self.cv1, self.cv2 = Conv(c, c), Conv(c, c)
        self.m = nn.Sequential(PSABlock(self.width))

    def forward(self, x: Tensor) -> Tensor:
        """(B, c, h, w) → the same."""
        first, second = self.cv1(x).split(self.width, 1)
        out: Tensor = self.cv2(torch.cat([first, self.m(second)], 1))
        return out


class Detect(nn.Module):
    """The heads of three levels: distances of a box's sides, and logits of the classes."""

    def __init__(self, classes: int, channels: tuple[int, ...]) -> None:
        super().__init__()
        self.cv2 = nn.ModuleList(
            nn.Sequential(Conv(c, 64, 3), Conv(64, 64, 3), nn.Conv2d(64, 4 * BINS, 1))
            for c in channels
        )
        self.cv3 = nn.ModuleList(
            nn.Sequential(
                nn.Sequential(Conv(c, c, 3, g=c), Conv(c, classes)),
                nn.Sequential(Conv(classes, classes, 3, g=classes), Conv(classes, classes)),
                nn.Conv2d(classes, classes, 1),
            )
            for c in channels
        )


class Yolo11n(nn.Module):
    """The network of `YOLO("yolo11n.pt")`, fused."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        up = nn.Upsample(scale_factor=2.0)
        self.model = nn.ModuleList(
            [
                Conv(3, 16, 3, 2), Conv(16, 32, 3, 2), C3k2(32, 64, 16),
                Conv(64, 64, 3, 2), C3k2(64, 128, 32),
                Conv(128, 128, 3, 2), C3k2(128, 128, 64, deep=True),
                Conv(128, 256, 3, 2), C3k2(256, 256, 128, deep=True), SPPF(256), C2PSA(256),
                up, nn.Identity(), C3k2(384, 128, 64),
                up, nn.Identity(), C3k2(256, 64, 32),
                Conv(64, 64, 3, 2), nn.Identity(), C3k2(192, 128, 64),
                Conv(128, 128, 3, 2), nn.Identity(), C3k2(384, 256, 128, deep=True),
                Detect(classes, (64, 128, 256)),
            ]
        )  # fmt: skip

    def levels(self, x: Tensor) -> list[Tensor]:
        """Features at STRIDES of pictures (B, 3, H, W) in [0, 1]; H, W multiples of 32."""
        m, kept = self.model, {}
        for i in range(11):
            x = m[i](x)
            if i in (4, 6, 10):
                kept[i] = x
        middle = m[13](torch.cat([m[11](kept[10]), kept[6]], 1))
        fine = m[16](torch.cat([m[14](middle), kept[4]], 1))
        middle = m[19](torch.cat([m[17](fine), middle], 1))
        coarse = m[22](torch.cat([m[20](middle), kept[10]], 1))
        return [fine, middle, coarse]

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 3, H, W) RGB in [0, 1] → class logits (B, N, 80) and boxes (B, N, 4).

        Of the anchors of all levels, each row by row; boxes are x0 y0 x1 y1 in pixels.
        """
        head: Any = self.model[23]
        logits, boxes = [], []
        features = self.levels(pictures.contiguous(memory_format=torch.channels_last))
        for i, (x, stride) in enumerate(zip(features, STRIDES, strict=True)):
            b, _, h, w = x.shape
            logits.append(head.cv3[i](x).flatten(2).transpose(1, 2))
            bins = head.cv2[i](x).view(b, 4, BINS, h * w).float().softmax(2)
            distance = (bins * torch.arange(BINS, device=x.device)[:, None]).sum(2)
            rows = torch.arange(h, device=x.device).repeat_interleave(w) + 0.5
            columns = torch.arange(w, device=x.device).repeat(h) + 0.5
            left, top, right, bottom = distance.unbind(1)
            sides = torch.stack([columns - left, rows - top, columns + right, rows + bottom], -1)
            boxes.append(stride * sides)
        return torch.cat(logits, 1), torch.cat(boxes, 1)
