"""Trace ⇄ one `.macd` file: a zip of a JSON manifest, plain arrays and WebP frames.

Opens without torch, reads no pickle and executes nothing. The format is described in
docs/trace-format.md; a file that is damaged, tampered with or too large raises TraceError.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from macd_studio.core.errors import OptionError, TraceError
from macd_studio.core.system.whole import written_whole
from macd_studio.core.traces.format import MAX_BYTES
from macd_studio.core.traces.read import check_readable, unpack
from macd_studio.core.traces.write import pack
from macd_studio.core.types import Trace
from macd_studio.core.validation import mode_of, shown

__all__ = ["check_target", "load", "pack", "save", "unpack"]


def save(trace: Trace, path: str | Path) -> Path:
    """Writes the file whole or not at all; returns its path. Raises TraceError if it cannot.

    What could not be loaded again is refused, and what was there before stays.

    A link is followed: the file that it names is written. What is there and no regular file, such
    as a device, is refused, and so is a file of another kind; see `check_target`.
    """
    if not isinstance(trace, Trace):
        raise TraceError(
            f"a {type(trace).__name__} is not a trace", "Give the trace first, then its file"
        )
    path = Path(path)
    try:
        check_target(path)
        content = _packed(trace)
        with written_whole(path) as part:
            part.write_bytes(content)
    except (OSError, ValueError) as error:
        raise TraceError(
            f"the trace cannot be written to {shown(str(path), 200)} ({reason(error)})",
            "Choose another place, or free space",
        ) from error
    return path


UNFIT = "Correct what gave that value; a file that was there before is as it was"


def _packed(trace: Trace) -> bytes:
    """The bytes of a file that `load` takes; raises TraceError where there is none."""
    try:
        content = pack(trace)
        check_readable(content)
    except TraceError as error:
        raise TraceError(f"this trace cannot be a file: {error.cause}", UNFIT) from None
    except ValueError as error:  # NaN in the manifest
        raise TraceError(f"this trace cannot be a file ({error})", UNFIT) from None
    return content


def check_target(path: str | Path, suffixes: tuple[str, ...] = (".macd",)) -> None:
    """Raises OptionError where a file cannot be put.

    What is there must be a regular file, and empty or of the kind that would replace it: its name
    ends in one of `suffixes`, so that a mistyped name costs nobody a video.
    """
    path = Path(path)
    name = shown(str(path), 200)
    try:
        place = Path(os.path.realpath(path))
        kind = mode_of(place) or stat.S_IFREG  # where nothing is, a file is made
        beside = place.parent
        there, writable = beside.is_dir(), os.access(beside, os.W_OK | os.X_OK)
    except (OSError, ValueError) as error:
        raise OptionError(
            f"{name} cannot be a file ({reason(error)})", "Choose another name"
        ) from None
    if stat.S_ISDIR(kind):
        raise OptionError(f"{name} is a folder", "Name a file, such as clip.macd")
    if not stat.S_ISREG(kind):
        raise OptionError(f"{name} exists and is not a regular file", "Name a file to be written")
    if place.suffix.lower() not in suffixes and place.exists() and place.stat().st_size:
        wanted = " or ".join(suffixes)
        raise OptionError(
            f"{name} exists, and is not replaced by another kind of file",
            f"Choose another name, one that ends in {wanted}",
        )
    if not there:
        raise OptionError(f"there is no folder for {name}", "Create it or choose another")
    if not writable:
        raise OptionError(f"nothing can be written beside {name}", "Choose another folder")


def reason(error: OSError | ValueError) -> str:
    """Why the system refused, in its words."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def load(path: str | Path) -> Trace:
    """Opens a saved trace; raises TraceError for anything that is not a sound one."""
    path = Path(path)
    name = shown(path.name or str(path), 100)
    try:
        if path.is_dir():
            raise TraceError(f"{name} is a folder", "Choose a .macd file")
        if (mode := mode_of(path)) and not stat.S_ISREG(mode):
            raise TraceError(f"{name} is no file", "Save the trace to a file first")
        if not mode:
            raise TraceError(f"there is no trace {shown(str(path), 200)}", "Check the file name")
        if path.stat().st_size > MAX_BYTES:
            raise TraceError(f"{name} is larger than a trace can be", "Choose a .macd file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise TraceError(f"{name} cannot be read ({reason(error)})", "Check the file") from None
    if not content.startswith(b"PK"):
        raise TraceError(f"{name} is not a trace", "Choose a .macd file")
    return unpack(content)
