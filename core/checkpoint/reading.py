"""Reads a model of transformers from a folder: all of it, or an error; with what lies over it.

What a checkpoint lacks is otherwise drawn at random: the model runs, and says something else every
time.
"""

from __future__ import annotations

import copy
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from macd_studio.core.checkpoint.adapter import (
    FILES,
    Adapter,
    apply_adapter,
    check_adapter,
    find_adapter,
)
from macd_studio.core.checkpoint.files import weight_files, weights_hash
from macd_studio.core.errors import MacdError
from macd_studio.core.text.words import count
from macd_studio.core.validation import shown

PICKLES = (".bin", ".pt", ".pth", ".ckpt")


@dataclass(frozen=True)
class Checkpoint:
    """A model that was read. weights_hash: see `files.weights_hash`; notes: what must be known."""

    model: Any
    weights_hash: str
    adapter: Adapter | None
    notes: tuple[str, ...]


NAMED = 3
"""So many tensors are named in a message."""
ADAPTER = re.compile(r"\b(lora_\w+|base_layer|modules_to_save|prompt_embeddings)\b")
"""Parts of the names of an adapter's tensors, and of those that it wraps."""
SCALES = re.compile(
    r"\.(weight_scale\w*|scale|scales|weight_zero_point|qzeros|g_idx|SCB|absmax|quant_state\.\w+)$"
)
"""Ends of the names of what unpacks quantised weights, beside the weights themselves."""
WRAPPERS = {
    "module.": "as a model wrapped for several devices has them",
    "_orig_mod.": "as a compiled model has them",
    "base_model.model.": "as a model wrapped by peft has them",
    "_fsdp_wrapped_module.": "as a sharded model has them",
    "_checkpoint_wrapped_module.": "as a model with checkpointed activations has them",
}
"""What stands before the names of tensors → why."""
HEADS = re.compile(r"(^|\.)(lm_head|head|class_embed|bbox_embed|classifier|score|embed_out)")
UNUSED = "the files of {} hold {} that its class has no place for, and that were not read ({})"


def check_report(
    model: Any,
    report: Mapping[str, Any],
    name: str,
    broken: type[MacdError],
    quantised: bool = False,
) -> tuple[str, ...]:
    """Raises `broken` where tensors of the model are missing or of another shape; returns notes.

    report: what `from_pretrained(…, output_loading_info=True, ignore_mismatched_sizes=True)` gave.
    name: of the model, for messages. quantised: whether the files hold packed weights; what of a
    packed layer is derived is then the business of the library that packed it. Tensors that are
    tied to others, that the class expects to be missing, or that it derives itself are not missing.
    Raised too for tensors that were not read although the model needs them in another form: those
    of an adapter that was not merged, and the scales of packed weights.
    """
    missing = {key for key in report["missing_keys"] if not _is_derived(model, key)}
    if quantised:
        missing = {key for key in missing if not _is_packed(model, key, report["missing_keys"])}
    other = {key: (tuple(there), tuple(here)) for key, there, here in report["mismatched_keys"]}
    unexpected = set(report["unexpected_keys"])
    if missing or other:
        raise broken(
            f"the weights of {shown(name, 200)} are not those of {type(model).__name__}:"
            f" {_lacking(model, missing, other)}, which would be drawn at random",
            _remedy(missing, other, unexpected),
        )
    if adapter := _like(unexpected, ADAPTER):
        raise broken(
            f"the files of {shown(name, 200)} hold {count(len(adapter), 'tensor')} of an adapter"
            f" that is not merged ({_some(adapter)})",
            "Merge it with merge_and_unload() and save the model again with save_pretrained()",
        )
    if not quantised and (scales := _scales(model, unexpected)):
        raise broken(
            f"the weights of {shown(name, 200)} are quantised, and its config.json does not say how"
            f" ({_some(scales)})",
            "Put quantization_config back into config.json, or give the unquantised model",
        )
    if not unexpected:
        return ()
    tensors = count(len(unexpected), "tensor")
    return (UNUSED.format(shown(name, 200), tensors, _some(unexpected)),)


def _lacking(model: Any, missing: Collection[str], other: Mapping[str, Any]) -> str:
    parts = []
    if missing:
        whole = len(model.state_dict())
        parts.append(f"{len(missing)} of {count(whole, 'tensor')} missing ({_some(missing)})")
    if other:
        first = min(other)
        there, here = other[first]
        parts.append(
            f"{count(len(other), 'tensor')} of another shape ({_some(other)};"
            f" {_sides(there)} in the files, {_sides(here)} in config.json)"
        )
    return " and ".join(parts)


