"""A file of tracks or masks → tracks on a clip's frames, in a process that is bounded and ended.

What such a file holds can take many times its size: it is read, counted, drawn and placed by this
module as a process (`python -m core.objects.reading`), whose memory and time are limited, and which
is ended as soon as nobody waits for it. What comes back is checked, and is no larger than a clip's
tracks can be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from macd_studio.core.errors import Cancelled, SeveralVideos, TracksError
from macd_studio.core.objects.formats import read_track_file
from macd_studio.core.objects.formats.bounds import MAX_BYTES, file_name
from macd_studio.core.objects.formats.source import ClipFacts
from macd_studio.core.objects.placing import FoundTracks, place_tracks
from macd_studio.core.options import TrackOptions
from macd_studio.core.records import DetectorRecord
from macd_studio.core.system.bounded_job import Answer, run_job, serve_job
from macd_studio.core.types import Clip, Outline, Track
from macd_studio.core.validation import shown

MAX_HEADER, MAX_ARRAYS = 16 * 2**20, 256 * 2**20
"""Bytes of what a process says of the tracks, and of their boxes and outlines."""


@dataclass(frozen=True)
class TrackLimits:
    """What reading one file may take.

    memory_bytes: beside what the process takes without a file. seconds: of wall time. file_bytes:
    of the file.
    """

    memory_bytes: int
    seconds: float
    file_bytes: int


OWN_MACHINE = TrackLimits(memory_bytes=2 * 2**30, seconds=120, file_bytes=MAX_BYTES)
PUBLIC_SERVER = TrackLimits(memory_bytes=300 * 10**6, seconds=10, file_bytes=16 * 2**20)
"""For untrusted files."""


def read_tracks(
    path: str | Path,
    clip: Clip | ClipFacts,
    options: TrackOptions | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    limits: TrackLimits = OWN_MACHINE,
) -> FoundTracks:
    """The objects of a file, archive or folder on the sampled frames of a clip.

    cancelled: asked several times a second; once it is true, reading ends and Cancelled is raised.
    Raises TracksError in one sentence for what cannot be read, does not fit the clip, or takes more
    than the limits; SeveralVideos where the file holds several and it is not clear which is meant.
    """
    facts = ClipFacts.of(clip) if isinstance(clip, Clip) else clip
    job = {
        "path": str(Path(path).absolute()),
        "clip": facts.as_dict(),
        "options": asdict(options or TrackOptions()),
        "file_bytes": limits.file_bytes,
    }
    check_there(path)
    try:
        found = run_job(
            "macd_studio.core.objects.reading", job, memory_bytes=limits.memory_bytes,
            seconds=limits.seconds, most_bytes=MAX_ARRAYS, most_header=MAX_HEADER,
            cancelled=cancelled,
        )  # fmt: skip
    except Cancelled:
        raise Cancelled(
            "stopped while the file of objects was read", "Nothing was computed"
        ) from None
    if found is None:
        raise TracksError(
            f"{file_name(Path(path))} takes more than {limits.memory_bytes / 1e6:.0f} MB of memory"
            f" or {limits.seconds:g} s to read",
            "Export fewer frames, objects or points, those of this clip",
        )
    header, content = found
    if names := header.get("names"):
        raise SeveralVideos(header["error"], header["remedy"], tuple(names))
    if "error" in header:
        raise TracksError(header["error"], header["remedy"])
    return unpacked(header, content)


def check_there(path: str | Path) -> None:
    """Raises TracksError where there is no file or folder; nothing is read."""
    text = str(path)
    try:
        there = "\0" not in text and Path(text).exists()
    except OSError:
        there = False  # a name that is too long
    if not text or not there:
        raise TracksError(
            f"there is no file {shown(text, 200)}", "Give a file of tracks, or a folder of them"
        )


def packed(found: FoundTracks) -> tuple[dict[str, Any], bytes]:
    """Tracks as a message: their description, and their boxes, states and outlines."""
    parts: list[bytes] = []
    rows = []
    for track in found.tracks:
        parts += [track.boxes.astype("<f4").tobytes(), track.state.astype("i1").tobytes()]
        lengths: list[list[int] | None] = []
        for outline in track.outlines:
            lengths.append(None if outline is None else [len(ring) for ring in outline])
            parts += [np.asarray(ring, "<f4").tobytes() for ring in outline or ()]
        rows.append({
            "id": track.id, "label": track.label, "confidence": track.confidence,
            "frames_seen": track.frames_seen, "frames": len(track.state), "rings": lengths,
        })  # fmt: skip
    content = b"".join(parts)
    return {
        "tracks": rows, "record": found.record.as_dict(), "notes": list(found.notes),
        "bytes": len(content),
    }, content  # fmt: skip


def unpacked(header: dict[str, Any], content: bytes) -> FoundTracks:
    """What `packed` made a message of."""
    at = 0

    def take(kind: str, *shape: int) -> Any:
        nonlocal at
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        array = np.frombuffer(content[at : at + size], kind).reshape(shape)
        at += size
        return array

    tracks = []
    for row in header["tracks"]:
        frames = row["frames"]
        boxes = take("<f4", frames, 4).astype(np.float32)
        state = take("i1", frames).astype(np.int8)
        outlines: list[Outline | None] = [
            None
            if lengths is None
            else tuple(take("<f4", n, 2).astype(np.float32) for n in lengths)
            for lengths in row["rings"]
        ]
        tracks.append(Track(
            row["id"], row["label"], row["confidence"], boxes, state, row["frames_seen"],
            outlines=tuple(outlines),
        ))  # fmt: skip
    record = DetectorRecord.from_dict(header["record"])
    return FoundTracks(tuple(tracks), record, tuple(header["notes"]))


def answer(job: dict[str, Any], content: bytes) -> Answer:
    """The tracks of the file that a job names, packed."""
    clip, options = ClipFacts.from_dict(job["clip"]), TrackOptions(**job["options"])
    file = read_track_file(job["path"], clip, options, job["file_bytes"])
    return packed(place_tracks(file, clip, options))


def _import_pictures() -> None:
    import_module("PIL.PngImagePlugin")  # formats import it when they need it


if __name__ == "__main__":
    serve_job(answer, _import_pictures)
