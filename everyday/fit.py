"""Fits the simulation's noise to what the tower sees in real pictures, without any label.

`python -m everyday.fit FOLDER…` reads pictures and clips, and writes `noise.json`: by class how
large what is found is, and which logits the other classes get where it is found. Where a class was
seen seldom, its kind's or everything's mean stands in.
"""

from __future__ import annotations

import json
from pathlib import Path

import av
import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as tv

from macd_studio.commands import parser as command_line
from macd_studio.core.backbones.everyday import CLASSES, find_peaks
from macd_studio.core.backbones.sizes import placed
from macd_studio.core.backbones.yolo11 import Yolo11n
from macd_studio.everyday.language import KINDS

SIDE, PAD = 448, 114
SURE = -1.0
"""Peaks from this logit on are taken for finds."""
SHRINK = 12
"""So many finds of a class weigh as much as its kind's mean."""


def pictures_of(path: Path, frames: int = 4) -> list[np.ndarray]:
    """A picture, or some frames of a clip, (H, W, 3) RGB; nothing where it cannot be read."""
    try:
        if path.suffix.lower() in (".jpg", ".jpeg", ".png", ".webp"):
            return [np.asarray(Image.open(path).convert("RGB"))]
        with av.open(str(path)) as file:
            shown = [f.to_ndarray(format="rgb24") for f in file.decode(video=0)]
        return [shown[int(i)] for i in np.linspace(0, len(shown) - 1, frames)]
    except (OSError, ValueError, IndexError):
        return []


def padded(picture: np.ndarray) -> torch.Tensor:
    """A picture in the middle of a grey square, (3, SIDE, SIDE) in [0, 1]."""
    x0, y0, x1, y1 = placed(picture.shape[:2], (SIDE, SIDE))
    out = torch.full((3, SIDE, SIDE), PAD, dtype=torch.uint8)
    whole = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    out[:, y0:y1, x0:x1] = tv.resize(whole, [y1 - y0, x1 - x0], antialias=True)
    return out.float() / 255


@torch.no_grad()
def finds(network: Yolo11n, picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits (n, 80) and shares of the picture's area (n,) of what is found in it."""
    logits, boxes = network(padded(picture)[None])
    index, there = find_peaks(logits[0], boxes[0])
    index = index[there]
    rows, sides = logits[0, index], boxes[0, index]
    x0, y0, x1, y1 = placed(picture.shape[:2], (SIDE, SIDE))
    area = (sides[:, 2] - sides[:, 0]) * (sides[:, 3] - sides[:, 1]) / ((x1 - x0) * (y1 - y0))
    sure = rows.amax(-1) > SURE
    return rows[sure].numpy(), area[sure].clamp(1e-4, 1).numpy()


def fit(rows: np.ndarray, areas: np.ndarray) -> dict[str, object]:
    """The contents of `noise.json` from the finds of all pictures."""
    label = rows.argmax(-1)
    kind = {CLASSES.index(c): k for k, (_, cs) in KINDS.items() for c in cs}
    others = np.where(np.arange(len(CLASSES)) == label[:, None], np.nan, rows)
    every, every_size = np.nanmean(others, 0), float(np.log10(areas).mean())
    every_spread = float(np.nanstd(others - np.nanmean(others, 1, keepdims=True)))
    size, confused, spread = [], [], []
    for c in range(len(CLASSES)):
        own = label == c
        sisters = np.isin(label, [k for k in kind if kind.get(k) == kind.get(c)])
        around = sisters & ~own if c in kind and (sisters & ~own).sum() > 3 else np.ones_like(own)
        base = np.nanmean(others[around], 0)
        base = np.where(np.isfinite(base), base, every)
        n = int(own.sum())
        weight = n / (n + SHRINK)
        mine = others[own].mean(0) if n else base
        row = np.where(np.isfinite(mine), weight * mine + (1 - weight) * base, base)
        row[c] = 0.0
        confused.append([round(float(v), 2) for v in row])
        spread.append(round(every_spread if n < 8 else float(np.nanstd(others[own] - mine)), 2))
        around_size = float(np.log10(areas[around]).mean()) if around.any() else every_size
        own_size = float(np.log10(areas[own]).mean()) if n else around_size
        size.append(round(weight * own_size + (1 - weight) * around_size, 3))
    found = {CLASSES[c]: int((label == c).sum()) for c in range(len(CLASSES))}
    return {"finds": found, "size": size, "spread": spread, "confused": confused}


def main() -> None:
    """Command line."""
    parser = command_line("everyday.fit", __doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--weights", type=Path, required=True, help="state dict of the network")
    args = parser.parse_args()
    network = Yolo11n().eval()
    network.load_state_dict(torch.load(args.weights, weights_only=True))
    files = sorted(f for folder in args.folders for f in folder.rglob("*") if f.is_file())
    rows, areas, read = [], [], 0
    for file in files:
        for picture in pictures_of(file):
            if min(picture.shape[:2]) < 64:
                continue
            read += 1
            row, area = finds(network, picture)
            rows.append(row)
            areas.append(area)
    stored = {"pictures": read, **fit(np.concatenate(rows), np.concatenate(areas))}
    Path(__file__).with_name("noise.json").write_text(json.dumps(stored) + "\n")
    print(f"{read} pictures, {sum(stored['finds'].values())} finds")  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
