"""What one answer was computed from: pictures, prompt, model and packages, as sizes and hashes.

Kept with the baseline's row of a question, whoever computed it, so that answers of different
machines and days can be distinguished.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.backbones.base import Encoded
from macd_studio.core.system.machine import versions
from macd_studio.core.types import Clip, ModelFrames

Plain = dict[str, Any]

DIGITS = 32
"""Hexadecimal digits of a hash that are kept."""


def digest(text: str) -> str:
    """The kept digits of a text's SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


FILES = {
    "processor": ("processor_config.json", "preprocessor_config.json",
                  "video_preprocessor_config.json"),
    "tokenizer": ("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
                  "special_tokens_map.json", "added_tokens.json"),
    "template": ("chat_template.jinja", "chat_template.json"),
    "generation": ("generation_config.json",),
    "config": ("config.json",),
}  # fmt: skip
"""What a model's folder holds beside its weights, by what it decides."""


def given(lm: Any, clip: Clip, encoded: Encoded) -> Plain:
    """What an answer was computed from, as plain values.

    clip: SHA-256 of the file. frames, times: of the sampled frames, counted from 0 and in seconds.
    source: width, height and hash of the pictures that the processor was given; read: of what the
    model read, after it. prompt: hash of the whole prompt; tokens: its length. by: see `facts`.
    """
    return {
        **shown_of(clip, encoded.frames),
        "prompt": digest(encoded.prompt),
        "tokens": int(encoded.input_ids.shape[1]),
        "by": facts(lm),
    }


def shown_of(clip: Clip, frames: ModelFrames) -> Plain:
    """What a processor was given of a clip, and what the model read of it; see `given`."""
    return {
        "clip": clip.sha256[:DIGITS],
        "frames": None if clip.numbers is None else [int(i) for i in clip.numbers],
        "times": [round(float(t), 4) for t in clip.times],
        "source": list(_source(clip)),
        "read": list(_sized(frames.pixels)),
    }


@lru_cache(maxsize=2)
def _source(clip: Clip) -> tuple[int, int, str]:
    return _sized(clip.frames)


def _sized(pixels: NDArray[np.uint8]) -> tuple[int, int, str]:
    """Width, height and hash of pictures (T, h, w, 3)."""
    found = hashlib.sha256(np.ascontiguousarray(pixels).tobytes()).hexdigest()
    return int(pixels.shape[2]), int(pixels.shape[1]), found[:DIGITS]


def facts(lm: Any) -> Plain:
    """Who answered: model, hashes of what its folder holds, numbers, device, packages.

    A reader in another process has no folder here; what it does not tell is "".
    """
    info = lm.info
    folder = str(getattr(getattr(getattr(lm, "model", None), "config", None), "_name_or_path", ""))
    return {
        "name": Path(info.name).name if Path(info.name).is_dir() else info.name,
        "family": info.family,
        "revision": info.revision,
        "weights": info.weights_hash,
        "adapter": info.adapter.sha256[:DIGITS] if info.adapter else "",
        "quantised": info.quantised,
        "dtype": info.dtype,
        "device": info.device,
        "device_name": _device_name(info.device),
        **dict(_loaded(folder)),
        "versions": versions(),
    }


def _device_name(device: str) -> str:
    if device != "cuda":
        return ""
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else ""


def folder_hashes(folder: str) -> dict[str, str]:
    """A hash over the files of each kind in a model's folder as it is, "" where there are none."""
    place = Path(folder) if folder else None
    return {
        role: _together([place / name for name in names] if place else [])
        for role, names in FILES.items()
    }


@lru_cache(maxsize=8)
def _loaded(folder: str) -> tuple[tuple[str, str], ...]:
    """`folder_hashes` of a model that is in memory, read once."""
    return tuple(folder_hashes(folder).items())


def _together(files: list[Path]) -> str:
    there = [f for f in files if f.is_file()]
    if not there:
        return ""
    return digest(json.dumps([[f.name, hashlib.sha256(f.read_bytes()).hexdigest()] for f in there]))
