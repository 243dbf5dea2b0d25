"""Parts of clips, for what is measured on real ones."""

from __future__ import annotations

from pathlib import Path

import av


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
