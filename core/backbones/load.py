"""Loads a backbone by name: the embedded one, a local folder, or a hub id."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers
from huggingface_hub import hf_hub_download
from transformers import CONFIG_MAPPING, AutoConfig, AutoModelForMultimodalLM, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES
from transformers.utils import logging
from transformers.utils.logging import disable_progress_bar

from macd_studio.core.backbones.base import BackboneInfo
from macd_studio.core.backbones.catalogue import CATALOGUE
from macd_studio.core.backbones.everyday import Yolo11Tower as _Tower  # noqa: F401  (registers itself)
from macd_studio.core.backbones.foreign import COMPLETE, explained, foreign_code, named_packages
from macd_studio.core.backbones.generation import beams_told, check_generation
from macd_studio.core.backbones.hf import HfVideoLM
from macd_studio.core.backbones.local import LocalLM, device_of
from macd_studio.core.backbones.processor import read_processor
from macd_studio.core.backbones.prompt import refuse_controls
from macd_studio.core.backbones.refused import (
    check_packages,
    check_vocabulary,
    refuse_file,
    refuse_folder,
    refuse_pointers,
    refuse_without_tokenizer,
)
from macd_studio.core.backbones.remote_address import is_remote
from macd_studio.core.backbones.weights import (
    UNPLANNED,
    check_installed,
    check_memory,
    check_quantised,
    how_to_read,
    needed_gb,
    prepare,
    quantised_by,
    quantised_errors,
    told,
    trainable,
)
from macd_studio.core.backbones.weights_options import Dtype, Weights, WeightsOptions
from macd_studio.core.checkpoint.adapter import CONFIG, check_adapter, find_adapter
from macd_studio.core.checkpoint.files import INDEX, SINGLE, shards
from macd_studio.core.checkpoint.reading import check_files, names_in, read_checkpoint
from macd_studio.core.embedded import DRAWN, EMBEDDED, EVERYDAY, SHIPPED
from macd_studio.core.errors import BackboneCorrupt, BackboneNotFound, UnsupportedBackbone
from macd_studio.core.system.fetching import WEIGHTS, bar, fetch
from macd_studio.core.system.hub import reachable
from macd_studio.core.system.library_notes import collecting
from macd_studio.core.system.process import return_freed
from macd_studio.core.system.requirements import untested_versions
from macd_studio.core.system.shipped import shipped
from macd_studio.core.types import Progress
from macd_studio.core.validation import shown

disable_progress_bar()

FAMILIES: dict[str, tuple[str, str]] = {
    "qwen2_vl": ("Qwen2VLForConditionalGeneration", "qwen:Qwen2VL"),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", "qwen:Qwen25VL"),
    "qwen3_vl": ("Qwen3VLForConditionalGeneration", "qwen:Qwen3VL"),
    "internvl": ("InternVLForConditionalGeneration", "frames:InternVL"),
    "smolvlm": ("SmolVLMForConditionalGeneration", "frames:SmolVLM"),
    "llava_next_video": (
        "LlavaNextVideoForConditionalGeneration",
        "frames:LlavaNextVideo",
    ),
}
"""config.model_type → name of transformers' class, and module and class of the adapter."""


def adapter_of(family: str) -> type[HfVideoLM]:
    """The adapter of a family of FAMILIES."""
    module, name = FAMILIES[family][1].split(":")
    adapter: type[HfVideoLM] = getattr(import_module(f"macd_studio.core.backbones.{module}"), name)
    return adapter


TOYWORLD_DOMAIN = (
    "the embedded backbone knows only the drawn toy world: 16 emoji objects, 5 scenes, 8 frames;"
    " what it says about any other video means nothing"
)

EVERYDAY_DOMAIN = (
    "the model everyday was trained on what a detector sees in pictures of a camera: what it says"
    " about drawn clips means little; toyworld knows them"
)
DOMAINS = {EMBEDDED: (TOYWORLD_DOMAIN, DRAWN), EVERYDAY: (EVERYDAY_DOMAIN, "")}
"""Embedded backbone → what it was trained on, also the warning about clips of another kind; and the
title of clips of its own kind."""


