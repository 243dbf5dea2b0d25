"""Where a server is, as the name of a backbone says it: `vllm:http://HOST:PORT[/MODEL]`.

Imports no torch: a wrong name is refused before anything is loaded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from macd_studio.core.errors import BackboneNotFound
from macd_studio.core.validation import shown

SCHEME = "vllm:"
KEY, FILES = "MACD_VLLM_KEY", "MACD_VLLM_FILES"
"""Environment variables: the server's key, and the folder or hub id of the model's processor."""
MAX_CHARACTERS = 1000
FORM = "Write it as vllm:http://HOST:PORT, or with the model's name: vllm:http://HOST:PORT/MODEL"


@dataclass(frozen=True)
class Address:
    """A server, and the model that is asked of it; empty where it holds one only.

    url: scheme, host and port. name: the whole, as the backbone is called.
    """

    url: str
    model: str
    name: str


def is_remote(name: str) -> bool:
    """Whether a backbone's name is that of a server.

    >>> is_remote("vllm:http://127.0.0.1:8000"), is_remote("org/model")
    (True, False)
    """
    return name.startswith(SCHEME)


def read_address(name: str) -> Address:
    """The address in a backbone's name. Raises BackboneNotFound for what is none.

    >>> read_address("vllm:http://127.0.0.1:8000/org/model").model
    'org/model'
    """
    if not is_remote(name):
        raise BackboneNotFound(f"{shown(name, 200)} is no address of a server", FORM)
    if len(name) > MAX_CHARACTERS or not name.isprintable():
        raise BackboneNotFound("the address of the server is damaged or too long", FORM)
    try:
        parts = urlsplit(name.removeprefix(SCHEME))
        port = parts.port
    except ValueError as error:
        raise BackboneNotFound(f"{shown(name, 200)} holds no usable address", FORM) from error
    if parts.username is not None or parts.password is not None:
        raise BackboneNotFound(
            "the address holds a user or a password, which a trace would record",
            f"Put the server's key into the environment variable {KEY}",
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in name:
        raise BackboneNotFound(f"{shown(name, 200)} is no http or https address", FORM)
    if parts.query or parts.fragment:
        raise BackboneNotFound(f"{shown(name, 200)} has more than host, port and model", FORM)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    url = f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")
    return Address(url, unquote(parts.path[1:]), name)


def key() -> str:
    """The server's key, from the environment; empty where there is none."""
    return os.environ.get(KEY, "").strip()


def files() -> str:
    """Where the model's tokenizer and processor are, if not where the server says."""
    return os.environ.get(FILES, "").strip()
