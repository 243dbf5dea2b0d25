"""Files that are made of a trace by a process with bounded memory and time, beside the server.

What a trace of strangers describes can take far more than the trace: masks of every object on every
frame, pictures of millions of pixels. The parent calls `made_beside`, the process `make_one`. The
job comes on stdin: a line of JSON, and the trace's file. The process says "ready" before it looks
at the trace; its next line is JSON: {"bytes": n} and then n bytes; {"error": …, "remedy": …} for
what cannot be made; {"over": "memory"} where it took too much; {"failed": …} for an error of this
program.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import cv2

from macd_studio.core.bounded import (
    Watch,
    address_space,
    end_process,
    limit_process,
    start_process,
)
from macd_studio.core.errors import Cancelled, MacdError, OptionError

START_S = 60.0
"""How long the process may take to start, on a busy machine."""
MAX_LINE = 4096
MAX_MADE = 200 * 10**6
"""Bytes of a file."""


@dataclass(frozen=True)
class MakeLimits:
    """What making one file may take: bytes of memory, the trace's own included, and seconds."""

    memory_bytes: int = 600 * 10**6
    seconds: float = 10.0


BESIDE = MakeLimits()


def made_beside(
    module: str,
    job: dict[str, Any],
    content: bytes,
    remedy: str,
    cancelled: Callable[[], bool] = lambda: False,
    limits: MakeLimits = BESIDE,
) -> bytes:
    """What `module`, run as a process, makes of the trace in `content`, the content of its file.

    job: plain values that it gets. remedy: for a file that takes more than the limits. cancelled:
    asked several times a second; once it is true, the process is ended. Raises Cancelled then, and
    OptionError for what cannot be made or takes more than the limits.
    """
    process = start_process(module)
    watch = Watch(process, cancelled, START_S)
    job = job | {"bytes": len(content), "memory_bytes": limits.memory_bytes,
                 "seconds": limits.seconds}  # fmt: skip
    made: bytes | None = None
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
        if 0 < header.get("bytes", 0) <= MAX_MADE:
            made = process.stdout.read(header["bytes"])
            if len(made) < header["bytes"]:
                made = None
    finally:
        watch.stop()
        end_process(process)
    if made is not None:
        return made
    if watch.cancelled:
        raise Cancelled("stopped while the file was made", "Ask for it again")
    if "error" in header:
        raise OptionError(header["error"], header["remedy"])
    if "failed" in header:
        raise RuntimeError(f"{module} failed: {header['failed']}")
    raise OptionError(
        f"making this file takes more than {limits.memory_bytes / 1e6:.0f} MB of memory or"
        f" {limits.seconds:g} s",
        remedy,
    )


def make_one(make: Callable[[dict[str, Any], bytes], bytes]) -> None:
    """One job of this process, then its end. make: a file from the job and a trace's content."""
    line = sys.stdin.buffer.readline()
    if not line:  # the parent process ended without sending a job
        return
    job = json.loads(line)
    cv2.setNumThreads(1)
    import PIL.Image  # before memory counts
    import PIL.PngImagePlugin
    import PIL.WebPImagePlugin

    assert PIL.PngImagePlugin
    content = sys.stdin.buffer.read(job["bytes"])
    if taken := address_space():
        limit_process(taken + job["memory_bytes"], job["seconds"], threads=1)
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    header, made = _made(make, job, content)
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n")
    sys.stdout.buffer.write(made)
    sys.stdout.buffer.flush()


def _made(
    make: Callable[[dict[str, Any], bytes], bytes], job: dict[str, Any], content: bytes
) -> tuple[dict[str, Any], bytes]:
    """The message for a job, and the bytes behind it."""
    try:
        made = make(job, content)
        return {"bytes": len(made)}, made
    except MacdError as error:
        return {"error": error.cause, "remedy": error.remedy}, b""
    except (MemoryError, OSError):  # Pillow's encoder calls a lack of memory an OSError
        return {"over": "memory"}, b""
    except cv2.error as error:
        if error.code == cv2.Error.StsNoMem:
            return {"over": "memory"}, b""
        return {"failed": traceback.format_exc(limit=-3)[-2000:]}, b""
    except Exception:
        return {"failed": traceback.format_exc(limit=-3)[-2000:]}, b""
