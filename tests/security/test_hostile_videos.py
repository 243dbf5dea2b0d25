"""Hostile and broken videos: each is refused with cause and remedy, or read with a note."""

import errno
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from av.stream import Disposition

from macd_studio.core import errors
from macd_studio.core.media.video import PUBLIC_SERVER, read_clip
from macd_studio.core.options import VideoOptions
from tests.bad_inputs import CASES, NAMES, write_with_external_data
from tests.conftest import write_video
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
OPTIONS = VideoOptions(frames=4, dense_fps=0)
REFUSED = [case for case in CASES if case.error]
READ = [case for case in CASES if not case.error]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_bad_file_is_refused_with_cause_and_remedy(case, tmp_path):
    path = case.build(tmp_path)
    with pytest.raises(errors.VideoError) as refused:
        read_clip(path, OPTIONS)
    assert type(refused.value) is getattr(errors, case.error)
    cause, remedy = refused.value.cause, refused.value.remedy
    assert case.words[0] in cause
    assert case.words[1].lower() in remedy.lower()
    assert str(tmp_path) not in f"{cause} {remedy}"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("case", READ, ids=str)
def test_an_odd_file_is_read_with_a_note(case, tmp_path):
    path = case.build(tmp_path)
    clip = read_clip(path, OPTIONS)
    assert 1 <= len(clip.frames) <= 4
    assert case.size in (None, clip.size)
    for words in case.words:
        assert any(words in note for note in clip.notes), clip.notes
    if not case.words:
        assert not clip.notes
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_above_the_bound_is_refused_unread(tmp_path):
    """4 GB unless more are allowed; a server's own bound comes before the option."""
    path = tmp_path / "large.mp4"
    path.touch()
    os.truncate(path, 4_001_000_000)  # takes no place on the disk
    with pytest.raises(errors.VideoTooLarge, match="4001 MB, more than 4000 MB") as refused:
        read_clip(path, OPTIONS)
    assert "--max-megabytes" in refused.value.remedy
    os.truncate(path, 101_000_000)
    with pytest.raises(errors.VideoTooLarge, match="101 MB, more than 100 MB"):
        read_clip(path, replace(OPTIONS, max_megabytes=5000), limits=PUBLIC_SERVER)


@pytest.mark.parametrize(("name", "words"), NAMES)
def test_a_name_that_is_no_file(name, words):
    with pytest.raises(errors.VideoNotFound, match=words):
        read_clip(name)


class Canary:
    """A named pipe and a port that nobody may open."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "canary.mp4"
        os.mkfifo(self.path)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.setblocking(False)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v.mp4"
        self.opened: list[str] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self._look()

    def _look(self) -> None:
        try:  # fails as long as nobody reads or waits to read
            os.close(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK))
            self.opened.append("file")
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        try:
            self._socket.accept()[0].close()
            self.opened.append("port")
        except BlockingIOError:
            pass

    def close(self) -> list[str]:
        """Ends the watch; returns what was opened."""
        if not self._done.is_set():
            self._done.set()
            self._thread.join()
            self._look()
            self._socket.close()
        return self.opened


@pytest.fixture
def canary(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    made = Canary(tmp_path / "elsewhere")
    yield made
    made.close()


def references(canary):
    """Contents of files that refer to the canary."""
    file, url = canary.path, canary.url
    for at in (str(file), f"file://{file}", url):
        yield f"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n{at}\n#EXT-X-ENDLIST\n"
        yield f'#EXTM3U\n#EXT-X-MAP:URI="{at}"\n#EXTINF:9,\n{at}\n#EXT-X-ENDLIST\n'
        yield f"ffconcat version 1.0\nfile '{at}'\n"
        yield f"concat:{at}|{at}"
        yield (f"<?xml version='1.0'?><MPD type='static'><Period><AdaptationSet>"
               f"<Representation id='1'><BaseURL>{at}</BaseURL></Representation></AdaptationSet>"
               f"</Period></MPD>")  # fmt: skip
        yield f"<svg xmlns:x='http://www.w3.org/1999/xlink'><image x:href='{at}'/></svg>"
        yield f"[playlist]\nFile1={at}\n"
        yield "v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n"


@pytest.mark.parametrize("name", ["clip.mp4", "clip.m3u8"])
def test_no_playlist_opens_another_file(canary, tmp_path, monkeypatch, name):
    """Not even one that the check of a file's first bytes lets pass."""
    monkeypatch.setattr("macd_studio.core.media.frames._NOT_VIDEO", {})
    for content in references(canary):
        (tmp_path / name).write_text(content)
        with pytest.raises(errors.NotAVideo):
            read_clip(tmp_path / name)
    assert canary.close() == []


def test_no_movie_opens_another_file(canary, tmp_path):
    for url in (str(canary.path), f"file://{canary.path}", canary.url):
        path = write_with_external_data(tmp_path / "clip.mp4", url)
        assert len(read_clip(path, OPTIONS).frames) == 4  # its own data are used
    assert canary.close() == []


@pytest.mark.parametrize("start", ["concat:", "subfile,,start,0,end,9,,:", "file:", "cache:file:",
                                   "async:file:", ""])  # fmt: skip
def test_no_name_opens_another_file(canary, tmp_path, monkeypatch, start):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.VideoNotFound):
        read_clip(f"{start}{canary.path}")
    # nor does a file of that name, which is read as what it is
    named = f"{start}elsewhere".replace("/", "_") + ".mp4"
    write_video(tmp_path / "v.mp4").rename(tmp_path / named)
    assert len(read_clip(named, OPTIONS).frames) == 4
    assert canary.close() == []


def test_the_canary_sings(canary, tmp_path):
    """FFmpeg without our limits opens both."""
    code = (
        "import av, sys\n"
        "try: av.open(sys.argv[1], format='concat', options={'safe': '0',"
        " 'protocol_whitelist': 'file,http,tcp'})\n"
        "except av.error.FFmpegError: pass"
    )
    for at in (str(canary.path), canary.url):
        (tmp_path / "list").write_text(f"ffconcat version 1.0\nfile '{at}'\n")
        subprocess.run([sys.executable, "-c", code, tmp_path / "list"], timeout=PATIENCE_S)
    assert set(canary.close()) == {"file", "port"}


def test_a_cover_before_the_video_is_not_taken_for_it(tmp_path):
    path = tmp_path / "both.mp4"
    with av.open(str(path), "w") as out:
        cover = out.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = 64, 64, "yuvj420p"
        cover.disposition = Disposition.attached_pic
        video = out.add_stream("libx264", rate=12)
        video.width, video.height, video.pix_fmt = 96, 64, "yuv420p"
        picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 90, np.uint8), format="rgb24")
        out.mux(cover.encode(picture.reformat(format="yuvj420p")))
        out.mux(cover.encode())
        for _ in range(24):
            picture = av.VideoFrame.from_ndarray(np.zeros((64, 96, 3), np.uint8), format="rgb24")
            out.mux(video.encode(picture))
        out.mux(video.encode())
    put_cover_first(path)
    with av.open(str(path)) as made:
        assert [s.width for s in made.streams.video] == [64, 96]
    assert read_clip(path, OPTIONS).size == (96, 64)


def put_cover_first(path):
    """Moves the box with the cover before the one of the video, which makes it the first stream."""
    content = path.read_bytes()
    start, cover = content.index(b"trak") - 4, content.index(b"udta") - 4
    size = int.from_bytes(content[cover : cover + 4], "big")
    assert start < cover
    moved = content[cover : cover + size] + content[start:cover]
    path.write_bytes(content[:start] + moved + content[cover + size :])
