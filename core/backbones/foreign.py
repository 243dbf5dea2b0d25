"""The border of other people's code (a model's, its processor's, its template's, the libraries that
read it): what is raised there becomes an error with cause and remedy."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import torch
from huggingface_hub.errors import GatedRepoError
from safetensors import SafetensorError

from macd_studio.core.errors import (
    BackboneCorrupt,
    BackboneNotFound,
    MacdError,
    UnsupportedBackbone,
)
from macd_studio.core.validation import shown

PACKAGES = ("transformers", "tokenizers", "torchvision", "torch", "jinja2")
"""Whose line is named, the first of these that an error passed."""
_RUNS = ContextVar("runs", default=False)


@contextmanager
def foreign_code(
    name: str, doing: str, passing: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Whatever is raised inside becomes UnsupportedBackbone, one sentence that says where.

    name: of the model. doing: what it fails at, for "MODEL fails when it …". Errors of this project
    pass, as do a lack of memory and the classes in `passing`.
    """
    before = _RUNS.set(True)
    try:
        yield
    except Exception as error:
        if isinstance(error, (MacdError, *passing)) or out_of_memory(error):
            raise
        raise UnsupportedBackbone(
            f"{name} fails when it {doing} ({told(error)})",
            "Update transformers, complete the model's files, or choose another backbone; --verbose"
            " shows the traceback",
        ) from error
    finally:
        _RUNS.reset(before)


def foreign_runs() -> bool:
    """Whether such code runs now, in this thread."""
    return _RUNS.get()


def out_of_memory(error: BaseException) -> bool:
    """Whether a device or the host had no memory left; told elsewhere, with what to shrink."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "out of memory" in str(error)
    )


def told(error: BaseException) -> str:
    """An error's class, its message, and the file and line of the package in which it rose."""
    return shown(f"{type(error).__name__}: {str(error) or 'no message'}", 200) + place(error)


def place(error: BaseException) -> str:
    """The text ", FILE:LINE" of the last line of a known package that an error passed, or none."""
    found = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    for package in PACKAGES:
        for file, line in reversed(found):
            parts = Path(file).parts
            if package in parts and "macd_studio" not in parts[parts.index(package) :]:
                at = len(parts) - 1 - parts[::-1].index(package)
                return f", {'/'.join(parts[at:])}:{line}"
    return ""


COMPLETE = "Complete it: config.json, *.safetensors, tokenizer and processor files"


@contextmanager
def explained(name: str, local: bool, online: bool) -> Iterator[None]:
    """While inside, whatever is raised becomes a BackboneError, except a lack of memory.

    local: whether the model is a folder; online: whether the hub answers.
    """
    passing = (SafetensorError, OSError, ValueError)
    try:
        with foreign_code(name, "is loaded", passing), named_packages(name):
            yield
    except MacdError:
        raise
    except SafetensorError as error:
        raise BackboneCorrupt(
            f"the weights of {name!r} are damaged or were not downloaded whole ({error})",
            "Delete them and download the model again",
        ) from error
    except (OSError, ValueError) as error:
        if isinstance(error, GatedRepoError) or isinstance(error.__cause__, GatedRepoError):
            raise BackboneNotFound(
                f"{name!r} asks for its licence to be accepted first",
                "Accept it on the model's page, then log in with `hf auth login`",
            ) from error
        first = first_line(error)
        if local:
            raise BackboneCorrupt(
                f"the folder {name!r} holds no complete model ({first})", COMPLETE
            ) from error
        if not online:
            raise BackboneNotFound(
                f"{name!r} is not on this disk, and the hub cannot be reached",
                "Check the network, give the folder of a downloaded model, or use toyworld",
            ) from error
        raise BackboneNotFound(
            f"{name!r} is neither a folder nor a model that the hub gave ({first})",
            "Check the name, or use the embedded backbone: toyworld",
        ) from error


_PACKAGE = re.compile(
    r"(?:requires? (?:the )?|import |install |using |package |library |named )[`'\"]?"
    r"(?:-U |--upgrade )?([A-Za-z][\w.-]*\w)[`'\"]?"
)
_WORDS = {"the", "a", "it", "of", "from", "and", "at", "pip", "install", "latest", "version", "you",
          "to", "for", "is", "be", "following", "package", "library", "not"}  # fmt: skip


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
