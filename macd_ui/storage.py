"""Where a server keeps what outlives it, and the files of a running one: one folder, gone when it
ends, even if it was killed.

A visitor's uploads stay as long as their session refers to them. Gradio names an upload by its
content, so two sessions can share a file: it goes when the last of them lets go.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from macd_studio.core.errors import OptionError
from macd_studio.core.system.unix import unix

MOUNT = Path("/data")
"""Where a Space mounts a bucket."""
PREFIX = "macd-studio"
LOCK = "lock"
NEW_S = 60.0
"""A folder without a lock is that of a server that is just starting, for this long."""
UNCLAIMED = 5.0
"""An upload that no session ever referred to stays for this many times the grace."""


def data_folder(environment: Mapping[str, str] | None = None, mount: Path = MOUNT) -> Path | None:
    """The folder that outlives a restart: MACD_DATA, or on a Space its bucket; None: there is none.

    Raises OptionError where MACD_DATA names a folder that cannot be written to.
    """
    env = os.environ if environment is None else environment
    if named := env.get("MACD_DATA"):
        if not _is_writable(Path(named)):
            raise OptionError(
                f"MACD_DATA names {named[:200]!r}, where nothing can be written",
                "Create the folder, or unset MACD_DATA",
            )
        return Path(named)
    return mount if env.get("SPACE_ID") and _is_writable(mount) else None


def _is_writable(folder: Path) -> bool:
    """Whether a file can be made there: what permissions say of a mount is not always so."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def set_up(folder: Path | None) -> None:
    """Lets downloaded models stay. To be called before huggingface_hub is imported."""
    if folder is not None:
        os.environ.setdefault("HF_HOME", str(folder / "huggingface"))


def gallery_in(folder: Path | None) -> str | None:
    """The folder `gallery` of the bucket, if it is there."""
    place = None if folder is None else folder / "gallery"
    return str(place) if place is not None and place.is_dir() else None


def temporary_folder() -> Path:
    """GRADIO_TEMP_DIR, or the temporary folder of the system.

    Raises OptionError where nothing can be written there.
    """
    named = os.environ.get("GRADIO_TEMP_DIR")
    try:
        base = Path(named or tempfile.gettempdir())
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            return base
    except OSError:
        what, remedy = "the temporary folder", "Name another one: TMPDIR=FOLDER"
        if named:
            what = f"GRADIO_TEMP_DIR ({named[:200]!r})"
            remedy = "Name another folder there, or unset it"
        raise OptionError(f"nothing can be written in {what}, where uploads lie", remedy) from None


class ServerFolder:
    """A folder of this process under `base`, which is GRADIO_TEMP_DIR or the temporary folder.

    Making one deletes those of servers that have ended: a server holds the lock in its folder as
    long as it lives.
    """

    def __init__(self, base: str | Path | None = None) -> None:
        base = temporary_folder() if base is None else Path(base)
        base.mkdir(parents=True, exist_ok=True)
        remove_left_behind(base)
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}-{os.getpid()}-", dir=base)).resolve()
        unlocked = self.path / f"{LOCK}.new"
        self._lock = unlocked.open("w")
        fcntl = unix("fcntl")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.path / LOCK)  # under its name it is locked from the first moment on

    def close(self) -> None:
        """Deletes the folder with everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()
        if self.path.exists():  # something was written while it was deleted
            shutil.rmtree(self.path, ignore_errors=True)


def remove_left_behind(base: Path) -> None:
    """Deletes the folders of servers that have ended."""
    fcntl = unix("fcntl")
    for folder in base.glob(f"{PREFIX}-*"):
        ours = re.fullmatch(rf"{PREFIX}-\d+-\w+", folder.name)
        try:
            if not ours or folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            if not (folder / LOCK).exists():
                if time.time() - folder.stat().st_mtime > NEW_S:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            with (folder / LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # in use, or deleted by another server that starts
            continue


class Uploads:
    """The uploaded files, counted by the sessions that refer to them.

    grace_s: how old a file must be to be deleted, so that an upload under way is never hit.
    """

    def __init__(self, folder: Path, grace_s: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.settle_s, self.unclaimed_s = min(grace_s, 5.0), UNCLAIMED * grace_s
        self._held: dict[Path, set[str]] = {}
        self._brought: dict[Path, set[str]] = {}
        self._released: set[Path] = set()
        self._lock = threading.Lock()

    def hold(self, file: str | Path, session: str) -> None:
        """The session needs the file; a file outside the folder is not ours to count."""
        path = Path(file).resolve()
        if path.is_relative_to(self.folder):
            with self._lock:
                self._held.setdefault(path, set()).add(session)
                self._released.discard(path)

    def bring(self, file: str | Path, who: str) -> None:
        """Somebody uploaded the file; who: what tells visitors apart."""
        path = Path(file).resolve()
        if path.is_relative_to(self.folder):
            with self._lock:
                self._brought.setdefault(path, set()).add(who)

    def may_read(self, file: str | Path, who: str) -> bool:
        """Whether a file of the folder is that of a visitor: brought by them, or made here."""
        try:
            path = Path(file).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            return False
        if not path.is_relative_to(self.folder) or not path.is_file():
            return False
        with self._lock:
            return who in self._brought.get(path, {who})

    def release(self, session: str, file: str | Path | None = None) -> None:
        """The session no longer needs the file, or any file at all."""
        only = None if file is None else Path(file).resolve()
        with self._lock:
            for path in [p for p in self._held if only in (None, p)]:
                self._held[path].discard(session)
                if not self._held[path]:
                    del self._held[path]
                    self._released.add(path)

    def sweep(self) -> None:
        """Deletes what no session refers to. Files that were never referred to stay longer."""
        now = time.time()
        for path in sorted(self.folder.rglob("*"), reverse=True):  # files before their folders
            try:
                age = now - path.lstat().st_mtime
                if path.is_dir() and not path.is_symlink():
                    if age > self.settle_s:
                        path.rmdir()
                    continue
                with self._lock:
                    if path in self._held:
                        continue
                    limit = self.settle_s if path in self._released else self.unclaimed_s
                    if age > limit:
                        path.unlink()
                        self._released.discard(path)
                        self._brought.pop(path, None)
            except OSError:  # not empty, or gone already
                continue
