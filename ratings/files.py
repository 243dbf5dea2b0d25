"""Files that hold secrets of a study: nobody but their owner may read them."""

from __future__ import annotations

import os
from pathlib import Path

PRIVATE = 0o600


def new_private_file(path: Path) -> None:
    """An empty file with mode 0600. Raises FileExistsError.

    SQLite gives the files that it makes beside a database the mode of the database.
    """
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))


def write_private(path: Path, content: bytes) -> None:
    """Writes a file with mode 0600, whole or not at all. Raises OSError."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.unlink(missing_ok=True)
    try:
        new_private_file(scratch)
        scratch.write_bytes(content)
        os.replace(scratch, path)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise


def hide_from_others(path: Path) -> None:
    """Sets mode 0600 where everybody could read the file; what a group may do is left alone.

    A file of somebody else, or on a mount without modes, is left as it is.
    """
    try:
        if path.stat().st_mode & 0o007:
            path.chmod(PRIVATE)
    except OSError:
        pass
