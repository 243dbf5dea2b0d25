"""Files that are made of a trace by a process with bounded memory and time, beside the server.

What an untrusted trace describes can take far more than the trace: masks of every object on every
frame, pictures of millions of pixels. The parent calls `make_in_process`, the process `make_one`;
how they speak: `core.system.bounded_job`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.system.bounded_job import Answer, run_job, serve_job

MAX_LINE, MAX_MADE = 4096, 200 * 10**6
"""Bytes of what a process says of a file, and of the file."""


@dataclass(frozen=True)
class ProcessLimits:
    """What making one file may take: bytes of memory, the trace's own included, and seconds."""

    memory_bytes: int = 600 * 10**6
    seconds: float = 10.0


BESIDE = ProcessLimits()


def make_in_process(
    module: str,
    job: dict[str, Any],
    content: bytes,
    remedy: str,
    cancelled: Callable[[], bool] = lambda: False,
    limits: ProcessLimits = BESIDE,
) -> bytes:
    """What `module`, run as a process, makes of the trace in `content`, the content of its file.

    job: plain values that it gets. remedy: for a file that takes more than the limits. cancelled:
    asked several times a second; once it is true, the process is ended. Raises Cancelled then, and
    OptionError for what cannot be made or takes more than the limits.
    """
    try:
        found = run_job(
            module, job, content, memory_bytes=limits.memory_bytes, seconds=limits.seconds,
            most_bytes=MAX_MADE, most_header=MAX_LINE, cancelled=cancelled,
        )  # fmt: skip
    except Cancelled:
        raise Cancelled("stopped while the file was made", "Ask for it again") from None
    if found is None or not (found[1] or "error" in found[0]):  # no file is empty
        raise OptionError(
            f"making this file takes more than {limits.memory_bytes / 1e6:.0f} MB of memory or"
            f" {limits.seconds:g} s",
            remedy,
        )
    header, made = found
    if "error" in header:
        raise OptionError(header["error"], header["remedy"])
    return made


def make_one(make: Callable[[dict[str, Any], bytes], bytes]) -> None:
    """One job of this process, then its end. make: a file from the job and a trace's content."""

    def answer(job: dict[str, Any], content: bytes) -> Answer:
        try:
            return {}, make(job, content)
        except OSError as error:  # Pillow's encoder calls a lack of memory so
            raise MemoryError from error

    serve_job(answer, _import_pictures)


def _import_pictures() -> None:
    import PIL.Image
    import PIL.PngImagePlugin
    import PIL.WebPImagePlugin

    assert PIL.PngImagePlugin
