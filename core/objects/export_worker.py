"""Writes the objects of one trace for another program, in a process of its own.

Runs as `python -m core.objects.export_worker`, started by `core.objects.exporting` only. The job
comes on stdin: a line of JSON, and the trace's file. It says "ready" before it looks at the trace.
The next line is JSON: {"bytes": n} and then n bytes; {"error": …, "remedy": …} for what cannot be
written; {"over": "memory"} where it took too much; {"failed": …} for an error of this program.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import cv2

from macd_studio.core.bounded import address_space, limit_process
from macd_studio.core.errors import MacdError
from macd_studio.core.objects.export import exported
from macd_studio.core.traces.bundle import unpack


def answer(job: dict[str, Any], content: bytes) -> tuple[dict[str, Any], bytes]:
    """The message for a job, and the bytes behind it."""
    try:
        written = exported(unpack(content), job["format"], job["what"])
        return {"bytes": len(written)}, written
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


def main() -> None:
    """One job, then the end of the process."""
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
    header, written = answer(job, content)
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n")
    sys.stdout.buffer.write(written)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
