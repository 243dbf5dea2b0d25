"""Pictures by content: each container against a sequential decode of all its pictures."""

from fractions import Fraction
from functools import cache

import av
import numpy as np
import pytest

from macd_studio.core.errors import DecodeLimit
from macd_studio.core.media.video import OWN_MACHINE, ReadLimits, read_clip
from macd_studio.core.options import VideoOptions
from tests.samples import sampled

COUNT, RATE = 120, 25
MS = Fraction(1, 1000)
KEY_FRAMES_ONLY = ReadLimits(OWN_MACHINE.memory_bytes, seconds=1800, exact_seconds=0)
RANGES = [(0.0, None), (1.3, 2.9), (3.19, 3.5), (0.5, 0.52)]


def write_numbered(path, codec="libx264", pts_ms=None, pix_fmt="yuv420p", **options):
    """A clip of 120 pictures that show their own number as eight stripes, 25 a second."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=RATE)
        stream.width, stream.height, stream.pix_fmt = 160, 128, pix_fmt
        stream.options = options
        if pts_ms:
            stream.codec_context.time_base = MS
        for i in range(COUNT):
            picture = np.zeros((128, 160, 3), np.uint8)
            for bit in range(8):
                picture[:, 20 * bit : 20 * bit + 20] = 255 * (i >> bit & 1)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            if pts_ms:
                frame.pts, frame.time_base = pts_ms[i], MS
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    return path


def number_of(picture):
    row = np.asarray(picture)[picture.shape[0] // 2].mean(-1)
    width = picture.shape[1] / 8
    return sum(int(row[int((bit + 0.5) * width)] > 128) << bit for bit in range(8))


def remux(source, target):
    """The same packets in another container."""
    with av.open(str(source)) as original, av.open(str(target), "w") as out:
        stream = original.streams.video[0]
        copy = out.add_stream_from_template(stream)
        for packet in original.demux(stream):
            if packet.dts is not None:
                packet.stream = copy
                out.mux(packet)
    return target


def hide_first(path, pictures):
    """Moves the start in an mp4's edit list, so that the first pictures are not on display."""
    content = bytearray(path.read_bytes())
    at = content.index(b"elst") + 8
    entries = int.from_bytes(content[at : at + 4], "big")
    assert entries == 1
    with av.open(str(path)) as container:
        unit = container.streams.video[0].time_base
    media_time = int.from_bytes(content[at + 8 : at + 12], "big")
    media_time += int(pictures / (RATE * unit))
    content[at + 8 : at + 12] = media_time.to_bytes(4, "big")
    duration = int.from_bytes(content[at + 4 : at + 8], "big")  # in 1/1000 s
    content[at + 4 : at + 8] = (duration - 1000 * pictures // RATE).to_bytes(4, "big")
    path.write_bytes(content)
    return path


def x264(gop):
    return {"x264-params": f"open-gop={int(gop == 'open')}:keyint=24:bframes=3:scenecut=0"}


VARIABLE = list(np.cumsum([(20, 20, 20, 180, 40)[i % 5] for i in range(COUNT)]).tolist())
CLIPS = [
    *[f"{gop} GOP.{kind}" for kind in ("mp4", "mov", "mkv", "flv", "ts", "avi")
      for gop in ("closed", "open")],
    "mpeg2.mpg", "vp9.webm", "mpeg4.avi", "B-frames.avi", "plain.gif",
    "hidden start.mp4", "hidden start in a GOP.mp4", "late start.mp4", "late start.mkv",
    "variable rate.mp4", "variable rate.mkv",
]  # fmt: skip

SAMPLE = ("open GOP.mov", "closed GOP.ts", "plain.gif", "hidden start.mp4", "variable rate.mkv")
WITHOUT_KEY_TIMES = ["closed GOP.avi", "open GOP.avi", "B-frames.avi", "plain.gif"]
"""In avi, a key frame's time is unknown where there are B-frames; a GIF has one key frame."""
SAMPLE_WITH_KEY_TIMES = [n for n in SAMPLE if n not in WITHOUT_KEY_TIMES]


def build(name, folder):
    path = folder / name
    what, kind = name.split(".")
    if what == "mpeg2":
        return write_numbered(path, "mpeg2video", g="12", bf="2")
    if what == "vp9":
        return write_numbered(path, "libvpx-vp9", g="30")
    if kind == "gif":
        return write_numbered(path, "gif", pix_fmt="rgb8")
    if what in ("mpeg4", "B-frames"):
        return write_numbered(path, "mpeg4", g="12", bf="2" if what == "B-frames" else "0")
    if what.startswith("hidden"):
        return hide_first(write_numbered(path, **x264("open")), 31 if "GOP" in what else 24)
    if what == "late start":
        return write_numbered(path, pts_ms=[2000 + 40 * i for i in range(COUNT)], **x264("closed"))
    if what == "variable rate":
        return write_numbered(path, pts_ms=VARIABLE, **x264("open"))
    if kind == "avi":
        return write_numbered(path, **x264(what.split()[0]))
    source = write_numbered(folder / f"source of {name}.mp4", **x264(what.split()[0]))
    return source.rename(path) if kind == "mp4" else remux(source, path)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Path of a clip by its name, and (time, number) of all its pictures on display."""
    folder = tmp_path_factory.mktemp("numbered")

    @cache
    def clip(name):
        path = build(name, folder)
        with av.open(str(path)) as container:
            frames = list(container.decode(video=0))
        numbers = [number_of(f.to_ndarray(format="rgb24")) for f in frames]
        # a decoder hands pictures out in their order; in avi their times may have another
        shown = list(zip(sorted(f.pts * f.time_base for f in frames), numbers, strict=True))
        return path, [(float(t - shown[0][0]), number) for t, number in shown]

    return clip


def on_display(shown, time):
    """The last picture that began before a time or then."""
    return [number for at, number in shown if at <= time + 1e-6][-1]


def check_times(clip, shown):
    """Each picture has its own true time."""
    true = {round(at, 3): number for at, number in shown}
    for times, pictures in ((clip.times, clip.frames), (clip.dense_times, clip.dense_frames)):
        assert [true[round(float(t), 3)] for t in times] == [number_of(p) for p in pictures]


@pytest.mark.parametrize("name", sampled(CLIPS, SAMPLE))
def test_each_picture_is_the_one_on_display(built, name):
    path, shown = built(name)
    for start, end in RANGES:
        for count in (1, 3, 8, 40):
            clip = read_clip(path, VideoOptions(frames=count, start=start, end=end, dense_fps=4))
            stop = min(end or clip.duration, clip.duration)
            middles = [start + (i + 0.5) * (stop - start) / count for i in range(count)]
            wanted = sorted({on_display(shown, t) for t in middles})
            assert [number_of(f) for f in clip.frames] == wanted, (start, end, count)
            check_times(clip, shown)
            for time in clip.dense_times:
                assert time <= stop


@pytest.mark.parametrize(
    "name", sampled([n for n in CLIPS if n not in WITHOUT_KEY_TIMES], SAMPLE_WITH_KEY_TIMES)
)
@pytest.mark.parametrize("count", [2, 6])
def test_key_frames_are_those_before_the_wanted_times(built, name, count):
    path, shown = built(name)
    with av.open(str(path)) as container:
        frames = [f for f in container.decode(video=0) if f.key_frame]
    numbers = {number_of(f.to_ndarray(format="rgb24")) for f in frames}
    keys = [(at, number) for at, number in shown if number in numbers]
    assert len(keys) >= 3
    clip = read_clip(path, VideoOptions(frames=count, dense_fps=4), limits=KEY_FRAMES_ONLY)
    middles = [(i + 0.5) * clip.duration / count for i in range(count)]
    wanted = {on_display(keys, t) for t in middles if t >= keys[0][0]}
    assert [number_of(f) for f in clip.frames] == sorted(wanted)
    assert {number_of(f) for f in clip.dense_frames} == {number for _, number in keys}
    check_times(clip, shown)
    assert any("the nearest key frames were used" in n for n in clip.notes)


@pytest.mark.parametrize("name", WITHOUT_KEY_TIMES)
def test_key_frames_whose_times_are_unknown_are_not_used(built, name):
    with pytest.raises(DecodeLimit, match="key frames"):
        read_clip(built(name)[0], VideoOptions(frames=4), limits=KEY_FRAMES_ONLY)


def test_what_is_damaged_is_not_replaced_by_what_comes_later(tmp_path):
    """The first second cannot be decoded: no later picture stands at its times."""
    path = write_numbered(tmp_path / "v.mp4", **x264("closed"))
    with av.open(str(path)) as container:
        places = [(p.pos, p.size) for p in container.demux(video=0) if p.size][:24]
    content = bytearray(path.read_bytes())
    for at, size in places:
        content[at : at + size] = bytes(size)
    path.write_bytes(content)
    clip = read_clip(path, VideoOptions(frames=8, dense_fps=4))
    assert min(number_of(f) for f in clip.frames) == 37  # 1.5 s of 4.8 s, the third of eight
    for times, pictures in ((clip.times, clip.frames), (clip.dense_times, clip.dense_frames)):
        assert (25 * times).round().tolist() == [number_of(p) for p in pictures]
        assert times[0] >= 0.96
    assert any("only 6 different pictures" in n for n in clip.notes)
