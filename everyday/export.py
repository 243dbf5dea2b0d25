"""Turns a checkpoint into `assets/everyday/backbone`: `python -m everyday.export CHECKPOINT`.

A normal transformers folder in two files of weights: YOLO11n's network, which the default detector
reads too, and what was trained. `--network` names a file with the network's state dict, as
`network_of` makes it from ultralytics' checkpoint; without it the shipped one stays.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.backbones.everyday import CLASSES, Yolo11TowerConfig
from macd_studio.core.checkpoint.files import INDEX
from macd_studio.core.embedded import EVERYDAY, NETWORK, PREFIX
from macd_studio.core.system.shipped import assets
from macd_studio.everyday.language import IMAGE, VIDEO, build_tokenizer
from macd_studio.everyday.model import build

TRAINED = "model-00002-of-00002.safetensors"


def network_of(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The fused network of an ultralytics checkpoint, float16, without what is constant."""
    saved = torch.load(checkpoint, map_location="cpu", weights_only=False)["model"]
    return {k: v.half() for k, v in saved.state_dict().items() if "dfl" not in k}


def export(checkpoint: Path, folder: Path, network: Path | None = None) -> None:
    """Writes the whole folder. network: an ultralytics checkpoint of YOLO11n, fused."""
    from transformers import (
        LlavaNextImageProcessor,
        LlavaNextVideoProcessor,
        LlavaNextVideoVideoProcessor,
    )

    if network is not None:
        tower = {f"{PREFIX}{k}": v for k, v in network_of(network).items()}
    else:
        tower = load_file(assets() / EVERYDAY / "backbone" / NETWORK)
    model, words = build(), build_tokenizer()
    saved = torch.load(checkpoint, map_location="cpu", weights_only=True)["model"]
    model.load_state_dict(saved | {f"model.{k}": v.float() for k, v in tower.items()})
    model.generation_config.eos_token_id = words.eos_token_id
    model.generation_config.pad_token_id = words.pad_token_id
    side, mean = Yolo11TowerConfig().image_size, Yolo11TowerConfig().mean
    pixels = {
        "size": {"height": side, "width": side}, "crop_size": {"height": side, "width": side},
        "do_center_crop": False, "image_mean": [mean] * 3, "image_std": [1.0] * 3, "resample": 2,
    }  # fmt: skip
    processor = LlavaNextVideoProcessor(
        video_processor=LlavaNextVideoVideoProcessor(**pixels, do_sample_frames=False),
        image_processor=LlavaNextImageProcessor(**pixels, image_grid_pinpoints=[[side, side]]),
        tokenizer=words,
        chat_template=words.chat_template,
        patch_size=Yolo11TowerConfig().patch_size,
        vision_feature_select_strategy="full",
        video_token=VIDEO,
        image_token=IMAGE,
    )
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place) / "backbone"
        model.half().save_pretrained(whole)
        processor.save_pretrained(whole)
        written = load_file(whole / "model.safetensors")
        (whole / "model.safetensors").unlink()
        parts = {
            NETWORK: {k: v for k, v in written.items() if k.startswith(PREFIX)},
            TRAINED: {k: v for k, v in written.items() if not k.startswith(PREFIX)},
        }
        for name, tensors in parts.items():
            about = {"names": json.dumps(CLASSES)} if name == NETWORK else {}
            save_file(tensors, whole / name, {"format": "pt"} | about)
        size = sum(v.numel() * v.element_size() for v in written.values())
        index = {
            "metadata": {"total_size": size},
            "weight_map": {k: n for n, tensors in parts.items() for k in tensors},
        }
        (whole / INDEX).write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
        for file in whole.iterdir():
            file.chmod(0o644)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(whole, folder)


def write_manifest(folder: Path) -> None:
    """sha256 of every file below `backbone/`, checked whenever it is loaded."""
    files = sorted(f for f in (folder / "backbone").rglob("*") if f.is_file())
    sums = {
        f.relative_to(folder).as_posix(): hashlib.sha256(f.read_bytes()).hexdigest() for f in files
    }
    (folder / "manifest.json").write_text(json.dumps(sums, indent=1) + "\n")


def main() -> None:
    """Command line."""
    need_checkout("everyday.export")
    parser = command_line("everyday.export", __doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--network", type=Path, help="ultralytics' fused checkpoint of YOLO11n")
    parser.add_argument("--folder", type=Path, help="write there; nothing that ships is touched")
    args = parser.parse_args()
    export(args.checkpoint, args.folder or assets() / EVERYDAY / "backbone", args.network)
    if args.folder is None:
        write_manifest(assets() / EVERYDAY)


if __name__ == "__main__":
    main()
