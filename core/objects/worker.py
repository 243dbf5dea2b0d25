"""Reads one file of tracks in a process of its own: job on stdin as JSON, the tracks on stdout.

Runs as `python -m core.objects.worker`, started by `core.objects.reading` only.

It says "ready" before it looks at the file. The next line is JSON: {"tracks": …, "bytes": n}, and
then n bytes; {"error": …, "remedy": …} for a file that is refused, with {"names": …} of videos to
choose from; {"over": "memory"} where it took too much; {"failed": …} for an error of this program.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import cv2

from macd_studio.core.bounded import address_space, limit_process
from macd_studio.core.errors import SeveralVideos, TracksError
from macd_studio.core.objects.annotations import place_tracks
from macd_studio.core.objects.formats import read_track_file
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.objects.reading import packed
from macd_studio.core.options import TrackOptions


def answer(job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The message for a job, and the bytes behind it."""
    try:
        clip, options = ClipFacts.from_dict(job["clip"]), TrackOptions(**job["options"])
        file = read_track_file(job["path"], clip, options, job["file_bytes"])
        return packed(place_tracks(file, clip, options))
    except SeveralVideos as error:
        return {"error": error.cause, "remedy": error.remedy, "names": error.names}, b""
    except TracksError as error:
        return {"error": error.cause, "remedy": error.remedy}, b""
    except MemoryError:
        return {"over": "memory"}, b""
    except cv2.error as error:
        if error.code == cv2.Error.StsNoMem:
            return {"over": "memory"}, b""
        return {"failed": traceback.format_exc(limit=-3)[-2000:]}, b""
    except Exception:
        return {"failed": traceback.format_exc(limit=-3)[-2000:]}, b""


def main() -> None:
    """One job, then the end of the process."""
    line = sys.stdin.readline()
    if not line:  # the parent process ended without sending a job
        return
    job = json.loads(line)
    cv2.setNumThreads(1)
    from PIL import PngImagePlugin  # before memory counts; formats import it when they need it

    assert PngImagePlugin
    if taken := address_space():
        limit_process(taken + job["memory_bytes"], job["seconds"], threads=1)
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    header, content = answer(job)
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n")
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