@dataclass(frozen=True)
class _Source:
    """Where a named backbone comes from. source: a folder or hub id; online: the hub answers."""

    name: str
    source: str
    revision: str
    local: bool
    online: bool

    @classmethod
    def of(cls, name: str) -> _Source:
        """Raises BackboneNotFound for what can be neither a folder nor a hub id."""
        if is_remote(name):
            raise BackboneNotFound(
                f"{shown(name, 200)} is a server, whose weights are not loaded here",
                "Open it with open_backbone, or name it as the backbone of a run",
            )
        if name in SHIPPED:
            return cls(name, str(shipped("backbone", name)), "", local=True, online=True)
        source, revision = pinned(name)
        local = Path(source).is_dir()
        if Path(source).is_file():
            refuse_file(name)
        if not local and "/" not in source.strip("/."):
            raise BackboneNotFound(
                f"there is no folder {name!r}", "Give a folder, a hub id, everyday or toyworld"
            )
        return cls(name, source, revision, local, local or reachable())

    def fetch(
        self,
        where: torch.device,
        dtype: torch.dtype,
        held: WeightsOptions,
        progress: Progress,
        question: str = "",
    ) -> tuple[str, str, Any]:
        """Its folder, family and processor, once nothing speaks against reading the weights.

        Of a hub id these are the last to be downloaded: family, packages, free memory, the files
        that it lists, generation, processor, chat template and question are checked first.
        """
        safe: dict[str, Any] = {
            "trust_remote_code": False,
            "local_files_only": self.local or not self.online,
        }
        if self.local and not (Path(self.source) / "config.json").is_file():
            if found := find_adapter(self.source, self.name, BackboneCorrupt):
                check_adapter(found, (), self.name, True, BackboneCorrupt)
            refuse_folder(Path(self.source), self.name)
        try:
            config = AutoConfig.from_pretrained(self.source, revision=self.revision or None, **safe)
        except ValueError:
            self._refuse_family(safe)
            raise
        except OSError:
            self._refuse_adapter(safe)
            raise
        family = config.model_type
        if family not in MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES:
            raise UnsupportedBackbone(
                f"{self.name!r} is of the family {family!r}, which does not read video and text",
                "Choose a model that transformers loads for images, video and text",
            )
        check_packages(self.name, config, where)
        check_quantised(self.name, config, held, where)
        if self.local:
            refuse_pointers(Path(self.source), self.name)
            self._check_weight_files(self.source, names_in(self.source))
        gb = None if held.offload else needed_gb(self.source, config, dtype, held.weights)
        check_memory(self.name, gb, where, dtype)
        quantised = quantised_by(config)
        if self.local:
            return self.source, family, self._look_over(self.source, question)
        files, processors = set[str](), list[Any]()

        def fits(listed: Sequence[Any]) -> None:
            files.update(f.filename for f in listed if "/" not in f.filename)
            if gb is None and not held.offload:  # unquantised files are taken for bfloat16
                whole = sum(f.file_size for f in listed if f.filename.endswith(WEIGHTS))
                scale = 1.0 if quantised else dtype.itemsize / 2
                check_memory(self.source, UNPLANNED * scale * whole / 1e9, where, dtype)

        def look_over(folder: str) -> None:
            self._check_weight_files(folder, files or names_in(folder))
            processors.append(self._look_over(folder, question))

        folder = fetch(
            self.source, self.revision, progress, self.online, check=fits, look_over=look_over
        )
        return folder, family, processors[0]

    def _check_weight_files(self, folder: str, files: Collection[str]) -> None:
        """Raises BackboneCorrupt where files of its weights are missing, before any is read.

        folder: with all but the weights; files: names of all, as it or the hub lists them.
        """
        again = "Copy or download the model again"
        place, remedy = f"the folder {self.name!r}", COMPLETE
        if not self.local and self.online:
            place = f"the repository {self.name!r}"
            again = remedy = "Choose another, or give a folder that you completed"
        elif not self.local:
            place = f"the copy of {self.name!r} on this disk"
            again = remedy = "Run it again while the hub can be reached: its download goes on"
        if INDEX in files and SINGLE not in files:
            try:
                parts = shards(folder)
            except ValueError as error:
                raise BackboneCorrupt(f"{INDEX} of {self.name!r} is damaged", again) from error
            if missing := sorted(set(parts).difference(files)):
                raise BackboneCorrupt(
                    f"{place} lacks {len(missing)} of the {len(parts)} files of its weights"
                    f" ({', '.join(missing[:3])}{', …' if len(missing) > 3 else ''})",
                    again,
                )
        check_files(folder, files, self.name, BackboneCorrupt)
        if not any(file.endswith(WEIGHTS) for file in files):
            raise BackboneCorrupt(f"{place} holds no weights (*.safetensors)", remedy)

    def _look_over(self, folder: str, question: str) -> Any:
        """The processor of a folder, which needs no weights. Raises what `load_backbone` does."""
        check_generation(folder, self.name)
        try:
            processor = read_processor(folder, self.name)
        except UnsupportedBackbone as error:
            if "chat template" in error.cause:  # as without a tokenizer there is none
                refuse_without_tokenizer(Path(folder), self.name)
            raise
        if question:
            refuse_controls(processor, question)
        return processor

    def _refuse_family(self, safe: dict[str, Any]) -> None:
        """Raises UnsupportedBackbone for a family that transformers does not hold itself."""
        revision = self.revision or None
        config, _ = PretrainedConfig.get_config_dict(self.source, revision=revision, **safe)
        family = config.get("model_type")
        if not family or family in CONFIG_MAPPING:
            return
        if "auto_map" in config:
            raise UnsupportedBackbone(
                f"{self.name!r} needs code of its own from its repository, which is never run",
                "Choose a model that transformers holds itself, mostly named with -hf",
            )
        raise UnsupportedBackbone(
            f"{self.name!r} is of the family {shown(family, 80)}, which transformers"
            f" {transformers.__version__} does not know",
            "Update transformers, or choose another backbone",
        )

    def _refuse_adapter(self, safe: dict[str, Any]) -> None:
        """Raises BackboneCorrupt for an adapter of the hub that comes without its model."""
        try:
            held = hf_hub_download(
                self.source, CONFIG, revision=self.revision or None,
                local_files_only=safe["local_files_only"],
            )  # fmt: skip
        except (OSError, ValueError):
            return
        if found := find_adapter(Path(held).parent, self.name, BackboneCorrupt):
            check_adapter(found, (), self.name, True, BackboneCorrupt)


