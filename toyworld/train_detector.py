"""Trains the small YOLO11n on drawn frames: `python -m toyworld.train_detector`.

From nothing, on the backbone's world but without habits, so that it has none of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import cv2
import numpy as np
import torch

from macd_studio.commands import parser as command_line
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import frame_times, render, sample

SIZE = 192


def write_dataset(folder: Path, train: int, val: int, seed: int = 3) -> Path:
    """Frames and YOLO label files under `folder`; returns the data file."""
    rng, classes = np.random.default_rng(seed), priors().classes
    for part, n in (("train", train), ("val", val)):
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            spec = sample(rng, mode="flat", weak=0.5, contrast=(0.25, 0.8), fog=0.1)
            at = frame_times(8)[rng.integers(8)][None]
            frame = render(spec, at, SIZE)[0]
            cv2.imwrite(str(folder / "images" / part / f"{i:05d}.png"), frame[..., ::-1])
            lines = []
            for o in spec.objects:
                x0, y0, x1, y1 = o.boxes(at)[0]
                box = ((x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)
                lines.append(" ".join([str(classes.index(o.label)), *(f"{v:.5f}" for v in box)]))
            (folder / "labels" / part / f"{i:05d}.txt").write_text("\n".join(lines))
    names = json.dumps(list(classes))
    data = folder / "data.yaml"
    data.write_text(
        f"path: {folder.absolute()}\ntrain: images/train\nval: images/val\nnames: {names}\n"
    )
    return data


def main() -> None:
    """Draws the data, trains, validates, and leaves `detector.pt` (fp16) and `metrics.json`."""
    parser = command_line("toyworld.train_detector", __doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/detector"))
    parser.add_argument("--frames", type=int, default=2400)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    os.environ.setdefault("YOLO_AUTOINSTALL", "false")
    from ultralytics import YOLO

    torch.set_num_threads(args.threads)
    data = write_dataset(args.out / "data", args.frames, 400)
    began = time.monotonic()
    device = "0" if torch.cuda.is_available() else "cpu"
    model = YOLO("yolo11n.yaml")
    model.train(
        data=str(data),
        epochs=args.epochs,
        imgsz=SIZE,
        batch=32,
        device=device,
        workers=0,
        seed=0,
        project=str(args.out.absolute()),
        name="train",
        exist_ok=True,
        pretrained=False,
        optimizer="AdamW",
        lr0=2e-3,
        cos_lr=True,
        warmup_epochs=0.5,
        mosaic=0.3,
        close_mosaic=3,
        hsv_h=0.01,
        scale=0.2,
        translate=0.05,
        erasing=0,
        amp=False,
        plots=False,
        verbose=False,
    )
    best = args.out / "train" / "weights" / "best.pt"  # stripped to fp16 by ultralytics
    box = (
        YOLO(str(best))
        .val(data=str(data), imgsz=SIZE, device=device, workers=0, plots=False, verbose=False)
        .box
    )
    metrics = {
        "mAP50": round(float(box.map50), 4),
        "mAP50-95": round(float(box.map), 4),
        "frames": args.frames,
        "epochs": args.epochs,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    (args.out / "metrics.json").write_text(json.dumps(metrics))
    shutil.copy(best, args.out / "detector.pt")
    shutil.copy(args.out / "train" / "results.csv", args.out / "log.csv")
    print(json.dumps(metrics))


if __name__ == "__main__":
    main()
