"""The border of other people's code: a model's, its processor's and its template's."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import torch

from macd_studio.core.errors import MacdError, UnsupportedBackbone
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
