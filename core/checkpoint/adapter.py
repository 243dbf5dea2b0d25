"""An adapter beside a model's weights: what it is, and its changes applied to the model by peft.

transformers would apply it by itself, or not, by whether peft is installed. Here it is applied on
purpose and recorded, or refused. peft is no dependency of this project: nothing here imports it
before an adapter is there.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from macd_studio.core.checkpoint.files import file_hash, header_of
from macd_studio.core.errors import MacdError
from macd_studio.core.validation import shown

CONFIG, WEIGHTS, PICKLED = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
FILES = frozenset({CONFIG, WEIGHTS, PICKLED})
INSTALL = "Install it with: pip install peft"
MAX_CONFIG = 2**22


@dataclass(frozen=True)
class Adapter:
    """What is applied over a model's weights.

    name: of its folder or hub id, without a path. kind: such as "LORA". sha256: over its
    configuration and its weights.
    """

    name: str
    kind: str
    sha256: str


@dataclass(frozen=True)
class AdapterFiles:
    """An adapter in a folder. base: the model that it was trained on, as its files name it."""

    folder: Path
    kind: str
    base: str

    def described(self, name: str) -> Adapter:
        """What a trace keeps of it. name: of the folder or hub id."""
        title = Path(name).resolve().name if Path(name).is_dir() else name
        return Adapter(
            title[:200], self.kind, file_hash((self.folder / CONFIG, self.folder / WEIGHTS))
        )


def find_adapter(folder: str | Path, name: str, broken: type[MacdError]) -> AdapterFiles | None:
    """The adapter of a folder; None where there is none. Raises `broken` for one that is damaged.

    name: of the folder or hub id, for messages.
    """
    path = Path(folder)
    if not (path / CONFIG).is_file():
        return None
    try:
        if (path / CONFIG).stat().st_size > MAX_CONFIG:
            raise ValueError("too large")
        about = json.loads((path / CONFIG).read_text(encoding="utf-8"))
        kind, base = str(about["peft_type"]), str(about.get("base_model_name_or_path") or "")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise broken(
            f"{CONFIG} of {shown(name, 200)} is damaged", "Save the adapter again with peft"
        ) from error
    return AdapterFiles(path, kind[:40], base[:200])


def check_adapter(
    found: AdapterFiles, files: Collection[str], name: str, alone: bool, broken: type[MacdError]
) -> None:
    """Raises `broken` for an adapter that cannot be applied.

    files: names of all files of its folder, as it or the hub lists them; alone: whether the weights
    of a model are not among them.
    """
    base = f" of {shown(found.base, 100)}" if found.base else ""
    if alone:
        raise broken(
            f"{shown(name, 200)} holds an adapter ({found.kind}){base} alone, without the model",
            f"Put the files of {shown(found.base, 100) if found.base else 'its base'} beside it,"
            " or merge it into them with merge_and_unload() and save that",
        )
    if importlib.util.find_spec("peft") is None:
        raise broken(
            f"{shown(name, 200)} holds an adapter ({found.kind}){base} over its weights, which"
            " needs the package peft",
            f"{INSTALL}; or take {CONFIG} out of the folder to use the model without it",
        )
    if WEIGHTS not in files:
        pickled = PICKLED in files
        raise broken(
            f"the adapter of {shown(name, 200)}"
            + (
                f" is pickled ({PICKLED}), which is never read"
                if pickled
                else f" has no weights ({WEIGHTS})"
            ),
            f"Save it anew as {WEIGHTS}, or take {CONFIG} out of the folder",
        )


def apply_adapter(
    model: Any, found: AdapterFiles, name: str, merge: bool, broken: type[MacdError]
) -> None:
    """Applies an adapter to a model in place. Raises `broken` where any of it does not fit.

    merge: whether its changes are added to the weights, after which the model is made of the layers
    that it had; else they are computed beside weights that are packed.
    """
    try:
        report = model.load_adapter(
            str(found.folder),
            adapter_name="default",
            use_safetensors=True,
            adapter_kwargs={"local_files_only": True},
        )
        unfit = {
            "missing": sorted(report.missing_keys),
            "of another shape": sorted(key for key, *_ in report.mismatched_keys),
            "without a place in the model": _unread(report, found),
        }
        for what, keys in unfit.items():
            if keys:
                raise broken(
                    f"the adapter of {shown(name, 200)} does not fit its model: {len(keys)} of its"
                    f" tensors are {what} ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''})",
                    f"Give the model that it was trained on{f', {found.base}' * bool(found.base)}",
                )
        if merge:
            _merge(model)
    except MacdError:
        raise
    except Exception as error:  # whatever peft met
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise broken(
            f"the adapter of {shown(name, 200)} ({found.kind}) cannot be applied"
            f" ({first.rstrip('.')})",
            "Merge it with merge_and_unload() where it was trained, and give that model",
        ) from error


def _unread(report: Any, found: AdapterFiles) -> list[str]:
    """The adapter's tensors that the model has no place for."""
    unread = sorted(report.unexpected_keys)
    return unread or ([] if header_of(found.folder / WEIGHTS) else [WEIGHTS])


def _merge(model: Any) -> None:
    """Adds the changes to the weights and takes the adapter's layers away again."""
    tuner_layer = import_module("peft.tuners.tuners_utils").BaseTunerLayer
    wrapper = import_module("peft.utils.other").AuxiliaryTrainingWrapper

    for path, module in [*model.named_modules()]:
        if isinstance(module, tuner_layer):
            module.merge(safe_merge=True)
            plain = module.get_base_layer()
        elif isinstance(module, wrapper):
            plain = module.unload_and_optionally_merge_module(
                merge=True, safe_merge=True, adapter_names=None
            )
        else:
            continue
        parent, _, leaf = path.rpartition(".")
        setattr(model.get_submodule(parent), leaf, plain)
    model._hf_peft_config_loaded = False
