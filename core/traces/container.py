"""The bytes of a `.macd` file → its manifest, arrays and pictures; nothing is decoded yet."""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core.errors import TraceError
from macd_studio.core.traces.archive import DAMAGED, read_directory, read_member
from macd_studio.core.traces.format import (
    FORMAT,
    FORMER,
    MAX_ITEMS,
    MAX_MANIFEST,
    SCHEMA,
    Arrays,
    check_values,
)

Pictures = dict[str, dict[int, bytes]]
"""Frames as they are in the file: by folder, then by index."""
_MEMBER = re.compile(
    r"arrays/(?P<array>[a-z0-9_]{1,40})\.npy"
    r"|(?P<folder>frames|model|shown[0-9]{1,3}(_[0-9])?)/(?P<index>[0-9]{4})\.webp"
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONGEST_INT = 20


def open_bundle(content: bytes) -> tuple[dict[str, Any], Arrays, Pictures]:
    """The parts of a file, each checked against its listed checksum."""
    members = read_directory(content)
    if "manifest.json" not in members:
        raise TraceError("the file is not a MACD trace", "Choose a .macd file")
    if members["manifest.json"].size > MAX_MANIFEST:
        raise TraceError("the trace's manifest is larger than one can be", DAMAGED)
    manifest = _json(read_member(content, members.pop("manifest.json")))
    _check_version(manifest)
    sums = manifest.get("sha256")
    if not isinstance(sums, dict):
        raise TraceError("the trace does not list its parts", DAMAGED)
    if unlisted := members.keys() - sums:
        raise TraceError(f"the trace holds {min(unlisted)!r}, which it does not list", DAMAGED)
    arrays: Arrays = {}
    pictures: Pictures = {}
    for name, sha256 in sums.items():
        place = _MEMBER.fullmatch(name)
        if place is None:
            raise TraceError(f"the trace holds {name[:60]!r}, which is not a part of it", DAMAGED)
        if name not in members:
            raise TraceError(f"the trace lacks {name}", DAMAGED)
        part = read_member(content, members[name])
        if hashlib.sha256(part).hexdigest() != sha256:
            raise TraceError(f"{name} in the trace was changed or damaged", DAMAGED)
        if place["array"]:
            arrays[place["array"]] = _array(part)
            if sum(a.size for a in arrays.values()) > MAX_ITEMS:
                raise TraceError("the trace's arrays hold more than a trace has", DAMAGED)
        else:
            pictures.setdefault(place["folder"], {})[int(place["index"])] = part
    return manifest, arrays, pictures


def _check_version(manifest: dict[str, Any]) -> None:
    if manifest.get("format") == FORMER:
        raise TraceError(
            "the trace was written before the first release, in a form that is not read any more",
            "Run the clip again",
        )
    if manifest.get("format") != FORMAT:
        raise TraceError("the file is not a MACD trace", "Choose a .macd file")
    schema = manifest.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        stated = schema if isinstance(schema, int) and abs(schema) < 10**9 else "another kind"
        raise TraceError(
            f"the trace has a schema of {stated}, not {SCHEMA}",
            "Open it with the version that wrote it",
        )


def _json(content: bytes) -> dict[str, Any]:
    """One object; finite numbers of bounded length, each key once, text that can be written."""

    def refuse(name: str) -> float:
        raise TraceError(f"the trace holds {name}", DAMAGED)

    def whole(digits: str) -> int:
        return int(digits) if len(digits) <= _LONGEST_INT else int(refuse("a number too large"))

    def real(digits: str) -> float:
        value = float(digits)
        return value if math.isfinite(value) else refuse("a number too large")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        parsed = dict(pairs)
        return parsed if len(parsed) == len(pairs) else {refuse("a key twice"): None}  # type: ignore[dict-item]

    check_values(content)
    try:
        text = content.decode("utf-8")
        parsed = json.loads(
            text, parse_constant=refuse, parse_int=whole, parse_float=real, object_pairs_hook=once
        )
    except (ValueError, RecursionError):
        raise TraceError("the trace's manifest is not JSON that can be read", DAMAGED) from None
    if not isinstance(parsed, dict):
        raise TraceError("the file is not a MACD trace", "Choose a .macd file")
    return _repaired(parsed) if _ESCAPED_SURROGATE.search(content) else parsed


def _repaired(value: Any) -> Any:
    """The value with a replacement character for half a pair: file names may not be UTF-8."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_repaired(v) for v in value]
    if isinstance(value, dict):
        return {_repaired(k): _repaired(v) for k, v in value.items()}
    return value


def _array(content: bytes) -> NDArray[Any]:
    """Read-only. Only the plain header of version 1 is read, and nothing is unpickled."""
    start = 10 + int.from_bytes(content[8:10], "little")
    shape, fortran, dtype = _header(content[:start])
    items = int(np.prod(shape, dtype=object))
    if dtype.hasobject or items * dtype.itemsize != len(content) - start:
        raise TraceError("an array in the trace is not as large as it claims", DAMAGED)
    if items > MAX_ITEMS:
        raise TraceError("an array in the trace is larger than one can be", DAMAGED)
    flat = np.frombuffer(content, dtype, offset=start) if items else np.zeros(0, dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


@lru_cache(maxsize=512)  # the same few headers stand in every trace
def _header(content: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise TraceError("an array in the trace has an unknown header", DAMAGED)
    return np.lib.format.read_array_header_1_0(file)
