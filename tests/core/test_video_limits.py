"""Time, memory and the reader's process. Clocks are set, so that no test depends on speed."""

import gc
import os
from contextlib import suppress
from fractions import Fraction
from itertools import count
from pathlib import Path

import av
import numpy as np
import pytest

from macd_studio.core import errors
from macd_studio.core.media import video
from macd_studio.core.media.source import Source
from macd_studio.core.media.video import OWN_MACHINE, PUBLIC_SERVER, ReadLimits, read_clip
from macd_studio.core.options import VideoOptions
from tests.core.test_video_exactness import number_of, write_numbered, x264
from tests.in_process import InProcess
from tests.patience import PATIENCE_S

MEMORY = OWN_MACHINE.memory_bytes
ONE_GOP = {"x264-params": "keyint=500:scenecut=0:bframes=3"}


def slowing():
    """A clock of which each look takes longer than the one before: 0, 1, 4, 9, …"""
    ticks = count()
    return lambda: next(ticks) ** 2


def set_clock(monkeypatch, clock):
    monkeypatch.setattr("macd_studio.core.media.video._start_worker", lambda: InProcess(clock()))


@pytest.fixture
def one_gop(tmp_path):
    return write_numbered(tmp_path / "one GOP.mp4", **ONE_GOP)


@pytest.mark.parametrize("dense_fps", [0, 25])
def test_without_key_frames_the_beginning_is_used(one_gop, monkeypatch, dense_fps):
    """Listing takes 120 looks at the clock; about 50 packets are then decoded."""
    set_clock(monkeypatch, slowing)
    limits = ReadLimits(MEMORY, seconds=1e6, exact_seconds=170**2)
    clip = read_clip(one_gop, VideoOptions(frames=8, dense_fps=dense_fps), limits=limits)
    (note,) = [n for n in clip.notes if "too few key frames" in n]
    assert note.startswith("reading every frame would have taken too long")
    last = max(*clip.times, *clip.dense_times)
    assert f"of its 4.8 s only the first {last:.1f} s" in note
    assert 1 < last < 3
    assert clip.duration == pytest.approx(4.8)
    assert [number_of(f) for f in clip.frames] == (25 * clip.times).round().tolist()
    assert [number_of(f) for f in clip.dense_frames] == (25 * clip.dense_times).round().tolist()
    if dense_fps:
        assert len(clip.frames) == 8
        assert set(clip.times) <= set(clip.dense_times)
    else:
        assert any("different pictures to sample" in n for n in clip.notes)


@pytest.mark.usefixtures("reader_process")
def test_with_neither_key_frames_nor_a_beginning_it_is_refused(one_gop):
    limits = ReadLimits(MEMORY, seconds=2 * PATIENCE_S, exact_seconds=0)
    with pytest.raises(errors.DecodeLimit, match="longer than 1800 s") as refused:
        read_clip(one_gop, limits=limits)
    assert "re-encode it" in refused.value.remedy
    assert len(read_clip(one_gop, VideoOptions(frames=1), limits=limits).frames) == 1


def test_dense_key_frames_are_as_many_as_the_time_allows(tmp_path, monkeypatch):
    """The sampled ones come first; the rest is spread evenly. Listing takes 120 looks of 250."""
    path = write_numbered(tmp_path / "keys.mp4", **{"x264-params": "keyint=1"})
    set_clock(monkeypatch, lambda: count().__next__)
    limits = ReadLimits(MEMORY, seconds=250 / video.KEY_FRAMES_SHARE, exact_seconds=0)
    clip = read_clip(path, VideoOptions(frames=4, dense_fps=25), limits=limits)
    numbers = [number_of(f) for f in clip.dense_frames]
    assert [number_of(f) for f in clip.frames] == [15, 45, 75, 105]
    assert {15, 45, 75, 105} <= set(numbers)
    assert 60 < len(numbers) < 110
    assert numbers == (25 * clip.dense_times).round().tolist()
    assert np.diff([0, *numbers, 120]).max() <= 3


@pytest.mark.parametrize(("time_given", "hopeless"), [(250, True), (400, False)])
def test_exact_reading_is_given_up_when_it_is_hopeless(tmp_path, monkeypatch, time_given, hopeless):
    """Listing takes 120 looks at the clock, decoding 240."""
    path = write_numbered(tmp_path / "v.mp4", **x264("closed"))
    looks = []

    def clock():
        ticks = count()
        looks.append(0)

        def now():
            looks[-1] = next(ticks)
            return looks[-1]

        return now

    set_clock(monkeypatch, clock)
    limits = ReadLimits(MEMORY, seconds=1e6, exact_seconds=time_given)
    clip = read_clip(path, VideoOptions(frames=8, dense_fps=25), limits=limits)
    assert any("nearest key frames" in n for n in clip.notes) == hopeless
    assert looks[0] < 170 if hopeless else looks[0] > 350
    assert len(looks) == 1 + hopeless


def test_pictures_that_cannot_be_listed_in_time_are_left_out(one_gop, monkeypatch):
    set_clock(monkeypatch, lambda: count().__next__)
    limits = ReadLimits(MEMORY, seconds=1e6, exact_seconds=200)
    clip = read_clip(one_gop, VideoOptions(frames=4, dense_fps=0), limits=limits)
    assert any("too many pictures to list" in n for n in clip.notes)
    assert 3 < clip.duration < 4.5
    assert [number_of(f) for f in clip.frames] == (25 * clip.times).round().tolist()


