"""A path that is no model's folder, though one is near: what it is, and what to give instead."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import NoReturn

from macd_studio.core.backbones.load_errors import COMPLETE
from macd_studio.core.errors import BackboneCorrupt, BackboneNotFound, UnsupportedBackbone
from macd_studio.core.text.words import count
from macd_studio.core.validation import shown

POINTER = b"version https://git-lfs.github.com/spec/"
TOKENIZERS = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model",
    "sentencepiece.bpe.model", "tekken.json",
)  # fmt: skip
MOST = 2000
"""Entries of a folder that are looked at."""
_GGUF = (
    "is in llama.cpp's format GGUF, which transformers does not compute with gradients",
    "Give the folder or hub id of the model that it was made from",
)


def refuse_file(name: str) -> NoReturn:
    """Raises for a file that was given as a backbone."""
    if name.lower().endswith(".gguf"):
        raise UnsupportedBackbone(f"{shown(name, 200)} {_GGUF[0]}", _GGUF[1])
    raise BackboneNotFound(
        f"{shown(name, 200)} is a file", "Give the folder that holds it, with config.json"
    )


def refuse_folder(folder: Path, name: str) -> NoReturn:
    """Raises for a folder without config.json: a trainer's output, a hub's cache, GGUF, another."""
    entries = list(islice(folder.iterdir(), MOST))
    if any(file.suffix.lower() == ".gguf" for file in entries):
        raise UnsupportedBackbone(f"the folder {shown(name, 200)} {_GGUF[0]}", _GGUF[1])
    below = [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
    if (folder / "snapshots").is_dir():
        below = list(islice((folder / "snapshots").iterdir(), MOST))
    models = [entry for entry in below if (entry / "config.json").is_file()]
    if models:
        newest = max(models, key=lambda entry: entry.stat().st_mtime)
        raise BackboneNotFound(
            f"the folder {shown(name, 200)} is no model but holds {count(len(models), 'model')}",
            f"Give one of them, such as {shown(str(newest), 300)}",
        )
    raise BackboneCorrupt(f"the folder {name!r} holds no config.json", COMPLETE)


def refuse_pointers(folder: Path, name: str) -> None:
    """Raises BackboneCorrupt for weights that Git LFS has not fetched."""
    for file in sorted(folder.glob("*.safetensors")):
        if file.stat().st_size < 1024 and file.read_bytes().startswith(POINTER):
            raise BackboneCorrupt(
                f"{file.name} of {name!r} is a pointer of Git LFS in place of the weights",
                "Run git lfs pull in its folder, or download the model with hf download",
            )


def refuse_without_tokenizer(folder: Path, name: str) -> None:
    """Raises BackboneCorrupt where a folder has no tokenizer."""
    if not any((folder / file).exists() for file in TOKENIZERS):
        raise BackboneCorrupt(
            f"the folder {name!r} holds no tokenizer ({TOKENIZERS[0]} or another)",
            "Copy the tokenizer's files of the model that it was trained from into it",
        )
