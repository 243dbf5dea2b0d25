"""Turns trained runs into `assets/toyworld/`: `python -m toyworld.make_assets all`.

sprites (needs Debian's fonts-noto-color-emoji), backbone, detector, manifest; or each by name.
`backbone --backbone CHECKPOINT --folder FOLDER` exports a backbone to any folder instead, where it
can be evaluated.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import torch

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.system.shipped import TOYWORLD
from macd_studio.toyworld.model import FRAMES, MERGE, PATCH, SIZE, TEMPORAL, build
from macd_studio.toyworld.questions import build_tokenizer
from macd_studio.toyworld.scenes import draw_sprite_sheet

FONT = Path("/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf")
PACKED = ("backbone", "detector.pt")


def export_backbone(checkpoint: Path, folder: Path = TOYWORLD / "backbone") -> None:
    """A checkpoint → a normal transformers folder: fp16 safetensors, tokenizer, processor."""
    from transformers import Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    saved = torch.load(checkpoint, map_location="cpu", weights_only=False)
    model = build()
    model.load_state_dict(saved["model"])
    tokenizer = build_tokenizer()
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    pixels = {
        "size": {"shortest_edge": SIZE * SIZE, "longest_edge": SIZE * SIZE},
        "patch_size": PATCH,
        "merge_size": MERGE,
        "temporal_patch_size": TEMPORAL,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(**pixels),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(
            **pixels, do_sample_frames=False, num_frames=FRAMES, cap_pixels_per_frame=False
        ),
        chat_template=tokenizer.chat_template,
    )
    shutil.rmtree(folder, ignore_errors=True)
    model.half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    processor.save_pretrained(folder)


def write_manifest() -> None:
    """sha256 of every weight file, checked whenever it is loaded."""
    files = [f for name in PACKED for f in _files(TOYWORLD / name)]
    sums = {
        str(f.relative_to(TOYWORLD)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in sorted(files)
    }
    (TOYWORLD / "manifest.json").write_text(json.dumps(sums, indent=1) + "\n")


def _files(path: Path) -> list[Path]:
    return [f for f in path.rglob("*") if f.is_file()] if path.is_dir() else [path]


def main() -> None:
    """Command line."""
    need_checkout("toyworld.make_assets")
    parser = command_line("toyworld.make_assets", __doc__)
    parser.add_argument("what", choices=("all", "sprites", "backbone", "detector", "manifest"))
    parser.add_argument("--backbone", type=Path, default=Path("runs/backbone/checkpoint.pt"))
    parser.add_argument(
        "--folder", type=Path, help="write the backbone there; nothing that ships is touched"
    )
    parser.add_argument("--detector", type=Path, default=Path("runs/detector/detector.pt"))
    args = parser.parse_args()
    if args.folder is not None:
        if args.what != "backbone":
            parser.error("--folder is for a backbone only")
        export_backbone(args.backbone, args.folder)
        return
    if args.what == "sprites" or (args.what == "all" and FONT.exists()):
        draw_sprite_sheet(FONT)
    if args.what in ("all", "backbone"):
        export_backbone(args.backbone)
    if args.what in ("all", "detector"):
        shutil.copy(args.detector, TOYWORLD / "detector.pt")
    if args.what != "sprites":
        write_manifest()


if __name__ == "__main__":
    main()
