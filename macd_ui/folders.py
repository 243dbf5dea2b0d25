"""Where a server keeps what outlives it: its data, caches, and a gallery."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from macd_studio.core.errors import OptionError

MOUNT = Path("/data")
"""Where a Space mounts a bucket."""


def data_folder(environment: Mapping[str, str] | None = None, mount: Path = MOUNT) -> Path | None:
    """The folder that outlives a restart: MACD_DATA, or on a Space its bucket; None: there is none.

    Raises OptionError where MACD_DATA names a folder that cannot be written to.
    """
    env = os.environ if environment is None else environment
    if named := env.get("MACD_DATA"):
        if not _is_writable(Path(named)):
            raise OptionError(
                f"MACD_DATA names {named[:200]!r}, where nothing can be written",
                "Create the folder, or unset MACD_DATA",
            )
        return Path(named)
    return mount if env.get("SPACE_ID") and _is_writable(mount) else None


def _is_writable(folder: Path) -> bool:
    """Whether a file can be made there: what permissions say of a mount is not always so."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def set_up(folder: Path | None) -> None:
    """Lets downloaded models stay. To be called before huggingface_hub is imported."""
    if folder is not None:
        os.environ.setdefault("HF_HOME", str(folder / "huggingface"))


def gallery_in(folder: Path | None) -> str | None:
    """The folder `gallery` of the bucket, if it is there."""
    place = None if folder is None else folder / "gallery"
    return str(place) if place is not None and place.is_dir() else None
