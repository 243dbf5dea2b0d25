"""The files of a model's weights, and a hash that distinguishes two sets of weights.

Only headers and blocks of files are read unless a whole hash is asked for. Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
WHOLE, SAMPLED = "sha256", "sampled"
"""What a hash is over, before its colon: every byte, or a sample of them."""
BLOCKS, BLOCK = 64, 2**16
"""Of every file so many blocks of so many bytes, spread evenly, are part of a sampled hash."""
TENSORS, PIECE = 4096, 2**12
"""And of so many of its tensors at most, spread evenly, so many bytes of the middle."""
MAX_HEADER = 100_000_000
"""Bytes: a header that claims more is damaged; safetensors has the same limit."""
_BLOB = re.compile(r"[0-9a-f]{64}")


def weight_files(folder: str | Path) -> list[Path]:
    """The files that transformers reads a model's weights from, by name; [] where there are none.

    Raises ValueError for an index that is no such.
    """
    folder = Path(folder)
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if not (folder / INDEX).is_file():
        return []
    return [folder / name for name in shards(folder)]


def shards(folder: str | Path) -> list[str]:
    """The names of the files that an index lists. Raises ValueError for a damaged one."""
    try:
        listed = set(json.loads((Path(folder) / INDEX).read_text())["weight_map"].values())
        return sorted(Path(name).name for name in listed)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{INDEX} is damaged") from error


def header_of(file: Path) -> dict[str, dict[str, Any]]:
    """Tensor → dtype, shape and place, as the header of a safetensors file has them.

    {} of a file that is no such, or is damaged.
    """
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > MAX_HEADER:
            return {}
        try:
            header = json.loads(stream.read(length))
        except ValueError:
            return {}
    if not isinstance(header, dict):
        return {}
    return {
        name: about
        for name, about in header.items()
        if name != "__metadata__" and isinstance(about, dict)
    }


def weights_hash(files: Sequence[Path], whole: bool = False) -> str:
    """What tells the weights in these files from all others, such as "sha256:…" or "sampled:…".

    whole: over every byte, which takes as long as reading them. Files of the hub's cache are named
    by their own SHA-256 there, so that their hash is over every byte at no cost. Else it is over
    the size and the header of each file, blocks spread over it, and a piece of each tensor. ""
    without files.

    >>> weights_hash([])
    ''
    """
    if not files:
        return ""
    known = [_named_by_hub(file) for file in files]
    if whole or all(known):
        each = [digest or _sha256(file) for digest, file in zip(known, files, strict=True)]
        return f"{WHOLE}:{each[0] if len(each) == 1 else _together(each)}"
    return f"{SAMPLED}:{_together(map(_sampled, files))}"


def file_hash(files: Iterable[Path]) -> str:
    """SHA-256 over the digests of small files, in their order."""
    return _together(map(_sha256, files))


def _together(digests: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _named_by_hub(file: Path) -> str:
    """The SHA-256 that the hub's cache names a file by; "" of another file."""
    place = file.resolve()
    named = place.parent.name == "blobs" and bool(_BLOB.fullmatch(place.name))
    return place.name if named else ""


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sampled(file: Path) -> str:
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as stream:

        def take(at: int, length: int) -> None:
            stream.seek(at)
            digest.update(stream.read(length))

        start = 0
        if tensors := header_of(file):
            start = 8 + int.from_bytes(stream.read(8), "little")
            take(0, start)
        room = max(0, size - start - BLOCK)
        for i in range(BLOCKS):
            take(start + i * room // (BLOCKS - 1), BLOCK)
        for about in list(tensors.values())[:: max(1, -(-len(tensors) // TENSORS))]:
            first, last = _place(about, size - start)
            take(start + max(first, (first + last - PIECE) // 2), min(PIECE, last - first))
    return digest.hexdigest()


def _place(about: dict[str, Any], size: int) -> tuple[int, int]:
    """Where a tensor lies after the header, in bytes; (0, 0) where its header does not say."""
    place = about.get("data_offsets")
    if not isinstance(place, list) or len(place) != 2 or not all(isinstance(p, int) for p in place):
        return 0, 0
    first, last = place
    return (first, last) if 0 <= first <= last <= size else (0, 0)
