"""Where a token's evidence lies in the video: maps by kind, knock-outs, and a lens over layers.

A kind is a function `measure(case, view) -> Measured` in a module of its own name in this package
(`occlusion_grid.py` holds "occlusion-grid"); adding the file is all that registers it. Importing
this package imports no torch: a kind's module is loaded when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from macd_studio.core.errors import OptionError

if TYPE_CHECKING:
    from macd_studio.core.evidence.case import EvidenceCase, Measured

NO_KINDS = (
    "case", "cost", "knock_out", "lens", "maps", "options", "records", "report", "run",
)  # fmt: skip
"""Modules of this package that hold no kind."""


@cache
def kind_names() -> tuple[str, ...]:
    """Every kind of map, in alphabetical order."""
    modules = (m.name for m in iter_modules(__path__))
    return tuple(sorted(n.replace("_", "-") for n in modules if n not in NO_KINDS))


def find_kind(name: str) -> Callable[[EvidenceCase, str], Measured]:
    """The function that measures the kind. Raises OptionError for an unknown name."""
    if name not in kind_names():
        raise OptionError(
            f"there is no kind of evidence {name!r}", f"Choose one of {', '.join(kind_names())}"
        )
    measure: Callable[[EvidenceCase, str], Measured] = import_module(
        f"{__name__}.{name.replace('-', '_')}"
    ).measure
    return measure
