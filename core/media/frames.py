"""What a clip's file is, before it is decoded: its kind by first bytes, or numbered pictures.

What cannot be read is refused before a process is started. Pictures of a folder or zip archive are
only copied, one behind the other; the bounded process decodes them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO

from macd_studio.core import errors
from macd_studio.core.text import words
from macd_studio.core.validation import mode_of, shown

MAX_NAMES = 20_000
"""Files of a folder or archive whose names are looked at."""
KINDS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".bmp": "bmp", ".webp": "webp"}
"""FFmpeg's names for pictures, by the ending of a file."""
_NUMBERED = re.compile(r"(.{0,200}?)([0-9]{1,12})(\.[a-z]{3,4})", re.IGNORECASE)
_PIECE = 2**20
MAX_DIRECTORY = 4 * 2**20
"""Bytes of an archive's directory, which names its files."""
_END = 2**16 + 22
"""An archive's end begins within so many of its last bytes."""
_PACKED = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""Other ways may take any memory to unpack."""


@dataclass(frozen=True)
class Frames:
    """Numbered pictures of one kind in their order. kind: FFmpeg's name of it. gaps: whether
    numbers are missing between the first and the last."""

    path: Path
    names: tuple[str, ...]
    kind: str
    gaps: bool

    def notes(self, rate: float, read: int | None) -> list[str]:
        """What is to be said of them. rate: pictures a second. read: how many could be read."""
        notes = [f"{len(self.names)} numbered pictures were read as {rate:g} a second"]
        if self.gaps:
            notes.append("numbers of pictures are missing: those after a gap are shown earlier")
        if read is not None and read < len(self.names):
            notes.append(
                f"{words.count(len(self.names) - read, 'picture')} could not be read: those after"
                " are shown earlier"
            )
        return notes


def frames_of(path: Path) -> Frames | None:
    """The numbered pictures of a folder or archive; None where there are fewer than two.

    Raises NotAVideo for several sequences, or for pictures of several kinds.
    """
    try:
        path = path.absolute()
        if path.is_dir():
            names = [file.name for file in islice(path.iterdir(), MAX_NAMES + 1)]
        elif not path.is_file():
            return None
        else:
            with path.open("rb") as file:
                if file.read(4) != b"PK\3\4":
                    return None
                _check_directory(file, path)
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()[: MAX_NAMES + 1]
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return None
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for name in names:
        parts = PurePosixPath(name).parts
        if any(part.startswith((".", "__MACOSX")) for part in parts):
            continue
        match = _NUMBERED.fullmatch(name)
        if match and (kind := KINDS.get(match[3].lower())):
            found.setdefault((match[1], kind), []).append((int(match[2]), name))
    sequences = {key: sorted(files) for key, files in found.items() if len(files) > 1}
    if not sequences:
        return None
    if len(sequences) > 1:
        beginnings = ", ".join(shown(f"{start}…", 40) for start, _ in islice(sequences, 4))
        raise errors.NotAVideo(
            f"{shown(path.name, 100)} holds {len(sequences)} sequences of numbered pictures:"
            f" {beginnings}",
            "Give a folder or zip of one of them",
        )
    if len(names) > MAX_NAMES:
        raise errors.VideoTooLarge(
            f"{shown(path.name, 100)} holds more than {MAX_NAMES} files", "Give fewer pictures"
        )
    ((_, kind), files), *_ = sequences.items()
    gaps = files[-1][0] - files[0][0] != len(files) - 1
    return Frames(path, tuple(name for _, name in files), kind, gaps)


def _check_directory(file: IO[bytes], path: Path) -> None:
    """Raises VideoTooLarge for an archive whose directory would take much memory to list."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _END))
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    large = b"PK\6\7" in tail[:at]  # of more than 65,535 files, or of more than 4 GB
    if at >= 0 and (large or int.from_bytes(tail[at + 12 : at + 16], "little") > MAX_DIRECTORY):
        raise errors.VideoTooLarge(
            f"{shown(path.name, 100)} holds more than {MAX_NAMES} files", "Give fewer pictures"
        )


