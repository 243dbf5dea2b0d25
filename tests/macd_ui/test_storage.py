"""What lies on disk: one folder a server, uploads counted by session."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.macd_ui.serving import server
from macd_studio.macd_ui.storage import ServerFolder, Uploads
from macd_studio.macd_ui.store import Store

HOLD = "import sys; from macd_studio.macd_ui.storage import ServerFolder;" \
    "f = ServerFolder(sys.argv[1]);" \
    "(f.path / 'x').write_text('x'); print(f.path, flush=True); sys.stdin.read()"  # fmt: skip


def started(base):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(base)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    return process, process.stdout.readline().strip()


def old(path, seconds=1000):
    os.utime(path, (time.time() - seconds,) * 2)
    return path


@pytest.mark.parametrize("named", [True, False])
def test_a_server_without_a_place_for_files_says_what_it_needs(tmp_path, monkeypatch, named):
    """Before anything is imported that looks for such a folder by itself."""
    file = tmp_path / "file"
    file.touch()
    if named:
        monkeypatch.setenv("GRADIO_TEMP_DIR", str(file))
    else:
        monkeypatch.delenv("GRADIO_TEMP_DIR", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(file)])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(server, "set_up", lambda folder: pytest.fail("the start went on"))
    with pytest.raises(SystemExit) as ended:
        server.main(["--port", "65000"])
    told = str(ended.value)
    assert told.startswith("error: nothing can be written in ")
    assert ("GRADIO_TEMP_DIR" if named else "TMPDIR=FOLDER") in told
    with pytest.raises(OptionError):
        ServerFolder()


def test_a_start_removes_what_a_killed_server_left_and_nothing_else(tmp_path):
    killed, left = started(tmp_path)
    alive, kept = started(tmp_path)
    killed.kill()
    killed.wait()
    others = [tmp_path / n for n in ("macd-studio-notes", "macd-studio-1-x.txt", "macd-1-abc")]
    for other in others:
        other.mkdir()
        old(other)
    (tmp_path / "macd-studio-9-link").symlink_to(others[0])
    starting = tmp_path / "macd-studio-8-abcdef"
    starting.mkdir()
    mine = ServerFolder(tmp_path)
    try:
        assert not os.path.exists(left)
        assert os.path.exists(f"{kept}/x")
        assert all(o.exists() for o in others)
        assert starting.exists()
        assert str(os.getpid()) in mine.path.name
        old(starting)
        ServerFolder(tmp_path).close()
        assert not starting.exists()
        assert mine.path.exists()
    finally:
        mine.close()
        alive.communicate()
        killed.stdout.close()
        killed.stdin.close()
    assert not mine.path.exists()


@pytest.fixture
def uploads(tmp_path):
    return Uploads(tmp_path / "uploads", grace_s=60)


def put(uploads, name, age=1000):
    file = uploads.folder / name / "clip.mp4"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    old(file.parent, age)
    return old(file, age)


def test_a_shared_upload_goes_with_the_last_session(uploads):
    file = put(uploads, "a", age=10)
    uploads.hold(file, "one")
    uploads.hold(file, "two")
    uploads.release("one")
    uploads.sweep()
    assert file.exists()
    uploads.release("two", file)
    uploads.sweep()
    assert not file.exists()
    old(file.parent)
    uploads.sweep()
    assert not file.parent.exists()


def test_equal_uploads_are_one_file_of_all_who_brought_it(uploads):
    file = put(uploads, "a")
    for who in ("one", "two"):
        uploads.bring(file, who)
    assert [uploads.may_read(file, who) for who in ("one", "two", "three")] == [True, True, False]


def test_an_upload_that_was_just_made_is_left_alone(uploads):
    held, fresh, unclaimed = (put(uploads, n, age=a) for n, a in (("a", 9e5), ("b", 0), ("c", 200)))
    uploads.hold(held, "one")
    uploads.hold(fresh, "two")
    uploads.release("two")  # and uploaded again by somebody at this moment
    uploads.sweep()
    assert all(f.exists() for f in (held, fresh, unclaimed))
    old(unclaimed, 301)
    old(fresh, 6)
    uploads.sweep()
    assert [f.exists() for f in (held, fresh, unclaimed)] == [True, False, False]


def test_files_elsewhere_are_never_ours(uploads, tmp_path):
    other = tmp_path / "mine.mp4"
    other.write_bytes(b"x")
    old(other)
    uploads.hold(other, "one")
    uploads.release("one")
    link = uploads.folder / "link"
    link.symlink_to(other)
    os.utime(link, (1, 1), follow_symlinks=False)
    uploads.sweep()
    assert not link.is_symlink()
    assert other.exists()


def test_a_closed_tab_stops_at_once_and_is_forgotten_after_the_grace(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    monkeypatch.setenv("MACD_GRACE_S", "3600")
    store = Store()
    assert store.folder.path.parent == tmp_path
    file = put(store.uploads, "a")
    session = store.sessions.open("tab")
    store.uploads.hold(file, "tab")
    store.sessions.leave("tab")
    assert session.stop.is_set()
    store.sweep()
    assert store.sessions.find_by_token(session.token) is session
    assert store.sessions.open("tab") is session  # it came back within the grace
    assert session.left_at is None
    store.sessions.leave("tab")
    store.sessions.grace_s = 0
    store.sweep()
    assert session.gone
    assert store.sessions.find_by_token(session.token) is None
    assert not file.exists()
    store.sessions.leave("unknown")
    store.close()
    assert not list(tmp_path.iterdir())
