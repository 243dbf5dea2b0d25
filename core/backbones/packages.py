"""Packages that a model's configuration asks for and that are not installed: told before weights
are read, in one sentence."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from macd_studio.core.errors import UnsupportedBackbone
from macd_studio.core.validation import shown

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
_PACKAGE = re.compile(
    r"(?:requires? (?:the )?|import |install |using |package |library |named )[`'\"]?"
    r"(?:-U |--upgrade )?([A-Za-z][\w.-]*\w)[`'\"]?"
)
_WORDS = {"the", "a", "it", "of", "from", "and", "at", "pip", "install", "latest", "version", "you",
          "to", "for", "is", "be", "following", "package", "library", "not"}  # fmt: skip


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


@contextmanager
def named_packages(name: str) -> Iterator[None]:
    """While inside, an ImportError becomes UnsupportedBackbone that names the package."""
    try:
        yield
    except ImportError as error:
        package = package_of(error)
        raise UnsupportedBackbone(
            f"{name!r} needs the package {package}, which is not installed"
            if package
            else f"{name!r} needs what is not installed ({first_line(error)})",
            f"Install it with: pip install {package}; or choose another backbone"
            if package
            else "Install it, or choose another backbone",
        ) from error


def package_of(error: ImportError) -> str:
    """What a missing package is called; "" where its error does not say.

    >>> package_of(ImportError("This model requires the `natten` library but it was not found"))
    'natten'
    """
    if error.name:
        return error.name.partition(".")[0]
    for match in _PACKAGE.finditer(str(error)):
        if match[1].lower() not in _WORDS and not match[1].startswith("http"):
            return match[1]
    return ""


def first_line(error: BaseException) -> str:
    """The first sentence of an error's text, or its kind where it has none.

    >>> first_line(ValueError("It broke. Try again.")), first_line(KeyError())
    ('It broke', 'KeyError')
    """
    sentence = re.split(r"(?<=\w)[.:]?\s*(?:\n|$)|(?<=[.!?])\s", str(error).strip())[0]
    return " ".join(sentence.split())[:200].rstrip(".") or type(error).__name__
