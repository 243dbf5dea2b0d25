"""How far the reading of a model's weights is, by tensors; its download is `core.fetching`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers.utils import logging

from macd_studio.core.fetching import bar
from macd_studio.core.types import Progress


@contextmanager
def reading_weights(progress: Progress) -> Iterator[None]:
    """While inside, transformers updates `progress` with how many tensors it has read."""

    def hook(_: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return bar(progress)(*args, **named)

    former = logging.set_tqdm_hook(hook)
    try:
        yield
    finally:
        logging.set_tqdm_hook(former)
