"""What a file says of its pictures beside their pixels: sides, streams, lengths, clock, end."""

from fractions import Fraction

import av
import numpy as np
import pytest
from av.stream import Disposition

from macd_studio.core import errors
from macd_studio.core.media.picture import Turn
from macd_studio.core.media.source import is_cut
from macd_studio.core.media.video import read_clip
from macd_studio.core.options import VideoOptions
from tests.core.test_video_exactness import number_of, write_numbered, x264

TWO = VideoOptions(frames=2, dense_fps=0)
MS = Fraction(1, 1000)
SIDES = [(a, b, c, d) for a, d in ((1, 1), (1, -1), (-1, 1), (-1, -1)) for b, c in ((0, 0),)]
SIDES += [(0, b, c, 0) for b, c in ((1, 1), (1, -1), (-1, 1), (-1, -1))]


def write_quarters(path):
    """64 × 48: red at the upper left, green at the upper right, blue at the lower left."""
    picture = np.zeros((48, 64, 3), np.uint8)
    picture[:24, :32], picture[:24, 32:] = (250, 0, 0), (0, 250, 0)
    picture[24:, :32] = 0, 0, 250
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=12)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv444p"
        for _ in range(6):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode())
    return path, picture


def set_matrix(path, a, b, c, d):
    """Writes a display matrix into the track header of an mp4. Whole numbers or fractions."""
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 4 + 4 + 20 + 16
    matrix = np.array([a, b, 0, c, d, 0, 0, 0, 0]) * 65536
    matrix[8] = 0x40000000
    content[at : at + 36] = matrix.astype(">i4").tobytes()
    path.write_bytes(content)


@pytest.mark.parametrize("matrix", SIDES, ids=str)
def test_every_turn_and_mirror_is_shown(tmp_path, matrix):
    """Each stored place is looked for where the matrix puts it."""
    path, stored = write_quarters(tmp_path / "v.mp4")
    set_matrix(path, *matrix)
    frame = read_clip(path, TWO).frames[0]
    a, b, c, d = matrix
    height, width = frame.shape[:2]
    assert (width, height) == ((64, 48) if a else (48, 64))
    for y, x in ((10, 10), (10, 50), (40, 10), (40, 50)):
        across, down = a * x + c * y, b * x + d * y  # from a corner of the picture on display
        shown = frame[down % height, across % width]
        assert np.abs(shown.astype(int) - stored[y, x]).max() < 40, (y, x)


def test_a_slanted_picture_is_told(tmp_path):
    path, _ = write_quarters(tmp_path / "v.mp4")
    set_matrix(path, 0.5, 0.8, -0.8, 0.5)
    clip = read_clip(path, TWO)
    assert clip.size == (48, 64)
    assert any("slanted" in n for n in clip.notes)
    assert not Turn(-65536, 3, 3, 65536).slanted


def write_two(path, first, second, default):
    """Two videos in one file, of these heights; the one with the index `default` is marked."""
    with av.open(str(path), "w") as out:
        streams = []
        for index, height in enumerate((first, second)):
            stream = out.add_stream("libx264", rate=12)
            stream.width, stream.height, stream.pix_fmt = 64, height, "yuv420p"
            stream.disposition = Disposition.default if index == default else Disposition(0)
            streams.append(stream)
        for stream in streams:
            picture = np.full((stream.height, 64, 3), 90, np.uint8)
            for _ in range(12):
                out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            out.mux(stream.encode())
    return path


@pytest.mark.parametrize("kind", ["mkv", "mp4"])
@pytest.mark.parametrize("default", [0, 1])
def test_the_default_of_several_videos_is_read(tmp_path, kind, default):
    path = write_two(tmp_path / f"v.{kind}", 32, 48, default)
    clip = read_clip(path, TWO)
    assert clip.size == (64, (32, 48)[default])
    assert any("2 videos" in n for n in clip.notes)


