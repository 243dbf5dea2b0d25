"""How weights are held: as they are, quantised, or partly off the device; and the bytes they take.

bitsandbytes quantises while weights are read (`nf4`, `int8`), accelerate moves what does not fit
off the device. Both are extras: nothing here imports them.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForMultimodalLM, BitsAndBytesConfig, PretrainedConfig
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.quantizers import AutoHfQuantizer
from transformers.quantizers.base import get_keys_to_not_convert

from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.catalogue import CATALOGUE, largest_within
from macd_studio.core.backbones.weights_options import Weights, WeightsOptions
from macd_studio.core.checkpoint.files import header_of
from macd_studio.core.errors import OutOfMemory, UnsupportedBackbone
from macd_studio.core.system.fetching import WEIGHTS
from macd_studio.core.system.machine import free_gb

UNPLANNED = 1.2
"""Memory of a run of a model that is not listed, over its weights."""
BLOCK, GROUP = 64, 256
"""Of nf4: weights that share a scale, and scales that share one in turn (Dettmers et al. 2023)."""
ROOM = 0.7
"""Of the free memory, what offloading fills with weights; the rest is for activations."""
EXTRA = "Install it with: pip install 'macd-studio[quantised]'"


def packed_bytes(rows: int, columns: int, weights: Weights) -> int:
    """Bytes of one quantised matrix (rows, columns) with its scales; `weights`: nf4 or int8."""
    count = rows * columns
    if weights == "int8":
        return count + 4 * rows
    scales = -(-count // BLOCK)
    return -(-count // 2) + scales + 4 * -(-scales // GROUP)


def quantisable(model: nn.Module) -> dict[str, nn.Linear]:
    """The matrices that transformers hands to bitsandbytes: linear layers, but not the head."""
    kept = get_keys_to_not_convert(model)
    return {
        name: module
        for name, module in model.named_modules()
        if type(module) is nn.Linear  # transformers leaves what is derived from it alone
        and not any(name == k or name.startswith(f"{k}.") or f".{k}." in f".{name}." for k in kept)
    }


@dataclass(frozen=True)
class HeldBytes:
    """What weights take. packed: quantised matrices; plain: all others; largest: one matrix
    unpacked, which a pass holds beside them."""

    packed: float
    plain: float
    largest: float

    @property
    def total(self) -> float:
        """All of it, and the one that is unpacked."""
        return self.packed + self.plain + self.largest


def held_bytes(model: nn.Module, itemsize: int, weights: Weights) -> HeldBytes:
    """What a model's weights would take by `weights`; it may be one without values.

    itemsize: bytes of an unquantised number.
    """
    whole = sum({id(p): p.numel() for p in model.parameters()}.values())
    if weights == "as-is":
        return HeldBytes(0, whole * itemsize, 0)
    parts = quantisable(model).values()
    inside = sum(m.weight.numel() for m in parts)
    packed = sum(packed_bytes(m.out_features, m.in_features, weights) for m in parts)
    largest = max((m.weight.numel() for m in parts), default=0) * itemsize
    return HeldBytes(packed, (whole - inside) * itemsize, largest if weights == "nf4" else 0)


def bytes_of_files(folder: str | Path, itemsize: int) -> int | None:
    """What the tensors of a folder's files take once read; None where it holds none.

    Numbers with a fraction are read in the dtype of the run, others as they are. Only the headers
    are read.
    """
    total, files = 0, list(Path(folder).glob(f"*{WEIGHTS}"))
    for about in (about for file in files for about in header_of(file).values()):
        kind = about["dtype"]
        size = itemsize if kind in _FRACTIONS else _SIZES.get(kind, 1)
        total += math.prod(about["shape"]) * size
    return total if files else None


_FRACTIONS = {"F64", "F32", "F16", "BF16"}
_SIZES = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}


def bytes_of_config(config: PretrainedConfig, itemsize: int, weights: Weights) -> float:
    """What a model takes, before anything is downloaded: it is laid out without values."""
    with torch.device("meta"):
        model = AutoModelForMultimodalLM.from_config(config)
    return held_bytes(model, itemsize, weights).total


def needed_gb(source: str, config: Any, dtype: torch.dtype, weights: Weights) -> float | None:
    """GB of a run: planned for a listed model, else 1.2 times its weights; None where unknown.

    source: a hub id or a folder, whose headers say what its files take.
    """
    listed = next((m for m in CATALOGUE if m.hub_id == source), None)
    if listed is not None:
        return listed.needed(weights, dtype.itemsize)
    if weights != "as-is":
        return UNPLANNED * bytes_of_config(config, dtype.itemsize, weights) / 1e9
    found = bytes_of_files(source, dtype.itemsize) if Path(source).is_dir() else None
    return None if found is None else UNPLANNED * found / 1e9


def check_memory(name: str, gb: float | None, where: torch.device, dtype: torch.dtype) -> None:
    """Raises OutOfMemory where a run that takes `gb` cannot fit on a device."""
    free = free_gb(where)
    if gb is None or free is None or gb <= free:
        return
    other = largest_within(free * 2 / dtype.itemsize)
    ways = "Take --weights nf4, offload what does not fit, or choose"
    raise OutOfMemory(
        f"{name!r} needs about {gb:.1f} GB and {free:.1f} GB are free on the {where.type}",
        f"{ways} {other.hub_id if other else 'the embedded backbone: toyworld'}",
    )


def check_installed(held: WeightsOptions) -> None:
    """Raises UnsupportedBackbone for a package that is missing, before anything is read."""
    wanted = {"bitsandbytes": held.weights != "as-is", "accelerate": held.needs_accelerate}
    for package, needed in wanted.items():
        if needed and importlib.util.find_spec(package) is None:
            raise UnsupportedBackbone(f"{' '.join(held.words)} needs the package {package}", EXTRA)


def quantised_by(config: Any) -> str:
    """The method by which a checkpoint is quantised already, such as "gptq"; empty for none."""
    about = getattr(config, "quantization_config", None)
    if about is None:
        return ""
    method = about.get("quant_method", "") if isinstance(about, dict) else about.quant_method
    return str(getattr(method, "value", method)) or "bitsandbytes"


def trainable(model: Any) -> bool:
    """Whether gradients pass through a loaded model's weights, by transformers' own word."""
    quantizer = getattr(model, "hf_quantizer", None)
    return quantizer is None or bool(quantizer.is_trainable)


def check_quantised(name: str, config: Any, held: WeightsOptions, where: torch.device) -> None:
    """Raises UnsupportedBackbone for a checkpoint that is quantised and cannot be loaded so."""
    method = quantised_by(config)
    if method and held.weights != "as-is":
        raise UnsupportedBackbone(
            f"the weights of {name!r} are quantised already, by {method}", "Leave --weights out"
        )
    if method:
        with quantised_errors(name, method):
            quantizer = AutoHfQuantizer.from_config(config.quantization_config, pre_quantized=True)
            quantizer.validate_environment(device_map={"": where}, weights_only=True)


@contextmanager
def quantised_errors(name: str, method: str) -> Iterator[None]:
    """While inside, what reading a quantised checkpoint raises becomes UnsupportedBackbone.

    method: "" for one that is not; its errors are left as they are.
    """
    try:
        yield
    except (ImportError, RuntimeError, ValueError, TypeError) as error:
        if not method or isinstance(error, torch.OutOfMemoryError):
            raise
        first = str(error).strip().splitlines()[0][:200] if str(error).strip() else method
        raise UnsupportedBackbone(
            f"the weights of {name!r} are quantised by {method}, which cannot be read here"
            f" ({first})",
            "Install what is missing, or choose the unquantised model",
        ) from error


def how_to_read(
    held: WeightsOptions,
    where: torch.device,
    dtype: torch.dtype,
    config: Any,
    model_class: Any,
) -> dict[str, Any]:
    """What `from_pretrained` is told beyond the folder; config: what lies there."""
    if held.offload:
        _SCRATCH.append(tempfile.TemporaryDirectory(prefix="macd-offload-"))
        places = _places(model_class, config, where, dtype)
        return {"device_map": places, "offload_folder": _SCRATCH[-1].name}
    # at every import, that a package which would fetch code from the hub is missing
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    if held.weights == "as-is":
        return {"device_map": {"": where}} if quantised_by(config) else {}
    packed = BitsAndBytesConfig(
        load_in_8bit=held.weights == "int8",
        load_in_4bit=held.weights == "nf4",
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
    )
    return {"quantization_config": packed, "device_map": {"": where}}


_SCRATCH: list[tempfile.TemporaryDirectory[str]] = []
"""Folders for weights on disk, deleted when the process ends."""


def _places(model_class: Any, config: Any, where: torch.device, dtype: torch.dtype) -> Any:
    """Module or weight → device, "cpu" or "disk".

    Only the blocks of decoder and vision tower move, in their order as many as fit the device,
    then the host, then the disk; what families read outside a module's own pass is among the rest.
    """
    with torch.device("meta"):
        # the general class is a choice among others, and has no constructor
        make = getattr(model_class, "from_config", None) or model_class._from_config
        model = make(config)
    main = (where.index or 0) if where.type == "cuda" else "cpu"
    room = _room(where)
    places: dict[str, Any] = {}

    def size(module: nn.Module) -> int:
        return sum(p.numel() for p in module.parameters()) * dtype.itemsize

    blocks = {n: m for n, m in model.named_modules() if isinstance(m, GradientCheckpointingLayer)}
    room[main] -= size(model) - sum(map(size, blocks.values()))
    for name, block in blocks.items():
        place = next((p for p, left in room.items() if left >= size(block)), "disk")
        places |= {f"{name}.{inner}": place for inner, _ in block.named_children()}
        places |= {f"{name}.{inner}": main for inner, _ in block.named_parameters(recurse=False)}
        if place != "disk":
            room[place] -= size(block)

    def put_rest(module: nn.Module, path: str) -> None:
        places.update({path + n: main for n, _ in module.named_parameters(recurse=False)})
        places.update({path + n: main for n, _ in module.named_buffers(recurse=False)})
        for name, child in module.named_children():
            inner = path + name
            if any(b.startswith(f"{inner}.") for b in blocks):
                put_rest(child, f"{inner}.")
            elif inner not in blocks:
                places[inner] = main

    put_rest(model, "")
    return places


def _room(where: torch.device) -> dict[Any, int]:
    """Bytes of weights that the device and the host may each hold; the rest stays on disk."""
    room: dict[Any, int] = {}
    if where.type == "cuda":
        room[where.index or 0] = int(ROOM * 1e9 * (free_gb(where) or 0))
    room["cpu"] = int(ROOM * 1e9 * (free_gb(torch.device("cpu")) or 1e3))
    return room


def prepare(model: Any) -> Any:
    """Makes a quantised model give the same numbers, and gradients, at every call.

    On some processors bitsandbytes repacks a matrix at the first pass without gradients, for a
    kernel that has none; later passes then lose their gradient.
    """
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
            state = getattr(module.weight, "quant_state", None)
            if getattr(state, "packing_format_for_cpu", False):
                raise UnsupportedBackbone(
                    "the model answered before, and its weights were repacked without gradients",
                    "Load it again, and hand it over before its first pass",
                )
    # one line for every product of matrices: that int8 rounds its inputs is said in the docs
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)
    return model


def device_of_model(model: Any) -> torch.device:
    """Where a model computes; its first weights may be elsewhere."""
    places = list(getattr(model, "hf_device_map", {}).values())
    on_device = [p for p in places if str(p) not in ("cpu", "disk")]
    if not places or len(on_device) == len(places):
        device: torch.device = model.device
        return device
    return torch.device(on_device[0] if on_device else "cpu")


def told(info: BackboneInfo, model: Any) -> BackboneInfo:
    """What is known of a model, with how its weights are held."""
    method = quantised_by(model.config)
    about: Any = getattr(model.config, "quantization_config", None)
    if method == "bitsandbytes":
        method = "int8" if getattr(about, "load_in_8bit", False) else about.bnb_4bit_quant_type
    places = {str(d) for d in getattr(model, "hf_device_map", {}).values()}
    offloaded = ", ".join(sorted(places)) if len(places) > 1 or "disk" in places else ""
    info = replace(info, quantised=method, offloaded=offloaded, parameters=count(model))
    return replace(info, held_bytes=bytes_of(model)) if method else info


def count(model: nn.Module) -> int:
    """How many weights a model has, packed ones one by one."""
    packed = (getattr(p, "quant_state", None) or p for p in model.parameters())
    return sum(int(z.shape.numel()) for z in packed)


def bytes_of(model: nn.Module) -> int:
    """What a loaded model's weights take, with the scales of packed ones."""
    tensors = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        weight = getattr(module, "weight", None)
        state = getattr(weight, "quant_state", None)
        while state is not None:  # of nf4: scales, and the scales of these
            tensors.append(state.absmax)
            state = getattr(state, "state2", None)
        for holder in (weight, getattr(module, "state", None)):  # of int8, moved by the first pass
            if isinstance(scales := getattr(holder, "SCB", None), Tensor):
                tensors.append(scales)
    return sum(t.numel() * t.element_size() for t in tensors)
