"""Secrets of a study: codes of raters and the organiser, and files that only their owner reads.

Nobody guesses a code, so that wrong ones are not counted, and lock nobody out.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from contextlib import suppress
from pathlib import Path

from macd_studio.core.system.whole import PRIVATE, written_whole
from macd_studio.ratings.errors import cannot_write

ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
"""Without the letters and digits that are taken for one another."""
LENGTH = 24
"""118 bits: no guess succeeds, and the plain hash that is stored cannot be searched."""
CODE = re.compile(rf"[{ALPHABET}]{{{LENGTH}}}")


def new_code() -> str:
    """A random code."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def derived_code(key: str, identity: str) -> str:
    """The code of an identity under a study's key: always the same, and nobody else's.

    >>> derived_code("key", "42") == derived_code("key", "42") != derived_code("other", "42")
    True
    """
    number = int.from_bytes(hmac.digest(key.encode(), identity.encode(), "sha256"), "big")
    letters = []
    for _ in range(LENGTH):
        number, at = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[at])
    return "".join(letters)


def hash_code(code: str) -> str:
    """What the study keeps of a code."""
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


def write_private(path: Path, content: bytes) -> None:
    """Writes a file with mode 0600, whole or not at all. Raises OptionError."""
    try:
        with written_whole(path, private=True) as part:
            part.write_bytes(content)
    except OSError as error:
        raise cannot_write(path, error) from error


def hide_from_others(path: Path) -> None:
    """Sets mode 0600 where everybody could read the file; what a group may do is left alone.

    A file of somebody else, or on a mount without modes, is left as it is.
    """
    with suppress(OSError):
        if path.stat().st_mode & 0o007:
            path.chmod(PRIVATE)
