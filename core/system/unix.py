"""Parts of the standard library of Linux and macOS alone, imported when first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from macd_studio.core.errors import PlatformError


def unix(module: Literal["fcntl", "resource"]) -> Any:
    """The module. Raises PlatformError where the system has none, as Windows."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise PlatformError(
            f"this system is neither Linux nor macOS: its Python has no {module}",
            "On Windows run it in WSL, as README.md says",
        ) from error
