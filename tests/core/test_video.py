"""Real files of every awkward kind, written here."""

from pathlib import Path

import numpy as np
import pytest

from macd_studio.core import errors
from macd_studio.core.media.video import OWN_MACHINE, ReadLimits, read_clip
from macd_studio.core.options import VideoOptions
from macd_studio.core.system.bounded import end_process

TRUE = VideoOptions(frames=4)


@pytest.mark.usefixtures("reader_process")
def test_frames_are_the_middles_of_equal_parts(make_video):
    clip = read_clip(make_video(frames=24, fps=12), TRUE)
    assert clip.frames.shape == (4, 48, 64, 3)
    np.testing.assert_allclose(clip.times, [0.25, 0.75, 1.25, 1.75], atol=0.01)
    assert clip.duration == pytest.approx(2.0, abs=0.05)
    # frame i was drawn with red 255 − 8 i: the picture on display at each time
    red = clip.frames[:, 24, 10, 0].astype(float)
    np.testing.assert_allclose(red, 255 - 8 * np.array([3, 9, 15, 21]), atol=14)
    assert not clip.notes


def test_a_range(make_video):
    clip = read_clip(make_video(frames=48, fps=12), VideoOptions(frames=4, start=1, end=2))
    assert 1 <= clip.times[0] < clip.times[-1] <= 2
    with pytest.raises(errors.VideoError, match="starts at 9"):
        read_clip(make_video(), VideoOptions(start=9))


def test_frames_picked_by_hand(make_video):
    clip = read_clip(make_video(), VideoOptions(at=(0.3, 1.1, 1.9)))
    np.testing.assert_allclose(clip.times, [3 / 12, 13 / 12, 22 / 12])
    assert clip.notes == ()
    dense = set(np.round(clip.dense_times, 6))
    assert dense >= set(np.round(clip.times, 6))  # the tracker still sees the whole clip
    assert clip.dense_times[0] < 0.1
    same = read_clip(make_video("w.mp4"), VideoOptions(at=(0.3, 0.31)))
    assert same.notes == ("the sampled times fall on only 1 different picture of the clip's 24",)


def test_picked_frames_are_validated(make_video):
    for at in ((1.0, 0.5), (0.5, 0.5), (0.1, 1.0), (1.0, 3.0)):
        with pytest.raises(errors.OptionError):
            VideoOptions(at=at, start=0.2, end=2.0)
    with pytest.raises(errors.OptionError, match=r"at\[0\]"):
        VideoOptions(at=(float("nan"),))
    with pytest.raises(errors.NotAVideo, match=r"picked at 2\.5 s but the video lasts 2\.0 s"):
        read_clip(make_video(), VideoOptions(at=(1.0, 2.5)))


def written(folder: Path, content: bytes) -> Path:
    path = folder / "bad.mp4"
    path.write_bytes(content)
    return path


@pytest.mark.usefixtures("reader_process")
def test_a_decoder_that_hangs_is_ended(make_video):
    limits = ReadLimits(OWN_MACHINE.memory_bytes, seconds=0.01, exact_seconds=0.01)
    with pytest.raises(errors.DecodeLimit, match="longer than"):
        read_clip(make_video(), limits=limits)


def test_names_are_only_text(make_video):
    clip = read_clip(make_video("=HYPERLINK(x)<img onerror=1>${7*7}.mp4"), TRUE)
    assert clip.name == "=HYPERLINK(x)<img onerror=1>${7*7}.mp4"


@pytest.mark.real
def test_real_clips(real):
    for name, people in (("classroom", 3), ("bottle", 39), ("store_aisle", 4)):
        clip = read_clip(real / "clips" / f"{name}.mp4")
        assert len(clip.frames) == 8
        assert clip.duration > people * 0.9


@pytest.mark.usefixtures("reader_process")
@pytest.mark.long
def test_reading_ends_when_nobody_waits(make_video):
    """Cancelled as soon as it is asked, with the decoder ended."""
    asked = []

    def cancelled():
        asked.append(1)
        return True

    with pytest.raises(errors.Cancelled, match="while the video was read"):
        read_clip(make_video(frames=600, size=(640, 480)), cancelled=cancelled)
    assert asked == [1]


@pytest.mark.usefixtures("reader_process")
def test_a_waiting_decoder_reads_like_a_new_one(make_video, monkeypatch):
    from macd_studio.core.media import video

    path = make_video()
    before = read_clip(path)
    ready = video._Ready()
    monkeypatch.setattr(video, "_ready", ready)
    try:
        first = ready._waiting
        again = read_clip(path)
        np.testing.assert_array_equal(again.frames, before.frames)
        assert first.poll() is not None  # one decoder, one file
        assert ready._waiting is not first
        taken = ready.take()
        assert ready._waiting is None  # the next one starts when this one is done
        two = read_clip(path)
        np.testing.assert_array_equal(two.frames, before.frames)
        end_process(taken)
        ready._waiting.kill()
        ready._waiting.wait()
        np.testing.assert_array_equal(read_clip(path).frames, before.frames)  # one that died
    finally:
        ready.close()


@pytest.mark.usefixtures("reader_process")
def test_a_decoder_without_a_job_ends_with_its_owner():
    from macd_studio.core.media import video

    worker = video._start_worker()
    worker.stdin.close()
    assert worker.wait() == 0
    worker.stdout.close()
