"""How far the loading of a model is: its download by bytes, its weights by tensors."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.std import tqdm  # type: ignore[import-untyped]
from transformers.utils import logging

from core.errors import Cancelled
from core.types import Progress


@contextmanager
def reading_weights(progress: Progress) -> Iterator[None]:
    """While inside, transformers updates `progress` with how many tensors it has read."""

    def hook(_: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return _bar(progress)(*args, **named)

    former = logging.set_tqdm_hook(hook)
    try:
        yield
    finally:
        logging.set_tqdm_hook(former)


def downloading(progress: Progress, total: int) -> type[Any]:
    """What the hub's client takes for a class of progress bars; `total`: bytes to come.

    The client has a bar of files and one of bytes from the network too; bytes on disk count.
    """
    silent, counted = _bar(Progress()), _bar(progress, total)

    class Bar(tqdm):  # type: ignore[misc]
        def __new__(cls, *args: Any, **named: Any) -> Any:
            on_disk = named.get("unit") == "B" and "Download" not in named.get("desc", "")
            return (counted if on_disk else silent)(*args, **named)

    return Bar


def _bar(progress: Progress, total: int | None = None) -> type[Any]:
    counting = threading.Lock()  # files are fetched side by side

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named | {"file": io.StringIO(), "disable": False})
            self.completed = 0.0

        def update(self, n: float | None = 1) -> Any:
            if progress.stopped:
                raise Cancelled("the loading was stopped", "Run again; a download goes on")
            with counting:
                self.completed += n or 0
                whole = total or self.total
                if whole:
                    progress.fraction = min(1.0, self.completed / whole)
            return super().update(n)

        def __iter__(self) -> Iterator[Any]:
            for item in self.iterable:
                yield item
                self.update()

    return Bar
