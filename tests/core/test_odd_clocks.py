"""Clips of recorders and of other programs: joined recordings, clocks, fields, transparency."""

import io
from fractions import Fraction

import av
import numpy as np
import pytest
from PIL import Image

from macd_studio.core.media.video import read_clip
from macd_studio.core.options import VideoOptions

SIZE = 64
TRUE = VideoOptions(frames=4)


def picture(n):
    """Its number as its red."""
    out = np.zeros((SIZE, SIZE, 3), np.uint8)
    out[..., 0] = 20 + 4 * n
    return out


def number_of(frame):
    return round((float(frame[..., 0].mean()) - 20) / 4)


def recording(numbers, kind="mpegts", codec="libx264", begin=0, pix_fmt="yuv420p", **options):
    """25 frames a second. begin: of the clock, seconds."""
    out = io.BytesIO()
    with av.open(out, "w", format=kind) as file:
        stream = file.add_stream(codec, 25, options=options)
        stream.width = stream.height = SIZE
        stream.pix_fmt = pix_fmt
        if codec == "libx264":
            stream.options = {"g": "12", "bf": "2"}
        for i, n in enumerate(numbers):
            rgb = picture(n)
            if pix_fmt == "yuva420p":
                alpha = np.where(np.arange(SIZE)[:, None] < SIZE // 2, 255, 0)
                alpha = np.repeat(alpha, SIZE, 1).astype(np.uint8)
                frame = av.VideoFrame.from_ndarray(np.dstack([rgb, alpha]), "rgba")
            else:
                frame = av.VideoFrame.from_ndarray(rgb, "rgb24")
            frame.pts = begin * 25 + i
            frame.time_base = stream.codec_context.time_base = Fraction(1, 25)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return out.getvalue()


def test_joined_recordings_are_read_one_after_the_other(tmp_path):
    """Two files put together byte by byte, as `cat` and `copy /b` do: both clocks begin at 0."""
    path = tmp_path / "joined.ts"
    path.write_bytes(recording(range(25)) + recording(range(25, 50)))
    clip = read_clip(path, TRUE)
    assert clip.count == 50
    assert clip.duration == pytest.approx(2, abs=0.05)
    assert [number_of(f) for f in clip.frames] == clip.numbers.tolist() == [6, 18, 31, 43]
    (note,) = clip.notes
    assert "the times of the file begin anew once" in note


def test_key_frames_of_joined_recordings_are_those_of_their_times(tmp_path):
    from macd_studio.core.media.source import Source

    path = tmp_path / "joined.ts"
    path.write_bytes(recording(range(25)) + recording(range(25, 50)))
    source = Source(str(path))
    assert source.clocks == 2
    found = {f.pts: number_of(f.to_ndarray(format="rgb24"))
             for f in source.key_frames(source.key_pictures)}  # fmt: skip
    off = [n - round(source.seconds(p) * 25) for p, n in found.items()]
    assert max(map(abs, off)) <= 1  # lossy
    assert max(found.values()) > 25 > min(found.values())


def test_a_clock_that_begins_in_the_afternoon_is_no_length(tmp_path):
    path = tmp_path / "camera.mkv"
    path.write_bytes(recording(range(50), "matroska", begin=13 * 3600))
    clip = read_clip(path, TRUE)
    assert clip.duration == pytest.approx(2, abs=0.05)
    assert clip.times[0] == pytest.approx(0.24, abs=0.02)
    assert clip.notes == ()


def test_transparent_parts_of_a_video_are_white(tmp_path):
    path = tmp_path / "cutout.webm"
    path.write_bytes(recording(range(25), "webm", "libvpx-vp9", pix_fmt="yuva420p"))
    clip = read_clip(path, TRUE)
    assert clip.frames[:, -8:].min() > 240
    shown = np.array([number_of(f[:20]) for f in clip.frames])
    assert np.abs(shown - clip.numbers).max() <= 1  # lossy
    assert "transparent parts are shown on white" in clip.notes
    half = read_clip(path, VideoOptions(at=(0.9,)))  # after a seek
    assert abs(number_of(half.frames[0, :20]) - 22) <= 1


def test_fields_are_told(tmp_path):
    path = tmp_path / "tv.ts"
    path.write_bytes(recording(range(25), "mpegts", "mpeg2video", flags="+ildct+ilme"))
    with av.open(str(path)) as file:
        woven = next(file.decode(video=0)).interlaced_frame
    assert woven == any("interlaced" in n for n in read_clip(path, TRUE).notes)
    assert not any("interlaced" in n for n in read_clip(_plain(tmp_path), TRUE).notes)


def _plain(folder):
    path = folder / "plain.ts"
    path.write_bytes(recording(range(25), "mpegts", "mpeg2video"))
    return path


def test_an_animated_avif_is_a_video(tmp_path):
    path = tmp_path / "a.avif"
    pictures = [Image.fromarray(picture(n)) for n in range(10)]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=80, quality=95)
    clip = read_clip(path, TRUE)
    assert clip.count == 10
    assert clip.duration == pytest.approx(0.8, abs=0.05)
    assert [number_of(f) for f in clip.frames] == clip.numbers.tolist()
    assert clip.notes == ()
