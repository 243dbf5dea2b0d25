"""Files of tracks and masks: one module a format, with its reader, its writer and its names.

A module has NAME, TITLE, ENDING and `sources`; `write` where the format is written too. A new
format is such a module and a line in `_MODULES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import TrackFile
from macd_studio.core.objects.formats import (
    coco,
    cvat,
    label_studio,
    masks,
    mot,
    own,
    yolo,
    youtube_vis,
)
from macd_studio.core.objects.formats.border import MAX_BYTES, Files, file_name
from macd_studio.core.objects.formats.sheet import Sheet
from macd_studio.core.objects.formats.source import Asked, ClipFacts, Source, choose
from macd_studio.core.objects.formats.unread import refuse_unknown, refuse_unread
from macd_studio.core.options import TrackOptions


@dataclass(frozen=True)
class Format:
    """One format. title: its name for people; ending: of the name of a file that is written.

    sources: the videos that files describe in it, none where they are of another format. write: the
    file of a sheet; None where the format is only read.
    """

    name: str
    title: str
    ending: str
    sources: Callable[[Files, Asked], list[Source]]
    write: Callable[[Sheet], bytes] | None


_MODULES: tuple[ModuleType, ...] = (own, coco, youtube_vis, cvat, label_studio, mot, yolo, masks)
FORMATS = {
    m.NAME: Format(m.NAME, m.TITLE, m.ENDING, m.sources, getattr(m, "write", None))
    for m in _MODULES
}
"""By name, in the order in which a file is held against them: documents before texts, and texts
before pictures, which may be those of the frames."""
WRITERS = {name: one for name, one in FORMATS.items() if one.write is not None}
"""Those that are written."""


def read_track_file(
    path: str | Path,
    clip: ClipFacts | None = None,
    options: TrackOptions | None = None,
    most: int = MAX_BYTES,
) -> TrackFile:
    """The objects that a file, a zip archive or a folder describes.

    clip: what the file is held against where it can be read in several ways. most: bytes of a file
    that is read.

    Raises TracksError, in one sentence, for everything that is none of the known formats, is
    damaged, or holds more than a file of tracks can; SeveralVideos where the clip's video is one of
    several and it is not clear which.
    """
    path = Path(path)
    try:
        files = Files.at(path, most)
        return _read(files, Asked(clip, options or TrackOptions()))
    except OSError as error:
        raise TracksError(
            f"{file_name(path)} cannot be read ({error.strerror or type(error).__name__})",
            "Give a file of tracks or masks, or a folder of them",
        ) from error
    except RecursionError:
        raise TracksError(
            f"{file_name(path)} is nested too deeply", "Export it with another program"
        ) from None


def _read(files: Files, asked: Asked) -> TrackFile:
    refuse_unread(files)
    for one in FORMATS.values():
        if found := one.sources(files, asked):
            source, how = choose(files.name, found, asked)
            file = source.read()
            return replace(file, notes=(*file.notes, f"{files.name}: {how}")) if how else file
    refuse_unknown(files)
