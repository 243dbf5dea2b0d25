"""Reads a model of transformers from a folder: all of it, or an error; with what lies over it."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from macd_studio.core.checkpoint.adapter import (
    FILES,
    Adapter,
    apply_adapter,
    check_adapter,
    find_adapter,
)
from macd_studio.core.checkpoint.files import weight_files, weights_hash
from macd_studio.core.checkpoint.report import check_report
from macd_studio.core.errors import MacdError
from macd_studio.core.validation import shown

PICKLES = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Checkpoint:
    """A model that was read. weights_hash: see `files.weights_hash`; notes: what must be known."""

    model: Any
    weights_hash: str
    adapter: Adapter | None
    notes: tuple[str, ...]


def check_files(
    folder: str | Path, files: Collection[str], name: str, broken: type[MacdError]
) -> None:
    """Raises `broken` for weights that are pickled, or an adapter that cannot be applied.

    folder: with all but the weights, of which none are read; files: names of all, as it or the hub
    lists them; name: of the folder or hub id, for messages.
    """
    own = [file for file in files if file not in FILES]
    some = any(file.endswith(".safetensors") for file in own)
    pickled = any(file.endswith(PICKLES) for file in own)
    if found := find_adapter(folder, name, broken):
        check_adapter(found, files, name, not some and not pickled, broken)
    if pickled and not some:
        raise broken(
            f"the weights of {shown(name, 200)} are pickled (*.bin), which is never read",
            "Save the model anew as *.safetensors, with model.save_pretrained",
        )


def read_checkpoint(
    model_class: Any,
    folder: str | Path,
    name: str,
    broken: type[MacdError],
    *,
    packed: bool = False,
    quantised: bool = False,
    hash_whole: bool = False,
    **how: Any,
) -> Checkpoint:
    """The model of a folder, of a class of transformers, with its adapter where it has one.

    name: of the folder or hub id, for messages. packed: whether the files hold quantised weights;
    quantised: whether those in memory will be. hash_whole: see `weights_hash`. how: what
    `from_pretrained` is told beyond. Raises `broken` where what lies there is not the whole model,
    and whatever transformers raises.
    """
    check_files(folder, names_in(folder), name, broken)
    found = find_adapter(folder, name, broken)
    with _without_adapter(Path(folder), found is not None) as place, _report_unprinted():
        model, report = model_class.from_pretrained(
            place,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are in the report, and refused
            **how,
        )
    notes = check_report(model, report, name, broken, packed)
    adapter = None
    if found is not None:
        apply_adapter(model, found, name, not quantised, broken)
        adapter = found.described(name)
    return Checkpoint(model, weights_hash(weight_files(folder), hash_whole), adapter, notes)


def names_in(folder: str | Path) -> set[str]:
    """The names of the files of a folder."""
    return {file.name for file in Path(folder).iterdir() if file.is_file()}


_PLACES: list[tempfile.TemporaryDirectory[str]] = []
"""Folders of links, deleted when the process ends: offloaded weights are read from them later."""


@contextmanager
def _report_unprinted() -> Iterator[None]:
    """While inside, transformers does not print the loading report, which is checked here."""
    logger = logging.getLogger("transformers.modeling_utils")

    def other(record: logging.LogRecord) -> bool:
        return "LOAD REPORT" not in str(record.msg)

    logger.addFilter(other)
    try:
        yield
    finally:
        logger.removeFilter(other)


@contextmanager
def _without_adapter(folder: Path, has_one: bool) -> Iterator[str]:
    """A folder of the same files without those of an adapter, which transformers would apply."""
    if not has_one:
        yield str(folder)
        return
    _PLACES.append(tempfile.TemporaryDirectory(prefix="macd-weights-"))
    place = Path(_PLACES[-1].name)
    for file in folder.iterdir():
        if file.is_file() and file.name not in FILES:
            (place / file.name).symlink_to(file.resolve())
    yield str(place)