def write_held(path, codec, held_ms, pix_fmt="yuv420p", **options):
    """Ten pictures a tenth of a second apart, of which the last is shown longer."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, pix_fmt
        stream.codec_context.time_base, stream.options = MS, options
        ends = {}
        for i in range(10):
            picture = np.full((48, 64, 3), 20 * i, np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = 100 * i, MS
            ends[100 * i] = 100 if i < 9 else held_ms
            for packet in stream.encode(frame):
                packet.duration = ends[packet.pts]
                out.mux(packet)
        for packet in stream.encode():
            packet.duration = ends[packet.pts]
            out.mux(packet)
    return path


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [("v.mp4", "libx264", {"bf": "0"}), ("v.mov", "mpeg4", {}),
     ("v.mkv", "libx264", {"bf": "0"}), ("v.webm", "libvpx-vp9", {"deadline": "realtime"})],
)  # fmt: skip
def test_the_last_picture_is_shown_as_long_as_the_file_says(tmp_path, name, codec, options):
    clip = read_clip(write_held(tmp_path / name, codec, 5000, **options), TWO)
    assert clip.duration == pytest.approx(5.9, abs=0.05)
    assert clip.times.tolist() == pytest.approx([0.9])  # at 1.5 and at 4.4 seconds
    assert not any("cut off" in n or "announces" in n for n in clip.notes)


def test_the_last_picture_after_reordered_ones(tmp_path):
    """An mp4 holds lengths in the order of decoding; the sum of them is where the clip ends."""
    path = write_numbered(tmp_path / "v.mp4", **x264("closed"))
    assert read_clip(path, TWO).duration == pytest.approx(4.8)


def test_the_last_picture_of_a_gif(tmp_path):
    from PIL import Image

    pictures = [Image.new("RGB", (64, 48), (25 * i, 0, 0)) for i in range(10)]
    path = tmp_path / "v.gif"
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=[100] * 9 + [5000])
    clip = read_clip(path, TWO)
    assert clip.duration == pytest.approx(5.9)
    assert clip.notes == ("the sampled times fall on only 1 different picture of the clip's 10",)
    path.write_bytes(path.read_bytes()[:-60])
    assert any("the file is cut off" in n for n in read_clip(path, TWO).notes)


def test_transparent_parts_are_white_and_told(tmp_path):
    path = tmp_path / "v.mov"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("qtrle", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "argb"
        picture = np.full((48, 64, 4), (200, 0, 0, 255), np.uint8)
        picture[:, 32:] = 10, 20, 30, 0
        picture[:, 48:] = 0, 0, 0, 128
        for _ in range(4):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgba")))
        out.mux(stream.encode())
    clip = read_clip(path, TWO)
    row = clip.frames[0][20]
    np.testing.assert_allclose(row[10], (200, 0, 0), atol=2)
    np.testing.assert_allclose(row[40], (255, 255, 255), atol=2)
    np.testing.assert_allclose(row[60], (127, 127, 127), atol=2)
    assert "transparent parts are shown on white" in clip.notes


def write_late(path, silence_s):
    """Sound from the start on, and 120 numbered pictures that begin later."""
    source = write_numbered(path.with_suffix(".pictures.mp4"), **x264("closed"))
    with av.open(str(source)) as pictures, av.open(str(path), "w") as out:
        copy = out.add_stream_from_template(pictures.streams.video[0])
        sound = out.add_stream("aac", rate=44100)
        shift = int(silence_s / copy.time_base) if copy.time_base else 0
        for packet in pictures.demux(video=0):
            if packet.dts is not None:
                shift = int(silence_s / packet.time_base)
                packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                packet.stream = copy
                out.mux(packet)
        for i in range(int((silence_s + 4) * 43)):
            block = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            block.sample_rate, block.pts = 44100, 1024 * i
            out.mux(sound.encode(block))
        out.mux(sound.encode())
    return path


@pytest.mark.parametrize("kind", ["mp4", "mkv"])
def test_seconds_count_from_the_first_picture(tmp_path, kind):
    path = write_late(tmp_path / f"v.{kind}", 2)
    clip = read_clip(path, VideoOptions(frames=2, dense_fps=0, start=3, end=4))
    assert [number_of(f) for f in clip.frames] == [81, 93]
    assert clip.times.tolist() == pytest.approx([3.24, 3.72])
    (note,) = clip.notes
    assert "comes 2.0 s after the start" in note
    assert "count from the first picture" in note
    with pytest.raises(errors.VideoError, match=r"lasts 4\.8 s from its first picture on"):
        read_clip(path, VideoOptions(start=5))


@pytest.mark.parametrize("kind", ["mp4", "mov", "mkv", "webm", "avi", "gif", "wmv"])
def test_a_file_is_cut_where_bytes_are_missing(tmp_path, kind):
    """Whatever part of its end, and never where nothing is missing or something is appended."""
    codecs = {"webm": "libvpx-vp9", "gif": "gif", "wmv": "msmpeg4v3"}
    path = tmp_path / f"v.{kind}"
    write_held(path, codecs.get(kind, "mpeg4"), 100, "rgb8" if kind == "gif" else "yuv420p")
    with av.open(str(path)) as container:
        name = container.format.name
    whole = path.read_bytes()
    assert not is_cut(str(path), name)
    for missing in (1, 2, 9, len(whole) // 3):
        path.write_bytes(whole[:-missing])
        assert is_cut(str(path), name), missing
    path.write_bytes(whole + bytes(5))
    assert not is_cut(str(path), name)


def test_a_header_that_tells_more_than_its_pictures_is_not_called_cut(tmp_path):
    """The sound goes on after the last picture; every byte is there."""
    path = write_late(tmp_path / "v.mkv", 4)
    clip = read_clip(path, TWO)
    assert not any("cut off" in n for n in clip.notes)
    assert clip.duration == pytest.approx(4.8, abs=0.05)
