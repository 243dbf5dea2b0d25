"""Imports Gradio without the type stubs that it writes for editors.

With each import it reads the source of every component, and renews a .pyi file beside it: two
fifths of the import's processor time (1.1 of 2.7 s). Nothing reads them where a page is served.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

MODULE, WRITER = "gradio.component_meta", "create_or_modify_pyi"


class _Quiet(Loader):
    """Loads the module as it is, and takes the writing out of it."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """See `importlib.abc.Loader`."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """See `importlib.abc.Loader`."""
        self.loader.exec_module(module)
        if hasattr(module, WRITER):  # a private name: without it the import only takes longer
            setattr(module, WRITER, lambda *_: None)


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if name != MODULE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Quiet(spec.loader)
        return spec


def skip_stubs() -> None:
    """Makes an import of Gradio from now on write no stubs; without effect once it is imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
