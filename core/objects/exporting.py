"""A trace's objects for another program, written by a process with bounded memory and time.

`core.objects.export` does the same in this process. Masks of every object on every frame take far
more than the trace that describes them, so a trace of strangers is written beside the server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from macd_studio.core.bounded import Watch, end_process, start_process
from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.objects.export import What

START_S = 60.0
"""How long the process may take to start, on a busy machine."""
MAX_LINE = 4096
MAX_WRITTEN = 200 * 10**6
"""Bytes of a file."""


@dataclass(frozen=True)
class ExportLimits:
    """What writing one file may take: bytes of memory, the trace's own included, and seconds."""

    memory_bytes: int = 600 * 10**6
    seconds: float = 10.0


def export_beside(
    content: bytes,
    format: str,
    what: What,
    cancelled: Callable[[], bool] = lambda: False,
    limits: ExportLimits = ExportLimits(),
) -> bytes:
    """The same bytes as `export.exported` of the trace in `content`, the content of its file.

    cancelled: asked several times a second; once it is true, the process is ended. Raises Cancelled
    then, and OptionError for what cannot be written or takes more than the limits.
    """
    process = start_process("macd_studio.core.objects.export_worker")
    watch = Watch(process, cancelled, START_S)
    job = {"format": format, "what": what, "bytes": len(content),
           "memory_bytes": limits.memory_bytes, "seconds": limits.seconds}  # fmt: skip
    written: bytes | None = None
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it was ended already
            process.stdin.write(json.dumps(job).encode() + b"\n" + content)
            process.stdin.close()
        if process.stdout.readline(MAX_LINE):  # it has started
            watch.give(limits.seconds)
        line = process.stdout.readline(MAX_LINE)
        header = json.loads(line) if line.endswith(b"\n") else {}
        if 0 < header.get("bytes", 0) <= MAX_WRITTEN:
            written = process.stdout.read(header["bytes"])
            if len(written) < header["bytes"]:
                written = None
    finally:
        watch.stop()
        end_process(process)
    if written is not None:
        return written
    if watch.cancelled:
        raise Cancelled("stopped while the objects were written", "Ask for them again")
    if "error" in header:
        raise OptionError(header["error"], header["remedy"])
    if "failed" in header:
        raise RuntimeError(f"the writer of objects failed: {header['failed']}")
    raise OptionError(
        f"writing these objects takes more than {limits.memory_bytes / 1e6:.0f} MB of memory or"
        f" {limits.seconds:g} s",
        "Save the trace, and write them by `python -m core export` on a machine of your own",
    )
