"""Whether the model hub can be asked at all; its client would try for half a minute."""

from __future__ import annotations

import os
import socket
import threading
from urllib.parse import urlsplit
from urllib.request import getproxies

PATIENCE_S = 4.0
_closed = threading.Event()


def close() -> None:
    """From now on this process downloads no model: what is on this disk is all that there is."""
    _closed.set()


def is_closed() -> bool:
    """Whether `close` was called."""
    return _closed.is_set()


def reachable() -> bool:
    """False where the hub is switched off or closed, or its address does not answer.

    Behind a proxy it cannot be known and is taken for true.
    """
    from huggingface_hub import constants

    if is_closed() or constants.HF_HUB_OFFLINE:
        return False
    address = urlsplit(os.environ.get("HF_ENDPOINT") or constants.ENDPOINT)
    if address.scheme in getproxies():
        return True
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((address.hostname or "", port), PATIENCE_S).close()
    except OSError:
        return False
    return True
