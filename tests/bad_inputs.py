"""Files that are no ordinary video: how to make each, and what the reader must say about it.

`CASES` is used by the tests of the reader and of the page. Each file is small and quick to make.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
from av.stream import Disposition

from tests.conftest import write_video
from tests.zoo import set_display_matrix

HTML = b"<!DOCTYPE html><html><body><script>alert(1)</script></body></html>"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>"
DASH = b"<?xml version='1.0'?><MPD><Period><BaseURL>http://127.0.0.1/v.mp4</BaseURL></Period></MPD>"
HLS = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1/x.ts\n"
CONCAT = b"ffconcat version 1.0\nfile /etc/passwd\n"
SUBTITLES = b"1\n00:00:00,000 --> 00:00:02,000\nOnly words\n"


@dataclass(frozen=True)
class BadInput:
    """One file and the right answer to it.

    build: writes it into a folder and returns its path. error: the class in `core.errors`, "" where
    the file is read. words: each must stand in the message, cause and remedy, or, where the file is
    read, in a note. size: (width, height) of the frames, where it is known.
    """

    name: str
    build: Callable[[Path], Path]
    error: str
    words: tuple[str, ...] = ()
    size: tuple[int, int] | None = None

    def __str__(self) -> str:
        return self.name


def _bytes(content: bytes, name: str = "clip.mp4") -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return build


def _video(name: str = "clip.mp4", **how: object) -> Callable[[Path], Path]:
    return lambda folder: write_video(folder / name, **how)  # type: ignore[arg-type]


def _changed(change: Callable[[bytearray], object], **how: object) -> Callable[[Path], Path]:
    """A sound video whose bytes are changed."""

    def build(folder: Path) -> Path:
        path = write_video(folder / "clip.mp4", **how)  # type: ignore[arg-type]
        content = bytearray(path.read_bytes())
        change(content)
        path.write_bytes(content)
        return path

    return build


def _lose_the_header(content: bytearray) -> None:
    at = content.index(b"moov")
    content[at : at + 4] = b"junk"


def _corrupt_the_header(content: bytearray) -> None:
    start, end = content.index(b"moov") + 4, content.index(b"mdat") - 4
    content[start:end] = np.random.default_rng(1).bytes(end - start)


def _erase_the_pictures(content: bytearray) -> None:
    body = content.index(b"mdat") + 4
    content[body:] = bytes(len(content) - body)


def _cut_the_tail(content: bytearray) -> None:
    del content[int(0.6 * len(content)) :]


def write_song_with_cover(folder: Path) -> Path:
    """Sound and one attached picture."""
    path = folder / "song.mp4"
    with av.open(str(path), "w") as out:
        cover = out.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 64, "yuvj420p"
        cover.disposition = Disposition.attached_pic
        sound = out.add_stream("aac", rate=44100)
        picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 90, np.uint8), format="rgb24")
        out.mux(cover.encode(picture.reformat(format="yuvj420p")))
        out.mux(cover.encode())
        for i in range(20):
            block = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
            block.sample_rate, block.pts = 44100, 1024 * i
            out.mux(sound.encode(block))
        out.mux(sound.encode())
    return path


def _subtitles(folder: Path) -> Path:
    """An mkv with a subtitle stream alone."""
    words, path = folder / "words.srt", folder / "words.mkv"
    words.write_bytes(SUBTITLES)
    with av.open(str(words)) as given, av.open(str(path), "w") as out:
        copy = out.add_stream_from_template(given.streams[0])
        for packet in given.demux():
            if packet.dts is not None:
                packet.stream = copy
                out.mux(packet)
    words.unlink()
    return path


def _hdr(folder: Path) -> Path:
    path = folder / "hdr.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=12)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p10le"
        stream.options = {"x264-params": "colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc"}
        picture = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 90, np.uint8), format="rgb24")
        for _ in range(24):
            picture.pts = None
            out.mux(stream.encode(picture))
        out.mux(stream.encode())
    return path


def _turned(folder: Path) -> Path:
    return set_display_matrix(write_video(folder / "clip.mp4"), 1)


def write_with_external_data(path: Path, url: str) -> Path:
    """An mp4 whose data reference names another place for its pictures."""
    with av.open(str(path), "w") as out:  # the header last: it may grow without moving anything
        stream = out.add_stream("libx264", rate=12)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 90, np.uint8), format="rgb24")
        for _ in range(24):
            picture.pts = None
            out.mux(stream.encode(picture))
        out.mux(stream.encode())
    content = bytearray(path.read_bytes())
    at = content.index(b"url \0\0\0\1") - 4
    reference = b"url \0\0\0\0" + url.encode() + b"\0"
    content[at : at + 12] = (len(reference) + 4).to_bytes(4, "big") + reference
    for box in (b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref"):
        size = content.index(box, content.index(b"moov")) - 4
        grown = int.from_bytes(content[size : size + 4], "big") + len(reference) + 4 - 12
        content[size : size + 4] = grown.to_bytes(4, "big")
    path.write_bytes(content)
    return path


def _external(folder: Path) -> Path:
    return write_with_external_data(folder / "clip.mp4", "file:///etc/passwd")


REENCODE, CHOOSE = "re-encode", "Choose a video"
HOURS = list(range(0, 7_200_000, 60_000))
VARIABLE = [*range(0, 500, 20), *range(500, 4500, 200)]

CASES = [
    BadInput("empty", _bytes(b""), "NotAVideo", ("is empty", "download it again")),
    BadInput("random bytes", _bytes(np.random.default_rng(0).bytes(5000)), "NotAVideo",
             ("not a readable video", REENCODE)),
    BadInput("zeros", _bytes(bytes(5000)), "NotAVideo", ("not a readable video", REENCODE)),
    BadInput("web page", _bytes(HTML), "NotAVideo", ("is a web page", CHOOSE)),
    BadInput("drawing", _bytes(SVG), "NotAVideo", ("is a drawing", CHOOSE)),
    BadInput("DASH manifest", _bytes(DASH), "NotAVideo", ("is an XML document", CHOOSE)),
    BadInput("HLS playlist", _bytes(HLS), "NotAVideo", ("is a playlist", CHOOSE)),
    BadInput("HLS playlist after blanks", _bytes(b"\xef\xbb\xbf \r\n" + HLS), "NotAVideo",
             ("is a playlist", CHOOSE)),
    BadInput("list of files to join", _bytes(CONCAT), "NotAVideo", ("is a playlist", CHOOSE)),
    BadInput("picture", _bytes(b"\x89PNG\r\n\x1a\n" + bytes(50)), "CorruptVideo",
             ("the picture is damaged", "PNG or JPEG")),
    BadInput("zip archive", _bytes(b"PK\x03\x04" + bytes(50)), "NotAVideo",
             ("is a zip archive", CHOOSE)),
    BadInput("subtitle file", _bytes(SUBTITLES), "NotAVideo", ("not a readable video", REENCODE)),
    BadInput("subtitles only", _subtitles, "NoVideoStream", ("no moving picture", CHOOSE)),
    BadInput("sound only", _video(audio=True), "NoVideoStream", ("no moving picture", CHOOSE)),
    BadInput("song with a cover", write_song_with_cover, "NoVideoStream",
             ("no moving picture", CHOOSE)),
    BadInput("start only", _bytes(b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom"), "NotAVideo",
             ("not a readable video", REENCODE)),
    BadInput("missing header", _changed(_lose_the_header), "NotAVideo",
             ("not a readable video", REENCODE)),
    BadInput("corrupt header", _changed(_corrupt_the_header), "NotAVideo",
             ("not a readable video", REENCODE)),
    BadInput("corrupt pictures", _changed(_erase_the_pictures, frames=48), "CorruptVideo",
             ("not one of its pictures can be decoded", "Record or export it again")),
    BadInput("2 × 2 pixels", _video("s.mkv", size=(2, 2), codec="ffv1", frames=2), "VideoTooSmall",
             ("2×2", "at least 16×16 pixels")),
    BadInput("8192 × 8192 pixels", _video("l.mkv", size=(8192, 8192), codec="ffv1", frames=1),
             "VideoTooLarge", ("8192×8192", "Scale the video down")),
    BadInput("two hours", _video(frames=120, pts=HOURS), "VideoTooLong",
             ("119 minutes", "Choose a range with --start and --end")),
    BadInput("truncated tail", _changed(_cut_the_tail, frames=240, size=(320, 240)), "",
             ("the file is cut off", "what is there was analysed")),
    BadInput("one frame", _video(frames=1), "", ("only 1 different picture",)),
    BadInput("1000 frames a second", _video(frames=300, pts=list(range(300))), "",
             ("1000 frames per second", "by their timestamps")),
    BadInput("variable rate", _video(frames=len(VARIABLE), pts=VARIABLE), "",
             ("the frame rate varies", "by their timestamps")),
    BadInput("turned", _turned, "", size=(48, 64)),
    BadInput("wide pixels", _video(aspect=(2, 1)), "", ("pixels are not square (2)",),
             size=(128, 48)),
    BadInput("10 bits", _video(pix_fmt="yuv420p10le"), "", ("more than 8 bits",)),
    BadInput("HDR", _hdr, "", ("HDR colours", "without tone mapping")),
    BadInput("data elsewhere", _external, "", size=(64, 48)),
]  # fmt: skip
"""Every row about a file; what concerns names and addresses is `NAMES`."""

NAMES = [
    ("", "no video was given"),
    ("a\0b", "no video was given"),
    ("/nowhere/v.mp4", "there is no file"),
    ("http://127.0.0.1/v.mp4", "is an address"),
    ("file:///etc/passwd", "is an address"),
    ("rtsp://127.0.0.1/s", "is an address"),
    ("concat:/etc/passwd|/etc/hosts", "is an address"),
    ("subfile,,start,0,end,9,,:/etc/passwd", "there is no file"),
    ("pipe:0", "is an address"),
    ("data:video/mp4;base64,AAAA", "is an address"),
]
"""What is given for a video's name, and the words of the VideoNotFound that follows."""
