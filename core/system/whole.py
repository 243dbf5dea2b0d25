"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRIVATE = 0o600
"""The mode of a file that its owner alone may read and write."""


def new_private_file(path: Path) -> None:
    """An empty file with mode 0600. Raises FileExistsError.

    SQLite gives the files that it makes beside a database the mode of the database.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))


@contextmanager
def written_whole(path: Path, *, private: bool = False) -> Iterator[Path]:
    """A path beside `path`, which the caller writes; at the end it takes the place of `path`.

    A link is followed: the file that it names is replaced. After an error nothing is left, and what
    was at `path` stays. private: from the beginning only the owner may read it (mode 0600). Raises
    OSError as the file system does.
    """
    place = Path(os.path.realpath(path))
    part = place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        if private:
            new_private_file(part)
        yield part
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
