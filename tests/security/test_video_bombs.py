"""Small videos that claim much: each ends within the bounds of a public server, with a sentence.

Other bytes than a program writes: streams, tables, times, sizes. What is decoded is bounded anyway.
"""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from macd_studio.core import errors
from macd_studio.core.media.video import PUBLIC_SERVER, ReadLimits, read_clip
from macd_studio.core.options import VideoOptions
from tests.conftest import write_video
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
MAX_MB = 300
TABLE_MB = {"a million edits": 300}
"""Of FFmpeg's own: 24 bytes for each picture that an edit shows, 12 million here."""
LIMITS = ReadLimits(PUBLIC_SERVER.memory_bytes, seconds=PATIENCE_S, exact_seconds=PATIENCE_S / 2)
"""As there, but for a busy machine."""


def boxes(content, start, end):
    while start < end:
        size = int.from_bytes(content[start : start + 4], "big")
        yield start, size, content[start + 4 : start + 8]
        start += size


def repeat_tracks(content, times):
    """An mp4 that tells of its track again and again."""
    at, size, _ = next(b for b in boxes(content, 0, len(content)) if b[2] == b"moov")
    track = next(
        content[x : x + n] for x, n, k in boxes(content, at + 8, at + size) if k == b"trak"
    )
    header = content[at + 8 : at + size] + track * times
    return (
        content[:at] + (len(header) + 8).to_bytes(4, "big") + b"moov" + header
        + content[at + size :]
    )  # fmt: skip


def put_edits(content, count, duration):
    """An edit list that shows the start again and again."""
    edit = duration.to_bytes(4, "big") + bytes(4) + b"\0\1\0\0"
    body = b"elst" + bytes(4) + count.to_bytes(4, "big") + edit * count
    body = (len(body) + 4).to_bytes(4, "big") + body
    at = content.index(b"edts") - 4
    former = int.from_bytes(content[at : at + 4], "big")
    made = (len(body) + 8).to_bytes(4, "big") + b"edts" + body
    out = bytearray(content[:at] + made + content[at + former :])
    for name in (b"moov", b"trak"):
        size = out.index(name) - 4
        grown = int.from_bytes(out[size : size + 4], "big") + len(made) - former
        out[size : size + 4] = grown.to_bytes(4, "big")
    return bytes(out)


def put(box, offset, value):
    def changed(content):
        at = content.index(box) + 4 + offset
        return content[:at] + value + content[at + len(value) :]

    return changed


def many_pictures(size, count):
    """A GIF whose pictures have one pixel each."""
    head = b"GIF89a" + struct.pack("<HHBBB", *size, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    part = b"\x21\xf9\x04\x04\x02\0\0\0\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0)
    return head + (part + b"\x02\x02\x44\x01\0") * count + b";"


MUCH = b"\x7f\xff\xff\xff"
BOMBS = {
    "5,000 streams": lambda c: repeat_tracks(c, 5000),
    "a time unit of a second": put(b"mdhd", 12, (1).to_bytes(4, "big")),
    "a time unit of nothing": put(b"mdhd", 12, MUCH),
    "pictures of ten days": put(b"stts", 12, MUCH),
    "2 billion lengths": put(b"stts", 4, MUCH),
    "2 billion pictures": put(b"stsz", 8, MUCH),
    "2 billion pictures of one byte": put(b"stsz", 4, b"\0\0\0\1" + MUCH),
    "a GIF of 65535²": lambda _: many_pictures((65535, 65535), 1000),
}
SLOW = {
    "40,000 streams": lambda c: repeat_tracks(c, 40_000),
    "a million edits": lambda c: put_edits(c, 1_000_000, 1),
    "100,000 edits of weeks": lambda c: put_edits(c, 100_000, 2**31),
    "4 million pictures": lambda _: many_pictures((16, 16), 4_000_000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_it_claims_ends_with_a_sentence_or_a_clip(tmp_path, name):
    path = tmp_path / "v.mp4"
    path.write_bytes(BOMBS[name](write_video(tmp_path / "base.mp4").read_bytes()))
    told = ""
    try:
        clip = read_clip(path, VideoOptions(), limits=LIMITS)
    except errors.VideoError as error:
        told = str(error)
    if told:
        assert "0×0" not in told
        assert "memory, and the clip's key frames" not in told  # which is not the reason
    else:
        assert 1 <= len(clip.frames) <= 8
        assert clip.duration <= VideoOptions().max_seconds


MEASURED = """
import resource, sys
from macd_studio.core import errors
from macd_studio.core.media.video import PUBLIC_SERVER, read_clip
try:
    read_clip(sys.argv[1], limits=PUBLIC_SERVER)
except errors.VideoError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


@pytest.mark.long
@pytest.mark.parametrize("name", ["nothing", *BOMBS, *SLOW])
def test_the_process_that_reads_it_stays_small(tmp_path, name):
    """Peak of the reading process, in MB; an idle one takes about 60."""
    build = (BOMBS | SLOW).get(name, lambda c: c)
    path = tmp_path / "v.mp4"
    path.write_bytes(build(write_video(tmp_path / "base.mp4").read_bytes()))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, path], cwd=ROOT, capture_output=True, text=True,
        timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    assert int(done.stdout.split()[-1]) < 60 + MAX_MB + TABLE_MB.get(name, 0)
