"""What a file is, by its name and first bytes: what cannot be read is refused at once.

No process is started for it, and nothing of it is decoded.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from macd_studio.core import errors
from macd_studio.core.validation import shown

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
        if not file.is_file():
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
