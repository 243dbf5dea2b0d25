"""What FFmpeg and Pillow print while a file is decoded → notes. For a process of its own only.

FFmpeg writes to standard error from whatever thread decodes. So standard error becomes a pipe that
is never waited for: what does not fit it is lost, and a file that provokes millions of lines costs
no memory.
"""

from __future__ import annotations

import os
import re

import av

from macd_studio.core.system.library_notes import note

PIECE = 2**16
_LINE = re.compile(r"^\[(?P<part>[\w,. ]{1,40}) @ 0x[0-9a-f]+\] (?P<text>.+)$")
_WARNING = re.compile(r"^.{1,400}?: (?P<part>\w{0,40}Warning): (?P<text>.+)$")
DAMAGED = "some of its data is damaged or missing"
BACK = "some of its times go back a little"
_PLAIN = (
    ("Packet corrupt", DAMAGED),
    ("out of order", BACK),
    ("non monotonically increasing dts", BACK),
    ("co located POCs unavailable", ""),  # at the start of a joined part
)
"""What FFmpeg says, and what it means; "" where it means nothing for a reader."""
_pipe: int | None = None
_notes: list[str] = []


def redirect() -> None:
    """From now on what is written to standard error is kept for `reports`."""
    global _pipe
    _pipe, end = os.pipe()
    for side in (_pipe, end):
        os.set_blocking(side, False)
    os.dup2(end, 2)
    os.close(end)
    av.logging.restore_default_callback()
    av.logging.set_libav_level(av.logging.WARNING)


def reports() -> list[str]:
    """What was reported so far, once each and shortened; [] where `redirect` was not called."""
    if _pipe is not None:
        text = b""
        while len(text) < 4 * PIECE:
            try:
                piece = os.read(_pipe, PIECE)
            except BlockingIOError:
                break
            text += piece
        take(text.decode(errors="replace"), _notes)
    return list(_notes)


def take(text: str, notes: list[str]) -> None:
    """Adds the warnings among printed lines to notes.

    >>> found = []
    >>> take("[h264 @ 0x5c8] error at MB 3 4\\n[h264 @ 0x1f] error at MB 9 1", found)
    >>> found
    ['FFmpeg (h264) reports: error at MB 3 4']
    """
    for line in text.splitlines():
        if found := _LINE.match(line):
            part, text = found["part"].partition(",")[0], found["text"]
            plain = next((means for says, means in _PLAIN if says in text), None)
            if plain is None:
                note(notes, f"FFmpeg ({part})", text)
            elif plain and plain not in notes:
                notes.append(plain)
        elif found := _WARNING.match(line):
            note(notes, "Pillow", found["text"])
