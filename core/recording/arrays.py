"""Arrays and mappings from another program, checked where they come in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from macd_studio.core.errors import OptionError
from macd_studio.core.validation import shown


def read_array(
    value: Any, path: str, *, lost: bool = False, finite: bool = True
) -> NDArray[np.float64]:
    """float64; finite, except what is `lost`, which may be NaN."""
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise OptionError(
            f"{path} is not an array of numbers ({type(error).__name__})",
            "Give an array; of a tensor, tensor.detach().float().cpu().numpy()",
        ) from None
    if finite and not (np.isfinite(array) | (lost & np.isnan(array))).all():
        raise OptionError(f"{path} holds a value that is not finite", "Give finite numbers")
    return array


def describe_shape(array: NDArray[Any]) -> str:
    """For a message."""
    return f"an array {array.shape}" if array.ndim else "one number"


def read_shares(value: ArrayLike, path: str, length: int) -> NDArray[np.float64]:
    """(length,) in [0, 1]."""
    array = read_vector(value, path, length)
    if (array != array.clip(0, 1)).any():
        raise OptionError(f"{path} holds a value outside 0 to 1", "Give shares from 0 to 1")
    return array


def read_vector(value: ArrayLike, path: str, length: int) -> NDArray[np.float64]:
    """(length,), finite."""
    array = read_array(value, path)
    if array.shape != (length,):
        raise OptionError(
            f"{path} is {describe_shape(array)}", f"Give an array of the shape ({length},)"
        )
    return array


def read_mapping(value: Any, path: str, known: Collection[str]) -> dict[str, Any]:
    """A dict with known keys only; NumPy's numbers, and tensors of one, as Python has them."""
    if not isinstance(value, Mapping):
        raise OptionError(f"{path} is {shown(value)}", f"Give a mapping of {', '.join(known)}")
    for key in value:
        if key not in known:
            raise OptionError(f"{path} holds {shown(key)}", f"Give of {', '.join(known)}")
    return {key: _plain(one) for key, one in value.items()}


def require(fields: Mapping[str, Any], path: str, key: str) -> Any:
    """The value under a key that must be there."""
    if key not in fields:
        raise OptionError(f"{path}.{key} is missing", "Give it")
    return fields[key]


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value
