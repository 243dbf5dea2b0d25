"""What speaks against a model, told before its weights are read, or as soon as they are.

A path that is no model's folder, though one is near; packages that its configuration asks for and
that are not installed; a tokenizer of another model.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from macd_studio.core.backbones.foreign import COMPLETE
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


ATTENTION = {
    "flash_attention_2": ("flash_attn", "flash-attn"),
    "flash_attention_3": ("flash_attn_interface", "flash-attn-3"),
    "flash_attention_4": ("flash_attn.cute", "flash-attn-4"),
}
"""Ways to compute attention that are packages: module, and what pip calls it."""
ATTENTION_KEYS = (
    "attn_implementation and _attn_implementation from its config.json, which change the speed only"
)
PLAIN_ATTENTION = (None, "eager", "sdpa", "flex_attention")
EXPERTS = (None, "eager", "batched_mm", "grouped_mm")
"""Ways to compute experts that torch has; others are fetched from the hub, as code."""
TOWERS = ("timm_wrapper", "timm_backbone")


def check_packages(name: str, config: Any, where: torch.device | None = None) -> None:
    """Raises UnsupportedBackbone where a configuration asks for what is not here.

    That is a package that is missing, a kernel that would be fetched from the hub and run, or a
    way to compute attention that `where` cannot.
    """
    for part in _parts(config):
        check_tower(name, str(getattr(part, "model_type", "")))
        _check_attention(name, getattr(part, "_attn_implementation", None), where)
        experts = getattr(part, "_experts_implementation", None)
        if experts not in EXPERTS:
            raise UnsupportedBackbone(
                f"the config.json of {name!r} asks for experts computed by {shown(experts, 60)},"
                " whose code would come from the hub and is never run",
                "Remove experts_implementation from its config.json: it changes the speed only",
            )


def check_tower(name: str, kind: str) -> None:
    """Raises UnsupportedBackbone where a vision tower is of a package that is missing.

    kind: its `model_type`.
    """
    if kind in TOWERS and not _here("timm"):
        raise UnsupportedBackbone(
            f"the vision tower of {name!r} needs the package timm",
            "Install it with: pip install timm",
        )


def _check_attention(name: str, asked: Any, where: torch.device | None) -> None:
    if asked in PLAIN_ATTENTION:
        return
    about = f"the config.json of {name!r} asks for the attention {shown(asked, 60)}"
    plain = str(asked).rpartition("|")[2]
    if "/" in plain:
        raise UnsupportedBackbone(
            f"{about}, whose code would come from the hub and is never run",
            f"Remove {ATTENTION_KEYS}",
        )
    if plain not in ATTENTION:
        raise UnsupportedBackbone(f"{about}, which is not known here", f"Remove {ATTENTION_KEYS}")
    module, package = ATTENTION[plain]
    if not _here(module):
        raise UnsupportedBackbone(
            f"{about}, which needs the package {package}",
            f"Install it with: pip install {package}; or remove {ATTENTION_KEYS}",
        )
    if where is not None and where.type == "cpu":
        raise UnsupportedBackbone(
            f"{about}, which runs on a GPU only",
            f"Choose a GPU by --device; or remove {ATTENTION_KEYS}",
        )


def _parts(config: Any) -> Iterator[Any]:
    """A configuration and those inside it."""
    yield config
    for name in getattr(config, "sub_configs", None) or ():
        if (inner := getattr(config, name, None)) is not None and not isinstance(inner, dict):
            yield from _parts(inner)


def _here(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of what it lies in
        return False


def check_vocabulary(model: Any, processor: Any, name: str) -> None:
    """Raises UnsupportedBackbone for tokens beyond the rows of the model's embedding.

    Such a tokenizer belongs to another model, or was given tokens without the embedding. Ids that
    stand for pictures, videos and sounds are no rows of it in some families, and are left out.
    """
    embedding = model.get_input_embeddings()
    tokenizer = getattr(processor, "tokenizer", processor)
    if not isinstance(embedding, nn.Embedding) or not hasattr(tokenizer, "get_vocab"):
        return
    rows, media = embedding.num_embeddings, _media_tokens(model.config)
    beyond = sorted(
        (number, word)
        for word, number in tokenizer.get_vocab().items()
        if number >= rows and number not in media
    )
    if beyond:
        words = ", ".join(shown(word, 20) for _, word in beyond[:3])
        raise UnsupportedBackbone(
            f"the tokenizer of {name!r} has {count(len(beyond), 'token')} beyond the {rows} rows of"
            f" its model's embedding ({words}{', …' if len(beyond) > 3 else ''})",
            "Give the tokenizer that the model was trained with, or resize_token_embeddings() and"
            " train them",
        )


def _media_tokens(config: Any) -> set[int]:
    """Ids that a configuration names, such as `image_token_id`, in all its parts."""
    ids: set[int] = set()
    for part in (config, config.get_text_config()):
        for key, value in part.to_dict().items():
            if isinstance(value, int) and key.endswith(("_token_id", "_token_index")):
                ids.add(value)
    return ids