def _dtype(name: str, where: torch.device, held: WeightsOptions) -> torch.dtype:
    if held.dtype != "auto":
        chosen: torch.dtype = getattr(torch, held.dtype)
        return chosen
    return torch.bfloat16 if where.type == "cuda" and name not in SHIPPED else torch.float32


def fetch_backbone(name: str, weights: Weights = "as-is", offload: bool = False) -> str:
    """The folder of a backbone, which is downloaded where it is not on this disk; loads nothing.

    Raises as `load_backbone` does.
    """
    where, source = device_of("auto"), _Source.of(name)
    held = WeightsOptions(weights, offload)
    with explained(source.name, source.local, source.online):
        return source.fetch(where, _dtype(name, where, held), held, Progress())[0]


def load_backbone(
    name: str = "toyworld",
    device: str = "auto",
    progress: Progress | None = None,
    weights: Weights = "as-is",
    offload: bool = False,
    question: str = "",
    hash_weights: bool = False,
    dtype: Dtype = "auto",
) -> LocalLM:
    """A frozen backbone: "toyworld", "everyday", a folder, or a hub id.

    A hub id of the catalogue is loaded at its pinned revision, another at the one that follows an
    @, or its newest. Never runs remote code and reads safetensors only. Free memory and all but
    the weights are checked before these are downloaded. progress: updated with how far download and
    reading are. weights, offload, dtype: see `core.backbones.weights_options.WeightsOptions`; the
    first two need the extra "quantised". question: refused at the same time where the model will
    refuse it, with QuestionError. hash_weights: whether `info.weights_hash` is over every byte of
    them. Tensors that are missing or of another shape are refused, with an adapter that cannot be
    applied; what libraries report meanwhile is in `notes`. Raises BackboneNotFound,
    UnsupportedBackbone, BackboneCorrupt or OutOfMemory; OptionError for a device that is not there;
    Cancelled once `progress` was stopped.
    """
    where, progress = device_of(device), progress or Progress()
    held = WeightsOptions(weights, offload, hash_weights, dtype)
    source, numbers = _Source.of(name), _dtype(name, where, held)
    check_installed(held)
    reports = untested_versions()
    with collecting(reports), explained(source.name, source.local, source.online):
        folder, family, processor = source.fetch(where, numbers, held, progress, question)
        reports += beams_told(folder, name)
        model_class: Any = AutoModelForMultimodalLM
        if family in FAMILIES:
            model_class = getattr(transformers, FAMILIES[family][0])
        progress.begin(f"Reading {name}")
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        how = how_to_read(held, where, numbers, config, model_class)
        packed = quantised_by(config)
        named = quantised_errors(name, packed)
        with reading_weights(progress), warnings.catch_warnings(), named:
            # weights that are no modules, where weights are spread over places
            warnings.filterwarnings("ignore", "The following device_map keys")
            read = read_checkpoint(
                model_class,
                folder,
                name,
                BackboneCorrupt,
                packed=bool(packed),
                quantised=bool(packed) or held.weights != "as-is",
                hash_whole=hash_weights,
                dtype=numbers,
                **how,
            )
        check_vocabulary(read.model, processor, name)
    info = BackboneInfo(
        name=name,
        family=family,
        parameters=0,
        device=where.type,
        dtype=str(numbers).removeprefix("torch."),
        revision="" if source.local else Path(folder).name,
        domain=DOMAINS.get(name, ("", ""))[0],
        domain_title=DOMAINS.get(name, ("", ""))[1],
        weights_hash=read.weights_hash,
        adapter=read.adapter,
    )
    with foreign_code(name, "is loaded"), collecting(reports), named_packages(name):
        lm = adapt(read.model if how else read.model.to(where), processor, info, progress)
    lm.notes = (*read.notes, *reports)
    if where.type == "cpu":
        return_freed(lm.info.parameters)
    return lm


