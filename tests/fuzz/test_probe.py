"""Mutated videos: a Clip or a VideoError, and nothing is left behind.

MACD_FUZZ_PROBE_CASES sets how many cases are tried; the seed is fixed.
"""

import gc
import os
import time

import numpy as np
import pytest

from macd_studio.core.errors import VideoError
from macd_studio.core.media import video
from macd_studio.core.media.video import ReadLimits, read_clip
from macd_studio.core.options import VideoOptions
from macd_studio.core.types import Clip
from tests.conftest import write_video
from tests.core.test_video_exactness import remux
from tests.core.test_video_limits import children
from tests.patience import PATIENCE_S

CASES = int(os.environ.get("MACD_FUZZ_PROBE_CASES", "6"))
SEED = 20261122
KINDS = ("mp4", "mkv", "webm", "avi", "gif", "ts")
LIMITS = ReadLimits(2**30, seconds=PATIENCE_S, exact_seconds=PATIENCE_S / 2)
OPTIONS = VideoOptions(frames=3, dense_fps=2)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """The bytes of one small file of each kind."""
    folder = tmp_path_factory.mktemp("sound")
    mp4 = write_video(folder / "v.mp4")
    write_video(folder / "v.webm", codec="libvpx-vp9")
    write_video(folder / "v.avi", codec="mpeg4")
    write_video(folder / "v.gif", codec="gif", pix_fmt="rgb8")
    for kind in ("mkv", "ts"):
        remux(mp4, folder / f"v.{kind}")
    return {kind: (folder / f"v.{kind}").read_bytes() for kind in KINDS}


def flip(data, _, rng):
    """Some bytes, most of them in the header."""
    for _ in range(rng.integers(1, 20)):
        at = rng.integers(min(len(data), 1500) if rng.random() < 0.7 else len(data))
        data[at] = rng.integers(256)


def truncate(data, _, rng):
    del data[rng.integers(1, len(data)) :]


def resize(data, _, rng):
    """A length, offset or count becomes extreme: boxes, EBML sizes, chunk sizes."""
    at = int(rng.integers(max(1, len(data) - 8)))
    boxes = [data.find(b) for b in (b"moov", b"trak", b"stsz", b"stts", b"stsc", b"stco", b"ctts",
                                    b"mdhd", b"tkhd", b"avcC", b"elst", b"RIFF", b"LIST", b"idx1",
                                    b"strf", b"avih")]  # fmt: skip
    found = [b for b in boxes if b >= 4]
    if found and rng.random() < 0.8:
        at = int(rng.choice(found)) + int(rng.choice([-4, 4, 8, 12]))
    value = int(rng.choice([0, 1, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, rng.integers(2**32)]))
    data[at : at + 4] = value.to_bytes(4, "big" if rng.random() < 0.7 else "little")


def splice(data, other, rng):
    """A piece of another file, or of the same one, over or between the bytes."""
    length = int(rng.integers(1, min(len(other), 2000)))
    start, at = int(rng.integers(len(other) - length + 1)), int(rng.integers(len(data)))
    over = length if rng.random() < 0.5 else 0
    data[at : at + over] = other[start : start + length]


def mutated(samples, case):
    """The kind of file and its bytes; the same for the same case."""
    rng = np.random.default_rng([SEED, case])
    kind, other = KINDS[case % len(KINDS)], samples[KINDS[rng.integers(len(KINDS))]]
    data = bytearray(samples[kind])
    for _ in range(rng.integers(1, 4)):
        change = (flip, truncate, resize, splice)[rng.integers(4)]
        if len(data) > 8:
            change(data, other, rng)
    return kind, bytes(data)


@pytest.mark.usefixtures("reader_process")
def test_mutated_videos_are_clips_or_video_errors(samples, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    ready = video._Ready()
    monkeypatch.setattr(video, "_ready", ready)
    gc.collect()
    began, answers = time.monotonic(), {}
    files, former = set(os.listdir("/proc/self/fd")), children()
    try:
        for case in range(CASES):
            kind, data = mutated(samples, case)
            path = tmp_path / f"case {case}.{kind}"
            path.write_bytes(data)
            try:
                clip = read_clip(path, OPTIONS, limits=LIMITS)
            except VideoError as error:
                explained = bool(error.cause and error.remedy)
                answer = type(error).__name__
            else:
                check(clip, case)
                answer, explained = "Clip", True
            assert explained, case
            answers[answer] = answers.get(answer, 0) + 1
            path.unlink()
            assert children() - former == {ready._waiting.pid}, case
            assert len(os.listdir("/proc/self/fd")) <= len(files), case
            assert not list((tmp_path / "temporary").iterdir()), case
    finally:
        ready.close()
    print(f"{CASES} cases, {CASES / (time.monotonic() - began):.1f} a second: {answers}")
    assert sum(answers.values()) == CASES
    assert answers["Clip"] > 0
    assert len(answers) > 1


def check(clip, case):
    assert isinstance(clip, Clip), case
    assert len(clip.frames) == len(clip.times) >= 1, case
    assert len(clip.dense_frames) == len(clip.dense_times), case
    for times in (clip.times, clip.dense_times):
        assert np.isfinite(times).all(), case
        assert (np.diff(times) > 0).all(), case
    assert set(clip.times) <= set(clip.dense_times), case
    assert np.isfinite(clip.duration), case
    assert clip.size == (clip.frames.shape[2], clip.frames.shape[1]), case


def test_the_cases_are_the_same_every_time(samples):
    again = [mutated(samples, case) for case in range(12)]
    assert again == [mutated(samples, case) for case in range(12)]
    assert len({data for _, data in again}) == 12
    assert {kind for kind, _ in again} == set(KINDS)
    assert all(data != samples[kind] for kind, data in again)
