"""One job for a process with bounded memory and time, and its answer: both sides of the protocol.

The parent calls `run_job`, the process `serve_job`. The job comes on stdin: a line of JSON, and the
bytes that belong to it. The process says "ready" before it looks at them. Its next line is JSON:
{"bytes": n} with anything else, and then n bytes; {"error": …, "remedy": …} for what is
refused, with {"names": …} where there is something to choose from; {"over": "memory"} where it took
too much; {"failed": …} for an error of this program.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

import cv2

from macd_studio.core.errors import Cancelled, MacdError, SeveralVideos
from macd_studio.core.system.bounded import (
    Watch,
    address_space,
    end_process,
    limit_process,
    start_process,
)

START_S, MAX_READY = 60.0, 100
"""Seconds in which a process has started on a busy machine, and bytes of the line that says so."""
Answer = tuple[dict[str, Any], bytes]
"""What an answer tells, and the bytes that belong to it."""


def run_job(
    module: str,
    job: dict[str, Any],
    content: bytes = b"",
    *,
    memory_bytes: int,
    seconds: float,
    most_bytes: int,
    most_header: int,
    cancelled: Callable[[], bool],
) -> Answer | None:
    """What `module`, run as a process, answers; None where it took more than it may.

    job: plain values that it gets. content: bytes that it gets. memory_bytes: beside what the
    process takes without a job. seconds: of wall time, once it has started. most_bytes: of its
    answer. most_header: bytes of the line before them. cancelled: asked several times a second;
    once it is true, the process is ended and Cancelled is raised. An answer that holds "error" is a
    refusal. Raises RuntimeError for an error of the process itself.
    """
    process = start_process(module)
    watch = Watch(process, cancelled, START_S)
    job = job | {"bytes": len(content), "memory_bytes": memory_bytes, "seconds": seconds}
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # it was ended already
            process.stdin.write(json.dumps(job).encode() + b"\n" + content)
            process.stdin.close()
        if process.stdout.readline(MAX_READY):  # it has started
            watch.give(seconds)
        answer = _receive(process.stdout, most_header, most_bytes)
    finally:
        watch.stop()
        end_process(process)
    if answer is None and watch.cancelled:
        raise Cancelled("stopped", "Nothing was computed")
    if answer is not None and "failed" in answer[0]:
        raise RuntimeError(f"{module} failed: {answer[0]['failed']}")
    return answer


def _receive(stream: IO[bytes], most_header: int, most: int) -> Answer | None:
    """The whole answer; None where the process was ended before, or says that it took too much."""
    line = stream.readline(most_header)
    if not line.endswith(b"\n"):
        return None
    header: dict[str, Any] = json.loads(line)
    if "error" in header or "failed" in header:
        return header, b""
    if "over" in header or not 0 <= header["bytes"] <= most:
        return None
    content = stream.read(header["bytes"])
    return (header, content) if len(content) == header["bytes"] else None


def serve_job(
    answer: Callable[[dict[str, Any], bytes], Answer], before: Callable[[], None]
) -> None:
    """One job of this process, then its end.

    answer: what is told and the bytes behind it, from the job and its bytes. before: imports what
    the answer needs, so that it does not count as memory of the job.
    """
    line = sys.stdin.buffer.readline()
    if not line:  # the parent process ended without sending a job
        return
    job = json.loads(line)
    cv2.setNumThreads(1)
    before()
    content = sys.stdin.buffer.read(job["bytes"])
    if taken := address_space():
        limit_process(taken + job["memory_bytes"], job["seconds"], threads=1)
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    header, made = _answered(answer, job, content)
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n")
    sys.stdout.buffer.write(made)
    sys.stdout.buffer.flush()


def _answered(
    answer: Callable[[dict[str, Any], bytes], Answer], job: dict[str, Any], content: bytes
) -> Answer:
    """The message for a job, and the bytes behind it."""
    try:
        header, made = answer(job, content)
        return header | {"bytes": len(made)}, made
    except SeveralVideos as error:
        return {"error": error.cause, "remedy": error.remedy, "names": error.names}, b""
    except MacdError as error:
        return {"error": error.cause, "remedy": error.remedy}, b""
    except MemoryError:
        return {"over": "memory"}, b""
    except cv2.error as error:
        if error.code == cv2.Error.StsNoMem:
            return {"over": "memory"}, b""
        return {"failed": traceback.format_exc(limit=-3)[-2000:]}, b""
    except Exception:
        return {"failed": traceback.format_exc(limit=-3)[-2000:]}, b""
