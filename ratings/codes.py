"""Codes of raters and of the organiser: made and hashed.

Nobody guesses one, so that wrong ones are not counted, and lock nobody out.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

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