def _remedy(missing: Collection[str], other: Mapping[str, Any], unexpected: Collection[str]) -> str:
    """What most likely went wrong, from the names of the tensors."""
    again = "save the model itself again with save_pretrained()"
    if adapter := _like(unexpected, ADAPTER):
        return (
            f"An adapter was not merged ({_some(adapter)}): merge it with merge_and_unload(), then"
            f" {again}"
        )
    for prefix, why in WRAPPERS.items():
        if unexpected and all(key.startswith(prefix) for key in unexpected):
            return f"The names in the files begin with {prefix!r}, {why}: {again}"
    if prefix := prefix_between(missing, unexpected):
        return (
            f"The names in the files begin with {prefix!r}, which its class does not have: {again}"
        )
    if prefix := prefix_between(unexpected, missing):
        return f"The names in the files lack {prefix!r}, as a part of the model has them: {again}"
    if missing and all(HEADS.search(key) for key in missing):
        return f"The head was left out, as where only the body was saved: {again}, with its head"
    if other and not missing:
        return "Give the config.json that the weights were saved with, or the weights of this one"
    return (
        "Usual causes: a prefix such as 'module.' or 'base_model.model.' before the names, a head"
        f" that was left out, or weights of another class; {again}"
    )


def prefix_between(wanted: Collection[str], found: Collection[str]) -> str:
    """What stands before most of the names that were found where they were wanted without it.

    >>> prefix_between({"a.weight", "b.weight"}, {"module.a.weight", "module.b.weight"})
    'module.'
    >>> prefix_between({"a.weight"}, {"b.weight"})
    ''
    """
    by_end = Counter[str]()
    for key in found:
        parts = key.split(".")
        for i in range(1, len(parts)):
            if ".".join(parts[i:]) in wanted:
                by_end[".".join(parts[:i]) + "."] += 1
                break
    prefix, times = by_end.most_common(1)[0] if by_end else ("", 0)
    return prefix if 2 * times > min(len(wanted), len(found)) else ""


def _is_derived(model: Any, key: str) -> bool:
    """Whether a buffer does not come from training: the class makes it itself, always the same.

    Statistics of a normalisation do come from it, and so does whatever begins as zeros or ones.
    """
    path, _, leaf = key.rpartition(".")
    try:
        owner = model.get_submodule(path)
    except AttributeError:
        return False
    buffer = owner._buffers.get(leaf)
    if buffer is None:
        return False
    if not buffer.is_floating_point():  # indices, masks and counts
        return True
    first, second = (_made_again(model, owner, leaf, seed) for seed in (0, 1))
    if first is None or second is None or not torch.isfinite(first).all():
        return False
    constant = bool((first == 0).all() or (first == 1).all())
    return not constant and torch.equal(first, second)


def _made_again(model: Any, owner: nn.Module, leaf: str, seed: int) -> torch.Tensor | None:
    """A buffer as the class begins with it; None where it leaves it alone."""
    other = copy.deepcopy(owner)
    nothing = torch.full(owner._buffers[leaf].shape, torch.nan)  # type: ignore[union-attr]
    other._buffers[leaf] = nothing
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        try:
            model._init_weights(other)
        except (RuntimeError, AttributeError, TypeError, NotImplementedError):
            return None
    return other._buffers[leaf]


def _is_packed(model: Any, key: str, missing: Collection[str]) -> bool:
    """Whether a tensor is of a layer that a library put in the place of the model's own.

    And others of that layer were read, so that its name is not the reason.
    """
    path = key.rpartition(".")[0]
    try:
        owner = model.get_submodule(path)
    except AttributeError:
        return False
    if type(owner).__module__.startswith(("torch.nn.", "transformers.models.")):
        return False
    own = [f"{path}.{leaf}" for leaf in (*owner._parameters, *owner._buffers)]
    return any(other not in missing for other in own)


def _scales(model: Any, unexpected: Iterable[str]) -> list[str]:
    """What unpacks weights that were read as if they were not packed."""
    own = model.state_dict().keys()
    ends = {key: SCALES.sub("", key) for key in unexpected if SCALES.search(key)}
    return [key for key, path in ends.items() if path in own or f"{path}.weight" in own]


def _like(keys: Iterable[str], pattern: re.Pattern[str]) -> list[str]:
    return [key for key in keys if pattern.search(key)]


def _some(keys: Iterable[str]) -> str:
    names = sorted(keys)
    return ", ".join(name[:120] for name in names[:NAMED]) + (", …" if len(names) > NAMED else "")


def _sides(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one number"


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