def adapt(
    model: Any, processor: Any, info: BackboneInfo, progress: Progress | None = None
) -> LocalLM:
    """A loaded model behind its family's adapter, or checked and behind the universal one.

    progress: told which check runs. Raises UnsupportedBackbone for a model that fails one.
    """
    info = told(info, prepare(model))
    if info.family in FAMILIES:
        from macd_studio.core.backbones.contract import check_layers

        own = adapter_of(info.family)(model, processor, info)
        own.contract = check_layers(own, progress)
        lm: LocalLM = own
    else:
        from macd_studio.core.backbones.contract import adapt_model

        lm = adapt_model(model, processor, info, progress)
    if not trainable(model):
        lm.capabilities = lm.capabilities - {"gradient"}
    return lm


def pinned(name: str) -> tuple[str, str]:
    """A folder or hub id, and the revision to load: after its @, or the catalogue's; else none.

    Raises BackboneNotFound for a folder, or an embedded backbone, with an @.

    >>> pinned("org/model@abc"), pinned("org/model")
    (('org/model', 'abc'), ('org/model', ''))
    """
    if Path(name).is_dir():
        return name, ""
    source, _, revision = name.partition("@")
    if revision and (Path(source).is_dir() or source in SHIPPED):
        raise BackboneNotFound(
            f"there is no folder {name!r}", "Check its name; a folder has no @revision"
        )
    listed = next((m.revision for m in CATALOGUE if m.hub_id == source), "")
    return source, revision or listed


@contextmanager
def reading_weights(progress: Progress) -> Iterator[None]:
    """While inside, transformers updates `progress` with how many tensors it has read."""

    def hook(_: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return bar(progress)(*args, **named)

    previous = logging.set_tqdm_hook(hook)
    try:
        yield
    finally:
        logging.set_tqdm_hook(previous)
