"""Folders and archives of numbered pictures, read as clips of a stated rate."""

import io
import tracemalloc
import zipfile

import numpy as np
import pytest
from PIL import Image

from macd_studio.core import errors
from macd_studio.core.media import frames as frames_module
from macd_studio.core.media.video import read_clip
from macd_studio.core.options import VideoOptions

TEN = VideoOptions(frames=4, dense_fps=0, frame_rate=10)
FORMATS = {"png": "png", "jpg": "jpeg", "bmp": "bmp", "webp": "webp"}


def coded(number, kind="png", size=(64, 48), **how):
    out = io.BytesIO()
    Image.new("RGB", size, (5 * number, 90, 160)).save(out, kind, **how)
    return out.getvalue()


def with_thumbnail(number):
    """As cameras write it: a smaller picture in its EXIF part."""
    plain, small = coded(number, "jpeg", quality=95), coded(200, "jpeg", size=(16, 16))
    part = b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0" + small
    return plain[:2] + b"\xff\xe1" + (len(part) + 2).to_bytes(2, "big") + part + plain[2:]


def packed(folder, members, name="frames.zip"):
    path = folder / name
    with zipfile.ZipFile(path, "w") as archive:
        for inner, content in members.items():
            archive.writestr(inner, content)
    return path


def shown(clip):
    """The numbers that the pictures' red tells."""
    return (clip.frames[..., 0].mean((1, 2)) / 5).round().astype(int).tolist()


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("first", [0, 1, 7])
def test_numbered_pictures_are_a_clip_of_the_stated_rate(ending, first, tmp_path):
    pictures = {f"{first + i:05d}.{ending}": coded(i, FORMATS[ending]) for i in reversed(range(20))}
    folder = tmp_path / "bear"
    folder.mkdir()
    for name, content in pictures.items():
        (folder / name).write_bytes(content)
    (folder / "notes.txt").write_text("by hand")
    archive = packed(tmp_path, {f"bear/{name}": z for name, z in pictures.items()})
    for path in (folder, archive):
        clip = read_clip(path, TEN)
        assert (clip.count, clip.fps, clip.duration) == (20, 10.0, 2.0)
        np.testing.assert_allclose(clip.times, clip.numbers / 10)
        assert shown(clip) == clip.numbers.tolist()
        assert clip.name == path.name
        assert clip.notes == ("20 numbered pictures were read as 10 a second",)


def test_numbers_without_zeros_before_them_are_read_in_order(tmp_path):
    (tmp_path / "bear").mkdir()
    for i in range(12):
        (tmp_path / "bear" / f"frame{i + 1}.png").write_bytes(coded(i))
    clip = read_clip(tmp_path / "bear", TEN)
    assert shown(clip) == clip.numbers.tolist()
    assert clip.notes == ("12 numbered pictures were read as 10 a second",)


def test_a_thumbnail_in_a_picture_is_no_picture_of_the_clip(tmp_path):
    clip = read_clip(
        packed(tmp_path, {f"DSC_{i:04d}.JPG": with_thumbnail(i) for i in range(9)}), TEN
    )
    assert clip.count == 9
    assert shown(clip) == clip.numbers.tolist()


def test_gaps_and_pictures_that_cannot_be_read_are_told(tmp_path):
    members = {f"{i:03d}.png": coded(i) for i in range(0, 30, 3)}
    told = " ".join(read_clip(packed(tmp_path, members), TEN).notes)
    assert "numbers of pictures are missing" in told
    pictures = {f"{i:03d}.jpg": coded(i, "jpeg") if i != 4 else b"no picture" for i in range(9)}
    clip = read_clip(packed(tmp_path, pictures), TEN)
    assert clip.count == 8
    assert any("1 picture could not be read" in note for note in clip.notes)


def test_files_that_programs_leave_beside_pictures_are_passed_over(tmp_path):
    members = {f"a/{i:03d}.png": coded(i) for i in range(5)}
    members |= {f"__MACOSX/a/._{i:03d}.png": b"x" for i in range(5)}
    assert read_clip(packed(tmp_path, members), TEN).count == 5


@pytest.mark.parametrize(("members", "told"), [
    ({"a.txt": b"x"}, "without numbered pictures"),
    ({"1.png": coded(1)}, "without numbered pictures"),
    ({f"{a}/{i}.png": coded(i) for a in "ab" for i in range(3)}, "2 sequences"),
    ({f"{i}.png": coded(i, size=(64 + 16 * (i > 3), 48)) for i in range(6)}, "size changes"),
    ({f"{i}.png": b"no picture" * 99 for i in range(3)}, "not a readable video"),
])  # fmt: skip
def test_what_is_no_sequence_of_pictures_is_refused(members, told, tmp_path):
    with pytest.raises(errors.VideoError, match=told):
        read_clip(packed(tmp_path, members), TEN)


def test_pictures_unpack_to_no_more_than_the_bound(tmp_path):
    path = packed(tmp_path, {f"{i}.bmp": bytes(3 * 10**6) for i in range(2)})
    with pytest.raises(errors.VideoTooLarge, match="more than 5 MB"):
        read_clip(path, VideoOptions(max_megabytes=5))


def test_so_many_files_are_looked_at_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(frames_module, "MAX_NAMES", 4)
    path = packed(tmp_path, {f"{i}.png": coded(i) for i in range(5)})
    with pytest.raises(errors.VideoTooLarge, match="more than 4 files"):
        read_clip(path, TEN)


def test_a_damaged_or_encrypted_archive_is_refused(tmp_path):
    path = packed(tmp_path, {f"{i}.png": coded(i) for i in range(3)})
    content = bytearray(path.read_bytes())
    for mark in (b"PK\3\4", b"PK\1\2"):  # the flag of encryption, of every member
        at = content.find(mark)
        while at >= 0:
            content[at + (6 if mark == b"PK\3\4" else 8)] |= 1
            at = content.find(mark, at + 4)
    path.write_bytes(content)
    with pytest.raises(errors.NotAVideo, match="damaged, encrypted"):
        read_clip(path, TEN)


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_packed_otherwise_is_refused(kind, tmp_path):
    path = tmp_path / "frames.zip"
    with zipfile.ZipFile(path, "w", kind) as archive:
        for i in range(3):
            archive.writestr(f"{i}.png", coded(i))
    with pytest.raises(errors.NotAVideo, match="unusual way"):
        read_clip(path, TEN)


@pytest.mark.parametrize("count", [60_000, 70_000])
def test_a_long_directory_is_refused_before_it_is_listed(count, tmp_path):
    """Of an archive whose names alone would take much memory; with and without ZIP64."""
    path = packed(tmp_path, {f"{'a' * 40}{i:05d}.png": b"" for i in range(count)})
    tracemalloc.start()
    with pytest.raises(errors.VideoTooLarge, match="more than 20000 files"):
        read_clip(path, TEN)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