def test_short_memory_leads_to_key_frames_on_one_thread(tmp_path, monkeypatch):
    path = write_numbered(tmp_path / "v.mp4", **x264("closed"))
    threads = []

    def exhausted(source, wanted):
        threads.append(source.threads)
        raise MemoryError

    kept = Source.key_frames

    def key_frames(source, wanted):
        threads.append(source.threads)
        return kept(source, wanted)

    monkeypatch.setattr(Source, "_on_display", exhausted)
    monkeypatch.setattr(Source, "key_frames", key_frames)
    clip = read_clip(path, VideoOptions(frames=4, dense_fps=0))
    assert any("taken too much memory: the nearest key frames" in n for n in clip.notes)
    assert threads == [video.THREADS, 1]
    assert [number_of(f) for f in clip.frames] == [0, 24, 72, 96]


@pytest.mark.usefixtures("reader_process")
def test_a_process_without_memory_is_an_error_of_ours(one_gop):
    with pytest.raises(errors.VideoError) as refused:
        read_clip(one_gop, limits=ReadLimits(2**26, seconds=PATIENCE_S, exact_seconds=PATIENCE_S))
    assert refused.value.remedy


def children():
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended meanwhile
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


@pytest.mark.usefixtures("reader_process")
@pytest.mark.long
def test_no_way_of_ending_leaves_a_process_or_a_file(one_gop, tmp_path, monkeypatch):
    """Read whole, refused, out of time, and cancelled while either way of reading is taken."""
    started = []
    kept = video._start_worker

    def start():
        started.append(kept())
        return started[-1]

    monkeypatch.setattr(video, "_start_worker", start)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    junk = tmp_path / "junk.mp4"
    junk.write_bytes(b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom")
    patient = {"seconds": PATIENCE_S, "exact_seconds": PATIENCE_S}
    by_key_frames = {"seconds": PATIENCE_S, "exact_seconds": 0}
    cases = [
        (one_gop, patient, lambda: False, 1, None),
        (junk, patient, lambda: False, 1, errors.NotAVideo),
        (one_gop, {"seconds": 0, "exact_seconds": 0}, lambda: False, 2, errors.DecodeLimit),
        (one_gop, by_key_frames, lambda: False, 2, errors.DecodeLimit),
        (one_gop, patient, lambda: True, 1, errors.Cancelled),
        (one_gop, by_key_frames, lambda: len(started) == 2, 2, errors.Cancelled),
    ]
    gc.collect()
    children_before, files_before = children(), set(os.listdir("/proc/self/fd"))
    for path, seconds, cancelled, processes, error in cases:
        started.clear()
        limits = ReadLimits(MEMORY, **seconds)
        if error is None:
            read_clip(path, cancelled=cancelled, limits=limits)
        else:
            with pytest.raises(error):
                read_clip(path, cancelled=cancelled, limits=limits)
        assert len(started) == processes
        assert all(worker.returncode is not None for worker in started)
        assert children() == children_before
        assert set(os.listdir("/proc/self/fd")) == files_before
        assert not list((tmp_path / "temporary").iterdir())


def repeat(source, target, times):
    """The packets of a file that is one closed GOP, again and again."""
    with av.open(str(source)) as original, av.open(str(target), "w") as out:
        stream = original.streams.video[0]
        copy = out.add_stream_from_template(stream)
        packets = [p for p in original.demux(stream) if p.dts is not None]
        length = sum(p.duration for p in packets)
        kept = [(p, p.pts, p.dts) for p in packets]
        for turn in range(times):
            for packet, pts, dts in kept:
                packet.pts, packet.dts = pts + turn * length, dts + turn * length
                packet.time_base, packet.stream = stream.time_base, copy
                out.mux(packet)
                packet.stream = stream
    return target


def write_textured(path, codec, pix_fmt, frames, size, **options):
    """Detail everywhere, moving: much to decode."""
    width, height = size
    noise = np.random.default_rng(0).integers(0, 255, (height // 8, width // 8, 3), np.uint8)
    picture = np.kron(noise, np.ones((8, 8, 1), np.uint8))
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=Fraction(30))
        stream.width, stream.height, stream.pix_fmt, stream.options = (
            width,
            height,
            pix_fmt,
            options,
        )
        for i in range(frames):
            moved = np.ascontiguousarray(np.roll(picture, (2 * i, 4 * i), (0, 1)))
            out.mux(stream.encode(av.VideoFrame.from_ndarray(moved, format="rgb24")))
        out.mux(stream.encode())
    return path


@pytest.mark.usefixtures("reader_process")
@pytest.mark.long
def test_a_minute_from_a_phone_is_read_on_a_public_server(tmp_path):
    """4K HEVC of 10 bits, one key frame a second, as phones record it, within a gigabyte."""
    quick = {
        "preset": "ultrafast",
        "crf": "34",
        "x265-params": "log-level=none:keyint=30:bframes=0",
    }
    second = write_textured(tmp_path / "s.mp4", "libx265", "yuv420p10le", 30, (3840, 2160), **quick)
    path = repeat(second, tmp_path / "minute.mp4", 60)
    # more time than there, so that a busy machine fails nothing; the way is the same
    limits = ReadLimits(PUBLIC_SERVER.memory_bytes, seconds=PATIENCE_S, exact_seconds=1)
    clip = read_clip(path, limits=limits)
    assert any("the nearest key frames were used" in n for n in clip.notes)
    assert clip.duration == pytest.approx(60, abs=0.1)
    assert clip.frames.shape == (8, 720, 1280, 3)
    np.testing.assert_allclose(clip.times, np.floor(3.75 + 7.5 * np.arange(8)), atol=0.01)
    np.testing.assert_allclose(clip.dense_times, np.arange(60), atol=0.01)
