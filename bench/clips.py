"""Clips that are measured on: a drawn one that stays as it is, and parts of real ones."""

from __future__ import annotations

from pathlib import Path

import av

CUP = Path(__file__).parent / "fixtures" / "cup.mp4"
"""A drawn clip of the opening example of former versions, with three objects; beside it its trace,
of five steps. Figures of different versions are of the same clip."""


def cut(source: Path, target: Path, seconds: float) -> Path:
    """The first seconds of a video, copied packet by packet without encoding; returns `target`."""
    with av.open(str(source)) as clip, av.open(str(target), "w") as out:
        stream = clip.streams.video[0]
        copy = out.add_stream_from_template(stream)
        for packet in clip.demux(stream):
            if packet.dts is None or packet.pts is None:
                continue
            if float(packet.pts * packet.time_base) >= seconds:
                continue
            packet.stream = copy
            out.mux(packet)
    return target