@contextmanager
def joined(frames: Frames, most_mb: float, remedy: str) -> Iterator[Path]:
    """A file of all pictures, one behind the other, as long as it is needed.

    most_mb: megabytes of all pictures. Raises VideoTooLarge, NotAVideo for an archive that is
    damaged or encrypted, VideoNotFound for what cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"frames.{frames.kind}"
        try:
            with target.open("wb") as out:
                for piece in _pieces(frames):
                    out.write(piece)
                    if out.tell() > most_mb * 1e6:
                        raise errors.VideoTooLarge(
                            f"the pictures of {shown(frames.path.name, 100)} have more than"
                            f" {most_mb:g} MB",
                            remedy,
                        )
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise errors.VideoNotFound(
                f"{shown(frames.path.name, 100)} cannot be read ({error.strerror})",
                "Check the files and their rights",
            ) from None
        except (zipfile.BadZipFile, RuntimeError, ValueError, NotImplementedError, EOFError):
            raise errors.NotAVideo(
                f"{shown(frames.path.name, 100)} is damaged, encrypted or packed in an unusual way",
                "Pack the pictures again, by deflate",
            ) from None
        yield target


def _pieces(frames: Frames) -> Iterator[bytes]:
    if frames.path.is_dir():
        for name in frames.names:
            with (frames.path / name).open("rb") as file:
                yield from _read(file)
        return
    with zipfile.ZipFile(frames.path) as archive:
        for name in frames.names:
            if archive.getinfo(name).compress_type not in _PACKED:
                raise NotImplementedError
            with archive.open(name) as member:
                yield from _read(member)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


_ADDRESS = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]+:")
_NOT_VIDEO = {
    b"#extm3u": "a playlist",
    b"ffconcat": "a playlist",
    b"<!doctype": "a web page",
    b"<html": "a web page",
    b"<svg": "a drawing",
    b"<?xml": "an XML document",
    b"pk\x03\x04": "a zip archive without numbered pictures",
}
_PICTURES = (b"\x89png\r\n\x1a\n", b"\xff\xd8\xff", b"bm")
_OTHER_PICTURES = {
    b"ii*\0": "a TIFF picture",
    b"mm\0*": "a TIFF picture",
    b"8bps": "a Photoshop picture",
    b"%pdf": "a PDF document",
}
_BRANDS = {b"heic": "HEIC", b"heix": "HEIC", b"mif1": "HEIC", b"msf1": "HEIC", b"avif": "AVIF"}


def check_file(path: str | Path, most_mb: float, remedy: str) -> tuple[Path, bool]:
    """The file, and whether it is a picture, by its first bytes. Raises VideoError.

    most_mb: megabytes of the largest file that is read. remedy: for one that is larger.
    """
    text = str(path)
    if not text or "\0" in text:
        raise errors.VideoNotFound("no video was given", "Choose a video file")
    if _ADDRESS.match(text) and not os.path.exists(text):
        raise errors.VideoNotFound(
            f"{shown(text, 80)} is an address, not a file",
            "Download the video and give its file name",
        )
    file = Path(text).absolute()
    try:
        if file.is_dir():
            raise errors.VideoNotFound(
                f"{shown(file.name, 100)} is a folder without numbered pictures",
                "Choose a video in it",
            )
        if not stat.S_ISREG(mode_of(file)):
            raise errors.VideoNotFound(
                f"there is no file {shown(text, 200)}", "Check the file name"
            )
        size = file.stat().st_size
        with file.open("rb") as content:
            start = content.read(256).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    except OSError as error:
        raise errors.VideoNotFound(
            f"{shown(text, 200)} cannot be read ({error.strerror})", "Check the file and its rights"
        ) from None
    if size == 0:
        raise errors.NotAVideo(f"{file.name!r} is empty", "Record or download it again")
    if size > most_mb * 1e6:
        raise errors.VideoTooLarge(
            f"{file.name!r} has {size / 1e6:.0f} MB, more than {most_mb:g} MB", remedy
        )
    for magic, kind in _NOT_VIDEO.items():
        if start.startswith(magic):
            raise errors.NotAVideo(
                f"{file.name!r} is {kind}, not a video", "Choose a video or a picture"
            )
    others = [kind for magic, kind in _OTHER_PICTURES.items() if start.startswith(magic)]
    if start[4:8] == b"ftyp" and (brand := _BRANDS.get(start[8:12])):
        others.append(f"a picture of the kind {brand}")
    if others:
        raise errors.NotAVideo(
            f"{file.name!r} is {others[0]}, which is not read here", "Save it as PNG or JPEG"
        )
    is_webp = start.startswith(b"riff") and start[8:12] == b"webp"
    return file, is_webp or start.startswith(_PICTURES)
