"""The one place where a tensor's values are read by the host.

Everything that waits for the device passes here, so that a dry run (`core.planning.dry_run`), whose
tensors have no values, can answer instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Reader = Callable[[Tensor], NDArray[Any]]


def to_host(tensor: Tensor) -> NDArray[Any]:
    """The values of a tensor on any device, of its shape; bfloat16 becomes float32."""
    return _READER.get()(tensor)


def to_float(tensor: Tensor) -> float:
    """The value of a tensor of one element."""
    return float(to_host(tensor).reshape(()))


@contextmanager
def reading_with(reader: Reader) -> Iterator[None]:
    """While inside, `to_host` asks `reader` in this thread."""
    token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(token)


def _read(tensor: Tensor) -> NDArray[Any]:
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:  # NumPy has none
        tensor = tensor.float()
    return np.asarray(tensor.cpu().numpy())


_READER: ContextVar[Reader] = ContextVar("reader", default=_read)
