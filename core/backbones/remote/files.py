"""What a server's model is made of, without its weights: tokenizer, processor, and its shape.

The weights are on the server. What stands for the model here has its configuration and its layers
on torch's device without memory, so that a family's adapter writes prompts and lays out pixels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import snapshot_download
from torch import Tensor
from transformers import AutoConfig, AutoModelForMultimodalLM, GenerationConfig

from macd_studio.core.backbones.base import BackboneInfo, Encoded
from macd_studio.core.backbones.foreign import explained
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.load import FAMILIES, TOYWORLD_DOMAIN, adapter_of
from macd_studio.core.backbones.processor import read_processor
from macd_studio.core.backbones.remote_address import FILES as VARIABLE
from macd_studio.core.backbones.universal import UniversalVLM
from macd_studio.core.errors import BackboneNotFound
from macd_studio.core.system.fetching import FILES, WEIGHTS
from macd_studio.core.system.hub import reachable
from macd_studio.core.system.shipped import TOYWORLD
from macd_studio.core.validation import shown

FilesLM = HfVideoLM | UniversalVLM


def load_files(source: str, name: str) -> FilesLM:
    """A model's adapter without weights. source: a folder or a hub id; name: of the backbone.

    Raises what `load_backbone` raises for files that are missing or of no known family.
    """
    folder = _folder(source)
    with explained(source, Path(source).is_dir(), True):
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        processor = read_processor(folder, source)
        model = _without_weights(config, folder)
    demo = Path(folder).resolve() == (TOYWORLD / "backbone").resolve()
    info = BackboneInfo(
        name=name,
        family=config.model_type,
        parameters=sum(p.numel() for p in model.parameters()),
        device="cpu",
        dtype=str(model.dtype).removeprefix("torch."),
        domain=TOYWORLD_DOMAIN if demo else "",
        domain_title="toy world" if demo else "",
    )
    kind: type[FilesLM] = UniversalVLM
    if config.model_type in FAMILIES:
        kind = adapter_of(config.model_type)
    lm = kind(model, processor, info)
    lm.device, lm.dtype = torch.device("cpu"), torch.float32
    return lm


def _folder(source: str) -> str:
    if Path(source).is_dir():
        return source
    remedy = f"Name the folder of its tokenizer and processor, or its hub id, in {VARIABLE}"
    if "/" not in source.strip("/") or source.startswith(("/", ".")):
        raise BackboneNotFound(
            f"the server calls its model {shown(source, 200)}, which is no folder here", remedy
        )
    repository, _, revision = source.partition("@")
    with explained(source, False, reachable()):
        return str(
            snapshot_download(
                repository,
                revision=revision or None,
                allow_patterns=[kind for kind in FILES if not kind.endswith(WEIGHTS)],
                local_files_only=not reachable(),
            )
        )


def _without_weights(config: Any, folder: str) -> Any:
    """The model's layers on torch's device "meta", with the generation config of the folder."""
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # how weights are packed is the server's business
    name = FAMILIES.get(config.model_type, ("",))[0]
    with torch.device("meta"):
        if name:
            model = getattr(transformers, name)._from_config(config)
        else:
            model = AutoModelForMultimodalLM.from_config(config, trust_remote_code=False)
    if (Path(folder) / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
    return model


def pixels_of(lm: FilesLM, encoded: Encoded, view: Tensor) -> dict[str, Tensor]:
    """The model's own pixel tensors of a view (T, 3, h, w), normalised, by name."""
    if isinstance(lm, HfVideoLM):
        return {lm.pixels: encoded.layout(view)}
    given = {k: v for k, v in lm.pixel_inputs(encoded, view).items() if isinstance(v, Tensor)}
    return {k: v for k, v in given.items() if v.is_floating_point()}


def normalised_apart(lm: FilesLM) -> bool:
    """Whether the model's processor normalises videos by another mean or deviation than pictures.

    vLLM 0.32 normalises in the model, and takes what is meant for pictures for both, unless it is
    started with --no-mm-device-do-normalize.
    """
    parts = (getattr(lm.processor, f"{kind}_processor", None) for kind in ("image", "video"))
    known = [p for p in parts if p is not None]
    means = {tuple(p.image_mean) for p in known if getattr(p, "image_mean", None)}
    stds = {tuple(p.image_std) for p in known if getattr(p, "image_std", None)}
    return len(means) > 1 or len(stds) > 1
