"""Reads one file of tracks in a process of its own: job on stdin as JSON, the tracks on stdout.

Runs as `python -m core.objects.worker`, started by `core.objects.reading` only; how both speak:
`core.system.bounded_job`.
"""

from __future__ import annotations

from typing import Any

from macd_studio.core.objects.formats import read_track_file
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.objects.placing import place_tracks
from macd_studio.core.objects.reading import packed
from macd_studio.core.options import TrackOptions
from macd_studio.core.system.bounded_job import Answer, serve_job


def answer(job: dict[str, Any], content: bytes) -> Answer:
    """The tracks of the file that a job names, packed."""
    clip, options = ClipFacts.from_dict(job["clip"]), TrackOptions(**job["options"])
    file = read_track_file(job["path"], clip, options, job["file_bytes"])
    return packed(place_tracks(file, clip, options))


def _import_pictures() -> None:
    from PIL import PngImagePlugin  # formats import it when they need it

    assert PngImagePlugin


if __name__ == "__main__":
    serve_job(answer, _import_pictures)
