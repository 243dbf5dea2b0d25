"""onnx.proto, written by hand: each part is the number of a field, its kind and its content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def varint(number: int) -> bytes:
    """A number, seven bits a byte."""
    number &= 2**64 - 1  # a negative number takes ten bytes
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def number_field(tag: int, number: int) -> bytes:
    """A field that holds a number."""
    return varint(tag << 3) + varint(number)


def bytes_field(tag: int, content: bytes) -> bytes:
    """A field that holds bytes, or another message."""
    return varint(tag << 3 | 2) + varint(len(content)) + content


def text_field(tag: int, text: str) -> bytes:
    """A field that holds text."""
    return bytes_field(tag, text.encode())


def node_bytes(kind: str, inputs: Iterable[str], out: str | tuple[str, ...], about: Any) -> bytes:
    """NodeProto: an operation with its inputs, outputs and attributes: whole numbers, or lists."""
    outputs = (out,) if isinstance(out, str) else out
    parts = [text_field(1, name) for name in inputs] + [text_field(2, name) for name in outputs]
    parts.append(text_field(4, kind))
    for name, value in about.items():
        many = isinstance(value, list)
        numbers = b"".join(number_field(8, z) for z in value) if many else number_field(3, value)
        parts.append(
            bytes_field(5, text_field(1, name) + numbers + number_field(20, 7 if many else 2))
        )
    return b"".join(parts)


def tensor_bytes(name: str, shape: Sequence[int], kind: int, content: bytes) -> bytes:
    """TensorProto: a named tensor; kind: its data type."""
    dims = b"".join(number_field(1, n) for n in shape)
    return dims + number_field(2, kind) + text_field(8, name) + content


def value_info_bytes(name: str, kind: int, shape: list[Any] | None) -> bytes:
    """An input or output of a graph; shape None: whatever it is."""
    dims = [text_field(2, n) if isinstance(n, str) else number_field(1, n) for n in shape or ()]
    shown = (
        bytes_field(2, b"".join(bytes_field(1, dim) for dim in dims)) if shape is not None else b""
    )
    return text_field(1, name) + bytes_field(2, bytes_field(1, number_field(1, kind) + shown))
